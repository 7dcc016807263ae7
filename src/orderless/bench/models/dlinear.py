"""DLinear (Zeng et al. 2023), small and our own: a linear map of the trend, one of the rest.

Weights are shared by the variables, as in its published setting.
"""

from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, pad

TREND = 25
"""Steps in the moving average."""


class DLinear(nn.Module):
    """Contexts [window, variable, context] to forecasts [window, variable, horizon]."""

    def __init__(self, context: int, horizon: int) -> None:
        super().__init__()
        self.context, self.horizon = context, horizon
        self.trend, self.rest = nn.Linear(context, horizon), nn.Linear(context, horizon)
        # Averaging the context is where the published code starts, too.
        for part in (self.trend, self.rest):
            nn.init.constant_(part.weight, 1 / context)

    def forward(self, x: Tensor) -> Tensor:
        """The forecast: the trend and what is left of it, each carried on linearly."""
        rows = x.flatten(0, 1)
        half = (TREND - 1) // 2
        trend = avg_pool1d(pad(rows.unsqueeze(1), (half, half), mode="replicate"), TREND, 1)
        trend = trend.squeeze(1)
        return (self.trend(trend) + self.rest(rows - trend)).unflatten(0, x.shape[:2])
