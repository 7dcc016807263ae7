"""Simple classifiers of cases [case, variable, time]: the commonest class, and a ridge."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PENALTIES = tuple(10.0**k for k in range(-3, 7))
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Choice:
    """A fitted ridge, the penalty that was chosen and its accuracy on the cases that chose it."""

    predict: Predict
    penalty: float
    validation_accuracy: float


def commonest_class(labels: np.ndarray) -> Predict:
    """Names the commonest training class, whatever the case."""
    names, counts = np.unique(labels, return_counts=True)
    best = names[np.argmax(counts)]
    return lambda cases: np.full(len(cases), best)


def fit_ridge_classifier(
    cases: np.ndarray, labels: np.ndarray, chooser: np.ndarray, chooser_labels: np.ndarray
) -> Choice:
    """Ridge on all values of a case, one target a class; the penalty does best on `chooser`.

    Missing entries count as 0, the mean.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    x, other = _flat(cases), _flat(chooser)
    targets = 2.0 * (codes[:, None] == np.arange(len(classes))) - 1.0
    offset = targets.mean(0)
    center = x.mean(0)
    x, other = x - center, other - center
    left, sizes, right = np.linalg.svd(x, full_matrices=False)
    rotated = left.T @ (targets - offset)
    along = other @ right.T
    best = (-1.0, PENALTIES[0])
    for penalty in PENALTIES:
        scores = along @ (_shrink(sizes, penalty) * rotated) + offset
        accuracy = float(np.mean(classes[scores.argmax(1)] == chooser_labels))
        # Of equals, the greater penalty: the simpler model.
        best = max(best, (accuracy, penalty))
    weights = right.T @ (_shrink(sizes, best[1]) * rotated)

    def predict(cases: np.ndarray) -> np.ndarray:
        return classes[((_flat(cases) - center) @ weights + offset).argmax(1)]

    return Choice(predict, best[1], best[0])


def _flat(cases: np.ndarray) -> np.ndarray:
    return np.nan_to_num(cases.reshape(len(cases), -1), nan=0.0).astype(np.float64)


def _shrink(sizes: np.ndarray, penalty: float) -> np.ndarray:
    return (sizes / (sizes**2 + penalty))[:, None]
