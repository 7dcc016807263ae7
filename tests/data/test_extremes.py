import warnings

import numpy as np
import pytest

from orderless.data import read_panel
from orderless.data.extremes import RANGES, draw_in, find_erratic
from orderless.data.scaling import learn_scales, plausible_limits
from orderless.data.transform import Scaled, Transform

RANDOM = np.random.default_rng(0)
END = 300
CALM = RANDOM.standard_normal((400, 5)).cumsum(0) / 10


def scaled(values) -> Scaled:
    """One system [time, variable], in the units of its first 300 time steps."""
    panel = read_panel(values)
    return Transform(learn_scales(panel, [END])).apply(panel.systems[0], last=400)


def wild(columns) -> np.ndarray:
    """These columns jump about from the end of training on."""
    values = CALM.copy()
    values[END:, columns] += 20 * RANDOM.standard_normal((400 - END, len(columns)))
    return values


def test_a_variable_that_alone_turns_wild_is_erratic():
    assert find_erratic(scaled(CALM), END).tolist() == [False] * 5
    assert find_erratic(scaled(wild([1])), END).tolist() == [False, True, False, False, False]


def test_where_most_turn_wild_or_few_can_tell_none_is_erratic():
    assert not find_erratic(scaled(wild([0, 1, 2, 3])), END).any()
    assert not find_erratic(scaled(wild([1])[:, :3]), END).any()
    # Nor one that was as wild before.
    always = CALM + 20 * RANDOM.standard_normal((400, 1)) * (np.arange(5) == 1)
    assert not find_erratic(scaled(always), END).any()


def test_what_is_erratic_is_missing_from_the_end_of_training_on_and_named():
    system = scaled(wild([1]))
    with pytest.warns(UserWarning, match="v1"):
        (drawn,) = draw_in([system], [END], stacklevel=1)
    assert drawn.observed[1, :END].all()
    assert not drawn.observed[1, END:].any()
    assert drawn.observed[[0, 2, 3, 4]].all()
    assert system.observed.all()  # what is scored and reported stays as it was


def test_extreme_readings_are_drawn_in_to_the_limits_and_named():
    values = CALM.copy()
    values[[7, 50], 2] = 1e6, -9999.0
    system = scaled(values)
    with pytest.warns(UserWarning, match="v2.*7, 50"):
        (drawn,) = draw_in([system], [END], stacklevel=1)
    low, high = plausible_limits(system.values, system.observed, RANGES)
    assert drawn.values[2, 7] == high[2, 0]
    assert drawn.values[2, 50] == low[2, 0]
    others = np.delete(np.arange(400), [7, 50])
    np.testing.assert_array_equal(drawn.values[:, others], system.values[:, others])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_in([scaled(CALM)], [END], stacklevel=1)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_limits_follow_the_unit_and_no_single_reading(unit):
    values = unit * RANDOM.standard_normal((1, 1000))
    observed = np.ones(values.shape, bool)
    low, high = plausible_limits(values, observed)
    np.testing.assert_allclose([low[0, 0], high[0, 0]], [-8 * unit, 8 * unit], rtol=0.15)
    broken = values.copy()
    broken[0, 3] = 1e30 * unit
    np.testing.assert_allclose(plausible_limits(broken, observed), (low, high), rtol=0.05)


def test_rare_events_are_all_that_some_variables_say():
    values = np.zeros((1, 1000))
    values[0, ::50] = 4.0 + RANDOM.random(20)
    low, high = plausible_limits(values, np.ones(values.shape, bool))
    assert low[0, 0] < 0 < values.max() < high[0, 0]


def test_one_reading_and_constants_have_no_limits_that_cut():
    values = np.array([[3.0, np.nan, np.nan], [5.0, 5.0, 5.0]])
    low, high = plausible_limits(values, np.isfinite(values))
    assert (low[0], high[0]) == (-np.inf, np.inf)
    assert low[1] <= 5.0 <= high[1]


def test_one_impossible_reading_hardly_changes_a_scale():
    values = RANDOM.standard_normal((500, 1))
    broken = values.copy()
    broken[100] = -9999.0
    ((_, plain),) = learn_scales(read_panel(values), [500]).values()
    ((_, scale),) = learn_scales(read_panel(broken), [500]).values()
    assert scale == pytest.approx(plain, rel=0.1)
