"""Per-variable standardisation that can be undone. Statistics come from observed entries only."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scaler:
    """Mean and scale of each variable: [variable, 1] each."""

    mean: np.ndarray
    scale: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Values [..., variable, time] in units of the scale, around zero."""
        raise NotImplementedError

    def undo(self, values: np.ndarray) -> np.ndarray:
        """The inverse of `apply`."""
        raise NotImplementedError


def fit_scaler(values: np.ndarray, observed: np.ndarray) -> Scaler:
    """Mean and population standard deviation of the observed entries of values [variable, time].

    Pass the training part only: nothing here knows where it ends. A variable that is constant, or
    seen once, has scale 1; one never seen has mean 0 and scale 1.
    """
    raise NotImplementedError
