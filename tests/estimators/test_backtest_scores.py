import warnings

import numpy as np
import pytest

from orderless.data import read_panel
from orderless.data.transform import Transform
from orderless.errors import DataError
from orderless.estimators.backtest import Scored, compare, coverage, find_origins, score, warn_empty
from orderless.estimators.intervals import PointAndWidth
from orderless.estimators.report import MODEL

TICKS = np.arange(40.0)
SCALES = {"a": (0.0, 2.0), "b": (0.0, 1.0), "constant": (5.0, 0.0)}


def scored(truth, forecast, **shifts) -> Scored:
    """One origin, one variable, widths of 1."""
    truth, forecast = (np.array(one, float)[None, None] for one in (truth, forecast))
    shifts = {ending: np.full(truth.shape, shift) for ending, shift in shifts.items()}
    return Scored(truth, {MODEL: forecast}, np.ones_like(truth), shifts, {})


def compared(season=4):
    """Columns against the alphabet, forecast as 1 in units of `SCALES`."""
    data = {"b": TICKS % 4, "a": TICKS, "constant": np.full(40, 5.0)}
    (system,) = read_panel(data).systems
    origins = find_origins(system, 2, 6, 3)
    pasts = [Transform(SCALES).apply(system, last=max(8, season), end=at) for at in origins]
    forecasts = [PointAndWidth(np.ones((3, 3)), np.full((3, 3), 0.5)) for _ in origins]
    shifts = {"hi-80": np.array([[1.0, 2.0, 4.0]] * 3)}
    return compare(system, origins, pasts, forecasts, [shifts] * 2, season=season)


def test_the_last_origin_ends_with_the_data():
    (system,) = read_panel(TICKS).systems
    assert find_origins(system, 3, 5, 4).tolist() == [26, 31, 36]
    with pytest.raises(DataError, match="windows"):
        find_origins(system, 9, 5, 4)


def test_truth_and_forecasts_are_scaled_and_constants_are_not_scored():
    found = compared()
    np.testing.assert_array_equal(found.truth[0], [[15.5, 16, 16.5], [3, 0, 1], [np.nan] * 3])
    np.testing.assert_array_equal(found.forecasts["naive"][0, :2], [[15.0] * 3, [2.0] * 3])
    np.testing.assert_array_equal(found.forecasts["seasonal naive"][0, 1], [3, 0, 1])


def test_blocks_are_in_the_units_and_the_order_of_the_caller():
    blocks = compared().blocks
    np.testing.assert_array_equal(blocks[""][0, :2], [[1.0] * 3, [2.0] * 3])
    np.testing.assert_array_equal(blocks["hi-80"][0, :2], [[1.5, 2, 3], [3, 4, 6]])


def test_a_season_is_looked_for_in_all_of_the_past():
    assert compared(season=12).forecasts["seasonal naive"][0, 0, 0] == (31 - 12) / 2


def test_errors_count_where_both_truth_and_forecast_are_known():
    systems = [scored([1, 2, np.nan], [1, 4, 5]), scored([7, 8], [8, np.nan])]
    assert score(systems, MODEL) == {"mae": 1.0, "mse": pytest.approx(5 / 3)}
    nothing = score([scored([np.nan], [1])], MODEL)
    assert all(map(np.isnan, nothing.values()))


def test_coverage_is_the_share_inside_in_widths():
    ends = {"low": -1.0, "high": 0.0}
    systems = [scored([1, 2, np.nan], [1, 4, 5], **ends), scored([7, 8], [8, np.nan], **ends)]
    assert coverage(systems, "low", "high") == pytest.approx(2 / 3)
    # Where there is no interval, nothing is outside of it.
    none = scored([1, 2], [1, 2], low=np.nan, high=np.nan)
    assert coverage([*systems, none], "low", "high") == pytest.approx(2 / 3)
    assert np.isnan(coverage([scored([np.nan], [1], **ends)], "low", "high"))


def test_windows_without_anything_to_score_are_counted():
    one, none = scored([1, np.nan], [1, 1]), scored([np.nan, np.nan], [1, 1])
    with pytest.warns(UserWarning, match="2 of 3 windows"):
        warn_empty([none, one, none])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_empty([one])
