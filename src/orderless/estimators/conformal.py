"""Intervals from errors on windows that neither training nor selection has seen.

Split-conformal: the error quantiles of held-out windows, one table for each step ahead, shared by
the variables so that it serves unseen ones too. If future errors are exchangeable with the held-out
ones, an 80 % interval holds 80 % of the values on average over variables; those that never change
do not count. Errors are in units of each variable's own spread; where quantiles were trained, in
units of the distance between the outer ones, so that intervals widen where the network is less
certain, and still cover.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orderless.errors import SettingError

LEVELS = np.linspace(0.0, 1.0, 401)


@dataclass(frozen=True)
class ErrorTable:
    """Quantiles of the error (actual - forecast): [horizon, level] at `LEVELS`."""

    quantiles: np.ndarray

    def at(self, level: float) -> np.ndarray:
        """What to add to a forecast to reach this quantile: [horizon]."""
        return np.stack([np.interp(level, LEVELS, row) for row in self.quantiles])


def fit_error_table(errors: np.ndarray, observed: np.ndarray) -> ErrorTable:
    """The table of errors [window, variable, horizon], entries that were not observed left out.

    With n errors, the quantile q is the ceil((n + 1) q)-th smallest for q above one half and its
    mirror image below: the correction that makes the coverage hold for a finite n.
    """
    horizon = errors.shape[-1]
    table = np.zeros((horizon, len(LEVELS)))
    flat, seen = errors.reshape(-1, horizon), observed.reshape(-1, horizon)
    for step in range(horizon):
        known = np.sort(flat[seen[:, step], step])
        n = len(known)
        if n == 0:
            continue
        # Rounding first: (n + 1) q may exceed a whole number by an ulp.
        position = np.round((n + 1) * LEVELS, 9)
        upper = np.ceil(position) - 1
        lower = np.floor(position) - 1
        rank = np.where(LEVELS > 0.5, upper, lower)
        table[step] = known[np.clip(rank, 0, n - 1).astype(int)]
    return ErrorTable(np.maximum.accumulate(table, axis=1))


def column_endings(
    level: Sequence[float] | float | None, quantiles: Sequence[float] | float | None
) -> dict[str, float]:
    """Endings of the columns asked for, and the quantile each holds.

    level=[80] gives {"lo-80": .1, "hi-80": .9}; quantiles=[.05] gives {"q0.05": .05}.
    """
    endings: dict[str, float] = {}
    for percent in _numbers("level", level, 100):
        endings[f"lo-{percent:g}"] = (1 - percent / 100) / 2
        endings[f"hi-{percent:g}"] = (1 + percent / 100) / 2
    for quantile in _numbers("quantiles", quantiles, 1):
        endings[f"q{quantile:g}"] = quantile
    return endings


def _numbers(name: str, given: Sequence[float] | float | None, highest: int) -> list[float]:
    numbers = np.atleast_1d([] if given is None else given)
    legal = numbers.ndim == 1 and numbers.dtype.kind in "iuf"
    if not legal or not ((numbers > 0) & (numbers < highest)).all():
        raise SettingError(f"`{name}` is {given!r}; give numbers between 0 and {highest}.")
    return numbers.tolist()
