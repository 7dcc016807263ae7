"""Forecasting as the training loop sees it: windows by index, a loss, a validation score."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
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


class ForecastingTask:
    """Trains a `ForecastingNetwork` on random subsets of variables, from one up."""

    slow_parameters = ()

    def __init__(
        self,
        module: ForecastingNetwork,
        series: Series,
        train: Tensor,
        selection: Tensor,
        loss: str,
        reference: Errors,
    ) -> None:
        self.module, self.series, self.reference = module, series, reference
        self.train, self.selection = train, selection
        self.train_size = len(train)
        self._loss = LOSSES[loss] if loss != QUANTILE_LOSS else LOSSES["l1"]
        self._complete = bool(series.flat_observed.all() and series.members.all())
        self._complete_in_training = self._complete and _all_exist(train)
        data = (series.flat, series.flat_observed, series.first, train, selection)
        settings = [asdict(module.config), loss, module.context, module.horizon]
        self.fingerprint = fingerprint(settings, *data)

    def to(self, device: torch.device) -> None:
        """Move the series and the indices."""
        self.series = self.series.to(device)
        self.train, self.selection = self.train.to(device), self.selection.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These windows, and a subset of their variables for this step."""
        windows = self.train[index]
        members = self.series.members[windows[:, 0]]
        if self.module.config.coupled:
            return windows, draw_variables(members, torch.default_generator, most=MOST_VARIABLES)
        return windows, choose_variables(members, MOST_VARIABLES, torch.default_generator)

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """The loss of these windows, on all variables or those given."""
        batch = self._gather(samples, variables)
        masks = (None, None) if self._complete_in_training else _masks(batch)
        forecast = module(batch.values, *masks)
        loss = self._loss(forecast.point, batch.targets, batch.target_observed)
        return loss if forecast.quantiles is None else loss + self._pinball(forecast, batch)

    def score(self, module: Any) -> float:
        """How the forecast does on the selection windows; with quantiles, how these do."""
        if self.module.quantiles:
            losses = [
                len(batch.values) * self._pinball(module(batch.values, *masks), batch)
                for batch, masks in self.batches(self.selection)
            ]
            return float(sum(losses) / len(self.selection))
        errors = self.errors(
            self.selection, lambda batch, masks: module(batch.values, *masks).point
        )
        return self.compare(errors)

    def compare(self, errors: Errors) -> float:
        """The mean of MAE and MSE, each in units of the reference.

        Neither alone: weights that win on one of them by losing on the other are not better.
        """
        reference = self.reference
        return (errors.mae / reference.mae + errors.mse / reference.mse) / 2

    @torch.no_grad()
    def errors(
        self,
        windows: Tensor,
        forecast: Callable[[Batch, tuple[Tensor | None, ...]], Tensor],
        context: int | None = None,
    ) -> Errors:
        """Errors of any forecast on these windows, over every observed target.

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
        variables each window has some, always the same.
        """
        complete = self._complete and _all_exist(windows)
        generator = torch.Generator().manual_seed(0)
        width = min(self.series.members.shape[1], POOLED)
        for part in windows.split(max(1, ROWS_AT_ONCE // width)):
            some = choose_variables(self.series.members[part[:, 0]], POOLED, generator)
            batch = self._gather(part, some, context)
            yield batch, (None, None) if complete else _masks(batch)

    def _pinball(self, forecast: Forecast, batch: Batch) -> Tensor:
        assert forecast.quantiles is not None
        levels = self.module.levels
        return pinball(forecast.quantiles, batch.targets, batch.target_observed, levels=levels)

    def _gather(
        self, windows: Tensor, variables: Tensor | None = None, context: int | None = None
    ) -> Batch:
        own, horizon = self.module.context, self.module.horizon
        if context is not None:
            windows = windows - windows.new_tensor([0, context - own])  # to end where they end
        return self.series.batch(windows, own if context is None else context, horizon, variables)


def _all_exist(windows: Tensor) -> bool:
    """Whether no look-back begins before its system does."""
    return bool((windows[:, 1] >= 0).all())


def _masks(batch: Batch) -> tuple[Tensor, Tensor]:
    return batch.observed, batch.members & batch.observed.any(-1)
