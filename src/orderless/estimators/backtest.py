"""Forecasts from several origins in the past, and how good they were."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from orderless.data import System, canonical_order
from orderless.errors import DataError
from orderless.estimators.baselines import naive, seasonal_naive
from orderless.estimators.conformal import PointAndWidth, in_units
from orderless.estimators.preparation import FARTHEST, Prepared, stack
from orderless.estimators.report import MODEL


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


class Scored(NamedTuple):
    """One system from several origins, [origin, variable, horizon].

    `truth`, the `forecasts` by name and the `width` of the model's are in scaled units. The truth
    is NaN where nothing is scored. `blocks`, by the ending of their columns, are in the units and
    the variable order of the caller.
    """

    truth: np.ndarray
    forecasts: dict[str, np.ndarray]
    width: np.ndarray
    blocks: dict[str, np.ndarray]


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


def compare(
    system: System,
    origins: np.ndarray,
    pasts: Sequence[Prepared],
    forecasts: Sequence[PointAndWidth[np.ndarray]],
    shifts: Mapping[str, np.ndarray],
    *,
    context: int,
    season: int,
) -> Scored:
    """The forecasts of a model after these pasts, beside naive ones and what came."""
    point = np.stack([one.point for one in forecasts])
    horizon = point.shape[-1]
    cuts = list(zip(pasts, origins, strict=True))
    values, observed, _ = stack(pasts, context)
    rivals = {MODEL: point, "naive": naive(values, observed, horizon).numpy()}
    if season > context:  # which is no reason to forget the season
        longer = [_lengthen(system, one, at, season) for one, at in cuts]
        values, observed, _ = stack(longer, season)
    rivals["seasonal naive"] = seasonal_naive(values, observed, horizon, season).numpy()
    order, _ = canonical_order(system.variables)
    future = [one.scaler.apply(system.values[order, at : at + horizon]) for one, at in cuts]
    # What the model has no forecast of is nobody's score, nor what has no spread. What has no unit
    # is NaN already.
    scored = np.isfinite(point) & ~np.stack([one.still for one in pasts])[:, :, None]
    return Scored(
        truth=np.where(scored, np.stack(future), np.nan),
        forecasts=rivals,
        width=np.stack([one.width for one in forecasts]),
        blocks={k: np.stack(block) for k, block in in_units(pasts, forecasts, shifts).items()},
    )


def warn_empty(systems: Sequence[Scored]) -> None:
    """Say in how many windows there is nothing to score."""
    empty = np.concatenate([np.isnan(one.truth).all((1, 2)) for one in systems])
    if empty.any():
        warnings.warn(
            f"In {empty.sum()} of {len(empty)} windows there is nothing to score: no reading, or "
            "those of new variables alone that never moved, whose errors have no unit. Where rows "
            "lie more than a horizon apart, a `step` of as many steps as lie between them gives "
            "each window one.",
            stacklevel=3,
        )


def score(systems: Sequence[Scored], name: str) -> dict[str, float]:
    """MAE and MSE of a forecast over all entries where both it and the truth are known."""
    error = np.concatenate([(one.truth - one.forecasts[name]).ravel() for one in systems])
    error = error[np.isfinite(error)]
    if error.size == 0:
        return {"mae": float("nan"), "mse": float("nan")}
    return {"mae": float(np.abs(error).mean()), "mse": float((error**2).mean())}


def coverage(systems: Sequence[Scored], low: np.ndarray, high: np.ndarray) -> float:
    """The share of known values from forecast + width low to forecast + width high."""
    inside = []
    for one in systems:
        error = one.truth - one.forecasts[MODEL]
        within = (error >= low * one.width) & (error <= high * one.width)
        inside.append(within[np.isfinite(error)])
    joined = np.concatenate(inside)
    return float(joined.mean()) if joined.size else float("nan")


def _lengthen(system: System, past: Prepared, origin: int, steps: int) -> Prepared:
    """The last `steps` steps before an origin instead of those of `past`, in the same units."""
    order, _ = canonical_order(system.variables)
    span = slice(max(0, origin - steps), origin)
    return replace(
        past,
        values=np.clip(past.scaler.apply(system.values[order, span]), -FARTHEST, FARTHEST),
        observed=system.observed[order, span],
    )
