"""Detectors under one call: fitted on rows [time, variable], then giving scores [time]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orderless import Detector
from orderless.bench.config import training_of
from orderless.data import read_panel

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
    """What `Detector` says itself: errors in units that are normal for each variable."""
    return lambda rows: np.asarray(model.score(rows), np.float64).reshape(-1)


def squared_error(model: Detector) -> Score:
    """The squared error of expecting a row, the mean over its variables, in units of the rows.

    A constant of `fit` is expected to stay: of it the model says only whether it departed.
    """
    pairs = model.transform_.scales
    centers, scales = np.array([pairs[name] for name in model.variables_in_]).T

    def score(rows: np.ndarray) -> np.ndarray:
        (errors,) = model.member_errors(read_panel(rows))
        weights = np.array(model.stack_.weights)[:, None, None]
        squares = (weights * np.square(errors)).sum(0).T * np.square(scales)
        # Members have no answer for a constant.
        return np.where(scales > 0, squares, np.square(rows - centers)).mean(1)

    return score


def random_score(seed: int) -> Score:
    """A number drawn for each row, whatever the row: what a metric gives to no skill at all."""
    generator = np.random.default_rng(seed)
    return lambda rows: generator.random(len(rows))


def _fit_orderless(rows: np.ndarray, seed: int, options: Mapping[str, Any]) -> Fitted:
    """The stack as it comes; under the rules of the paper the network alone."""
    by_square = options.get("score") == SQUARED_ERROR
    model = Detector(
        members="network" if by_square else None,
        random_state=seed,
        verbose=False,
        **options["detector"],
        **training_of(options["budget"]),
    ).fit(rows)
    score = squared_error if by_square else own_score
    epochs = sum(len(history) - 1 for history in model.history_.values())
    errors = {f"mse of {name}": error for name, error in model.errors_.items()}
    return Fitted(score(model), errors, epochs)


COLUMNS: dict[str, Callable[[np.ndarray, int, Mapping[str, Any]], Fitted]] = {
    "orderless": _fit_orderless,
    "PCA": lambda rows, seed, options: Fitted(fit_pca(rows)),
    "random score": lambda rows, seed, options: Fitted(random_score(seed)),
}
