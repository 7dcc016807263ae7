"""Units of variables: centers and scales, from observed entries only.

Pass the training part only: nothing here knows where it ends. The scale of a variable that is
constant but for rounding, or seen once, is 0 as a fact; `fit_scaler` scales such a variable by 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orderless.data.groups import key_of
from orderless.data.panel import Panel, System

Measure = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Values and observed [variable, time] to center and scale [variable, 1]."""
Scales = Mapping[str, tuple[float, float]]
"""Center and scale of each variable that `fit` saw; a scale of 0 where it never changed."""
# A scale this far below the size of the values is rounding of a constant, not a signal.
ROUNDING = 1e-12
FARTHEST_SHARED = 10.0
"""Of a center or a scale that is shared, in units of the median scale and distance of centers."""
FEW = 3
"""Broken readings, at either end, that must not move a scale."""
EXTREME_SHARE = 100
"""One reading in so many, at either end, is left out of a baseline scale."""


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
    """In units of the standard deviation of each variable, from observed entries [variable, time].

    A variable that is constant, or seen once, has scale 1; one never seen has mean 0 and scale 1.
    """
    mean, scale = mean_and_scale(values, observed)
    return Scaler(mean, np.where(scale > 0, scale, 1.0))


def mean_and_scale(values: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation, [variable, 1] each, of the observed entries."""
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


def robust_mean_and_scale(
    values: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of readings that are drawn in to `plausible_limits`: few of them move neither much.

    Of data without such extremes both are the mean and the standard deviation themselves.
    """
    low, high = plausible_limits(values, observed)
    return mean_and_scale(np.clip(values, low, high), observed)


def winsorised_mean_and_scale(
    values: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of readings of which the most extreme count as the next: a few, or one in 1000.

    Rare events keep their say, broken readings have none. Where there are no others, they are all
    that the variable says, and count as they are.
    """
    held = values.copy()
    for row, seen in enumerate(observed):
        readings = values[row, seen]
        cut = min(FEW + len(readings) // 1000, (len(readings) - 1) // 2)
        if cut > 0:
            ordered = np.partition(readings, (cut, len(readings) - 1 - cut))
            low, high = ordered[cut], ordered[-1 - cut]
            held[row] = np.clip(values[row], low, high) if low < high else values[row]
    return mean_and_scale(held, observed)


def plausible_limits(
    values: np.ndarray, observed: np.ndarray, ranges: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Between which readings of a variable [variable, time] count as they are, [variable, 1] each.

    They lie so many times the range of the middle four fifths beyond it, and at least 5 times as
    many times the median deviation of what is not the median itself: of rare events, which are all
    that some variables say. With 2 ranges they are 8 standard deviations of a normal variable.
    """
    limits = np.tile([-np.inf, np.inf], (len(values), 1))
    for row, seen in enumerate(observed):
        readings = values[row, seen]
        if len(readings) < 2:
            continue
        low, middle, high = np.quantile(readings, (0.1, 0.5, 0.9), method="nearest")
        deviations = np.abs(readings - middle)
        moved = deviations[deviations > 0]
        typical = np.median(moved) if len(moved) else 0.0
        margin = ranges * max(high - low, 5 * typical)
        limits[row] = low - margin, high + margin
    return limits[:, :1], limits[:, 1:]


def baseline_scales(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The scale of each variable [variable, time] without a hundredth of readings at either end.

    A single -9999 among thousands makes the standard deviation many times what it is as a rule.
    """
    middle = observed.copy()
    for row, seen in enumerate(observed):
        readings = values[row, seen]
        cut = len(readings) // EXTREME_SHARE
        if cut:
            readings = np.partition(readings, (cut, len(readings) - 1 - cut))
            low, high = readings[cut], readings[-1 - cut]
            middle[row] &= (values[row] >= low) & (values[row] <= high)
    return mean_and_scale(values, middle)[1][:, 0]


def learn_baselines(panel: Panel, ends: Sequence[int]) -> dict[str, float]:
    """Of every variable that changes in the first `ends` time steps, in the calmest system.

    Systems of one name may differ in size: the scale of the largest would drown the smallest.
    """
    least: dict[str, float] = {}
    for system, end in zip(panel.systems, ends, strict=True):
        scales = baseline_scales(system.values[:, :end], system.observed[:, :end]).tolist()
        for name, scale in zip(system.variables, scales, strict=True):
            if scale > 0:
                least[name] = min(scale, least.get(name, scale))
    return dict(sorted(least.items()))


def learn_scales(
    panel: Panel,
    ends: Sequence[int],
    *,
    across: bool = False,
    measure: Measure = robust_mean_and_scale,
) -> dict[str, tuple[float, float]]:
    """Mean and scale of every variable over the first `ends` time steps of each system, robust.

    The scale is that within a system: independent systems may live on different levels. If
    `across`, it is that from system to system where a variable is constant in each of them.
    """
    sums: dict[str, tuple[float, float, float, float]] = {}
    for system, end in zip(panel.systems, ends, strict=True):
        values, observed = system.values[:, :end], system.observed[:, :end]
        means, deviations = measure(values, observed)
        counts = observed.sum(-1)
        for row, name in enumerate(system.variables):
            count = float(counts[row])
            mean, deviation = float(means[row, 0]), float(deviations[row, 0])
            if count:
                before, center, within, between = sums.get(name, (0.0, mean, 0.0, 0.0))
                # Running weighted means: neither the values nor their squares can overflow.
                share = count / (before + count)
                old, new = np.sqrt(1 - share), np.sqrt(share)
                sums[name] = (
                    before + count,
                    center + share * (mean - center),
                    float(np.hypot(old * within, new * deviation)),
                    float(np.hypot(old * between, old * new * (mean - center))),
                )
    scales = {}
    for name, (_, mean, within, between) in sorted(sums.items()):
        apart = between if across and between > ROUNDING * abs(mean) else 0.0
        scales[name] = (mean, within or apart)
    return scales


def scales_of_training(
    panel: Panel, ends: Sequence[int], *, measure: Measure = robust_mean_and_scale
) -> dict[str, tuple[float, float]]:
    """Of the training part, and of all there is for what is constant until that ends."""
    lengths = [len(system.times) for system in panel.systems]
    everything = learn_scales(panel, lengths, measure=measure)
    scales = learn_scales(panel, ends, measure=measure)
    return {name: pair if pair[1] > 0 else everything[name] for name, pair in scales.items()}


def learn_centers(
    panel: Panel, ends: Sequence[int], *, measure: Measure = robust_mean_and_scale
) -> dict[str, dict[str, float]]:
    """The mean of every variable over the first `ends` time steps, for each system by its name.

    Of what begins later, the mean of all there is.
    """
    return {
        key_of(system): _means(system, len(system.times), measure) | _means(system, end, measure)
        for system, end in zip(panel.systems, ends, strict=True)
    }


def share_scale(scales: Scales) -> dict[str, tuple[float, float]]:
    """One mean and one scale for every variable, known or not: the entry of the empty name.

    For exchangeable variables: a scale of its own would set a variable apart from the others. One
    variable far from all others moves them by a small factor.
    """
    pairs = np.array(list(scales.values())) if scales else np.array([[0.0, 1.0]])
    centers, own = pairs.T
    middle, size = np.median(pairs, axis=0)
    limit = FARTHEST_SHARED * (size + np.median(np.abs(centers - middle)))
    if limit > 0:
        centers, own = np.clip(centers, middle - limit, middle + limit), np.minimum(own, limit)
    mean = float(centers.mean())
    each = np.hypot(own, centers - mean)
    # By the largest, so that no square overflows.
    largest = float(each.max())
    common = largest * float(np.sqrt(((each / largest) ** 2).mean())) if largest else 1.0
    return {"": (mean, common)}


def _means(system: System, end: int, measure: Measure) -> dict[str, float]:
    """Of the variables that were observed in the first `end` time steps."""
    observed = system.observed[:, :end]
    means, _ = measure(system.values[:, :end], observed)
    rows = np.flatnonzero(observed.any(-1)).tolist()
    return {system.variables[row]: float(means[row, 0]) for row in rows}
