"""Any module that forecasts windows of complete data, as the training loop sees it."""

import hashlib

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from orderless.data import Batch, Series

ROWS_AT_ONCE = 16_384
"""Look-backs of one variable in a forward pass without gradients."""


class WindowTask:
    """Squared error on windows [window, 2] of a series; the same on validation windows chooses.

    The module maps look-backs [window, variable, context] to [window, variable, horizon].
    """

    slow_parameters = ()

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
        for part in self.validation.split(max(1, ROWS_AT_ONCE // self.series.members.shape[1])):
            batch = self._gather(part)
            total += len(part) * float(mse_loss(module(batch.values), batch.targets))
        return total / len(self.validation)

    def _gather(self, index: Tensor) -> Batch:
        return self.series.batch(index, self.context, self.horizon)
