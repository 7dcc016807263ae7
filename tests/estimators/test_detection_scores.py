import numpy as np
import pytest
from orderless.estimators.preparation import Prepared, prepare

from orderless.data import read_panel
from orderless.estimators.detection_scores import (
    combine,
    in_usual,
    learn_factors,
    learn_threshold,
    learn_usual,
)

SCALES = {"a": (0.0, 1.0), "b": (0.0, 1.0), "still": (5.0, 0.0)}
ODD = np.random.default_rng(0).exponential(size=(3, 100)) * [[1.0], [50.0], [0.0]]


def three(moves_at=()) -> Prepared:
    """Two sensors that move, and one that stood at 5 in `fit`."""
    still = np.full(100, 5.0)
    still[list(moves_at)] = 9.0
    wave = np.sin(np.arange(100))
    panel = read_panel({"a": wave, "b": -wave, "still": still})
    return prepare(panel.systems[0], SCALES, marked=True)


def test_a_score_of_1_is_usual_for_each_variable():
    usual, overall = learn_usual([ODD], [three()], SCALES)
    (scores,) = in_usual([ODD], [three()], usual, overall)
    np.testing.assert_allclose(scores.mean(1), [1.0, 1.0, 0.0])
    assert overall == pytest.approx(ODD[:2].mean())
    # What stood still is judged by what is usual for the others.
    assert usual["still"] == overall


def test_a_variable_told_almost_exactly_does_not_ring_at_every_rounding_error():
    errors = np.vstack([np.ones(100), np.full(100, 1e-15), np.zeros(100)])
    usual, overall = learn_usual([errors], [three()], SCALES)
    assert usual["b"] == 1e-3 * overall


def test_what_never_moved_leaves_the_mean_alone_and_joins_it_where_it_did():
    scores = np.vstack([np.full(100, 2.0), np.full(100, 4.0), np.zeros(100)])
    scores[2, 7] = 100.0
    (moments,) = combine([scores], [three(moves_at=[7])], SCALES, ())
    assert moments[6] == 3.0
    assert moments[7] == pytest.approx(106 / 3)


def test_few_variables_lower_a_score_and_the_usual_number_leaves_it_to_the_bit():
    scores = ODD.copy()
    scores[1, ::2] = np.nan
    (plain,) = combine([scores], [three()], SCALES, ())
    (lowered,) = combine([scores], [three()], SCALES, [(1, 0.5), (2, 1.0)])
    np.testing.assert_array_equal(lowered[1::2], plain[1::2])
    np.testing.assert_allclose(lowered[::2], plain[::2] / 2)


def test_factors_bring_groups_to_the_threshold_of_all():
    scores = np.vstack([np.ones((2, 100)), np.zeros((1, 100))])
    given = []

    def thrice(groups):
        given.extend(one.names for one in groups)
        return [np.where(np.isnan(one.moves), 3.0, 0.0) for one in groups]

    factors = learn_factors([scores], [three()], SCALES, thrice, share=0.01, seed=0)
    assert factors == [(1, pytest.approx(1 / 3)), (2, 1.0)]
    assert sorted(given) == [("a", "still"), ("b", "still")]


def test_the_asked_share_lies_above_the_threshold_or_the_moments_are_counted():
    scores = np.vstack([np.arange(100.0), np.arange(100.0), np.zeros(100)])
    scores[:2, 50:] = np.nan  # what stands still, by itself, is no threshold
    assert learn_threshold([scores], [three()], SCALES, (), 0.1) == (45.0, None)
    assert learn_threshold([scores], [three()], SCALES, (), 0.01) == (49.0, 50)
