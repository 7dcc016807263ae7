"""Any module that forecasts windows of complete data, trained by the loop that trains ours."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from orderless.data import Batch, Series
from orderless.training import Outcome, TrainingConfig, train

ROWS_PER_STEP = 2048
"""Contexts of one variable in a training step."""
PATIENCE = 10


class WindowTask:
    """Squared error on windows [window, 2] of a series; the same on validation windows chooses.

    The module maps contexts [window, variable, context] to [window, variable, horizon].
    """

    rows_at_once = 16_384
    """Contexts of one variable in a forward pass without gradients."""

    def __init__(
        self,
        module: nn.Module,
        series: Series,
        windows: Tensor,
        validation: Tensor,
        context: int,
        horizon: int,
    ) -> None:
        self.module, self.series = module, series
        self.context, self.horizon = context, horizon
        self.windows, self.validation = windows, validation
        self.train_size = len(windows)
        made_of = f"{type(module)} {self.context} {self.horizon} {len(windows)}".encode()
        data = series.flat.cpu().numpy().tobytes()
        self.fingerprint = hashlib.sha256(made_of + data).hexdigest()

    def to(self, device: torch.device) -> None:
        """Move the data."""
        self.series = self.series.to(device)
        self.windows, self.validation = self.windows.to(device), self.validation.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, None]:
        """These windows, with all of their variables."""
        return self.windows[index], None

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """The squared error of these windows."""
        batch = self._gather(samples)
        return mse_loss(module(batch.values), batch.targets)

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """The squared error of the validation windows."""
        total = 0.0
        for part in self.validation.split(
            max(1, self.rows_at_once // self.series.members.shape[1])
        ):
            batch = self._gather(part)
            total += len(part) * float(mse_loss(module(batch.values), batch.targets))
        return total / len(self.validation)

    def _gather(self, index: Tensor) -> Batch:
        return self.series.batch(index, self.context, self.horizon)


def fit_module(
    build: Callable[[], nn.Module],
    series: Series,
    windows: Tensor,
    validation: Tensor,
    context: int,
    horizon: int,
    *,
    seed: int,
    budget: Mapping[str, Any],
) -> tuple[nn.Module, Outcome]:
    """What `build` makes, trained on windows of complete data; the best epoch on validation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build()
    task = WindowTask(module, series, windows, validation, context, horizon)
    config = TrainingConfig(
        epochs=budget["epochs"],
        steps_per_epoch=budget["steps"],
        batch_size=max(4, ROWS_PER_STEP // series.members.shape[1]),
        learning_rate=1e-3,
        weight_decay=0.0,
        average=0.0,
        # They start from no forecast worth keeping, and may take a while to find one.
        patience=PATIENCE,
        seed=seed,
        device="cuda" if series.flat.is_cuda else "cpu",
    )
    outcome = train(task, config, show_progress=0)
    if outcome.interrupted:
        raise KeyboardInterrupt
    return module.eval().requires_grad_(False), outcome
