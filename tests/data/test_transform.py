import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import read_panel
from orderless.data.scaling import learn_centers, learn_scales, share_scale
from orderless.data.transform import (
    CALM,
    DEPARTURE,
    FARTHEST,
    Scaled,
    Transform,
    never_changes,
    stack_facts,
    stack_systems,
)

VALUES = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 10.0, 100.0] + 5.0
UNIT = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}


def system(values, names="cab"):
    return read_panel({name: values[:, i] for i, name in enumerate(names)}).systems[0]


def apply(values, scales, names="cab", **options) -> Scaled:
    return Transform(scales).apply(system(values, names), **options)


def test_variables_are_sorted_by_name_and_restored():
    one = apply(VALUES, {})
    assert one.names == ("a", "b", "c")
    np.testing.assert_allclose(one.undo(one.values)[one.restore], VALUES.T)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    known=st.sets(st.sampled_from("abcd")),
    level=st.sampled_from([0.0, -3e5, 1e12]),
    unit=st.sampled_from([1e-6, 1.0, 1e6]),
    last=st.none() | st.integers(1, 30),
)
def test_undo_inverts_apply(seed, known, level, unit, last):
    """Of every observed value, whatever `fit` knew of the variable, in the caller's order."""
    random = np.random.default_rng(seed)
    order = random.permutation(list("abcd"))
    values = unit * (random.standard_normal((30, 4)) + level)
    values[random.random((30, 4)) < 0.2] = np.nan
    values[:, random.integers(4)] = level * unit  # never changes
    one = apply(values, dict.fromkeys(sorted(known), (unit * level, unit)), order, last=last)
    back = one.undo(one.values)[one.restore]
    given_ = values[-last:].T if last else values.T
    np.testing.assert_array_equal(one.observed[one.restore], np.isfinite(given_))
    seen = np.isfinite(given_)
    np.testing.assert_allclose(back[seen], given_[seen], rtol=1e-9, atol=1e-9 * unit)


def test_known_variables_keep_the_scale_of_fit_and_unknown_ones_bring_their_own():
    panel = read_panel({"a": VALUES[:, 1]})
    scales = learn_scales(panel, [25])
    np.testing.assert_allclose(scales["a"], (VALUES[:25, 1].mean(), VALUES[:25, 1].std()))
    one = apply(VALUES, scales)
    np.testing.assert_allclose(one.scale[0, 0], VALUES[:25, 1].std())
    np.testing.assert_allclose(one.scale[1, 0], VALUES[:, 2].std())


def test_a_fault_does_not_change_the_scale_of_fit():
    broken = VALUES.copy()
    broken[5:, 1] = 1e30
    plain, one = apply(VALUES, UNIT), apply(broken, UNIT)
    np.testing.assert_array_equal(one.scale, plain.scale)
    np.testing.assert_array_equal(one.values[:, :5], plain.values[:, :5])
    assert (one.values[0, 5:] == FARTHEST).all()


def test_a_few_values_of_a_context_or_before_it_do_not_change_the_scale_of_fit():
    broken = VALUES.copy()
    broken[[5, 48], 1] = 1e30
    plain, one = (apply(v, UNIT, last=10) for v in (VALUES, broken))
    np.testing.assert_array_equal(one.scale, plain.scale)
    np.testing.assert_array_equal(one.values != plain.values, one.values == FARTHEST)


def test_a_context_in_other_units_is_scaled_like_that_of_an_unknown_variable():
    one = apply(VALUES * [1.0, 1e30, 1.0], UNIT, last=50)
    assert one.scale[1, 0] == 1.0
    np.testing.assert_allclose(one.values[0].std(), 1.0)


def test_another_level_keeps_the_scale_of_fit_and_loses_no_digits():
    one = apply(VALUES, UNIT, last=50)
    moved = apply(VALUES + np.array([0.0, 1e10, 0.0]), UNIT, last=50)
    assert (moved.scale == 1.0).all()
    centered = one.values[0] - np.median(one.values[0])
    np.testing.assert_allclose(moved.values[0], centered, atol=1e-5)
    np.testing.assert_array_equal(moved.values[1:], one.values[1:])


def test_nothing_after_the_end_has_an_influence():
    changed = VALUES.copy()
    changed[30:] = 1e6
    one, two = (apply(v, {}, last=10, end=30) for v in (VALUES, changed))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.baseline, two.baseline)
    assert one.values.shape == (3, 10)


