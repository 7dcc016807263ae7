"""Forecasts from several origins in the past, and how good they were."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orderless.data import System, canonical_order
from orderless.errors import DataError
from orderless.estimators.preparation import FARTHEST, Prepared


@dataclass(frozen=True)
class Backtest:
    """`forecast` in the form the data came in, frames with a column `cutoff`; and `scores`.

    `scores` holds, for the model and for two naive forecasts, MAE and MSE in units of each
    variable's spread, over the same entries: observed targets that the model has a forecast of.
    Variables that stand still have no spread, and do not count. For the model also the share of
    values within each interval asked for.
    """

    forecast: Any
    scores: dict[str, dict[str, float]]


def find_origins(system: System, windows: int, step: int, horizon: int) -> np.ndarray:
    """Positions at which forecasts begin, oldest first; the last one ends with the data."""
    length = len(system.times)
    origins = np.arange(length - horizon, 0, -step)[:windows][::-1]
    if len(origins) < windows:
        raise DataError(
            f"System {system.name} has {length} time steps; {windows} windows of {horizon} steps, "
            f"{step} apart, need at least {horizon + (windows - 1) * step + 1}. Use fewer windows, "
            "or leave it out."
        )
    return origins


def cut_future(system: System, past: Prepared, origin: int, horizon: int) -> np.ndarray:
    """What came after an origin, [variable, horizon], in the order and the units of `past`."""
    order, _ = canonical_order(system.variables)
    return past.scaler.apply(system.values[order, origin : origin + horizon])


def lengthen(system: System, past: Prepared, origin: int, steps: int) -> Prepared:
    """The last `steps` steps before an origin instead of those of `past`, in the same units."""
    order, _ = canonical_order(system.variables)
    span = slice(max(0, origin - steps), origin)
    return replace(
        past,
        values=np.clip(past.scaler.apply(system.values[order, span]), -FARTHEST, FARTHEST),
        observed=system.observed[order, span],
    )


def score(truth: Sequence[np.ndarray], forecast: Sequence[np.ndarray]) -> dict[str, float]:
    """MAE and MSE over all entries where both are known."""
    error = _errors(truth, forecast)
    if error.size == 0:
        return {"mae": float("nan"), "mse": float("nan")}
    return {"mae": float(np.abs(error).mean()), "mse": float((error**2).mean())}


def coverage(
    truth: Sequence[np.ndarray],
    forecast: Sequence[np.ndarray],
    width: Sequence[np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
) -> float:
    """The share of known values from forecast + width low to forecast + width high."""
    inside = [
        ((t - f >= low * w) & (t - f <= high * w))[np.isfinite(t - f)]
        for t, f, w in zip(truth, forecast, width, strict=True)
    ]
    joined = np.concatenate(inside)
    return float(joined.mean()) if joined.size else float("nan")


def _errors(truth: Sequence[np.ndarray], forecast: Sequence[np.ndarray]) -> np.ndarray:
    both = [(t - f).ravel() for t, f in zip(truth, forecast, strict=True)]
    error = np.concatenate(both)
    return error[np.isfinite(error)]
