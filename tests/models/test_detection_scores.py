import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderless.data import read_panel
from orderless.data.transform import Scaled, Transform
from orderless.models.detection.scores import (
    LENGTHS,
    Units,
    combine,
    learn_factors,
    learn_threshold,
    smooth,
    to_scores,
)

TRANSFORM = Transform(
    {"a": (0.0, 1.0), "b": (0.0, 1.0), "constant": (5.0, 0.0)}, watch_constants=True
)
NOISE = np.random.default_rng(0).normal(size=(3, 4000)) * [[0.1], [0.7], [0.0]]


def three(departs_at=(), steps=100) -> Scaled:
    """Two sensors that move, and one that was 5 in `fit`."""
    constant = np.full(steps, 5.0)
    constant[list(departs_at)] = 9.0
    wave = np.sin(np.arange(steps))
    panel = read_panel({"a": wave, "b": -wave, "constant": constant})
    return TRANSFORM.apply(panel.systems[0])


def learn(errors, system):
    return Units.learn([errors[None]], [system], TRANSFORM.moving)


def test_the_mean_score_of_held_out_data_is_1_and_easy_variables_weigh_more_than_by_variance():
    units = learn(NOISE, three(steps=4000))
    scores = to_scores(NOISE[None], three(steps=4000), units, (1.0,))
    assert np.nanmean(scores[:2]) == pytest.approx(1.0, rel=0.1)
    easy, hard = units.of(("a", "b"))[0]
    assert hard / easy == pytest.approx(7.0, rel=0.1)  # variances of errors differ by 49
    assert easy < units.of(("new",))[0, 0] < hard


def test_members_count_by_their_weights_and_only_where_they_answer():
    errors = np.stack([NOISE, 3 * NOISE])
    errors[1, 1] = np.nan
    system = three(steps=4000)
    units = Units.learn([errors], [system], TRANSFORM.moving)
    alone = [to_scores(errors[[i]], system, Units(units.variables[i : i + 1],
             units.overall[i : i + 1]), (1.0,)) for i in range(2)]  # fmt: skip
    both = to_scores(errors, system, units, (0.25, 0.75))
    np.testing.assert_allclose(both[0], 0.25 * alone[0][0] + 0.75 * alone[1][0])
    np.testing.assert_allclose(both[1], alone[0][1])


@given(size=st.floats(1e2, 1e8), share=st.floats(0.0, 0.009))
def test_a_few_broken_readings_move_no_unit_by_more_than_a_small_factor(size, share):
    broken = NOISE.copy()
    broken[0, : int(share * 4000)] = size
    names = ("a", "b", "new")
    before, after = (learn(one, three(steps=4000)).of(names) for one in (NOISE, broken))
    np.testing.assert_allclose(after, before, rtol=0.2)


def test_a_variable_expected_almost_exactly_keeps_a_unit():
    errors = NOISE * [[1.0], [1e-12], [0.0]]
    units = learn(errors, three(steps=4000))
    assert 0 < units.of(("b",))[0, 0] < units.of(("a",))[0, 0]


def test_beyond_the_limit_a_score_still_grows_with_the_error():
    units = Units([{"a": 1.0}], [1.0])
    system = three(steps=4)
    errors = np.array([[[5.0, 20.0, 40.0, 1e8]]]).repeat(3, 1)
    scores = to_scores(errors, system, units, (1.0,))[0]
    assert scores[0] == 25.0
    assert (np.diff(scores) > 0).all()
    assert scores[3] < 1e10  # and not 1e16


@given(st.lists(st.floats(0, 10) | st.just(np.nan), min_size=1, max_size=40))
def test_smoothing_is_the_mean_of_backward_means(values):
    values = np.array(values)

    def at(step):
        means = [np.nanmean(values[max(0, step - length + 1) : step + 1]) for length in LENGTHS]
        return np.mean(means)

    expected = [np.nan if np.isnan(one) else at(step) for step, one in enumerate(values)]
    np.testing.assert_allclose(smooth(values[None])[0], expected, atol=1e-12)


def test_a_constant_leaves_the_mean_alone_and_joins_it_where_it_departed():
    scores = np.vstack([np.full(100, 2.0), np.full(100, 4.0), np.zeros(100)])
    scores[2, 7] = 100.0
    (steps,) = combine([scores], [three(departs_at=[7])], TRANSFORM, ())
    assert steps[6] == 3.0
    assert steps[7] == pytest.approx(106 / 3)


def test_few_variables_lower_a_score_and_the_typical_number_leaves_it_to_the_bit():
    scores = np.square(NOISE[:, :100])
    scores[1, ::2] = np.nan
    (plain,) = combine([scores], [three()], TRANSFORM, ())
    (lowered,) = combine([scores], [three()], TRANSFORM, [(1, 0.5), (2, 1.0)])
    np.testing.assert_array_equal(lowered[1::2], plain[1::2])
    np.testing.assert_allclose(lowered[::2], plain[::2] / 2)


def test_factors_bring_groups_to_the_threshold_of_all():
    scores = np.vstack([np.ones((2, 100)), np.zeros((1, 100))])
    given = []

    def thrice(groups):
        given.extend(one.names for one in groups)
        return [np.where(np.isnan(one.departures), 3.0, 0.0) for one in groups]

    factors = learn_factors([scores], [three()], TRANSFORM, thrice, share=0.01, seed=0)
    assert factors == [(1, pytest.approx(1 / 3)), (2, 1.0)]
    assert sorted(given) == [("a", "constant"), ("b", "constant")]


def test_the_asked_share_lies_above_the_threshold_or_the_time_steps_are_counted():
    scores = np.vstack([np.arange(100.0), np.arange(100.0), np.zeros(100)])
    scores[:2, 50:] = np.nan  # constants by themselves are no threshold
    assert learn_threshold([scores], [three()], TRANSFORM, (), 0.1) == (45.0, None)
    assert learn_threshold([scores], [three()], TRANSFORM, (), 0.01) == (49.0, 50)
