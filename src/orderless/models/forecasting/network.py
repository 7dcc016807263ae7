"""The network as a member: on the remainder of a ridge, or alone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import MOST_VARIABLES, Batch, choose_variables, draw_variables
from orderless.models.facts import NETWORK, STEPS, rebuild
from orderless.models.fingerprint import fingerprint
from orderless.models.forecasting.windows import WindowEvaluator, all_exist
from orderless.models.member import State
from orderless.nn import Forecast, ForecastingNetwork, NetworkConfig
from orderless.schema import listing, number, record
from orderless.training import LOSSES
from orderless.training.losses import pinball

QUANTILE_LOSS = "quantile"
"""The point by its absolute error, and quantiles around it by theirs."""
TRAINING = {"learning_rate": 3e-3, "patience": 3, "steps_per_epoch": 100}
ROWS_PER_STEP = 1024
"""Contexts of one variable in a training step; with more variables there are fewer windows."""
FEWEST_WINDOWS = 16
"""In a training step: many variables at few times teach less than some at more."""


@dataclass(frozen=True)
class NetworkForecast:
    """The members `network on ridge` (with `skip`) and `network`."""

    network: ForecastingNetwork
    kind: ClassVar[str] = "network"
    schema = staticmethod(
        record(
            {
                "config": NETWORK,
                "context": STEPS,
                "horizon": STEPS,
                "quantiles": listing(number(0, 1)),
            }
        )
    )

    @property
    def name(self) -> str:
        """A column of a table."""
        return name_of(self.network.config)

    def __call__(self, batch: Batch) -> Tensor:
        """The point forecast of every variable."""
        return self.forecast(batch).point

    def forecast(self, batch: Batch) -> Forecast:
        """Point and quantiles, if these were trained."""
        batch = batch.last(self.network.context)
        return self.network(batch.values, *batch.masks)

    def quantiles(self, batch: Batch) -> Tensor:
        """Those that were trained, [window, variable, horizon, quantile]."""
        quantiles = self.forecast(batch).quantiles
        assert quantiles is not None
        return quantiles

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.network.to(device)

    @property
    def module(self) -> nn.Module | None:
        """The network."""
        return self.network

    def state(self) -> State:
        """Sizes and weights."""
        network = self.network
        facts = {
            "config": asdict(network.config),
            "context": network.context,
            "horizon": network.horizon,
            "quantiles": list(network.quantiles),
        }
        return State(facts, network.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same network."""
        facts = dict(state.facts)
        config = NetworkConfig(**facts.pop("config"))
        return cls(
            rebuild(lambda: ForecastingNetwork(config, **facts), state.tensors, config.layers)
        )


def name_of(config: NetworkConfig) -> str:
    """What the member with a network of this kind is called."""
    return "network on ridge" if config.skip else "network"


def training_settings(variables: int) -> Mapping[str, Any]:
    """Of a network for systems of so many variables."""
    return TRAINING | {"batch_size": windows_per_step(variables)}


def windows_per_step(variables: int) -> int:
    """How many windows a training step sees."""
    return min(64, max(FEWEST_WINDOWS, ROWS_PER_STEP // variables))


class ForecastingTask:
    """Trains a `ForecastingNetwork` on random subsets of variables, from one up.

    The epoch is chosen by the trained loss on the selection windows.
    """

    def __init__(
        self,
        module: ForecastingNetwork,
        evaluator: WindowEvaluator,
        train: Tensor,
        selection: Tensor,
        loss: str,
    ) -> None:
        self.module, self.evaluator = module, evaluator
        # The context of the network may be shorter than that of the stack.
        late = train.new_tensor([0, evaluator.context - module.context])
        self.train, self.selection = train + late, selection
        self.train_size = len(train)
        self.loss_name = loss
        self._loss = LOSSES[loss] if loss != QUANTILE_LOSS else LOSSES["l1"]
        self._complete = evaluator.complete and all_exist(self.train)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the data, the windows and the settings."""
        series = self.evaluator.series
        data = (series.flat, series.flat_observed, series.first, self.train, self.selection)
        module = self.module
        settings = [asdict(module.config), self.loss_name, module.context, module.horizon]
        return fingerprint(settings, *data)

    def to(self, device: torch.device) -> None:
        """Move the series and the indices."""
        self.evaluator.to(device)
        self.train, self.selection = self.train.to(device), self.selection.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These windows, and a subset of their variables for this step."""
        windows = self.train[index]
        members = self.evaluator.series.members[windows[:, 0]]
        if self.module.config.coupled:
            return windows, draw_variables(members, torch.default_generator, most=MOST_VARIABLES)
        return windows, choose_variables(members, MOST_VARIABLES, torch.default_generator)

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """The loss of these windows, on all variables or those given."""
        context, horizon = self.module.context, self.module.horizon
        batch = self.evaluator.series.batch(samples, context, horizon, variables)
        masks = (None, None) if self._complete else batch.masks
        forecast = module(batch.values, *masks)
        loss = self._loss(forecast.point, batch.targets, batch.target_observed)
        return loss if forecast.quantiles is None else loss + self._pinball(forecast, batch)

    @torch.no_grad()
    def score(self, module: Any) -> float:
        """The trained loss on the selection windows."""
        total = count = 0.0
        for batch in self.evaluator.batches(self.selection):
            batch = batch.last(self.module.context)
            forecast = module(batch.values, *batch.masks)
            loss = self._loss(forecast.point, batch.targets, batch.target_observed)
            if forecast.quantiles is not None:
                loss = loss + self._pinball(forecast, batch)
            entries = int(batch.target_observed.sum())
            total, count = total + entries * float(loss), count + entries
        return total / max(count, 1)

    def _pinball(self, forecast: Forecast, batch: Batch) -> Tensor:
        assert forecast.quantiles is not None
        levels = self.module.levels
        return pinball(forecast.quantiles, batch.targets, batch.target_observed, levels=levels)
