"""One small forecaster around one layer, so that layers can be compared with all else equal."""

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from orderless.errors import SettingError
from orderless.nn import VI2DSSM
from orderless.nn.comparison import OrderedSSM2D, SelectiveSSM1D

OURS, ORDERED, ALONE = "VI 2D SSM", "ordered 2D SSM", "1D SSM"
LAYERS = (OURS, ORDERED, ALONE)


class LayerForecaster(nn.Module):
    """Contexts [window, variable, context] to forecasts [window, variable, horizon].

    Every step of the centred context is embedded, goes through the layer, and the features of
    the last step give the forecast. Only the layer lets variables meet.
    """

    def __init__(
        self, layer: str, context: int, horizon: int, *, channels: int = 16, states: int = 8
    ) -> None:
        super().__init__()
        self.context, self.horizon = context, horizon
        self.embed = nn.Linear(1, channels)
        self.layer = build_layer(layer, channels, states)
        self.head = nn.Linear(channels, horizon)

    def forward(self, x: Tensor) -> Tensor:
        """The forecast."""
        center = x.mean(-1, keepdim=True)
        features = silu(self.embed((x - center).unsqueeze(-1)))
        mixed, _ = self.layer(features)
        return center + self.head(silu(features + mixed)[:, :, -1])


def build_layer(name: str, channels: int, states: int, pool: str = "mean") -> nn.Module:
    """The layer of that name."""
    if name == OURS:
        return VI2DSSM(channels, states=states, pool=pool)
    if name == ORDERED:
        return OrderedSSM2D(channels, states=states)
    if name == ALONE:
        return SelectiveSSM1D(channels, states=states)
    raise SettingError(f"There is no layer {name!r}; choose one of {', '.join(LAYERS)}.")


def build_forecaster(layer: str, context: int, horizon: int, seed: int, **sizes: int) -> nn.Module:
    """A forecaster whose weights depend on the seed and on nothing else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LayerForecaster(layer, context, horizon, **sizes)
