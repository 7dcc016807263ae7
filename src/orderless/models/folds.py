"""Purged blocks of time: what a closed form must not have seen when it answers for a block."""

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_BLOCKS = 5
FEWEST_SYSTEMS = 10
"""Of short systems so many take the place of blocks of time."""


@dataclass(frozen=True)
class Folds:
    """Training and selection windows in folds.

    windows     [window, 2]
    fold        [window] the number of the fold that the window belongs to
    before, after   [window] whether the window overlaps with targets of the fold before, or after:
                    a model that is to answer for that fold must not have seen it
    training    [window] whether it is a window of training; the others are of selection
    count       how many folds there are
    """

    windows: Tensor
    fold: Tensor
    before: Tensor
    after: Tensor
    training: Tensor
    count: int

    def excluded(self, fold: int) -> Tensor:
        """Which windows [window] a model that answers for this fold must not have seen."""
        return (
            (self.fold == fold)
            | ((self.fold == fold + 1) & self.before)
            | ((self.fold == fold - 1) & self.after)
        )

    @property
    def selection_apart(self) -> bool:
        """Whether the last fold is that of the selection windows, and of no others."""
        return not bool((self.training & (self.fold == self.count - 1)).any())

    def groups(self) -> Tensor:
        """A number [window] that is the same for windows that any fold excludes together."""
        return self.fold * 8 + self.before * 4 + self.after * 2 + self.training


def cut_folds(train: Tensor, selection: Tensor, horizon: int) -> Folds:
    """Blocks of time of the training windows, and the selection windows as the last one.

    Windows are [window, 2] (system, start), in order. Each block spans at least two horizons; data
    too short for two of them is cut by systems where there are many, and else not at all: then
    there is one fold, the selection windows.
    """
    windows = torch.cat((train, selection))
    training = torch.arange(len(windows)) < len(train)
    nothing = torch.zeros(len(windows), dtype=torch.bool)
    first, length = _spans(train)
    typical = int(length[length > 0].median()) if len(train) else 0
    blocks = min(MOST_BLOCKS - 1, typical // (2 * horizon))
    if blocks >= 2:
        system = train[:, 0]
        position = train[:, 1] - first[system]
        span = length[system].clamp(min=1)
        block = position * blocks // span
        begins = (block * span + blocks - 1) // blocks
        ends = ((block + 1) * span + blocks - 1) // blocks
        before, after = nothing.clone(), nothing.clone()
        before[: len(train)] = (position - begins < horizon) & (block > 0)
        after[: len(train)] = (ends - position <= horizon) & (block < blocks - 1)
        fold = torch.cat((block, torch.full((len(selection),), blocks)))
        return Folds(windows, fold, before, after, training, blocks + 1)
    systems = len(first)
    if systems >= FEWEST_SYSTEMS:
        return Folds(windows, windows[:, 0] % MOST_BLOCKS, nothing, nothing, training, MOST_BLOCKS)
    return one_fold(train, selection)


def one_fold(train: Tensor, selection: Tensor) -> Folds:
    """The selection windows are the only ones that are held out."""
    windows = torch.cat((train, selection))
    training = torch.arange(len(windows)) < len(train)
    nothing = torch.zeros_like(training)
    return Folds(windows, (~training).long() - 1, nothing, nothing, training, 1)


def _spans(train: Tensor) -> tuple[Tensor, Tensor]:
    """The first start of each system, and how many steps its starts span; [system] each."""
    systems = int(train[:, 0].max()) + 1 if len(train) else 0
    first = torch.full((systems,), torch.iinfo(torch.int64).max)
    last = torch.full((systems,), torch.iinfo(torch.int64).min)
    first = first.scatter_reduce(0, train[:, 0], train[:, 1], "amin")
    last = last.scatter_reduce(0, train[:, 0], train[:, 1], "amax")
    return first, torch.where(last >= first, last - first + 1, 0)
