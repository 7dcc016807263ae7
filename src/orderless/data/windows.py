"""Windows gathered by index from data that lives on the device: no per-sample Python.

`Series` holds every system in one flat buffer. A batch is an index (system, start) [window, 2];
gathering it is one advanced index. Positions before the first or after the last time stamp of a
system are unobserved, so a short system needs no padding of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Windows ready for a network. Entries that were not observed hold 0.

    values, observed            [window, variable, context]
    targets, target_observed    [window, variable, horizon]
    members                     [window, variable] bool: False where a row is padding
    """

    values: Tensor
    observed: Tensor
    targets: Tensor
    target_observed: Tensor
    members: Tensor


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
        raise NotImplementedError

    def to(self, device: str | torch.device) -> "Series":
        """The same systems on another device."""
        raise NotImplementedError

    def gather(
        self, index: Tensor, length: int, variables: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values and observed [window, variable, length], and members [window, variable].

        index       [window, 2] (system, start); a start may be negative or run past the end
        variables   [window, chosen] which variables of each window's system to take; all if None
        """
        raise NotImplementedError

    def batch(
        self, index: Tensor, context: int, horizon: int, variables: Tensor | None = None
    ) -> Batch:
        """`context` steps from each start, and the `horizon` steps that follow, as one gather."""
        raise NotImplementedError


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
    raise NotImplementedError


def split_in_time(
    lengths: Sequence[int], horizon: int, share: float = 0.2, *, shortest_context: int = 1
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Spans of targets for training and for validation, for each system.

    Validation takes the last `share` of each system, at least `horizon` steps, so that no target
    of one is a target of the other and none of training lies after one of validation. A system
    too short for a window in each keeps all of its targets for training, and its span for
    validation is empty.
    """
    raise NotImplementedError


def draw_variables(
    members: Tensor, generator: torch.Generator, *, keep_all: float = 0.5
) -> Tensor | None:
    """A random subset of variables for each window of a batch, [window, chosen], or None for all.

    With probability `keep_all` nothing is dropped. Otherwise one number of variables, drawn evenly
    on a logarithmic scale from 1 to all but one, holds for the batch, and each window draws its
    own members. `members` is [window, variable]; the generator is a CPU one, so that the draw is
    the same on every device.
    """
    raise NotImplementedError


def covering_starts(lengths: Sequence[int], context: int, *, stride: int = 1) -> Tensor:
    """The index [window, 2] of windows that together cover every time stamp of every system.

    The last window ends with the system. A system shorter than the context has one window, whose
    start is negative.
    """
    raise NotImplementedError


def scores_over_time(
    scores: np.ndarray, index: np.ndarray, lengths: Sequence[int]
) -> list[np.ndarray]:
    """The mean over all windows that cover a time stamp, for each system.

    scores      [window, context] or [window, variable, context], NaN where there is no score
    index       [window, 2] (system, start)
    Returns [time] or [variable, time] for each system; NaN where no window has a score.
    """
    raise NotImplementedError
