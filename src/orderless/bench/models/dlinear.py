"""DLinear (Zeng et al. 2023), small and our own: a linear map of the trend, one of the rest.

Weights are shared by the variables, as in its published setting. Trained by the loop that trains
everything else here.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, pad

from orderless.bench.models.window_task import WindowTask
from orderless.data import Series
from orderless.training import Outcome, TrainingConfig, train

TREND = 25
"""Steps in the moving average."""
ROWS_PER_STEP = 2048


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
    task = WindowTask(module, series, windows, validation, context, horizon)
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
