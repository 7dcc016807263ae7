"""Factor ridge: the own history, the mean of the others, and what they have in common otherwise."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.facts import STEPS, rebuild
from orderless.models.folds import Folds
from orderless.models.forecasting.ridge import CrossFitted, Ridge, collect
from orderless.models.forecasting.windows import WindowEvaluator
from orderless.models.member import State
from orderless.nn import FactorForecast, FactorStatistics, fit_factor_forecasts
from orderless.ops.factors import BLOCKS
from orderless.schema import record, text, whole


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
    blocks = sum(begin < evaluator.series.members.shape[1] for begin, _ in BLOCKS)
    linear = linears[0]
    widest = FactorForecast(linear.context, linear.horizon, blocks=blocks, center=linear.center)
    widest = widest.to(evaluator.series.flat.device).requires_grad_(False)

    def add(statistics: FactorStatistics, batch: Batch, counted: Tensor | None) -> None:
        assert batch.loadings is not None
        statistics.update(
            batch.values,
            batch.targets,
            batch.loadings,
            None if evaluator.complete and batch.observed.all() else batch.observed,
            batch.target_observed,
            batch.members,
            counted,
        )

    statistics = collect(
        evaluator, folds, linear.context, lambda: FactorStatistics(widest), add, refit
    )
    found = fit_factor_forecasts([one.own for one in linears], *statistics)
    if not found[0].company.any():
        return []
    each = [FactorRidge(one) for one in found]
    return [CrossFitted(each[0], each[1:])]
