"""Factor ridge: the own history, the mean of the others, and what they have in common otherwise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.facts import STEPS, rebuild
from orderless.models.folds import Folds
from orderless.models.forecasting.ridge import CrossFitted, Ridge, Statistics, collect
from orderless.models.forecasting.windows import WindowEvaluator
from orderless.models.member import State
from orderless.nn import (
    FactorForecast,
    FactorStatistics,
    ScoreStatistics,
    fit_dynamics,
    fit_factor_forecasts,
)
from orderless.ops.factors import BLOCKS, Loadings
from orderless.schema import record, text, whole

MOST_ROWS, MANY_WINDOWS = 2**16, 2**14
"""As for a ridge, but times count for more: what is common is one series."""


@dataclass(frozen=True)
class FactorRidge:
    """The member `factor ridge`; it needs the loadings of a batch."""

    forecast: FactorForecast
    kind: ClassVar[str] = "factor ridge"
    schema = staticmethod(
        record(
            {
                "context": STEPS,
                "horizon": STEPS,
                "blocks": whole(0, len(BLOCKS)),
                "center": text("mean|last|none"),
            }
        )
    )

    @property
    def name(self) -> str:
        """A column of a table."""
        return f"factor ridge {self.forecast.context}"

    def __call__(self, batch: Batch) -> Tensor:
        """The forecast of every variable."""
        assert batch.loadings is not None
        batch = batch.last(self.forecast.context)
        return self.forecast(batch.values, batch.loadings, *batch.masks)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.forecast.to(device)

    @property
    def module(self) -> nn.Module | None:
        """The linear map."""
        return self.forecast

    def state(self) -> State:
        """Sizes and weights."""
        one = self.forecast
        facts = {"context": one.context, "horizon": one.horizon}
        return State(facts | {"blocks": one.blocks, "center": one.center}, one.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same map."""
        return cls(rebuild(lambda: FactorForecast(**state.facts), state.tensors, layers=1))


def fit_factor_ridge(
    evaluator: WindowEvaluator, folds: Folds, own: CrossFitted, *, refit: bool = False
) -> list[CrossFitted]:
    """`factor ridge` on what the ridge `own` leaves over; none where company adds nothing."""
    linears = [one.linear for one in (own.member, *own.of_fold) if isinstance(one, Ridge)]
    # With as many factors as variables nothing would be left that is not common.
    blocks = sum(2 * end <= evaluator.series.members.shape[1] for _, end in BLOCKS)
    linear = linears[0]
    widest = FactorForecast(linear.context, linear.horizon, blocks=blocks, center=linear.center)
    widest = widest.to(evaluator.series.flat.device).requires_grad_(False)

    def masks(batch: Batch) -> tuple[Loadings, Tensor | None]:
        assert batch.loadings is not None
        complete = evaluator.complete and bool(batch.observed.all())
        return batch.loadings, None if complete else batch.observed

    def add_scores(statistics: ScoreStatistics, batch: Batch, counted: Tensor | None) -> None:
        loadings, observed = masks(batch)
        statistics.update(batch.values, loadings, observed, batch.members)

    def add(statistics: FactorStatistics, batch: Batch, counted: Tensor | None) -> None:
        loadings, observed = masks(batch)
        future = batch.targets, batch.target_observed
        statistics.update(
            batch.values, future[0], loadings, observed, future[1], batch.members, counted
        )

    def gather(empty: Callable[[], Statistics], adding: Any) -> Any:
        return collect(
            evaluator,
            folds,
            linear.context,
            empty,
            adding,
            refit,
            most_rows=MOST_ROWS,
            many_windows=MANY_WINDOWS,
        )

    _, pairs = gather(lambda: ScoreStatistics(widest), add_scores)
    # The last fold is held out here, too.
    widest.dynamics.copy_(fit_dynamics(pairs[-1][0], pairs))
    widest.own.copy_(linear.own)
    found = fit_factor_forecasts(
        [one.own for one in linears], *gather(lambda: FactorStatistics(widest), add)
    )
    if not (found[0].company.any() or found[0].course.any()):
        return []
    each = [FactorRidge(one) for one in found]
    return [CrossFitted(each[0], each[1:])]
