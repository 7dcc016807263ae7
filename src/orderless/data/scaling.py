"""Per-variable standardisation that can be undone. Statistics come from observed entries only."""

from dataclasses import dataclass

import numpy as np

# A spread this far below the size of the values is rounding of a constant, not a signal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Scaler:
    """Mean and scale of each variable: [variable, 1] each."""

    mean: np.ndarray
    scale: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Values [..., variable, time] in units of the scale, around zero."""
        return (values - self.mean) / self.scale

    def undo(self, values: np.ndarray) -> np.ndarray:
        """The inverse of `apply`."""
        return values * self.scale + self.mean


def fit_scaler(values: np.ndarray, observed: np.ndarray) -> Scaler:
    """In units of the spread of each variable, from the observed entries of [variable, time].

    Pass the training part only: nothing here knows where it ends. A variable that is constant, or
    seen once, has scale 1; one never seen has mean 0 and scale 1.
    """
    mean, spread = mean_and_spread(values, observed)
    return Scaler(mean, np.where(spread > 0, spread, 1.0))


def mean_and_spread(values: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation, [variable, 1] each, of the observed entries.

    The spread of a variable that is constant but for rounding, or seen once, is 0.
    """
    seen = np.where(observed, values, 0.0).astype(np.float64)
    count = np.maximum(observed.sum(-1, keepdims=True), 1)
    # In units of the largest entry neither the sum nor the squares can overflow.
    largest = np.abs(seen).max(-1, keepdims=True, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    seen = seen / unit
    mean = seen.sum(-1, keepdims=True) / count
    error = np.where(observed, seen - mean, 0.0)
    deviation = np.sqrt((error**2).sum(-1, keepdims=True) / count)
    return mean * unit, np.where(deviation > ROUNDING, deviation * unit, 0.0)
