"""A system as the members see it: one window, in which every variable has a number."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel
from orderless.data.scaling import (
    learn_centers,
    learn_scales,
    scales_of_training,
    winsorised_mean_and_scale,
)
from orderless.data.transform import Scaled, Transform
from orderless.errors import DataError

WITHIN = 5.0
"""Standard deviations from the center beyond which a reading is no evidence about others: it is
taken for missing, or for one at this limit. Its own error is that of the reading itself."""
FAR = 50.0
"""Standard deviations beyond which a reading has no say in training, units and threshold."""

LEAST_ADAPT, ADAPTS = 1000, 5
"""With adapt="auto", the level is that of a fifth of the time of `fit`, or more."""
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


def follow_level(system: Scaled, steps: int, ranges: Mapping[str, Sequence[float]]) -> Scaled:
    """The same around the median of the latest time steps, where that is not as in `fit`.

    ranges: in which the values of each variable lay in `fit`. A median within them is normal: it
    may go to and fro. A constant that has departed for most of that time is where it belongs.
    """
    values = np.where(system.observed, system.values, np.nan)
    return around_levels(system, _levels(values, steps), _levels(system.departures, steps), ranges)


def around_levels(
    system: Scaled,
    levels: np.ndarray,
    departures: np.ndarray,
    ranges: Mapping[str, Sequence[float]],
) -> Scaled:
    """A system around levels [variable, time] of its values, where these left their range."""
    everywhere = (-np.inf, np.inf)
    low, high = np.array([ranges.get(name, everywhere) for name in system.names]).T[:, :, None]
    return replace(
        system,
        values=system.values - np.where((levels < low) | (levels > high), levels, 0.0),
        departures=system.departures - departures,
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


def choose_adapt(adapt: int | str | None, lengths: Sequence[int]) -> int | None:
    """The time steps of which the level is the median, for what a user asked for."""
    return max(LEAST_ADAPT, max(lengths) // ADAPTS) if adapt == "auto" else adapt  # pyrefly: ignore


def learn_transform(panel: Panel, ends: Sequence[int]) -> Transform:
    """Units of every variable with two readings in a system or more, by its training part.

    Also of a sensor that begins in the held-out part. A single reading does not make a constant:
    it counts as new. Rare events are normal, so they keep their say.
    """
    measure = winsorised_mean_and_scale
    lengths = [len(system.times) for system in panel.systems]
    scales = learn_scales(panel, lengths, measure=measure)
    scales |= scales_of_training(panel, ends, measure=measure)
    again = {
        system.variables[row]
        for system in panel.systems
        for row in np.flatnonzero(system.observed.sum(-1) > 1).tolist()
    }
    scales = {name: pair for name, pair in scales.items() if name in again}
    if not scales:
        raise DataError(
            "No variable has two readings or more, so nothing shows what is normal. Give `fit` "
            "more rows."
        )
    several = panel.form.group is not None or len(panel.systems) > 1
    centers = learn_centers(panel, ends, measure=measure) if several else None
    return Transform(scales, centers=centers, watch_constants=True)
