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
    before, after   [window] the fold before, and the one after, in whose time the window has
                    targets: a model that is to answer for that fold must not have seen it; else -1
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
        return (self.fold == fold) | (self.before == fold) | (self.after == fold)

    @property
    def selection_apart(self) -> bool:
        """Whether the last fold is that of the selection windows, and of no others."""
        return not bool((self.training & (self.fold == self.count - 1)).any())

    def groups(self) -> Tensor:
        """A number [window] that is the same for windows that any fold excludes together."""
        facts = torch.stack((self.fold, self.before, self.after, self.training.long()), 1)
        return facts.unique(dim=0, return_inverse=True)[1]


def cut_folds(train: Tensor, selection: Tensor, horizon: int, *, held_out: bool = True) -> Folds:
    """Blocks of time of the training windows, and the selection windows as the last one.

    Windows are [window, 2] (system, start), in order. Each block spans at least two horizons, and a
    shorter system has fewer blocks. Data too short for two of them is cut by systems where there
    are many, and else not at all: then there is one fold, the selection windows.

    held_out: whether no training window shares a target with a selection window; if not, they are
    training windows themselves, and in the same blocks.
    """
    windows = torch.cat((train, selection))
    training = torch.arange(len(windows)) < len(train)
    nothing = torch.full((len(windows),), -1)
    systems, number = windows[:, 0].unique(return_inverse=True)
    first, length = _spans(train[:, 1], number[: len(train)], len(systems))
    typical = int(length[length > 0].median()) if len(train) else 0
    blocks = min(MOST_BLOCKS - 1, typical // (2 * horizon))
    if blocks >= 2:
        # Windows after those of training are beyond the last block; they get a fold of their own.
        position, span = windows[:, 1] - first[number], length[number].clamp(min=1)
        own = (span // (2 * horizon)).clamp(1, blocks)
        block = position * own // span
        begins = (block * span + own - 1) // own
        ends = ((block + 1) * span + own - 1) // own
        # Of systems with fewer blocks not all begin with the first fold.
        turn = torch.where(own < blocks, number, 0)
        overlaps_before = (position - begins < horizon) & (block > 0)
        overlaps_after = (ends - position <= horizon) & (block < own - 1)
        fold = (block + turn) % blocks
        before = torch.where(overlaps_before, (block - 1 + turn) % blocks, -1)
        after = torch.where(overlaps_after, (block + 1 + turn) % blocks, -1)
        if not held_out:
            return Folds(windows, fold, before, after, training, blocks)
        alone = torch.where(training, fold, blocks)
        before, after = (torch.where(training, one, -1) for one in (before, after))
        return Folds(windows, alone, before, after, training, blocks + 1)
    if len(systems) >= FEWEST_SYSTEMS:
        return Folds(windows, number % MOST_BLOCKS, nothing, nothing, training, MOST_BLOCKS)
    return one_fold(train, selection)


def one_fold(train: Tensor, selection: Tensor) -> Folds:
    """The selection windows are the only ones that are held out."""
    windows = torch.cat((train, selection))
    training = torch.arange(len(windows)) < len(train)
    nothing = torch.full((len(windows),), -1)
    return Folds(windows, (~training).long() - 1, nothing, nothing, training, 1)


def _spans(starts: Tensor, system: Tensor, systems: int) -> tuple[Tensor, Tensor]:
    """The first start of each system, and how many steps its starts span; [system] each.

    A system without any starts at 0 and spans nothing.
    """
    first = starts.new_zeros(systems).scatter_reduce(0, system, starts, "amin", include_self=False)
    last = first - 1
    last = last.scatter_reduce(0, system, starts, "amax", include_self=False)
    return first, last - first + 1
