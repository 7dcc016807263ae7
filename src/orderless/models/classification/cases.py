"""Cases as a model sees them: series in the units of the models, names as numbers, folds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Series, System
from orderless.data.transform import Transform

UNKNOWN = 0
"""The number of a name that `fit` did not see."""
ENTRIES_AT_ONCE = 2**20
"""Values in a batch without gradients."""


@dataclass(frozen=True)
class Cases:
    """Cases on one device.

    names   [case, variable] the number of each variable's name among those of `fit`, from 1; 0 for
            one that `fit` did not see. In a `Batch` they are `static`
    length  a shorter case is padded in front to so many steps, a longer one not at all: what is
            said of a case must not depend on the cases that it happens to be batched with
    """

    series: Series
    names: Tensor
    length: int

    @classmethod
    def gather(
        cls,
        systems: Sequence[System],
        transform: Transform,
        numbers: Mapping[str, int],
        length: int,
    ) -> "Cases":
        """Cases in the units of the models; `numbers` are those of the names that `fit` saw."""
        scaled = [transform.apply(system) for system in systems]
        series = Series.from_arrays(
            [one.values for one in scaled], [one.observed for one in scaled]
        )
        names = torch.full(series.members.shape, UNKNOWN, dtype=torch.int64)
        for row, one in enumerate(scaled):
            mine = [numbers.get(name, UNKNOWN) for name in one.names]
            names[row, : len(mine)] = torch.tensor(mine)
        return cls(series, names, length)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def complete(self) -> bool:
        """Whether every entry of every case is observed, and all are of one length."""
        series = self.series
        return bool(
            series.flat_observed.all()
            and series.members.all()
            and (series.lengths == self.length).all()
        )

    def to(self, device: torch.device | str) -> "Cases":
        """The same cases on another device."""
        return replace(self, series=self.series.to(device), names=self.names.to(device))

    def batch(
        self,
        cases: Tensor,
        variables: Tensor | None = None,
        *,
        length: int | None = None,
        complete: bool = False,
    ) -> Batch:
        """These cases, with all of their variables or those given, [case, chosen]."""
        length = self.length if length is None else length
        index = torch.stack((cases, self.series.lengths[cases] - length), 1)
        values, observed, members = self.series.gather(index, length, variables)
        names = self.names[cases]
        if variables is not None:
            names = names.gather(1, variables.to(names.device))
        return Batch(values, observed, members, complete=complete, static=names)

    def batches(self, cases: Tensor | None = None) -> Iterator[tuple[Tensor, Batch]]:
        """Batches of a bounded size, and which of the `cases` are in each."""
        device = self.series.flat.device
        chosen = torch.arange(len(self), device=device) if cases is None else cases.to(device)
        lengths = self.series.lengths[chosen].clamp(min=self.length)
        complete = self.complete
        for length in lengths.unique().tolist():
            places = (lengths == length).nonzero().squeeze(1)
            most = max(1, ENTRIES_AT_ONCE // (length * self.names.shape[1]))
            for part in places.split(most):
                yield part, self.batch(chosen[part], length=length, complete=complete)


@dataclass(frozen=True)
class Target:
    """What is to be learned of cases.

    codes       [case] the number of the class
    groups      [case] the number of the group, whose cases are held out together; None without
    """

    codes: Tensor
    classes: int
    groups: Tensor | None = None

    def folds(self, count: int, seed: int) -> Tensor:
        """The fold of each case, [case]."""
        groups = None if self.groups is None else self.groups.cpu().numpy()
        most = len(self.codes if groups is None else np.unique(groups))
        folds = fold_cases(self.codes.cpu().numpy(), min(count, most), seed, groups)
        return torch.as_tensor(folds, device=self.codes.device)


def answer(model: Any, cases: Cases, chosen: Tensor | None = None) -> Tensor:
    """What a member or a stack answers about cases, [case, ...], block by block."""
    parts = [(places, model(batch)) for places, batch in cases.batches(chosen)]
    count = len(cases) if chosen is None else len(chosen)
    results = parts[0][1].new_empty(count, *parts[0][1].shape[1:])
    for places, answers in parts:
        results[places] = answers
    return results


def fold_cases(
    codes: np.ndarray, folds: int, seed: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """The fold of each case, [case]: each class is spread evenly, and no group is cut.

    The cases of a class with fewer cases than folds lie in as many folds as it has cases.
    """
    random = np.random.default_rng(seed)
    if groups is not None:
        return _fold_groups(codes, folds, random, groups)
    fold = np.empty(len(codes), np.int64)
    first = 0
    for code in np.unique(codes):
        mine = random.permutation(np.flatnonzero(codes == code))
        fold[mine] = (first + np.arange(len(mine))) % folds
        first += len(mine)  # so that small classes do not all meet in the first fold
    return fold


def _fold_groups(
    codes: np.ndarray, folds: int, random: np.random.Generator, groups: np.ndarray
) -> np.ndarray:
    """Whole groups, the largest first, each where its classes are rarest so far."""
    names, member = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), codes.max() + 1))
    np.add.at(counts, (member, codes), 1)
    placed = np.zeros((folds, counts.shape[1]))
    fold = np.empty(len(names), np.int64)
    order = random.permutation(len(names))
    for group in order[np.argsort(-counts[order].sum(1), kind="stable")]:
        fold[group] = np.lexsort((placed.sum(1), placed @ counts[group]))[0]
        placed[fold[group]] += counts[group]
    return fold[member]


def numbers_of(names: Sequence[str]) -> dict[str, int]:
    """The number of each name, from 1, in alphabetical order."""
    return {name: number for number, name in enumerate(sorted(names), 1)}
