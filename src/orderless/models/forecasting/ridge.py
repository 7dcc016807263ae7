"""Ridge on the own context, and on the own and the pooled one: closed forms, cross-fitted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from orderless.data import Batch, choose_variables
from orderless.models.facts import STEPS, rebuild
from orderless.models.folds import Folds
from orderless.models.forecasting.windows import POOLED, WindowEvaluator
from orderless.models.member import Member, State
from orderless.nn import FactorStatistics, LinearForecast, RidgeStatistics, ScoreStatistics
from orderless.schema import flag, record, text

MOST_ROWS = 200_000
"""Contexts of one variable that a ridge is fitted on at most; more do not change its weights."""
MANY_WINDOWS = 4096
"""Before windows are left out, variables are: those of one window have met the same weather."""
ENTRIES_AT_ONCE = 2**21
Statistics = TypeVar("Statistics", RidgeStatistics, FactorStatistics, ScoreStatistics)


class CrossFitted(NamedTuple):
    """A member, and how it answers for each fold, fitted without that fold."""

    member: Member
    of_fold: Sequence[Member]


@dataclass(frozen=True)
class Ridge:
    """The members `ridge` (own history) and `coupled ridge` (own and pooled history)."""

    linear: LinearForecast
    kind: ClassVar[str] = "ridge"
    schema = staticmethod(
        record(
            {"context": STEPS, "horizon": STEPS, "pooled": flag, "center": text(), "scale": flag}
        )
    )

    @property
    def name(self) -> str:
        """A column of a table."""
        coupled = "" if self.linear.pooled is None else "coupled "
        return f"{coupled}ridge {self.linear.context}"

    def __call__(self, batch: Batch) -> Tensor:
        """The forecast of every variable."""
        batch = batch.last(self.linear.context)
        return self.linear(batch.values, *batch.masks)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.linear.to(device)

    @property
    def module(self) -> nn.Module | None:
        """The linear map."""
        return self.linear

    def state(self) -> State:
        """Sizes and weights."""
        linear = self.linear
        facts = {
            "context": linear.context,
            "horizon": linear.horizon,
            "pooled": linear.pooled is not None,
            "center": linear.center,
            "scale": linear.scale,
        }
        return State(facts, linear.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same map."""
        return cls(rebuild(lambda: LinearForecast(**state.facts), state.tensors, layers=1))


def fit_ridges(
    evaluator: WindowEvaluator,
    folds: Folds,
    context: int,
    *,
    pooled: bool,
    center: str = "mean",
    scale: bool = True,
    refit: bool = False,
) -> list[CrossFitted]:
    """`ridge`, and if `pooled` also `coupled ridge`, from one pass over the windows.

    They are fitted on the windows of training and, if `refit`, of selection.
    Where company adds nothing, the coupled one would be the same, and is left out.
    """
    linear = LinearForecast(context, evaluator.horizon, pooled=pooled, center=center, scale=scale)
    linear = linear.to(evaluator.series.flat.device).requires_grad_(False)

    def add(statistics: RidgeStatistics, batch: Batch, counted: Tensor | None) -> None:
        statistics.update(
            batch.values,
            batch.targets,
            batch.observed,
            batch.target_observed,
            batch.members,
            counted,
        )

    final, pairs = collect(
        evaluator,
        folds,
        context,
        lambda: RidgeStatistics(linear),
        add,
        refit,
        most_rows=MOST_ROWS,
        many_windows=MANY_WINDOWS,
    )
    each = linear.fit(final, pairs)
    coupled = CrossFitted(Ridge(linear), [Ridge(one) for one in each])
    if not pooled:
        return [coupled]
    alone = [one.without_company() for one in (linear, *each)]
    own = CrossFitted(Ridge(alone[0]), [Ridge(one) for one in alone[1:]])
    assert linear.pooled is not None
    return [own, coupled] if linear.pooled.any() else [own]


def collect(
    evaluator: WindowEvaluator,
    folds: Folds,
    context: int,
    empty: Callable[[], Statistics],
    add: Callable[[Statistics, Batch, Tensor | None], None],
    refit: bool,
    *,
    most_rows: int,
    many_windows: int,
) -> tuple[Statistics, list[tuple[Statistics, Statistics]]]:
    """Statistics of all windows that are fitted on, and for each fold of training and held out.

    Windows are gone through once, in groups that folds exclude together. Of more than `most_rows`
    contexts each window counts some of its variables, at random; windows beyond `many_windows` are
    thinned out evenly.
    """
    series = evaluator.series
    variables = series.members.shape[1]
    most = max(most_rows // variables, many_windows)
    thinned = torch.zeros(len(folds.windows), dtype=torch.bool)
    for part in (folds.training, ~folds.training):
        places = part.nonzero().squeeze(1)
        thinned[places[:: max(1, -(-len(places) // most))]] = True
    rows = max(1, most_rows // max(1, int((thinned & folds.training).sum())))
    length = context + evaluator.horizon
    at_once = max(1, ENTRIES_AT_ONCE // (length * min(variables, POOLED)))
    generator = torch.Generator().manual_seed(0)
    numbers = folds.groups()
    groups: dict[int, Statistics] = {}
    for number in numbers.unique().tolist():
        groups[number] = empty()
        windows = folds.windows[thinned & (numbers == number)].to(series.flat.device)
        for part in windows.split(at_once):
            pool = choose_variables(series.members[part[:, 0]], POOLED, generator)
            batch = evaluator.gather(part, pool, context)
            add(groups[number], batch, choose_variables(batch.members, rows, generator))

    def total(chosen: Tensor) -> Statistics:
        """Of the groups of windows that lie in [window] entirely."""
        kept = set(numbers[chosen].tolist())
        return sum((one for number, one in groups.items() if number in kept), empty())

    pairs = [(total(~folds.excluded(k)), total(folds.fold == k)) for k in range(folds.count)]
    windows = torch.ones_like(folds.training) if refit else folds.training
    return total(windows), pairs
