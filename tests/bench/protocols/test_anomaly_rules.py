import numpy as np
import pytest

from orderless.bench.protocols.anomaly_rules import (
    choose_threshold,
    counted_time_steps,
    fair_scores,
    paper_scores,
    scale_by_training_rows,
    training_rows,
)


def test_fair_does_not_fit_on_what_it_holds_out():
    fitted, held_out = training_rows(100, "fair")
    assert (fitted, held_out) == (slice(0, 80), slice(80, 100))


def test_the_paper_fits_on_what_it_calls_validation():
    fitted, held_out = training_rows(100, "paper")
    assert (fitted, held_out) == (slice(0, 100), slice(80, 100))


def test_the_scaler_has_seen_only_the_fitted_rows():
    generator = np.random.default_rng(0)
    train, test = generator.normal(size=(100, 3)), generator.normal(size=(50, 3))
    fitted, _ = training_rows(100, "fair")
    scaled, _ = scale_by_training_rows(train, test, fitted)
    changed = train.copy()
    changed[80:] *= 50
    again, _ = scale_by_training_rows(changed, test * 50, fitted)
    np.testing.assert_array_equal(scaled[:80], again[:80])
    np.testing.assert_allclose(scaled[:80].std(0), 1.0)


def test_the_fair_threshold_does_not_move_with_test_scores():
    training, test = np.linspace(0, 1, 101), np.linspace(0, 50, 200)
    threshold = choose_threshold(training, test, 0.01, "fair")
    assert threshold == choose_threshold(training, test * 1000, 0.01, "fair")
    assert threshold == pytest.approx(0.99)


def test_the_threshold_of_the_paper_does():
    training, test = np.linspace(0, 1, 101), np.linspace(0, 50, 200)
    threshold = choose_threshold(training, test, 0.01, "paper")
    assert threshold == pytest.approx(np.percentile(np.concatenate([training, test]), 99))
    assert threshold != choose_threshold(training, test * 1000, 0.01, "paper")


def test_the_paper_counts_a_moment_once_for_each_window_that_holds_it():
    counted = counted_time_steps(np.arange(250), stride=1)
    assert len(counted) == 151 * 100
    assert counted[:3].tolist() == [0, 1, 2]
    assert counted[100:103].tolist() == [1, 2, 3]
    times = np.bincount(counted)
    assert times[[0, 1, 99, 120, 249]].tolist() == [1, 2, 100, 100, 1]


def test_the_paper_drops_what_is_left_after_the_last_window():
    counted = counted_time_steps(np.arange(250), stride=100)
    np.testing.assert_array_equal(counted, np.arange(200))


def test_the_paper_splits_a_segment_at_the_borders_of_overlapping_windows():
    labels = np.zeros(300, bool)
    labels[150:160] = True
    training, test = np.zeros(300), np.zeros(300)
    test[150] = 1.0
    apart = paper_scores(labels, training, test, 0.01, stride=100)
    assert apart["point_adjusted_recall"] == 100
    # Nine windows begin within the segment, after its only hit: they find nothing of it.
    overlapping = paper_scores(labels, training, test, 0.01, stride=1)
    missed = sum(range(1, 10))
    assert overlapping["point_adjusted_recall"] == pytest.approx(100 * (1 - missed / 1000))


def test_a_random_score_is_praised_by_the_paper_and_not_by_fair():
    generator = np.random.default_rng(0)
    labels = np.zeros(20_000, bool)
    for begin in range(1000, 20_000, 4000):
        labels[begin : begin + 800] = True
    training, test = generator.random(20_000), generator.random(20_000)
    paper = paper_scores(labels, training, test, 0.01, stride=1)
    assert paper["point_adjusted_f1"] > 90
    fair = fair_scores(labels, training, test)
    assert fair["point_f1"] < 5
    assert fair["auc_pr"] < 25
