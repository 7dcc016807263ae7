"""Windows gathered by index from data that lives on the device: no per-sample Python.

`Series` holds every system in one flat buffer. A batch is an index (system, start) [window, 2];
gathering it is one advanced index. Positions before the first or after the last time stamp of a
system are unobserved, so a short system needs no padding of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from orderless.errors import DataError
from orderless.ops.factors import Loadings

MOST_VARIABLES = 256
"""Of a window, in a step of training: the mean of so many is hardly another than that of all, and
windows of other times teach more than further variables of the same."""


@dataclass(frozen=True)
class Batch:
    """Windows ready for a model. Entries that were not observed hold 0.

    values, observed            [window, variable, context]
    members                     [window, variable] bool: False where a row is padding
    targets, target_observed    [window, variable, horizon]; empty where the future is asked for
    variables                   [window, variable] which of their system they are; None for all
    complete                    True where every entry is known to be observed
    baseline                    [window, variable] baseline scales, for intervals; None without any
    loadings                    how variables answer to factors; None where nobody asks
    past, future, static        covariates known until now, known ahead, and fixed; None without any
    """

    values: Tensor
    observed: Tensor
    members: Tensor
    targets: Tensor = field(default_factory=lambda: torch.empty(0))
    target_observed: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.bool))
    variables: Tensor | None = None
    complete: bool = False
    baseline: Tensor | None = None
    loadings: Loadings | None = None
    past: Tensor | None = None
    future: Tensor | None = None
    static: Tensor | None = None

    def last(self, context: int) -> "Batch":
        """The same windows with the last `context` time steps of their context."""
        if context == self.values.shape[-1]:
            return self
        values, observed = self.values[..., -context:], self.observed[..., -context:]
        complete = self.complete or bool(observed.all())
        return replace(self, values=values, observed=observed, complete=complete)

    @property
    def masks(self) -> tuple[Tensor | None, Tensor | None]:
        """`observed` and `members` as a network takes them: none where nothing is missing."""
        if self.complete:
            return None, None
        return self.observed, self.members & self.observed.any(-1)


@dataclass(frozen=True)
class Series:
    """All systems on one device.

    flat, flat_observed     [entries] values and mask of every variable of every system in turn
    first       [system, variable] where each variable begins in `flat`; 0 where there is none
    members     [system, variable] bool: which of them exist
    lengths     [system] number of time stamps
    """

    flat: Tensor
    flat_observed: Tensor
    first: Tensor
    members: Tensor
    lengths: Tensor

    @classmethod
    def from_arrays(
        cls,
        values: Sequence[np.ndarray],
        observed: Sequence[np.ndarray],
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "Series":
        """Systems [variable, time] of any sizes. A variable never observed is not a member."""
        if not values:
            raise DataError("There is no system to take windows from; give at least one.")
        widest = max(len(one) for one in values)
        first = np.zeros((len(values), widest), np.int64)
        members = np.zeros((len(values), widest), bool)
        begin = 0
        for system, (one, seen) in enumerate(zip(values, observed, strict=True)):
            variables, steps = one.shape
            first[system, :variables] = begin + np.arange(variables) * steps
            members[system, :variables] = seen.any(-1)
            begin += one.size
        flat = np.concatenate(
            [np.where(seen, one, 0.0).ravel() for one, seen in zip(values, observed, strict=True)]
        )
        flat_observed = np.concatenate([seen.ravel() for seen in observed])
        return cls(
            torch.as_tensor(flat, dtype=dtype).to(device),
            torch.as_tensor(flat_observed).to(device),
            torch.as_tensor(first).to(device),
            torch.as_tensor(members).to(device),
            torch.as_tensor([one.shape[1] for one in values], dtype=torch.int64).to(device),
        )

    def to(self, device: str | torch.device) -> "Series":
        """The same systems on another device."""
        return Series(
            self.flat.to(device),
            self.flat_observed.to(device),
            self.first.to(device),
            self.members.to(device),
            self.lengths.to(device),
        )

    def gather(
        self, index: Tensor, length: int, variables: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values and observed [window, variable, length], and members [window, variable].

        index       [window, 2] (system, start); a start may be negative or run past the end
        variables   [window, chosen] which variables of each window's system to take; all if None
        """
        index = index.to(self.flat.device)
        system, start = index[:, 0], index[:, 1]
        first, members = self.first[system], self.members[system]
        if variables is not None:
            variables = variables.to(self.flat.device)
            first, members = first.gather(1, variables), members.gather(1, variables)
        steps = start[:, None] + torch.arange(length, device=self.flat.device)
        within = (steps >= 0) & (steps < self.lengths[system, None])
        exists = members[:, :, None] & within[:, None]
        # Outside of a system the position is wrong, and what lies there is masked.
        position = first[:, :, None] + steps[:, None]
        position = position.clamp_(0, len(self.flat) - 1).view(-1)
        observed = self.flat_observed.index_select(0, position).view_as(exists) & exists
        values = self.flat.index_select(0, position).view_as(exists).masked_fill_(~observed, 0.0)
        return values, observed, members

    def batch(
        self, index: Tensor, context: int, horizon: int, variables: Tensor | None = None
    ) -> Batch:
        """`context` steps from each start, and the `horizon` steps that follow, as one gather."""
        values, observed, members = self.gather(index, context + horizon, variables)
        return Batch(
            values[..., :context],
            observed[..., :context],
            members,
            values[..., context:],
            observed[..., context:],
            variables,
        )


