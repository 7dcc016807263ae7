import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import Batch, read_panel
from orderless.data.transform import CALM, Scaled, Transform
from orderless.errors import SettingError
from orderless.estimators.intervals import (
    FEWEST_STEPS,
    Held,
    PointAndWidth,
    choose_histories,
    column_endings,
    fit_error_table,
    fit_factors,
    hold_constants,
    in_units,
)
from orderless.models.forecasting.quantiles import hide_earlier, width_of
from orderless.models.forecasting.windows import DEFAULT_CONTEXT


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), level=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_an_interval_holds_its_share_of_new_errors(seed, level):
    random = np.random.default_rng(seed)
    errors = random.standard_normal((400, 1, 2)) * [1.0, 3.0]
    table = fit_error_table(errors, np.ones(errors.shape, bool))
    new = random.standard_normal((20000, 2)) * [1.0, 3.0]
    inside = (new >= table.at((1 - level) / 2)) & (new <= table.at((1 + level) / 2))
    np.testing.assert_allclose(inside.mean(0), level, atol=0.09)


def test_quantiles_rise_with_the_level():
    errors = np.random.default_rng(0).standard_normal((30, 2, 3))
    table = fit_error_table(errors, np.ones(errors.shape, bool))
    at = np.stack([table.at(q) for q in np.linspace(0.01, 0.99, 50)])
    assert (np.diff(at, axis=0) >= 0).all()


def test_errors_that_were_not_observed_do_not_count():
    errors = np.array([[[1.0], [1e9]], [[2.0], [1e9]]])
    observed = np.array([[[True], [False]], [[True], [False]]])
    table = fit_error_table(errors, observed)
    alone = fit_error_table(errors[:, :1], observed[:, :1])
    np.testing.assert_array_equal(table.quantiles, alone.quantiles)
    assert table.count == 2


