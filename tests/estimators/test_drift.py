import numpy as np
import pandas as pd
import pytest

from orderless.data import read_panel
from orderless.data.transform import Transform
from orderless.estimators.drift import (
    describe_drift,
    describe_more_gaps,
    describe_other_frequencies,
    describe_short_systems,
    find_drift,
    learn_ranges,
    missing_share,
)

WHOLE = read_panel(np.ones((100, 2)))


def stamps(every):
    index = pd.date_range("2026-01-01", periods=50, freq=every)
    return read_panel(pd.DataFrame({"a": np.ones(50)}, index))


def test_frequencies_that_fit_did_not_have_are_named_beside_those_it_had():
    known = [step for every in ("h", "D") if (step := stamps(every).systems[0].frequency)]
    said = describe_other_frequencies(stamps("2h"), known)
    assert said is not None
    assert "2 hours apart, and the model was fitted on data 1 hour, 1 day apart" in said
    for every in ("h", "60min", "D"):
        assert describe_other_frequencies(stamps(every), known) is None
    # Rows that are only counted, and models that know no frequency, say nothing.
    assert describe_other_frequencies(WHOLE, known) is None
    assert describe_other_frequencies(stamps("2h"), ()) is None


def test_systems_shorter_than_any_of_fit_are_counted():
    panel = read_panel([np.ones((100, 2)), np.ones((31, 2))])
    assert describe_short_systems(panel, 31) is None
    said = describe_short_systems(panel, 32)
    assert said is not None
    assert said.startswith("1 of 2 systems have fewer than 32 time steps")


def test_gaps_are_said_beyond_twice_the_share_of_fit_and_two_hundredths():
    values = np.ones((100, 2))
    values[::4, 0] = np.nan
    panel = read_panel(values)
    assert missing_share(panel, 20) == pytest.approx(0.125)
    said = describe_more_gaps(panel, 20, 0.05)
    assert said is not None
    assert said.startswith("12% of the readings are missing, and 5% were in `fit`")
    assert describe_more_gaps(panel, 20, 0.06) is None


def test_a_variable_that_is_dead_for_a_context_has_no_gap():
    values = np.ones((100, 2))
    values[40:60, 0] = np.nan
    assert missing_share(read_panel(values), 20) == 0.0
    assert missing_share(read_panel(values), 50) == pytest.approx(0.1)


def read_columns(values):
    return read_panel(dict(zip("abc", values.T, strict=True)))


def drift_of(values):
    """Of columns a and b, normal in `fit`, and a constant."""
    transform = Transform({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (5.0, 0.0)})
    before = np.random.default_rng(0).standard_normal((2000, 3))
    ranges = learn_ranges(transform.apply_all(read_columns(before)), transform.moving)
    return find_drift(transform.apply_all(read_columns(values)), ranges)


def test_readings_like_those_of_fit_are_no_drift():
    found = drift_of(np.random.default_rng(1).standard_normal((500, 3)))
    assert not found.beyond
    assert describe_drift(found) is None


def test_a_shifted_level_and_wild_readings_are_named_apart_the_worst_first():
    values = np.random.default_rng(1).standard_normal((500, 3))
    values[:, 1] += 1e9
    values[::5, 0] *= 100.0
    found = drift_of(values)
    assert list(found.shifted) == ["b"]
    assert found.beyond["a"] == pytest.approx(0.2, abs=0.02)
    said = describe_drift(found)
    assert said is not None
    assert said.index("level has shifted of b ") < said.index("beyond their range in `fit` are a ")


def test_too_few_readings_are_no_drift():
    assert describe_drift(drift_of(np.full((10, 3), 1e3))) is None