def window_starts(
    lengths: Sequence[int],
    context: int,
    horizon: int,
    *,
    stride: int = 1,
    shortest_context: int | None = None,
    targets: Sequence[tuple[int, int]] | None = None,
) -> Tensor:
    """The index [window, 2] of all windows whose targets lie within a system.

    shortest_context    how much of the context must exist (all of it by default); the rest lies
                        before the first time stamp and is unobserved
    targets             for each system the half-open span [from, to) in which targets must lie

    The last window of a span is always there; others follow every `stride` steps before it.
    """
    shortest = context if shortest_context is None else shortest_context
    spans = [(0, int(length)) for length in lengths] if targets is None else targets
    begin, end = np.array(spans, np.int64).reshape(-1, 2).T
    first = np.maximum(begin, shortest)
    last = np.minimum(end, np.asarray(lengths, np.int64)) - horizon
    counts = np.maximum((last - first) // stride + 1, 0)
    system = np.repeat(np.arange(len(counts)), counts)
    # How many windows follow in the same system: the last one has none.
    following = np.cumsum(counts)[system] - np.arange(len(system)) - 1
    starts = last[system] - following * stride - context
    return torch.as_tensor(np.stack([system, starts], 1))


def split_in_time(
    lengths: Sequence[int], horizon: int, share: float = 0.2, *, shortest_context: int = 1
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Spans of targets for training and for validation, for each system.

    Validation takes the last `share` of each system, at least `horizon` steps, so that no target
    of one is a target of the other and none of training lies after one of validation. A system
    too short for a window in each keeps all of its targets for training, and its span for
    validation is empty.
    """
    training, validation = [], []
    for length in map(int, lengths):
        cut = length - max(horizon, round(share * length))
        if cut < shortest_context + horizon:
            cut = length
        training.append((0, cut))
        validation.append((cut, length))
    return training, validation


def draw_variables(
    members: Tensor,
    generator: torch.Generator,
    *,
    most: int | None = None,
    keep_all: float = 0.5,
) -> Tensor | None:
    """A random subset of variables for each window of a batch, [window, chosen], or None for all.

    With probability `keep_all` nothing is dropped, or no more than what exceeds `most`.
    Otherwise one number of variables holds for the batch, a half of that, a quarter and so on down
    to one, each as likely, and each window draws its own members. So few numbers that a GPU can
    keep a recording of a step for each. `members` is [window, variable]; the generator is a CPU
    one, so that the draw is the same on every device.
    """
    most = min(members.shape[1], most or members.shape[1])
    keep, size = torch.rand(2, generator=generator).tolist()
    if most > 1 and keep >= keep_all:
        halvings = 1 + int(size * math.ceil(math.log2(most)))
        most = math.ceil(most / 2**halvings)
    return choose_variables(members, most, generator)


def choose_variables(members: Tensor, most: int, generator: torch.Generator) -> Tensor | None:
    """So many of each window at random, in their order, members first; None where all are few."""
    if members.shape[1] <= most:
        return None
    # Luck travels to the members, never the reverse: reading from a GPU would make it wait.
    luck = torch.rand(members.shape, generator=generator).to(members.device)
    luck = torch.where(members, luck, -1.0)
    return luck.topk(most, 1).indices.sort(1).values


def covering_starts(lengths: Sequence[int], context: int, *, stride: int = 1) -> Tensor:
    """The index [window, 2] of windows that together cover every time stamp of every system.

    They are counted from the front, and one more ends with the system: rows that are added move no
    window but that one. A system shorter than the context has one, whose start is negative.
    """
    if stride > context:
        raise DataError(
            f"A stride of {stride} steps between windows of {context} leaves time stamps without a "
            "score; use a stride of at most the window."
        )
    blocks = []
    for system, length in enumerate(map(int, lengths)):
        last = length - context
        starts = np.arange(0, last + 1, stride) if last >= 0 else np.array([last])
        if starts[-1] < last:
            starts = np.append(starts, last)
        blocks.append(np.stack([np.full_like(starts, system), starts], 1))
    return torch.as_tensor(np.concatenate(blocks))


def scores_over_time(
    scores: np.ndarray, index: np.ndarray, lengths: Sequence[int]
) -> list[np.ndarray]:
    """The mean over all windows that cover a time stamp, for each system.

    scores      [window, context] or [window, variable, context], NaN where there is no score
    index       [window, 2] (system, start)
    Returns [time] or [variable, time] for each system; NaN where no window has a score.
    """
    scores, index = np.asarray(scores, np.float64), np.asarray(index)
    context = scores.shape[-1]
    results = []
    for system, length in enumerate(map(int, lengths)):
        mine = index[:, 0] == system
        steps = index[mine, 1, None] + np.arange(context)
        rows = scores[mine].reshape(len(steps), math.prod(scores.shape[1:-1]), context)
        within = (steps >= 0) & (steps < length)
        means = np.full((rows.shape[1], length), np.nan)
        for variable in range(rows.shape[1]):
            counts = within & ~np.isnan(rows[:, variable])
            at = steps[counts]
            number = np.bincount(at, minlength=length)
            total = np.bincount(at, rows[:, variable][counts], minlength=length)
            np.divide(total, number, out=means[variable], where=number > 0)
        results.append(means if scores.ndim == 3 else means[0])
    return results
