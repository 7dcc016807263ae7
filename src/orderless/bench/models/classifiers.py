"""Classifiers of cases [case, variable, time]: each takes a `Lesson`, and gives a `Classified`."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from orderless import Classifier
from orderless.bench.config import training_of
from orderless.bench.models.chosen_epoch import GivenCasesChooseEpoch
from orderless.errors import SettingError
from orderless.estimators.report import MODEL as OURS
from orderless.models.classification import NETWORK

PENALTIES = tuple(10.0**k for k in range(-3, 7))
ACCURACY = "accuracy"
"""What chooses an epoch in the published code; by itself `Classifier` goes by its cross-entropy."""
ROCKETS = {"MiniRocket": "MiniRocketClassifier", "MultiRocketHydra": "MultiRocketHydraClassifier"}
"""Names in our tables, and in `aeon.classification.convolution_based`; nothing is tuned."""


@dataclass(frozen=True)
class Labelled:
    """Cases and their classes."""

    cases: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Lesson:
    """Cases to learn from, others that choose, and all training cases, where nothing is chosen."""

    teach: Labelled
    choose: Labelled
    everything: Labelled
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Classified:
    """What names the class of each case, and what chose it."""

    predict: Callable[[np.ndarray], np.ndarray]
    validation: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None


def _fit_orderless(lesson: Lesson) -> Classified:
    settings = {"random_state": lesson.seed, "verbose": False, **lesson.options["classifier"]}
    if "choose_by" in lesson.options:
        return _fit_network(lesson, settings)
    # Its members are cross-fitted over all training cases.
    model = Classifier(**settings).fit(lesson.everything.cases, lesson.everything.labels)
    validation = {"accuracy": 100 * (1 - model.errors_[OURS])}
    weights = {f"weight of {name}": weight for name, weight in model.weights_.items()}
    return Classified(model.predict, validation, weights)


def _fit_network(lesson: Lesson, settings: Mapping[str, Any]) -> Classified:
    """The network alone, its epoch chosen by the cases that are given for it."""
    model = GivenCasesChooseEpoch(**settings, **training_of(lesson.options["budget"])).fit_with(
        lesson.teach.cases,
        lesson.teach.labels,
        lesson.choose.cases,
        lesson.choose.labels,
        by_accuracy=lesson.options["choose_by"] == ACCURACY,
    )
    validation = {"accuracy": 100 * (1 - model.errors_[NETWORK])}
    return Classified(model.predict, validation, epochs=len(model.history_[NETWORK]) - 1)


def _fit_commonest(lesson: Lesson) -> Classified:
    names, counts = np.unique(lesson.everything.labels, return_counts=True)
    best = names[np.argmax(counts)]
    return Classified(lambda cases: np.full(len(cases), best))


def _fit_ridge(lesson: Lesson) -> Classified:
    """Ridge on all values of a case, one target a class; missing entries count as 0, the mean."""
    classes, codes = np.unique(lesson.teach.labels, return_inverse=True)
    x, other = _flat(lesson.teach.cases), _flat(lesson.choose.cases)
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
        accuracy = float(np.mean(classes[scores.argmax(1)] == lesson.choose.labels))
        # Of equals, the greater penalty: the simpler model.
        best = max(best, (accuracy, penalty))
    weights = right.T @ (_shrink(sizes, best[1]) * rotated)

    def predict(cases: np.ndarray) -> np.ndarray:
        return classes[((_flat(cases) - center) @ weights + offset).argmax(1)]

    return Classified(predict, {"accuracy": 100 * best[0]}, {"penalty": best[1]})


def _flat(cases: np.ndarray) -> np.ndarray:
    return np.nan_to_num(cases.reshape(len(cases), -1), nan=0.0).astype(np.float64)


def _shrink(sizes: np.ndarray, penalty: float) -> np.ndarray:
    return (sizes / (sizes**2 + penalty))[:, None]


def _fit_rocket(name: str, lesson: Lesson) -> Classified:
    """ROCKET-type classifiers of aeon; shorter cases are padded with 0, as their authors do."""
    if find_spec("aeon") is None:
        raise SettingError(f"{name} needs aeon, which is not installed: `pip install aeon`.")
    module = importlib.import_module("aeon.classification.convolution_based")
    model = getattr(module, ROCKETS[name])(random_state=lesson.seed)
    model.fit(_padded(lesson.everything.cases), lesson.everything.labels)
    return Classified(lambda cases: np.asarray(model.predict(_padded(cases))))


def _padded(cases: np.ndarray) -> np.ndarray:
    return np.nan_to_num(cases, nan=0.0).astype(np.float32)


COLUMNS: dict[str, Callable[[Lesson], Classified]] = {
    "orderless": _fit_orderless,
    "orderless identified": _fit_orderless,
    "commonest class": _fit_commonest,
    "ridge": _fit_ridge,
    **{name: partial(_fit_rocket, name) for name in ROCKETS},
}
