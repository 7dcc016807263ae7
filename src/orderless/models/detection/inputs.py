"""A system as the members see it: one window, in which every variable has a number."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch
from orderless.data.transform import Scaled

WITHIN = 5.0
"""Standard deviations from the center beyond which a reading is no evidence about others: it is
taken for missing, or for one at this limit. Its own error is that of the reading itself."""
FAR = 50.0
"""Standard deviations beyond which a reading has no say in training, units and threshold."""

LOOKS = 8
"""How often a level is looked at anew within the time that it is the median of."""


def to_batch(system: Scaled, numbers: Mapping[str, int]) -> Batch:
    """One window with the whole of a system.

    numbers: of the variables that `fit` saw moving. `static` holds the number of each variable, and
    beyond them one for each other variable in the order of names. Constants are no members: whether
    they are there makes no difference to others.
    """
    unknown = iter(range(len(numbers), len(numbers) + len(system.names)))
    static = [numbers[name] if name in numbers else next(unknown) for name in system.names]
    observed = torch.from_numpy(np.ascontiguousarray(system.observed))
    values = np.where(system.observed, system.values, 0.0).astype(np.float32)
    return Batch(
        torch.from_numpy(values)[None],
        observed[None],
        torch.from_numpy(find_members(system))[None],
        static=torch.tensor(static, dtype=torch.int64)[None],
    )


def find_members(system: Scaled) -> np.ndarray:
    """Which variables [variable] are observed and may change."""
    moving = ~system.constant & np.isnan(system.departures).all(-1)
    return moving & system.observed.any(-1)


def is_evidence(batch: Batch) -> Tensor:
    """Readings [window, variable, time] of members that are not too far off."""
    return batch.observed & batch.members.unsqueeze(-1) & (batch.values.abs() <= WITHIN)


def follow_level(system: Scaled, steps: int) -> Scaled:
    """The same around the median of the latest time steps of each variable, looked at now and then.

    Before the beginning every variable was at its center. A constant that has departed for most of
    that time is where it belongs.
    """
    values = np.where(system.observed, system.values, np.nan)
    return replace(
        system,
        values=values - _levels(values, steps),
        departures=system.departures - _levels(system.departures, steps),
    )


def level_at(values: np.ndarray, position: int, steps: int) -> np.ndarray:
    """The median of each row over the `steps` before a position, where 0 lay before the beginning.

    0 where nothing was observed.
    """
    before = values[:, max(0, position - steps) : position]
    latest = np.sort(np.pad(before, ((0, 0), (steps - before.shape[1], 0))), 1)  # NaN comes last
    count = (~np.isnan(latest)).sum(1)
    middle = np.take_along_axis(latest, (np.maximum(count, 1) - 1)[:, None] // 2, 1)[:, 0]
    return np.nan_to_num(middle)


def level_stride(steps: int) -> int:
    """Time steps for which a level holds."""
    return max(1, steps // LOOKS)


def _levels(values: np.ndarray, steps: int) -> np.ndarray:
    """The level of each row [variable, time]."""
    stride, length = level_stride(steps), values.shape[1]
    medians = [level_at(values, begin, steps) for begin in range(0, length, stride)]
    return np.repeat(np.stack(medians, 1), stride, 1)[:, :length]
