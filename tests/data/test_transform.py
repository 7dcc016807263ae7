from dataclasses import replace

import numpy as np
import pytest

from orderless.data import read_panel
from orderless.estimators.preparation import (
    FARTHEST,
    learn_scales,
    match_groups,
    prepare,
    share_scale,
    stack,
    stack_facts,
)

VALUES = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 10.0, 100.0] + 5.0


def system(values, names="cab"):
    return read_panel({name: values[:, i] for i, name in enumerate(names)}).systems[0]


def test_variables_are_sorted_by_name_and_restored():
    one = prepare(system(VALUES), {})
    assert one.names == ("a", "b", "c")
    np.testing.assert_allclose(one.scaler.undo(one.values)[one.restore], VALUES.T)


def test_known_variables_keep_the_scale_of_fit_and_unknown_ones_bring_their_own():
    panel = read_panel({"a": VALUES[:, 1]})
    scales = learn_scales(panel, [25])
    np.testing.assert_allclose(scales["a"], (VALUES[:25, 1].mean(), VALUES[:25, 1].std()))
    one = prepare(system(VALUES), scales)
    np.testing.assert_allclose(one.scaler.scale[0, 0], VALUES[:25, 1].std())
    np.testing.assert_allclose(one.scaler.scale[1, 0], VALUES[:, 2].std())


UNIT = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}


def test_a_fault_does_not_change_the_scale_of_fit():
    broken = VALUES.copy()
    broken[5:, 1] = 1e30
    plain, one = prepare(system(VALUES), UNIT), prepare(system(broken), UNIT)
    np.testing.assert_array_equal(one.scaler.scale, plain.scaler.scale)
    np.testing.assert_array_equal(one.values[:, :5], plain.values[:, :5])
    assert (one.values[0, 5:] == FARTHEST).all()


def test_a_few_values_of_a_look_back_or_before_it_do_not_change_the_scale_of_fit():
    broken = VALUES.copy()
    broken[[5, 48], 1] = 1e30
    plain, one = (prepare(system(v), UNIT, last=10) for v in (VALUES, broken))
    np.testing.assert_array_equal(one.scaler.scale, plain.scaler.scale)
    np.testing.assert_array_equal(one.values != plain.values, one.values == FARTHEST)


def test_a_look_back_in_other_units_is_scaled_like_that_of_an_unknown_variable():
    one = prepare(system(VALUES * [1.0, 1e30, 1.0]), UNIT, last=50)
    assert one.scaler.scale[1, 0] == 1.0
    np.testing.assert_allclose(one.values[0].std(), 1.0)


def test_another_level_keeps_the_spread_of_fit_and_loses_no_digits():
    one = prepare(system(VALUES), UNIT, last=50)
    moved = prepare(system(VALUES + np.array([0.0, 1e10, 0.0])), UNIT, last=50)
    assert (moved.scaler.scale == 1.0).all()
    centred = one.values[0] - np.median(one.values[0])
    np.testing.assert_allclose(moved.values[0], centred, atol=1e-5)
    np.testing.assert_array_equal(moved.values[1:], one.values[1:])


def test_nothing_after_the_end_has_an_influence():
    changed = VALUES.copy()
    changed[30:] = 1e6
    one, two = (prepare(system(v), {}, last=10, end=30) for v in (VALUES, changed))
    np.testing.assert_array_equal(one.values, two.values)
    assert one.values.shape == (3, 10)


def test_levels_of_different_systems_do_not_widen_the_spread():
    panel = read_panel([VALUES, VALUES + 1e6])
    scales = learn_scales(panel, [50, 50])
    np.testing.assert_allclose([s for _, s in scales.values()], VALUES.std(0))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_spread_is_in_units_of_the_data_also_where_a_system_stands_still(unit):
    still = np.full_like(VALUES, 3.0)
    scales = learn_scales(read_panel([unit * VALUES, unit * still]), [50, 50])
    np.testing.assert_allclose([s for _, s in scales.values()], unit * VALUES.std(0) / np.sqrt(2))