def order_statistic(known, level):
    """The quantile by its definition, from n errors; None where no n errors can tell it."""
    rank = round((len(known) + 1) * level, 9)
    rank = (math.ceil(rank) if level > 0.5 else math.floor(rank)) - 1
    return np.sort(known)[rank] if 0 <= rank < len(known) else None


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 60), shift=st.floats(-5, 5))
def test_what_errors_of_a_step_can_tell_is_theirs_and_the_rest_is_borrowed(seed, count, shift):
    """Each quantile is the order statistic where there is one; else the point is inside."""
    random = np.random.default_rng(seed)
    errors = random.standard_normal((60, 1, 4)) + shift
    observed = np.zeros(errors.shape, bool)
    observed[:count, :, 1] = observed[:1, :, 2] = True
    table = fit_error_table(errors, observed)
    assert table.count == count + 1
    for step, known in ((1, errors[:count, 0, 1]), (2, errors[:1, 0, 2])):
        for level in (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975):
            found, expected = table.at(level)[step], order_statistic(known, level)
            if expected is not None:
                assert found == expected
            elif level != 0.5:
                assert np.sign(level - 0.5) * found >= 0
    assert (np.diff(table.quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("seen", [[0], [3], [1, 2], [0, 3]])
def test_a_step_without_any_error_takes_those_of_its_neighbours(seen):
    errors = np.random.default_rng(0).standard_normal((400, 1, 4)) * [1.0, 2.0, 3.0, 4.0]
    observed = np.zeros(errors.shape, bool)
    observed[:, :, seen] = True
    table = fit_error_table(errors, observed)
    width = table.at(0.9) - table.at(0.1)
    assert (width > 2).all()
    for step in set(range(4)) - set(seen):
        assert width[seen].min() <= width[step] <= width[seen].max()


@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_from_very_few_errors_hold_about_their_share(windows, level):
    random = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        table = fit_error_table(
            random.standard_normal((windows, 1, 2)), np.ones((windows, 1, 2), bool)
        )
        new = random.standard_normal(2)
        inside.append((new >= table.at((1 - level) / 2)) & (new <= table.at((1 + level) / 2)))
    assert level - 0.02 < np.mean(inside)


def test_what_too_few_errors_cannot_tell_is_said_once():
    table = fit_error_table(np.ones((3, 1, 4)), np.ones((3, 1, 4), bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.warn_beyond(column_endings(80, [0.5]), moving=True)
    with pytest.warns(UserWarning, match="12 held-out errors.* lo-95, hi-95, q0.01") as said:
        table.warn_beyond(column_endings([80, 95], [0.01]), moving=True)
    assert len(said) == 1


def test_without_any_error_intervals_have_no_width_and_a_warning_where_something_moves():
    table = fit_error_table(np.zeros((0, 1, 2)), np.zeros((0, 1, 2), bool))
    assert (table.at(0.9) == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.warn_beyond(column_endings(80, None), moving=False)
        table.warn_beyond({}, moving=True)
    with pytest.warns(UserWarning, match="Intervals mean nothing"):
        table.warn_beyond(column_endings(80, None), moving=True)


def test_levels_and_quantiles_name_their_columns():
    assert column_endings([80], None) == pytest.approx({"lo-80": 0.1, "hi-80": 0.9})
    assert column_endings(None, 0.25) == {"q0.25": 0.25}
    assert column_endings(None, None) == {}


@pytest.mark.parametrize(
    ("level", "quantiles"),
    [([0], None), ([120], None), (None, [1.0]), ("80", None), ([[80]], None), (None, [None])],
)
def test_levels_outside_their_range_are_refused(level, quantiles):
    with pytest.raises(SettingError):
        column_endings(level, quantiles)


def test_a_level_is_in_percent():
    assert list(column_endings(80, None)) == ["lo-80", "hi-80"]
    with pytest.raises(SettingError, match="give 80 for an interval of 80 %"):
        column_endings([95, 0.8], None)


def batch_of(values, observed=None, baseline=1.0) -> Batch:
    complete = observed is None
    observed = torch.ones_like(values, dtype=torch.bool) if complete else observed
    baselines = torch.full(values.shape[:2], baseline)
    return Batch(values, observed, observed.any(-1), complete=complete, baseline=baselines)


@pytest.mark.parametrize("unit", [1e-1, 1.0, 1e6])
def test_errors_are_counted_in_standard_deviations_of_the_context(unit):
    values = torch.tensor([-1.0, 1.0]).repeat(1, 3, 500) * unit
    rough = width_of(batch_of(values, baseline=1e-3 * unit))
    torch.testing.assert_close(rough, torch.full((1, 3, 1), unit), rtol=1e-2, atol=0.0)
    # A context that is constant leaves some of the baseline scale.
    calm = width_of(batch_of(0 * values, baseline=unit))
    torch.testing.assert_close(calm, torch.full((1, 3, 1), CALM**0.5 * unit), rtol=2e-2, atol=0.0)


def test_widths_follow_the_last_steps_of_a_long_context():
    values = torch.randn(1, 2, 3 * DEFAULT_CONTEXT, generator=torch.Generator().manual_seed(0))
    older = values.clone()
    older[..., : 2 * DEFAULT_CONTEXT] *= 100.0
    assert torch.equal(width_of(batch_of(values)), width_of(batch_of(older)))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 20))
def test_few_readings_are_made_up_for_by_the_baseline_scale(seed, count):
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(4000, 1, 20, generator=random)
    observed = (torch.arange(20) < count).expand_as(values)
    hidden = torch.where(observed, values, 1e9)  # what was not observed may be anything
    width = width_of(batch_of(hidden, observed))
    # A mean of squares of 4,000 draws is off by 2 % as a rule.
    assert float(width.square().mean()) == pytest.approx(1 + CALM, rel=0.1)


def past_of(scales, **columns) -> Scaled:
    (system,) = read_panel(columns).systems
    return Transform(scales).apply(system, last=10)


def test_a_constant_stays_without_doubt():
    past = past_of(
        {"constant": (5.0, 0.0), "wave": (0.0, 1.0)},
        constant=np.full(50, 5.0),
        wave=np.sin(np.arange(50)),
    )
    point, width = hold_constants(past, np.full((2, 3), 9.0), np.ones((2, 3)))
    np.testing.assert_array_equal(point, [[0.0] * 3, [9.0] * 3])  # around its constant
    np.testing.assert_array_equal(width, [[0.0] * 3, [1.0] * 3])


def test_quantiles_are_widths_off_the_point_in_the_units_of_the_caller():
    past = past_of(
        {"a": (10.0, 2.0), "b": (0.0, 1.0)}, b=np.sin(np.arange(50)), a=np.cos(np.arange(50))
    )
    forecast = PointAndWidth(np.ones((2, 2)), np.array([[3.0], [0.5]]))
    table = fit_error_table(np.zeros((0, 1, 2)), np.zeros((0, 1, 2), bool))
    shifts = table.shifts({"q0.5": 0.5}, past) | {"q0.9": np.array([[1.0, 2.0]] * 2)}
    blocks = in_units([past], [forecast], [shifts])
    assert {ending: one.tolist() for ending, (one,) in blocks.items()} == {
        "": [[1.0, 1.0], [12.0, 12.0]],
        "q0.5": [[1.0, 1.0], [12.0, 12.0]],
        "q0.9": [[1.5, 2.0], [18.0, 24.0]],
    }


def test_a_point_without_a_unit_stays_at_its_only_reading_and_has_no_interval():
    once = np.where(np.arange(50) == 45, 3.0, np.nan)
    past = past_of({"a": (0.0, 1.0)}, once=once, a=np.sin(np.arange(50)))
    forecast = PointAndWidth(np.zeros((2, 1)), np.ones((2, 1)))
    blocks = in_units([past], [forecast], [{"hi-80": np.ones((2, 1))}])
    assert blocks[""][0].tolist() == [[3.0], [0.0]]
    assert np.isnan(blocks["hi-80"][0][:, 0]).tolist() == [True, False]


def widened(scale, unit=lambda history: 1.0, sizes=(1.0,) * 6, histories=(6, 24, 100)):
    """A table whose errors have this scale after a history; of variables of these sizes."""
    random = np.random.default_rng(0)
    shape = 300, len(sizes), 2
    whole = random.standard_normal(shape) * np.array(sizes)[:, None]

    def after(history, known):
        errors = random.standard_normal(shape) * np.array(sizes)[:, None] * scale(history)
        return Held(errors, unit(history))

    return fit_factors(fit_error_table(whole, np.ones(shape, bool)), histories, after)


def short_past(history, *, known):
    """One variable with so many steps of history in a context of 100."""
    values = np.where(np.arange(100) >= 100 - history, np.sin(np.arange(100)), np.nan)
    (system,) = read_panel({"a": values}).systems
    return Transform({"a": (0.0, 1.0)} if known else {}).apply(system, last=100)


def interval_of(table, history, *, known):
    shifts = table.shifts({"low": 0.1, "high": 0.9}, short_past(history, known=known))
    return (shifts["high"] - shifts["low"])[0]


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_their_share_after_a_short_history(known):
    scales = {6: 5.0, 24: 2.0, 100: 1.0}
    table = widened(scales.__getitem__)
    whole = table.at(0.9) - table.at(0.1)
    for history, scale in scales.items():
        wider = interval_of(table, history, known=known) / whole
        np.testing.assert_allclose(wider, scale, rtol=0.1)
    between = interval_of(table, 12, known=known) / whole
    assert ((between > 2) & (between < 5)).all()


def test_after_a_whole_context_intervals_of_known_variables_are_those_of_the_table():
    table = widened(lambda history: 3.0)
    expected = table.at(0.9) - table.at(0.1)
    np.testing.assert_allclose(interval_of(table, 100, known=True), expected, rtol=1e-12)


@settings(max_examples=20)
@given(scales=st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3))
def test_less_history_never_makes_an_interval_narrower(scales):
    histories = 6, 24, 100
    unit = dict(zip(histories, (0.5, 0.8, 1.0), strict=True))
    table = widened(dict(zip(histories, scales, strict=True)).get, unit.get)
    for known in (True, False):
        widths = [interval_of(table, h, known=known).mean() * unit[h] for h in histories]
        assert np.all(np.diff(widths) <= 1e-9)


def test_variables_that_differ_widen_the_intervals_of_new_ones():
    """One sensor is four times as hard to forecast, and nobody knows of which kind the next is."""
    table = widened(lambda history: 1.0, sizes=(1.0, 4.0))
    new, seen = (interval_of(table, 100, known=known) for known in (False, True))
    assert (new > 1.2 * seen).all()


def test_too_short_a_history_of_a_new_variable_has_no_interval():
    table = widened(lambda history: 1.0)
    assert np.isnan(interval_of(table, FEWEST_STEPS - 1, known=False)).all()
    assert np.isfinite(interval_of(table, FEWEST_STEPS, known=False)).all()
    assert np.isfinite(interval_of(table, 1, known=True)).all()


@pytest.mark.parametrize("reach", [1, 5, 6, 336, 720])
def test_the_last_history_is_the_whole_context(reach):
    *shorter, last = choose_histories(reach)
    assert last == reach
    assert all(one < reach for one in shorter)


def test_a_factor_without_errors_is_that_of_a_whole_context():
    table = fit_factors(
        fit_error_table(np.ones((50, 1, 2)), np.ones((50, 1, 2), bool)),
        (6, 10),
        lambda history, known: Held(np.full((50, 1, 2), np.nan), 1.0),
    )
    assert (table.factors == 1.0).all()


@pytest.mark.parametrize("history", [1, 7, 19, 20, 99])
def test_what_lies_before_the_history_is_hidden(history):
    values = torch.randn(3, 2, 20, generator=torch.Generator().manual_seed(0))
    batch = batch_of(values)
    batch = replace(batch, targets=values[..., :4], target_observed=values[..., :4] < 9)
    for known in (True, False):
        hidden = hide_earlier(batch, history, known=known)
        kept = min(history, 20)
        assert torch.equal(hidden.observed.sum(-1), torch.full((3, 2), kept))
        assert torch.equal(hidden.last(kept).values, batch.last(kept).values)
        # A single reading tells no unit.
        assert hidden.target_observed.all() == (known or history > 1)
        other = replace(batch, values=torch.cat((values[..., :-kept] + 1, values[..., -kept:]), -1))
        assert torch.equal(width_of(hide_earlier(other, history, known=known)), width_of(hidden))
