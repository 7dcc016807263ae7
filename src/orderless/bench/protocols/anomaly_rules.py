"""Anomaly detection: a score for each time step of a test series; training data has no labels.

A detector gives scores [time] of the training rows that it was not fitted on, and of the test rows.
"""

import numpy as np

from orderless.bench.protocols import FAIR, PAPER, check_protocol
from orderless.data import fit_scaler
from orderless.metrics import affiliation_f1, auc_pr, point_f1, range_f1, vus_pr
from orderless.metrics.anomaly import point_adjust

PAPER_WINDOW = 100
PAPER_SHARE = {"SMD": 0.005, "MSL": 0.01, "SMAP": 0.01, "SWaT": 0.01, "PSM": 0.01}
"""The share of time steps above the threshold that the published tables set, per set."""
PAPER_STRIDE = {"SMD": 100, "MSL": 1, "SMAP": 1, "SWaT": 1, "PSM": 1}
"""Time steps from one window of the published code to the next, per set."""
FAIR_SHARE = 0.01
"""The share of held-out training time steps that may raise an alarm."""
HELD_OUT = 0.2


def training_rows(count: int, protocol: str) -> tuple[slice, slice]:
    """The rows to fit on, and the rows held out.

    fair: the last fifth is held out and not fitted on. paper: it is called validation, and fitted
    on as well.
    """
    check_protocol(protocol)
    cut = int((1 - HELD_OUT) * count)
    return slice(0, count if protocol == PAPER else cut), slice(cut, count)


def scale_by_training_rows(
    train: np.ndarray, test: np.ndarray, fitted: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Both parts [time, variable], scaled by the fitted training rows."""
    rows = train[fitted].T
    scaler = fit_scaler(rows, np.isfinite(rows))
    return scaler.apply(train.T).T, scaler.apply(test.T).T


def choose_threshold(
    training_scores: np.ndarray, test_scores: np.ndarray, share: float, protocol: str
) -> float:
    """The score above which a time step raises an alarm.

    fair: the quantile of the training scores; what is to be judged has no say. paper: the quantile
    of training and test scores together.
    """
    check_protocol(protocol)
    scores = training_scores
    if protocol == PAPER:
        scores = np.concatenate([training_scores, test_scores])
    return float(np.quantile(scores, 1 - share))


def precision_and_recall(labels: np.ndarray, alarm: np.ndarray) -> tuple[float, float]:
    """Shares of the alarms that are right, and of the anomalous time steps that are found."""
    hits = int((labels & alarm).sum())
    return hits / max(int(alarm.sum()), 1), hits / max(int(labels.sum()), 1)


def counted_time_steps(values: np.ndarray, stride: int) -> np.ndarray:
    """Values [time] as the published code counts them: one window after the other (paper).

    Windows that overlap are not merged: with a stride of 1 a time step counts up to 100 times, and
    those at both ends of the series less. What is left after the last window does not count.
    """
    windows = np.lib.stride_tricks.sliding_window_view(values, PAPER_WINDOW)
    return windows[::stride].reshape(-1)


def paper_scores(
    labels: np.ndarray,
    training_scores: np.ndarray,
    test_scores: np.ndarray,
    share: float,
    stride: int,
) -> dict[str, float]:
    """Point-adjusted precision, recall and F1 with the transductive threshold, in percent."""
    labels, training_scores, test_scores = (
        counted_time_steps(values, stride) for values in (labels, training_scores, test_scores)
    )
    threshold = choose_threshold(training_scores, test_scores, share, PAPER)
    adjusted = point_adjust(labels, test_scores > threshold)
    precision, recall = precision_and_recall(labels, adjusted)
    return {
        "point_adjusted_precision": 100 * precision,
        "point_adjusted_recall": 100 * recall,
        "point_adjusted_f1": 100 * point_f1(labels, adjusted),
    }


def fair_scores(
    labels: np.ndarray, training_scores: np.ndarray, test_scores: np.ndarray
) -> dict[str, float]:
    """Scores without a threshold, and with one from held-out training rows alone, in percent."""
    threshold = choose_threshold(training_scores, test_scores, FAIR_SHARE, FAIR)
    alarm = test_scores > threshold
    return {
        "vus_pr": 100 * vus_pr(labels, test_scores),
        "auc_pr": 100 * auc_pr(labels, test_scores),
        "affiliation_f1": 100 * affiliation_f1(labels, alarm),
        "range_f1": 100 * range_f1(labels, alarm),
        "point_f1": 100 * point_f1(labels, alarm),
    }