def test_a_variable_is_constant_if_it_changed_neither_in_fit_nor_in_the_context():
    values = VALUES.copy()
    values[:, :2] = 7.0
    scales = learn_scales(read_panel(dict(zip("cab", values.T, strict=True))), [50])
    assert scales["a"] == (7.0, 0.0)
    transform = Transform(scales)
    assert transform.moving == {"b"}
    assert transform.is_constant(["a", "b", "c", "new"]).tolist() == [True, False, True, False]
    values[45:, 1] = 8.0
    assert apply(values, scales).constant.tolist() == [False, False, True]
    assert apply(values, scales, last=6).constant.tolist() == [False, False, True]
    assert apply(values, scales, last=5).constant.tolist() == [True, False, True]
    assert np.isfinite(apply(values, scales).values).all()


def test_a_new_variable_is_constant_if_two_readings_or_more_do_not_differ():
    values = VALUES.copy()
    values[:, 0] = 7.0
    values[:49, 1] = np.nan
    assert apply(values, {}, "xyz", last=5).constant.tolist() == [True, False, False]
    assert never_changes(values.T, np.isfinite(values.T)).tolist() == [True, True, False]


@pytest.mark.parametrize("last", [50, 25])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_a_constant_of_fit_that_moves_looks_the_same_in_every_unit(last, unit):
    scales = {"a": (3.0, 0.0), "b": (0.0, 0.0), "c": (7.0, 0.0)}
    values = np.column_stack([np.full(50, 7.0), 3.0 + np.arange(50) // 30, VALUES[:, 2]])
    one = apply(values, scales, last=last)
    scaled = {name: (mean * unit, 0.0) for name, (mean, _) in scales.items()}
    other = apply(values * unit, scaled, last=last)
    np.testing.assert_allclose(other.values, one.values, atol=1e-9)
    assert one.constant.tolist() == other.constant.tolist() == [False, False, True]


def test_a_constant_of_fit_is_scaled_by_what_it_does_since_it_moves():
    values = VALUES.copy()
    values[:25, 1] = values[24, 1]
    scales = {"a": (values[0, 1], 0.0)}
    np.testing.assert_allclose(apply(values, scales, last=40).scale[0, 0], values[24:, 1].std())
    # What it did before the context does not matter, and elsewhere it is in its own unit.
    values[5, 1] = 1e6
    np.testing.assert_allclose(apply(values, scales, last=40).scale[0, 0], values[24:, 1].std())
    assert apply(values, scales).scale[0, 0] == 1.0


def test_departures_of_constants_are_watched_where_asked():
    values = VALUES.copy()
    values[:, 1] = 7.0
    values[30, 1], values[40, 1] = 7.5, np.nan
    transform = Transform({"a": (7.0, 0.0), "b": (5.0, 100.0)}, watch_constants=True)
    one = transform.apply(system(values))
    assert (one.values[0] == 0.0).all()
    assert np.isnan(one.departures[1:]).all()
    assert np.isnan(one.departures[0, 40])
    expected = np.where(np.arange(50) == 30, DEPARTURE, 0.0)
    np.testing.assert_array_equal(np.delete(one.departures[0], 40), np.delete(expected, 40))
    assert np.isnan(apply(values, {"a": (7.0, 0.0)}).departures).all()


def test_a_variable_without_a_name_is_one_like_others():
    transform = Transform({"": (0.0, 5.0)})
    one = transform.apply(replace(system(VALUES[:, ::2], "ab"), variables=("", "b")))
    np.testing.assert_allclose(one.scale[:, 0], [5.0, VALUES[:, 2].std()])


def test_exchangeable_variables_share_one_scale():
    shared = share_scale({"a": (0.0, 1.0), "b": (2.0, 1.0)})
    assert shared == {"": (1.0, np.sqrt(2.0))}
    one = Transform(shared, shared=True).apply(system(VALUES))
    assert (one.scale == np.sqrt(2.0)).all()


def test_a_single_reading_of_what_fit_did_not_see_has_no_unit_and_stays():
    wave = np.sin(np.arange(200.0))
    once = np.where(np.arange(200) == 190, 3.0, np.nan)
    (panel,) = read_panel({"known": once, "new": once, "other": wave}).systems
    one = Transform({"known": (0.0, 2.0)}).apply(panel, last=20)
    assert np.isnan(one.scale[:, 0]).tolist() == [False, True, False]
    assert (one.undo(np.ones((3, 4)))[1] == 3.0).all()
    assert np.isnan(one.undo(np.full((3, 4), np.nan))).all()


def test_baseline_scales_are_in_units_of_the_context():
    wave = np.sin(np.arange(200.0))
    data = {"known": wave, "new": 100 * wave, "idle": np.full(200, 5.0)}
    scales = {"known": (0.0, 2.0), "idle": (5.0, 0.0)}
    (panel,) = read_panel(data).systems
    one = Transform(scales, {"known": 1.0}).apply(panel, last=20)
    assert one.names == ("idle", "known", "new")
    # That of `fit` in its unit; that of a new one from the history at hand, which gives the unit
    # too, less the ends of the wave; and so much that the share of `CALM` makes it 1.
    np.testing.assert_allclose(one.baseline, [CALM**-0.5, 0.5, 1.0], rtol=0.02)
    assert Transform(scales).apply(panel, last=20).baseline.tolist() == [1.0] * 3


def grouped(levels):
    values = np.sin(np.arange(60.0))
    rows = [(g, i, level + v) for g, level in levels.items() for i, v in enumerate(values)]
    group, time, x = zip(*rows, strict=True)
    return read_panel({"g": list(group), "time": np.array(time), "x": np.array(x)}, group="g")


def test_each_group_has_its_own_center_and_a_new_one_that_of_its_history():
    panel = grouped({"one": 0.0, "two": 1e3})
    ends = [60, 60]
    transform = Transform(learn_scales(panel, ends), centers=learn_centers(panel, ends))
    one, two, new = transform.apply_all(grouped({"one": 5.0, "two": 1e3, "three": -70.0}))
    wave = np.sin(np.arange(60.0))
    center, scale = wave.mean(), wave.std()
    np.testing.assert_allclose(one.values[0] * scale, wave + 5.0 - center, atol=1e-9)
    np.testing.assert_allclose(two.values[0] * scale, wave - center, atol=1e-9)
    np.testing.assert_allclose(new.values[0] * scale, wave - center, atol=1e-9)
    # Without groups there is one scale and one center.
    plain = Transform(learn_scales(panel, ends)).apply_all(panel)
    assert plain[1].values.min() > plain[0].values.max()


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(max_size=4)
PAIRS = st.dictionaries(NAMES, st.tuples(NUMBERS, NUMBERS.map(abs)))
LEVELS = st.dictionaries(NAMES, NUMBERS)


@settings(max_examples=50)
@given(
    transform=st.builds(
        Transform,
        scales=PAIRS,
        baselines=st.none() | LEVELS,
        centers=st.none() | st.dictionaries(NAMES, LEVELS),
        shared=st.booleans(),
        watch_constants=st.booleans(),
    )
)
def test_facts_are_json_and_make_the_same_transform(transform):
    facts = json.loads(json.dumps(transform.facts(), allow_nan=False))
    assert Transform.from_facts(facts) == transform


def test_picked_variables_are_those_rows_from_a_time_on():
    one = apply(VALUES, {})
    some = one.pick(np.array([2, 0]), 10)
    assert some.names == ("c", "a")
    np.testing.assert_array_equal(some.values, one.values[[2, 0], 10:])
    np.testing.assert_allclose(some.undo(some.values), VALUES.T[[0, 1], 10:])


def test_stacked_systems_end_together():
    long = apply(VALUES, {}, last=4)
    short = apply(VALUES[:2, :1], {}, "a")
    values, observed = stack_systems([long, short], 4)
    assert values.shape == (2, 3, 4)
    assert observed[0].all()
    assert observed[1].tolist() == [[False, False, True, True], [False] * 4, [False] * 4]
    hidden = replace(short, values=np.full((1, 2), np.nan), observed=np.zeros((1, 2), bool))
    assert (stack_systems([hidden], 4)[0] == 0).all()


def test_facts_of_systems_are_stacked_side_by_side():
    stacked = stack_facts([np.array([True]), np.array([True, True, True])])
    assert stacked.tolist() == [[True, False, False], [True, True, True]]
