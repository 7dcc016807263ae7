"""`ForecastingNetwork`: contexts in, forecasts out, for any set of variables."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orderless.errors import SettingError, ShapeError
from orderless.nn.config import NetworkConfig
from orderless.nn.network import VI2DMamba
from orderless.nn.normalization import movement, normalize
from orderless.nn.patches import count_patches
from orderless.nn.ridge import LinearForecast
from orderless.ops import presence


class Forecast(NamedTuple):
    """Forecasts in the units of the context; 0 for non-members.

    - point: [batch, variable, horizon];
    - quantiles: [batch, variable, horizon, quantile] in rising order; None when none are wanted.
    """

    point: Tensor
    quantiles: Tensor | None


class ForecastingNetwork(nn.Module):
    """The network alone, or on the remainder of a ridge.

        point = start(x) + scale * deep(features)

    with the standard deviation of the context as the scale (1 without `config.scale`), so that a
    constant context is forecast to stay.

    - the start is `linear` (a `LinearForecast`, set in closed form by `start_from` and frozen);
      without `config.skip`, the center of the context.
    - the deep part starts at exactly zero, so before training the forecast is the start.
    - quantiles lie around the point, by a head of their own; they never cross.

    **Call** `network(x, observed=None, members=None)`: x [batch, variable, context]; `observed`
    like x, False where a value is missing and may be anything; `members` [batch, variable], False
    for padding. Returns `Forecast`.
    """

    levels: Tensor

    def __init__(
        self,
        config: NetworkConfig,
        context: int,
        horizon: int,
        *,
        quantiles: Sequence[float] = (),
    ) -> None:
        super().__init__()
        if min(context, horizon) < 1:
            raise SettingError(f"context={context} and horizon={horizon} must be at least 1.")
        if any(not 0 < q < 1 for q in quantiles) or list(quantiles) != sorted(set(quantiles)):
            raise SettingError(f"quantiles={tuple(quantiles)} must rise, each between 0 and 1.")
        self.config, self.context, self.horizon = config, context, horizon
        self.quantiles = tuple(quantiles)
        self.linear = None
        if config.skip:
            self.linear = LinearForecast(
                context,
                horizon,
                pooled=config.coupled,
                center=config.center,
                scale=config.scale,
            ).requires_grad_(False)
        self.body = VI2DMamba(config)
        tokens = count_patches(context, config.patch, config.stride)
        self.compress = nn.Linear(tokens * config.channels, config.head_rank)
        self.dropout = nn.Dropout(config.dropout)
        self.deep = nn.Linear(config.head_rank, horizon)
        nn.init.zeros_(self.deep.weight)
        nn.init.zeros_(self.deep.bias)
        if self.quantiles:
            self.around = nn.Linear(config.head_rank, horizon * len(self.quantiles))
            nn.init.zeros_(self.around.weight)
            # A normal error of half the context's scale: ordered, and of the right size.
            normal = torch.tensor([0.5 * NormalDist().inv_cdf(q) for q in self.quantiles])
            # On a device of its own, for a network that is made without numbers to be filled later.
            levels = torch.tensor(self.quantiles, device="cpu")
            self.register_buffer("levels", levels, persistent=False)
            with torch.no_grad():
                self.around.bias.copy_(normal.repeat(horizon))

    def start_from(self, linear: LinearForecast) -> None:
        """Take over a fitted linear forecast: what it has of company, if this network has any."""
        if self.linear is None:
            raise SettingError("This network has no linear part; build it with skip=True.")
        given, own = linear.state_dict(), self.linear.state_dict()
        self.linear.load_state_dict({name: given.get(name, own[name]) for name in own})

    def forward(
        self, x: Tensor, observed: Tensor | None = None, members: Tensor | None = None
    ) -> Forecast:
        """Forecasts of every variable."""
        if x.shape[-1] != self.context:
            raise ShapeError(
                f"The context has {x.shape[-1]} time steps and the network was built for "
                f"{self.context}; pad a shorter one in front and mark the padding in `observed`."
            )
        config = self.config
        mask = presence(members, observed)
        values, center, scale = normalize(x, mask, center=config.center, scale=config.scale)
        tokens, _ = self.body(values, observed, members)
        compressed = self.dropout(self.compress(tokens.flatten(2)))
        start = center if self.linear is None else self.linear(x, observed, members)
        size = scale * movement(values, mask) if config.scale else scale
        point = start + size * self.deep(compressed)
        quantiles = None
        if self.quantiles:
            around = self.around(compressed).unflatten(-1, (self.horizon, -1)).sort(-1).values
            # Here with the floor: a constant context is no promise to stay so.
            quantiles = point.unsqueeze(-1) + scale.unsqueeze(-1) * around
        if members is not None:
            inside = members.unsqueeze(-1)
            point = torch.where(inside, point, 0.0)
            if quantiles is not None:
                quantiles = torch.where(inside.unsqueeze(-1), quantiles, 0.0)
        return Forecast(point, quantiles)
