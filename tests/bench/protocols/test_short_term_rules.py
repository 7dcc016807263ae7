import numpy as np
import pytest

from orderless.bench.datasets.catalogue import M4_GROUPS
from orderless.bench.protocols.short_term_rules import (
    NAIVE2,
    OTHERS,
    Scores,
    owa_from_means,
    score_group,
    selection_data,
    weighted_mean,
)

HISTORY = [np.arange(13.0), np.arange(20.0) ** 2]
FUTURE = np.array([[13.0, 14.0, 15.0, 16.0, 17.0, 18.0], [400.0] * 6])


def test_fair_selection_never_touches_the_test_file():
    seen, targets = selection_data(HISTORY, FUTURE, "fair")
    other_seen, other_targets = selection_data(HISTORY, FUTURE + 99, "fair")
    np.testing.assert_array_equal(targets, other_targets)
    assert [one.tolist() for one in seen] == [one.tolist() for one in other_seen]
    assert [len(one) for one in seen] == [7, 14]
    np.testing.assert_array_equal(targets[0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0])


def test_the_paper_selects_on_the_test_file():
    seen, targets = selection_data(HISTORY, FUTURE, "paper")
    assert seen is HISTORY
    np.testing.assert_array_equal(targets, FUTURE)


def test_the_mean_weighs_groups_by_their_series():
    mean = weighted_mean({"Yearly": Scores(1.0, 0.0), "Monthly": Scores(4.0, 71.0)})
    assert mean.smape == pytest.approx((23 + 4 * 48) / 71)
    assert mean.mase == pytest.approx(48.0)


def test_naive2_has_its_published_totals_and_an_owa_of_one():
    total = weighted_mean(NAIVE2)
    assert total.smape == pytest.approx(13.564, abs=5e-4)
    assert total.mase == pytest.approx(1.912, abs=5e-4)
    assert owa_from_means(NAIVE2) == pytest.approx(1.0)
    assert sum(facts.count for facts in M4_GROUPS.values()) == 100_000
    assert sum(M4_GROUPS[group].count for group in OTHERS) == 5_000


def test_owa_is_computed_from_means_and_not_averaged():
    scores = {"Yearly": Scores(13.15, 2.95), "Quarterly": Scores(9.949, 1.16)}
    mean_of_owa = np.mean([owa_from_means({group: one}) for group, one in scores.items()])
    assert owa_from_means(scores) != pytest.approx(mean_of_owa, abs=1e-4)
    assert owa_from_means({"Yearly": scores["Yearly"]}) == pytest.approx(0.773, abs=1e-3)


def test_a_group_is_scored_by_its_own_seasonality():
    history = [np.tile([1.0, 5.0, 2.0, 7.0], 5) + np.repeat(np.arange(5.0), 4)]
    future = np.full((1, 8), 3.0)
    assert score_group("Quarterly", future, future + 1, history).mase == pytest.approx(1.0)
