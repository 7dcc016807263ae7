"""Look-backs of a forecaster, and the usual spreads that its intervals need beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from orderless.data import Panel, System, canonical_order, mean_and_spread
from orderless.estimators.conformal import CALM
from orderless.estimators.preparation import Prepared, Scales, prepare, stack_facts, stood_still

Spreads = Mapping[str, float]
"""The usual spread of each variable that changed in `fit`."""
FARTHEST_SHARE = 100
"""One reading in so many, at either end, is left out of a usual spread."""


def look_back(
    system: System, scales: Scales, spreads: Spreads | None, *, last: int, end: int | None = None
) -> Prepared:
    """The `last` steps before `end`, ready for the network; with usual spreads where any are known.

    The unit is NaN where nothing tells one. So it is of a single reading of what `fit` did not see:
    1 would be another in metres than in miles.
    """
    past = prepare(system, scales, last=last, end=end)
    if spreads is not None:
        past = replace(past, usual=_usual(past, system, scales, spreads, end))
    order, _ = canonical_order(system.variables)
    unseen = np.array([name not in scales for name in past.names])
    lost = unseen & (system.observed[order, :end].sum(-1) == 1)
    if not lost.any():
        return past
    scale = np.where(lost[:, None], np.nan, past.scaler.scale)
    return replace(past, scaler=replace(past.scaler, scale=scale))


def usual_spreads(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The spread of each variable [variable, time] without a hundredth of readings at either end.

    A single -9999 among thousands makes the spread of all of them many times what it is as a rule.
    """
    middle = observed.copy()
    for row, seen in enumerate(observed):
        readings = values[row, seen]
        cut = len(readings) // FARTHEST_SHARE
        if cut:
            readings = np.partition(readings, (cut, len(readings) - 1 - cut))
            low, high = readings[cut], readings[-1 - cut]
            middle[row] &= (values[row] >= low) & (values[row] <= high)
    return mean_and_spread(values, middle)[1][:, 0]


def learn_usual_spreads(panel: Panel, ends: Sequence[int]) -> dict[str, float]:
    """Of every variable that changes in the first `ends` time steps, in the calmest system.

    Systems of one name may differ in size: what is usual for the largest drowns the smallest.
    """
    least: dict[str, float] = {}
    for system, end in zip(panel.systems, ends, strict=True):
        spreads = usual_spreads(system.values[:, :end], system.observed[:, :end]).tolist()
        for name, spread in zip(system.variables, spreads, strict=True):
            if spread > 0:
                least[name] = min(spread, least.get(name, spread))
    return dict(sorted(least.items()))


def stack_usual(systems: Sequence[Prepared], device: torch.device) -> Tensor | None:
    """Usual spreads [system, variable]; None in the first models, which know none."""
    known = [one.usual for one in systems if one.usual is not None]
    return stack_facts(known).float().to(device) if known else None


def _usual(
    past: Prepared, system: System, scales: Scales, spreads: Spreads, end: int | None
) -> np.ndarray:
    """`Prepared.usual`; what does not have the scale of `fit` tells it by the history at hand."""
    order, _ = canonical_order(system.variables)
    scale = past.scaler.scale[:, 0]
    usual = np.array([spreads.get(name, 0.0) for name in past.names])
    fresh = np.array([scales.get(name, (0.0, 0.0))[1] for name in past.names]) != scale
    rows = order[fresh]
    usual[fresh] = usual_spreads(system.values[rows, :end], system.observed[rows, :end])
    usual /= scale
    usual[usual == 0.0] = 1.0  # all changes lie at the ends
    # What moves for the first time has the spread since then as its unit. That of the look-back is
    # less where most of it stood still.
    usual[stood_still(past.names, scales)] = CALM**-0.5
    return usual
