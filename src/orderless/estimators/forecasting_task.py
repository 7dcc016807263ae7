"""Forecasting as the training loop sees it: windows by index, a loss, a validation score."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from orderless.data import MOST_VARIABLES, Batch, Series, choose_variables, draw_variables
from orderless.estimators.baselines import POOLED
from orderless.estimators.fingerprint import fingerprint
from orderless.nn import Forecast, ForecastingNetwork
from orderless.training import LOSSES
from orderless.training.losses import pinball

QUANTILE_LOSS = "quantile"
"""The point by its absolute error, and quantiles around it by theirs."""
ROWS_AT_ONCE = 4096
"""Look-backs of one variable in a forward pass without gradients."""


@dataclass(frozen=True)
class Errors:
    """Mean absolute and mean squared error, in units of each variable's spread."""

    mae: float
    mse: float

    def relative_to(self, reference: "Errors") -> float:
        """The mean of MAE and MSE, each in units of the reference, which may be 0.

        Neither alone: weights that win on one of them by losing on the other are not better.
        """
        mae, mse = max(reference.mae, 1e-9), max(reference.mse, 1e-9)
        return (self.mae / mae + self.mse / mse) / 2


class Judge:
    """Scores forecasts on windows by index, over every target that can tell how good they are.

    changes: [system, variable], False for variables that never change. To forecast them is no
    merit, and with their errors, which are 0, those of the others would seem small.
    """

    def __init__(self, series: Series, changes: Tensor, context: int, horizon: int) -> None:
        self.series, self.changes = series, changes
        self.context, self.horizon = context, horizon
        self.complete = bool(series.flat_observed.all() and series.members.all())

    def to(self, device: torch.device) -> None:
        """Move the series."""
        self.series, self.changes = self.series.to(device), self.changes.to(device)

    @torch.no_grad()
    def errors(
        self,
        windows: Tensor,
        forecast: Callable[[Batch, tuple[Tensor | None, ...]], Tensor],
        context: int | None = None,
    ) -> Errors:
        """Errors of any forecast on these windows.

        context: how many steps it is given of the past; if None those that the network is given.
        """
        absolute = squared = count = torch.zeros((), dtype=torch.float64)
        for batch, masks in self.batches(windows, context):
            error = torch.where(batch.target_observed, forecast(batch, masks) - batch.targets, 0.0)
            absolute = absolute + error.abs().sum().double().cpu()
            squared = squared + error.square().sum().double().cpu()
            count = count + batch.target_observed.sum().cpu()
        count = count.clamp(min=1)
        return Errors(float(absolute / count), float(squared / count))

    def batches(
        self, windows: Tensor, context: int | None = None
    ) -> Iterator[tuple[Batch, tuple[Tensor | None, ...]]]:
        """The windows in order, in blocks of a size that fits, with the masks a network needs.

        There are none where nothing is missing: the network is faster without them. Of very many
        variables each window has some, always the same. Targets that do not count, of what never
        changes or has an empty look-back, are not observed.
        """
        complete = self.complete and _all_exist(windows)
        generator = torch.Generator().manual_seed(0)
        width = min(self.series.members.shape[1], POOLED)
        for part in windows.split(max(1, ROWS_AT_ONCE // width)):
            some = choose_variables(self.series.members[part[:, 0]], POOLED, generator)
            batch = self.gather(part, some, context)
            counts = rows_of(self.changes, part, some)
            counts = counts & batch.observed[..., -self.context :].any(-1)
            batch = replace(batch, target_observed=batch.target_observed & counts.unsqueeze(-1))
            yield batch, (None, None) if complete else _masks(batch)

    def gather(
        self, windows: Tensor, variables: Tensor | None = None, context: int | None = None
    ) -> Batch:
        """These windows, on all variables or those given."""
        if context is None:
            return self.series.batch(windows, self.context, self.horizon, variables)
        windows = windows - windows.new_tensor([0, context - self.context])  # to end where they end
        return self.series.batch(windows, context, self.horizon, variables)


class ForecastingTask:
    """Trains a `ForecastingNetwork` on random subsets of variables, from one up.

    reference: errors on the selection windows that scores are relative to.
    """

    def __init__(
        self,
        module: ForecastingNetwork,
        judge: Judge,
        train: Tensor,
        selection: Tensor,
        loss: str,
        reference: Errors,
    ) -> None:
        self.module, self.judge, self.reference = module, judge, reference
        self.train, self.selection = train, selection
        self.train_size = len(train)
        self._loss = LOSSES[loss] if loss != QUANTILE_LOSS else LOSSES["l1"]
        self._complete_in_training = judge.complete and _all_exist(train)
        series = judge.series
        data = (series.flat, series.flat_observed, series.first, train, selection)
        settings = [asdict(module.config), loss, module.context, module.horizon]
        self.fingerprint = fingerprint(settings, *data)

    def to(self, device: torch.device) -> None:
        """Move the series and the indices."""
        self.judge.to(device)
        self.train, self.selection = self.train.to(device), self.selection.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These windows, and a subset of their variables for this step."""
        windows = self.train[index]
        members = self.judge.series.members[windows[:, 0]]
        if self.module.config.coupled:
            return windows, draw_variables(members, torch.default_generator, most=MOST_VARIABLES)
        return windows, choose_variables(members, MOST_VARIABLES, torch.default_generator)

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """The loss of these windows, on all variables or those given."""
        batch = self.judge.gather(samples, variables)
        masks = (None, None) if self._complete_in_training else _masks(batch)
        forecast = module(batch.values, *masks)
        loss = self._loss(forecast.point, batch.targets, batch.target_observed)
        return loss if forecast.quantiles is None else loss + self._pinball(forecast, batch)

    def score(self, module: Any) -> float:
        """How the forecast does on the selection windows; with quantiles, how these do."""
        if self.module.quantiles:
            losses = [
                len(batch.values) * self._pinball(module(batch.values, *masks), batch)
                for batch, masks in self.judge.batches(self.selection)
            ]
            return float(sum(losses) / len(self.selection))
        errors = self.judge.errors(
            self.selection, lambda batch, masks: module(batch.values, *masks).point
        )
        return errors.relative_to(self.reference)

    def _pinball(self, forecast: Forecast, batch: Batch) -> Tensor:
        assert forecast.quantiles is not None
        levels = self.module.levels
        return pinball(forecast.quantiles, batch.targets, batch.target_observed, levels=levels)


def rows_of(facts: Tensor, windows: Tensor, variables: Tensor | None) -> Tensor:
    """Facts [system, variable] of these windows [window, 2], of all variables or those given."""
    each = facts[windows[:, 0].to(facts.device)]
    return each if variables is None else each.gather(1, variables)


def _all_exist(windows: Tensor) -> bool:
    """Whether no look-back begins before its system does."""
    return bool((windows[:, 1] >= 0).all())


def _masks(batch: Batch) -> tuple[Tensor, Tensor]:
    return batch.observed, batch.members & batch.observed.any(-1)
