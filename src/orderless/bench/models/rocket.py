"""ROCKET-type classifiers through aeon, an optional peer: `pip install '.[peers]'`."""

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from orderless.errors import SettingError

CLASSES = {"MiniRocket": "MiniRocketClassifier", "MultiRocketHydra": "MultiRocketHydraClassifier"}
"""Names in our tables, and in `aeon.classification.convolution_based`."""


def fit_rocket(name: str, cases: np.ndarray, labels: np.ndarray, seed: int) -> Any:
    """A fitted classifier of aeon, nothing tuned; `predict_rocket` asks it.

    Cases of different length are padded with 0, as their authors do.
    """
    if find_spec("aeon") is None:
        raise SettingError(f"{name} needs aeon, which is not installed: `pip install aeon`.")
    module = importlib.import_module("aeon.classification.convolution_based")
    return getattr(module, CLASSES[name])(random_state=seed).fit(_padded(cases), labels)


def predict_rocket(model: Any, cases: np.ndarray) -> np.ndarray:
    """The class of each case."""
    return np.asarray(model.predict(_padded(cases)))


def _padded(cases: np.ndarray) -> np.ndarray:
    return np.nan_to_num(cases, nan=0.0).astype(np.float32)
