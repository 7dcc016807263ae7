"""Forecasts from several origins in the past, and how good they were."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orderless.data import System, canonical_order
from orderless.data.transform import Scaled, stack_systems
from orderless.errors import DataError
from orderless.estimators.intervals import PointAndWidth, in_units
from orderless.estimators.report import MODEL
from orderless.models.forecasting.naive import naive, seasonal_naive


@dataclass(frozen=True)
class Backtest:
    """`forecast` in the form the data came in, frames with a column `cutoff`; and `scores`.

    `scores` holds, for the model and for two naive forecasts, MAE and MSE in units of each
    variable's standard deviation, over the same entries: observed targets that the model has a
    forecast of. Constants have no scale, and do not count. For the model also the share of values
    within each interval asked for.
    """

    forecast: Any
    scores: dict[str, dict[str, float]]


class Scored(NamedTuple):
    """One system from several origins, [origin, variable, horizon].

    `truth`, the `forecasts` by name and the `width` of the model's are in scaled units. The truth
    is NaN where nothing is scored. `shifts` are by how many widths each quantile is off the
    forecast of the model, `blocks` the same in the units and the variable order of the caller, by
    the ending of their columns.
    """

    truth: np.ndarray
    forecasts: dict[str, np.ndarray]
    width: np.ndarray
    shifts: dict[str, np.ndarray]
    blocks: dict[str, np.ndarray]


def find_origins(system: System, windows: int, stride: int, horizon: int) -> np.ndarray:
    """Positions at which forecasts begin, oldest first; the last one ends with the data."""
    length = len(system.times)
    origins = np.arange(length - horizon, 0, -stride)[:windows][::-1]
    if len(origins) < windows:
        raise DataError(
            f"System {system.name} has {length} time steps; {windows} windows of {horizon} steps, "
            f"{stride} apart, need at least {horizon + (windows - 1) * stride + 1}. Use fewer "
            "windows, or leave this system out."
        )
    return origins


def compare(
    system: System,
    origins: np.ndarray,
    pasts: Sequence[Scaled],
    forecasts: Sequence[PointAndWidth[np.ndarray]],
    shifts: Sequence[Mapping[str, np.ndarray]],
    *,
    season: int,
) -> Scored:
    """The forecasts of a model after these pasts, of a season or more, beside naive ones."""
    point = np.stack([one.point for one in forecasts])
    horizon = point.shape[-1]
    values, observed = stack_systems(pasts, max(one.values.shape[1] for one in pasts))
    rivals = {
        MODEL: point,
        "naive": naive(values, observed, horizon).numpy(),
        "seasonal naive": seasonal_naive(values, observed, horizon, season).numpy(),
    }
    order, _ = canonical_order(system.variables)
    future = [
        (system.values[order, at : at + horizon] - past.center) / past.scale
        for past, at in zip(pasts, origins, strict=True)
    ]
    # What the model has no forecast of is nobody's score, nor what has no scale: a constant, and,
    # NaN already, what a single reading is known of.
    scored = np.isfinite(point) & ~np.stack([one.constant for one in pasts])[:, :, None]
    return Scored(
        truth=np.where(scored, np.stack(future), np.nan),
        forecasts=rivals,
        width=np.stack([one.width for one in forecasts]),
        shifts={ending: np.stack([one[ending] for one in shifts]) for ending in shifts[0]},
        blocks={k: np.stack(block) for k, block in in_units(pasts, forecasts, shifts).items()},
    )


def warn_empty(systems: Sequence[Scored]) -> None:
    """Say in how many windows there is nothing to score."""
    empty = np.concatenate([np.isnan(one.truth).all((1, 2)) for one in systems])
    if empty.any():
        warnings.warn(
            f"{empty.sum()} of {len(empty)} windows have nothing to score: they hold no reading, "
            "or only those of new variables that never changed, whose errors have no unit. If rows "
            "are more than a horizon apart, set `stride` to the number of time steps from one to "
            "the next.",
            stacklevel=3,
        )


def score(systems: Sequence[Scored], name: str) -> dict[str, float]:
    """MAE and MSE of a forecast over all entries where both it and the truth are known."""
    error = np.concatenate([(one.truth - one.forecasts[name]).ravel() for one in systems])
    error = error[np.isfinite(error)]
    if error.size == 0:
        return {"mae": float("nan"), "mse": float("nan")}
    return {"mae": float(np.abs(error).mean()), "mse": float((error**2).mean())}


def coverage(systems: Sequence[Scored], low: str, high: str) -> float:
    """The share of known values between two quantiles, by their endings, where there are any."""
    inside = []
    for one in systems:
        error = one.truth - one.forecasts[MODEL]
        lowest, highest = one.shifts[low] * one.width, one.shifts[high] * one.width
        within = (error >= lowest) & (error <= highest)
        inside.append(within[np.isfinite(error) & np.isfinite(lowest) & np.isfinite(highest)])
    joined = np.concatenate(inside)
    return float(joined.mean()) if joined.size else float("nan")
