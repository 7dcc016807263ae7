"""Each metric against an independent one: scikit-learn, a published value, or brute force."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as reference

from orderless.errors import DataError, ShapeError, ValueRangeError
from orderless.metrics import (
    affiliation_f1,
    auc_pr,
    point_adjusted_f1,
    point_f1,
    range_f1,
    vus_pr,
)
from orderless.metrics.anomaly import point_adjust

WITH_ALARM = [point_f1, point_adjusted_f1, affiliation_f1, range_f1]
WITH_SCORE = [auc_pr, vus_pr]


@st.composite
def labels_and_other(draw, other):
    size = draw(st.integers(2, 40))
    labels = draw(arrays(bool, size).filter(np.any))
    return labels, draw(other(size))


def alarms(size):
    return arrays(bool, size)


def scores(size):
    # Few distinct values, so that ties are common.
    return arrays(np.float64, size, elements=st.integers(-3, 3).map(float))


def runs(flags):
    """Half-open runs of True, step by step."""
    found, start = [], None
    for step, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = step
        if not flag and start is not None:
            found.append((start, step))
            start = None
    return found


@settings(max_examples=100)
@given(case=labels_and_other(alarms))
def test_point_f1_agrees_with_scikit_learn(case):
    assert point_f1(*case) == pytest.approx(reference.f1_score(*case, zero_division=0))


@settings(max_examples=100)
@given(case=labels_and_other(alarms))
def test_point_adjustment_marks_whole_segments_and_nothing_else(case):
    labels, alarm = case
    adjusted = alarm.copy()
    for start, end in runs(labels):
        if any(alarm[start:end]):
            for step in range(start, end):
                adjusted[step] = True
    np.testing.assert_array_equal(point_adjust(labels, alarm), adjusted)
    expected = reference.f1_score(labels, adjusted, zero_division=0)
    assert point_adjusted_f1(labels, alarm) == pytest.approx(expected)


def test_one_hit_marks_its_segment_and_no_other():
    labels = np.array([1, 1, 0, 1, 1, 1, 0, 1], bool)
    alarm = np.array([0, 0, 1, 0, 1, 0, 0, 0], bool)
    assert point_adjust(labels, alarm).astype(int).tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


def test_point_adjustment_without_an_anomaly_is_the_alarm_itself():
    alarm = np.array([0, 1, 1, 0], bool)
    np.testing.assert_array_equal(point_adjust(np.zeros(4, bool), alarm), alarm)


@settings(max_examples=100)
@given(case=labels_and_other(scores))
def test_auc_pr_agrees_with_scikit_learn(case):
    assert auc_pr(*case) == pytest.approx(reference.average_precision_score(*case))


def brute_affiliation(labels, alarm, cells=16):
    """By sums over small cells; exact, since all is piecewise linear with corners on them."""
    truth, size = runs(labels), len(labels)
    middles = (np.arange(size * cells) + 0.5) / cells
    ringing = np.repeat(alarm, cells)
    borders = [0.0, *((a[1] + b[0]) / 2 for a, b in pairwise(truth)), size]
    precisions, recalls = [], []
    for (start, end), low, high in zip(truth, borders[:-1], borders[1:], strict=True):
        alarmed = middles[ringing & (middles > low) & (middles < high)]
        inside = middles[(middles > start) & (middles < end)]
        if not len(alarmed):
            recalls.append(0.0)
            continue

        def measure(below, low=low, high=high):
            """The share of the zone in intervals given by their ends, clipped to the zone."""
            left, right = below
            return (min(right, high) - max(left, low)) / (high - low)

        gained = []
        for x in alarmed:
            distance = max(start - x, x - end, 0.0)
            nearer = measure((start - distance, end + distance))
            gained.append(1.0 if distance == 0 else 1.0 - nearer)
        precisions.append(np.mean(gained))
        near = [run for run in runs(alarm) if run[1] > low and run[0] < high]
        edges = [edge for run in near for edge in np.clip(run, low, high)]
        covered = dict(zip(middles, ringing, strict=True))
        gained = []
        for y in inside:
            distance = 0.0 if covered[y] else min(abs(y - edge) for edge in edges)
            gained.append(1.0 - measure((y - distance, y + distance)))
        recalls.append(np.mean(gained))
    if not precisions:
        return 0.0
    precision, recall = np.mean(precisions), np.mean(recalls)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@settings(max_examples=60)
@given(case=labels_and_other(alarms))
def test_affiliation_agrees_with_sums_over_small_cells(case):
    assert affiliation_f1(*case) == pytest.approx(brute_affiliation(*case), abs=1e-9)


def test_affiliation_gives_the_published_example():
    # The second zone of the example in Huet et al. 2022: precision .6722, recall .9444.
    labels, alarm = np.zeros(90, bool), np.zeros(90, bool)
    labels[20:40] = alarm[10:30] = alarm[85:90] = True
    precision, recall = 0.672222222, 0.944444444
    expected = 2 * precision * recall / (precision + recall)
    assert affiliation_f1(labels, alarm) == pytest.approx(expected, abs=1e-8)


@settings(max_examples=100)
@given(case=labels_and_other(alarms), weight=st.sampled_from([0.0, 0.2, 1.0]))
def test_range_f1_agrees_with_its_definition_spelled_out(case, weight):
    labels, alarm = case

    def reward(one, others, weight):
        covered = [other for other in others if other[0] < one[1] and one[0] < other[1]]
        overlap = sum(min(b, one[1]) - max(a, one[0]) for a, b in covered)
        share = overlap / (one[1] - one[0]) / max(len(covered), 1)
        return weight * bool(covered) + (1 - weight) * share

    truth, rung = runs(labels), runs(alarm)
    recall = np.mean([reward(one, rung, weight) for one in truth])
    precision = np.mean([reward(one, truth, 0.0) for one in rung]) if rung else 0.0
    expected = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert range_f1(labels, alarm, existence_weight=weight) == pytest.approx(expected)


def brute_vus_pr(labels, score, longest_buffer, thresholds):
    """Threshold by threshold and step by step."""
    areas = []
    levels = np.sort(score)[::-1][np.linspace(0, len(score) - 1, thresholds).astype(int)]
    for buffer in range(longest_buffer + 1):
        half = buffer // 2
        weight = labels.astype(float)
        joined = []
        for start, end in runs(labels):
            for step in range(len(labels)):
                before, after = start - step, step - (end - 1)
                for distance in (before, after):
                    if 1 <= distance <= half:
                        weight[step] += np.sqrt(1 - distance / buffer)
            low, high = max(start - half, 0), min(end + half, len(labels))
            if joined and low < joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
            else:
                joined.append((low, high))
        weight = np.minimum(weight, 1.0)
        recalls, precisions = [0.0], []
        for level in levels:
            alarm = score >= level
            hits = (weight * alarm).sum()
            total = labels.sum() + (weight * alarm)[~labels].sum()
            recall = min(hits / ((labels.sum() + total) / 2), 1.0)
            found = np.mean([alarm[low:high].any() for low, high in joined])
            recalls.append(recall * found)
            precisions.append(hits / alarm.sum())
        areas.append(np.dot(np.diff(recalls), precisions))
    return np.mean(areas)


@settings(max_examples=60)
@given(case=labels_and_other(scores), buffer=st.integers(0, 9), thresholds=st.integers(2, 12))
def test_vus_pr_agrees_with_its_definition_spelled_out(case, buffer, thresholds):
    got = vus_pr(*case, longest_buffer=buffer, thresholds=thresholds)
    assert got == pytest.approx(brute_vus_pr(*case, buffer, thresholds))


@pytest.mark.parametrize("metric", WITH_ALARM)
def test_a_perfect_alarm_scores_one_and_silence_zero(metric):
    labels = np.zeros(50, bool)
    labels[10:15] = labels[30:32] = True
    assert metric(labels, labels) == pytest.approx(1.0)
    assert metric(labels, np.zeros(50, bool)) == 0.0


def test_point_adjustment_flatters_a_random_alarm():
    random = np.random.default_rng(0)
    labels = np.zeros(10_000, bool)
    labels[2000:3000] = True
    alarm = random.random(10_000) < 0.01
    assert point_f1(labels, alarm) < 0.05
    assert point_adjusted_f1(labels, alarm) > 0.9


@pytest.mark.parametrize("metric", WITH_ALARM + WITH_SCORE)
def test_labels_without_an_anomaly_are_refused(metric):
    with pytest.raises(DataError, match="nothing to find"):
        metric([0, 0, 0], [0, 1, 0])


@pytest.mark.parametrize("metric", WITH_ALARM + WITH_SCORE)
def test_lengths_that_differ_are_refused(metric):
    with pytest.raises(ShapeError, match="one length"):
        metric([0, 1, 0], [0, 1])


@pytest.mark.parametrize("metric", WITH_SCORE)
def test_a_score_of_nan_is_refused(metric):
    with pytest.raises(DataError, match="`score` holds NaN"):
        metric([0, 1, 0], [0.0, np.nan, 1.0])


def test_flags_that_are_none_are_refused():
    with pytest.raises(DataError, match="only True and False"):
        point_f1([0, 1, 0], [0.0, 0.7, 1.0])
    with pytest.raises(ShapeError, match="one dimension"):
        point_f1([[0, 1]], [[0, 1]])
    with pytest.raises(ValueRangeError, match="from 0 to 1"):
        range_f1([0, 1], [0, 1], existence_weight=2.0)
    with pytest.raises(ValueRangeError, match="2 thresholds"):
        vus_pr([0, 1], [0.0, 1.0], thresholds=1)


@pytest.mark.parametrize("metric", [*WITH_ALARM, *WITH_SCORE])
def test_masked_steps_are_refused(metric):
    labels = np.array([False, True, False])
    for other in (labels, labels.astype(float)):
        masked = np.ma.masked_array(other, mask=[True, False, False])
        with pytest.raises(DataError, match="masked entries, which would count"):
            metric(labels, masked)
    with pytest.raises(DataError, match="`labels` has masked entries"):
        metric(np.ma.masked_array(labels, mask=[True, False, False]), labels)