def test_a_variable_is_still_if_it_changed_neither_in_fit_nor_in_the_look_back():
    values = VALUES.copy()
    values[:, :2] = 7.0
    scales = learn_scales(read_panel(dict(zip("cab", values.T, strict=True))), [50])
    assert scales["a"] == (7.0, 0.0)
    values[45:, 1] = 8.0
    assert prepare(system(values), scales).still.tolist() == [False, False, True]
    assert prepare(system(values), scales, last=6).still.tolist() == [False, False, True]
    assert prepare(system(values), scales, last=5).still.tolist() == [True, False, True]
    assert np.isfinite(prepare(system(values), scales).values).all()


def test_a_new_variable_is_still_if_two_readings_or_more_do_not_differ():
    values = VALUES.copy()
    values[:, 0] = 7.0
    values[:49, 1] = np.nan
    assert prepare(system(values, "xyz"), {}, last=5).still.tolist() == [True, False, False]


@pytest.mark.parametrize("last", [50, 25])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_what_stood_still_in_fit_and_moves_looks_the_same_in_every_unit(last, unit):
    scales = {"a": (3.0, 0.0), "b": (0.0, 0.0), "c": (7.0, 0.0)}
    values = np.column_stack([np.full(50, 7.0), 3.0 + np.arange(50) // 30, VALUES[:, 2]])
    one = prepare(system(values), scales, last=last)
    scaled = {name: (mean * unit, 0.0) for name, (mean, _) in scales.items()}
    other = prepare(system(values * unit), scaled, last=last)
    np.testing.assert_allclose(other.values, one.values, atol=1e-9)
    assert one.still.tolist() == other.still.tolist() == [False, False, True]


def test_what_stood_still_in_fit_is_scaled_by_what_it_does_since_it_moves():
    values = VALUES.copy()
    values[:25, 1] = values[24, 1]
    scales = {"a": (values[0, 1], 0.0)}
    one = prepare(system(values), scales, last=40)
    np.testing.assert_allclose(one.scaler.scale[0, 0], values[24:, 1].std())
    # What it did before the look-back does not matter, and elsewhere it is in its own unit.
    values[5, 1] = 1e6
    one = prepare(system(values), scales, last=40)
    np.testing.assert_allclose(one.scaler.scale[0, 0], values[24:, 1].std())
    assert prepare(system(values), scales).scaler.scale[0, 0] == 1.0


def test_a_variable_without_a_name_is_one_like_others():
    scales = {"": (0.0, 5.0)}
    one = prepare(read_panel({"": VALUES[:, 0], "b": VALUES[:, 2]}).systems[0], scales)
    np.testing.assert_allclose(one.scaler.scale[:, 0], [5.0, VALUES[:, 2].std()])


def test_exchangeable_variables_share_one_scale():
    shared = share_scale({"a": (0.0, 1.0), "b": (2.0, 1.0)})
    assert shared == {"": (1.0, np.sqrt(2.0))}
    one = prepare(system(VALUES), shared, shared=True)
    assert (one.scaler.scale == np.sqrt(2.0)).all()


def test_stacked_systems_end_together():
    long = prepare(system(VALUES), {}, last=4)
    short = prepare(system(VALUES[:2, :1], "a"), {})
    values, observed, complete = stack([long, short], 4)
    assert values.shape == (2, 3, 4)
    assert not complete
    assert observed[0].all()
    assert observed[1].tolist() == [[False, False, True, True], [False] * 4, [False] * 4]


def test_groups_are_known_by_their_number_where_nothing_has_to_be_guessed():
    def match(names, known):
        return match_groups([replace(system(VALUES), name=name) for name in names], known)

    assert match(["001", 2.0, "-03", "x"], ["1", "2", "-3"]) == ["1", "2", "-3", None]
    assert match(["1", "001"], ["1"]) == ["1", None]
    assert match(["01"], ["1", "001"]) == [None]


def test_facts_of_systems_are_stacked_side_by_side():
    stacked = stack_facts([np.array([True]), np.array([True, True, True])])
    assert stacked.tolist() == [[True, False, False], [True, True, True]]
