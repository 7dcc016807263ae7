"""How well anomalies were found: labels [time] with an alarm [time] or with a score [time].

A *segment* is a run of consecutive labels. Labels without a single anomaly raise `DataError`,
since nothing could be found. A threshold without an alarm scores 0.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from orderless.errors import DataError, ShapeError, ValueRangeError
from orderless.metrics.arrays import as_flags, as_numbers, check_finite


def point_f1(labels: Any, alarm: Any) -> float:
    """F1 over time steps, each counted alike."""
    labels, alarm = _labels_and_alarm(labels, alarm)
    hits = int((labels & alarm).sum())
    return 2 * hits / (int(labels.sum()) + int(alarm.sum()))


def point_adjusted_f1(labels: Any, alarm: Any) -> float:
    """F1 over time steps after one hit within a true segment marks the whole segment as found.

    Kept for comparison with published tables only: a random alarm scores high under it.
    """
    labels, alarm = _labels_and_alarm(labels, alarm)
    return point_f1(labels, point_adjust(labels, alarm))


def point_adjust(labels: np.ndarray, alarm: np.ndarray) -> np.ndarray:
    """The alarm after one hit within a true segment marks the whole segment as found."""
    labels, alarm = labels.astype(bool), alarm.astype(bool)
    # Segments are numbered from 1; time steps outside of them are 0.
    begins = np.diff(labels.astype(np.int8), prepend=0) == 1
    number = np.cumsum(begins) * labels
    hit = np.zeros(int(begins.sum()) + 1, bool)
    hit[number[alarm]] = True
    hit[0] = False
    return alarm | hit[number]


def affiliation_f1(labels: Any, alarm: Any) -> float:
    """F1 of affiliation precision and recall (Huet et al. 2022).

    Time is cut into zones, each the times nearest to one true segment. Within a zone, the distance
    of each alarm to the segment (precision), and of each true time to the nearest alarm (recall),
    is compared with that of a uniformly random alarm; precision is averaged over the zones with an
    alarm, recall over all zones. Time is continuous: step t is the interval [t, t + 1).
    """
    labels, alarm = _labels_and_alarm(labels, alarm)
    truth, alarms = _segments(labels).astype(float), _segments(alarm).astype(float)
    borders = np.concatenate([[0.0], (truth[:-1, 1] + truth[1:, 0]) / 2, [float(len(labels))]])
    precisions, recalls = [], []
    for segment, zone in zip(truth, pairwise(borders), strict=True):
        first = np.searchsorted(alarms[:, 1], zone[0], side="right")
        last = np.searchsorted(alarms[:, 0], zone[1], side="left")
        inside = np.clip(alarms[first:last], *zone)
        if len(inside):
            precisions.append(_affiliation_precision(inside, segment, zone))
        recalls.append(_affiliation_recall(inside, segment, zone) if len(inside) else 0.0)
    if not precisions:
        return 0.0
    return _harmonic_mean(float(np.mean(precisions)), float(np.mean(recalls)))


def range_f1(labels: Any, alarm: Any, *, existence_weight: float = 0.2) -> float:
    """F1 of range-based precision and recall (Tatbul et al. 2018), flat bias, reciprocal count.

    A true segment earns `existence_weight` for being hit at all, and the rest for the share that is
    covered, divided by the number of alarms that cover it. Precision is the covered share of each
    alarm, divided by the number of true segments it touches.
    """
    if not 0 <= existence_weight <= 1:
        raise ValueRangeError(f"A weight lies from 0 to 1; {existence_weight} does not.")
    labels, alarm = _labels_and_alarm(labels, alarm)
    recall = _range_reward(_segments(labels), alarm, existence_weight)
    precision = _range_reward(_segments(alarm), labels, 0.0)
    return _harmonic_mean(precision, recall)


def auc_pr(labels: Any, score: Any) -> float:
    """Average precision: the area under the precision-recall steps, every distinct score used."""
    labels, score = _labels_and_score(labels, score)
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(labels[order])
    # Steps with one score are found together, so only the last of them is a point of the curve.
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    precision = hits[last] / (last + 1)
    gain = np.diff(hits[last], prepend=0) / hits[-1]
    return float(np.sum(precision * gain))


def vus_pr(labels: Any, score: Any, *, longest_buffer: int = 100, thresholds: int = 250) -> float:
    """The volume under the surface of precision and recall (Paparrizos et al. 2022).

    For each buffer from 0 to `longest_buffer` steps, labels fade out over half a buffer on both
    sides of every segment, and the range-based area under the precision-recall curve is taken over
    `thresholds` quantiles of the score; the result is the mean over buffers, as TSB-AD computes it.
    `longest_buffer` is customarily the period of the series.
    """
    labels, score = _labels_and_score(labels, score)
    if longest_buffer < 0 or thresholds < 2:
        raise ValueRangeError(
            f"There must be a buffer of at least 0 and 2 thresholds; {longest_buffer} and "
            f"{thresholds} were asked for."
        )
    segments = _segments(labels)
    order = np.argsort(-score, kind="stable")
    levels = score[order][np.linspace(0, len(score) - 1, thresholds).astype(int)]
    alarms = np.searchsorted(-score[order], -levels, side="right")
    hits_inside = np.cumsum(labels[order])[alarms - 1]
    areas = []
    for buffer in range(longest_buffer + 1):
        weight = _faded(labels, segments, buffer)
        hits = np.cumsum(weight[order])[alarms - 1]
        # Recall counts half of what the fading added, as far as an alarm reached it.
        positives = labels.sum() + (hits - hits_inside) / 2
        peaks = np.sort(
            [score[start:end].max() for start, end in _merged(segments, buffer, labels)]
        )
        found = (len(peaks) - np.searchsorted(peaks, levels, side="left")) / len(peaks)
        recall = np.minimum(hits / positives, 1.0) * found
        areas.append(np.sum(np.diff(recall, prepend=0.0) * hits / alarms))
    return float(np.mean(areas))


def _labels_and_alarm(labels: Any, alarm: Any) -> tuple[np.ndarray, np.ndarray]:
    labels, alarm = as_flags("labels", labels), as_flags("alarm", alarm)
    return _check_pair(labels, alarm), alarm


def _labels_and_score(labels: Any, score: Any) -> tuple[np.ndarray, np.ndarray]:
    labels, score = as_flags("labels", labels), as_numbers("score", score)
    check_finite("score", score)
    return _check_pair(labels, score), score


def _check_pair(labels: np.ndarray, other: np.ndarray) -> np.ndarray:
    if labels.shape != other.shape:
        raise ShapeError(
            f"Labels and what is scored must have one length; they have the shapes {labels.shape} "
            f"and {other.shape}."
        )
    if not labels.any():
        raise DataError("The labels hold no anomaly, so there is nothing to find.")
    return labels


def _segments(flags: np.ndarray) -> np.ndarray:
    """The half-open runs of True, [segment, 2]."""
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0)
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], 1)


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _affiliation_precision(
    alarms: np.ndarray, segment: np.ndarray, zone: tuple[float, float]
) -> float:
    """The mean over the alarms of P(a random point is at least as far from the segment)."""
    start, end = segment
    rooms, size = (start - zone[0], zone[1] - end), zone[1] - zone[0]

    def chance(far: np.ndarray, near: np.ndarray) -> np.ndarray:
        """The integral of that probability over distances from `near` to `far`."""
        covered = (far - near) * (end - start)
        for room in rooms:
            for distance, sign in ((far, 1), (near, -1)):
                reach = np.minimum(distance, room)
                covered = covered + sign * (reach**2 / 2 + room * (distance - reach))
        return (far - near) - covered / size

    left, right = alarms.T
    within = np.maximum(np.minimum(right, end) - np.maximum(left, start), 0)
    before = chance(np.maximum(start - left, 0), np.maximum(start - right, 0))
    after = chance(np.maximum(right - end, 0), np.maximum(left - end, 0))
    return float((within + before + after).sum() / (right - left).sum())


def _affiliation_recall(
    alarms: np.ndarray, segment: np.ndarray, zone: tuple[float, float]
) -> float:
    """The mean over the segment of P(a random point is at least as far away as the alarms are)."""
    size = zone[1] - zone[0]

    def chance(far: np.ndarray, near: np.ndarray, room: np.ndarray) -> np.ndarray:
        """The integral over times whose distance to an alarm runs from `near` to `far`.

        A random point is nearer than distance z on the alarm's side with measure z, and on the
        other side with what is left of `room` - z.
        """
        covered = np.zeros_like(far)
        for z, sign in ((far, 1), (near, -1)):
            half = np.minimum(z, room / 2)
            other = half**2 / 2 + room * (z - half) - (z**2 - half**2) / 2
            covered = covered + sign * (z**2 / 2 + other)
        return (far - near) - covered / size

    start, end = segment
    left, right = alarms.T
    middle = (right[:-1] + left[1:]) / 2
    until = np.append(middle, np.inf)
    since = np.append(-np.inf, middle)
    within = np.maximum(np.minimum(right, end) - np.maximum(left, start), 0).sum()
    # Times after each alarm, up to half-way to the next; then times before each alarm.
    low = np.clip(right, start, end) - right
    high = np.clip(until, start, end) - right
    after = chance(np.maximum(high, 0), np.maximum(low, 0), zone[1] - right)
    low = left - np.clip(left, start, end)
    high = left - np.clip(since, start, end)
    before = chance(np.maximum(high, 0), np.maximum(low, 0), left - zone[0])
    return float((within + after.sum() + before.sum()) / (end - start))


def _range_reward(segments: np.ndarray, flags: np.ndarray, existence_weight: float) -> float:
    """The mean reward of the segments for the flags that they hold."""
    rewards = []
    for start, end in segments:
        covered = flags[start:end]
        pieces = len(_segments(covered))
        share = covered.mean() / pieces if pieces else 0.0
        rewards.append(existence_weight * bool(pieces) + (1 - existence_weight) * share)
    return float(np.mean(rewards)) if rewards else 0.0


def _faded(labels: np.ndarray, segments: np.ndarray, buffer: int) -> np.ndarray:
    """Labels as weights that fade out over half a buffer on both sides of every segment."""
    weight = labels.astype(float)
    distance = np.arange(1, buffer // 2 + 1)
    fade = np.sqrt(1 - distance / buffer) if buffer else np.zeros(0)
    for start, end in segments:
        after = weight[end : end + len(fade)]
        after += fade[: len(after)]
        before = weight[max(start - len(fade), 0) : start]
        before += fade[: len(before)][::-1]
    return np.minimum(weight, 1.0)


def _merged(segments: np.ndarray, buffer: int, labels: np.ndarray) -> np.ndarray:
    """Segments with half a buffer on both sides, joined where these touch."""
    starts = np.maximum(segments[:, 0] - buffer // 2, 0)
    ends = np.minimum(segments[:, 1] + buffer // 2, len(labels))
    apart = starts[1:] >= ends[:-1]
    return np.stack([starts[np.append(True, apart)], ends[np.append(apart, True)]], 1)
