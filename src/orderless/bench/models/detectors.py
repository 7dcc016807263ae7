"""Detectors under one call: fitted on rows [time, variable], then giving scores [time]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orderless import Detector
from orderless.bench.config import training_of
from orderless.estimators.report import MODEL as OURS

Score = Callable[[np.ndarray], np.ndarray]
SQUARED_ERROR = "squared error"
"""What the published code scores a time step by, the mean over the variables; ours has its own."""
EXPLAINED = 0.9
"""The share of the variance that the principal components keep."""


@dataclass(frozen=True)
class Fitted:
    """A score, and of a network how long it learned and what chose its epoch."""

    score: Score
    validation: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None


def fit_pca(rows: np.ndarray) -> Score:
    """The squared distance of a row from the plane of the first principal components."""
    center = rows.mean(0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov((rows - center).T)))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    share = np.cumsum(values) / max(values.sum(), np.finfo(float).tiny)
    # All but one at most: with all of them every distance would be 0.
    count = min(int(np.searchsorted(share, EXPLAINED)) + 1, len(values) - 1)
    plane = vectors[:, :count]

    def score(new: np.ndarray) -> np.ndarray:
        rest = new - center
        rest = rest - (rest @ plane) @ plane.T
        return (rest**2).sum(1)

    return score


def own_score(model: Detector) -> Score:
    """What `Detector` says itself: errors in units of the baseline of each variable."""
    return lambda rows: np.asarray(model.score(rows), np.float64).reshape(-1)


def squared_error(model: Detector) -> Score:
    """The squared error of reconstructing a row, the mean over its variables, in units of the rows.

    A constant of `fit` is expected to stay: of that the model says only whether it changed.
    """
    names = model.variables_in_
    centers, scales = np.array([model.scales_[name] for name in names]).T
    units = np.array([model.usual_[name] for name in names]) * np.square(scales)

    def score(rows: np.ndarray) -> np.ndarray:
        errors = np.asarray(model.score(rows, per_variable=True)) * units
        return np.where(scales > 0, errors, np.square(rows - centers)).mean(1)

    return score


def random_score(seed: int) -> Score:
    """A number drawn for each row, whatever the row: what a metric gives to no skill at all."""
    generator = np.random.default_rng(seed)
    return lambda rows: generator.random(len(rows))


def _fit_orderless(rows: np.ndarray, seed: int, options: Mapping[str, Any]) -> Fitted:
    model = Detector(
        random_state=seed,
        verbose=False,
        **options["detector"],
        **training_of(options["budget"]),
    ).fit(rows)
    score = squared_error if options.get("score") == SQUARED_ERROR else own_score
    return Fitted(score(model), {"mse": model.errors_[OURS]}, len(model.history_) - 1)


COLUMNS: dict[str, Callable[[np.ndarray, int, Mapping[str, Any]], Fitted]] = {
    "orderless": _fit_orderless,
    "PCA": lambda rows, seed, options: Fitted(fit_pca(rows)),
    "random score": lambda rows, seed, options: Fitted(random_score(seed)),
}
