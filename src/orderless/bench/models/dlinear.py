"""DLinear (Zeng et al. 2023), small and our own: a linear map of the trend, one of the rest.

Weights are shared by the variables, as in its published setting. Trained by the loop that trains
everything else here.
"""

import hashlib

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, mse_loss, pad

from orderless.data import Series
from orderless.training import Outcome, TrainingConfig, train

TREND = 25
"""Steps in the moving average."""
ROWS_PER_STEP = 2048
ROWS_AT_ONCE = 16_384


class DLinear(nn.Module):
    """Look-backs [window, variable, context] to forecasts [window, variable, horizon]."""

    def __init__(self, context: int, horizon: int) -> None:
        super().__init__()
        self.context, self.horizon = context, horizon
        self.trend, self.rest = nn.Linear(context, horizon), nn.Linear(context, horizon)
        # Averaging the look-back is where the published code starts, too.
        for part in (self.trend, self.rest):
            nn.init.constant_(part.weight, 1 / context)

    def forward(self, x: Tensor) -> Tensor:
        """The forecast: the trend and what is left of it, each carried on linearly."""
        rows = x.flatten(0, 1)
        half = (TREND - 1) // 2
        trend = avg_pool1d(pad(rows.unsqueeze(1), (half, half), mode="replicate"), TREND, 1)
        trend = trend.squeeze(1)
        return (self.trend(trend) + self.rest(rows - trend)).unflatten(0, x.shape[:2])


class DLinearTask:
    """DLinear as the training loop sees it."""

    slow_parameters = ()

    def __init__(
        self, module: DLinear, series: Series, windows: Tensor, validation: Tensor
    ) -> None:
        self.module, self.series = module, series
        self.windows, self.validation = windows, validation
        self.train_size = len(windows)
        made_of = f"{module.context} {module.horizon} {len(windows)}".encode()
        data = series.flat.cpu().numpy().tobytes()
        self.fingerprint = hashlib.sha256(made_of + data).hexdigest()

    def to(self, device: torch.device) -> None:
        """Move the data."""
        self.series = self.series.to(device)
        self.windows, self.validation = self.windows.to(device), self.validation.to(device)

    def loss(self, module: nn.Module, index: Tensor) -> Tensor:
        """The squared error of these windows."""
        batch = self._gather(self.windows[index])
        return mse_loss(module(batch.values), batch.targets)

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """The squared error of the validation windows."""
        total = 0.0
        for part in self.validation.split(max(1, ROWS_AT_ONCE // self.series.members.shape[1])):
            batch = self._gather(part)
            total += len(part) * float(mse_loss(module(batch.values), batch.targets))
        return total / len(self.validation)

    def _gather(self, index: Tensor):
        return self.series.batch(index, self.module.context, self.module.horizon)


def fit_dlinear(
    series: Series,
    windows: Tensor,
    validation: Tensor,
    context: int,
    horizon: int,
    *,
    seed: int,
    epochs: int,
) -> tuple[DLinear, Outcome]:
    """DLinear trained on windows of complete data; the best epoch on validation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = DLinear(context, horizon)
    task = DLinearTask(module, series, windows, validation)
    config = TrainingConfig(
        epochs=epochs,
        batch_size=max(4, ROWS_PER_STEP // series.members.shape[1]),
        learning_rate=1e-3,
        weight_decay=0.0,
        average=0.0,
        seed=seed,
        device="cuda" if series.flat.is_cuda else "cpu",
    )
    outcome = train(task, config, show_progress=False)
    return module.eval().requires_grad_(False), outcome
