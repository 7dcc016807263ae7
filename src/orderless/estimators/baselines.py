"""Forecasts that cost nothing, so that nobody is fooled: naive, seasonal naive, ridge.

Each takes look-backs [window, variable, context] and where they were observed, and gives
[window, variable, horizon]. A look-back without a single observed entry gives 0.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from orderless.data import Series, choose_variables
from orderless.nn import LinearForecast, RidgeStatistics

MOST_ROWS = 200_000
"""Look-backs that ridge is fitted on at most; more do not change 2 x context weights."""
MANY_WINDOWS = 4096
"""Before windows are left out, variables are: those of one window have met the same weather."""
POOLED = 1024
"""Variables of a window that are pooled where there are more: their mean is hardly another. In
training there are fewer still, `orderless.data.MOST_VARIABLES`; a forecast pools all."""

ENTRIES_AT_ONCE = 2**21


def naive(values: Tensor, observed: Tensor, horizon: int) -> Tensor:
    """The last observed value, repeated."""
    position = torch.arange(values.shape[-1], device=values.device)
    last = torch.where(observed, position, 0).amax(-1, keepdim=True)
    return values.gather(-1, last).expand(*values.shape[:-1], horizon)


def seasonal_naive(values: Tensor, observed: Tensor, horizon: int, season: int) -> Tensor:
    """The value of one season ago, or the last observed one of that phase; naive where none is.

    With a look-back shorter than the season this is the naive forecast.
    """
    plain = naive(values, observed, horizon)
    seasons = values.shape[-1] // season
    if season == 1 or seasons == 0:
        return plain
    folded = values[..., -seasons * season :].unflatten(-1, (seasons, season)).mT
    seen = observed[..., -seasons * season :].unflatten(-1, (seasons, season)).mT
    latest = naive(folded, seen, 1).squeeze(-1)
    phase = torch.arange(horizon, device=values.device) % season
    return torch.where(seen.any(-1)[..., phase], latest[..., phase], plain)


@dataclass(frozen=True)
class Ridges:
    """Ridge on the own look-back, and on the own and the pooled one, fitted in one pass."""

    own: LinearForecast
    coupled: LinearForecast


def fit_ridges(
    series: Series,
    train: Tensor,
    validation: Tensor,
    context: int,
    horizon: int,
    *,
    center: str = "mean",
    scale: bool = True,
) -> Ridges:
    """Both ridges in closed form; `train` and `validation` are window indices [window, 2]."""
    device = series.flat.device
    coupled = LinearForecast(context, horizon, center=center, scale=scale).to(device)
    fit_linear(coupled, series, train, validation)
    own = LinearForecast(context, horizon, pooled=False, center=center, scale=scale).to(device)
    own.load_state_dict({"own": coupled.own})
    return Ridges(own.requires_grad_(False), coupled)


def fit_linear(linear: LinearForecast, series: Series, train: Tensor, validation: Tensor) -> None:
    """Fit in closed form, with the penalty that does best on validation, and freeze.

    Of more than `MOST_ROWS` look-backs each window counts some of its variables, at random; windows
    beyond `MANY_WINDOWS` are thinned out evenly.
    """
    length = linear.context + linear.horizon

    def collect(index: Tensor) -> RidgeStatistics:
        statistics = RidgeStatistics(linear)
        generator = torch.Generator().manual_seed(0)
        variables = series.members.shape[1]
        index = thin(index, max(MOST_ROWS // variables, MANY_WINDOWS)).to(series.members.device)
        rows = max(1, MOST_ROWS // max(1, len(index)))
        for part in index.split(max(1, ENTRIES_AT_ONCE // (length * min(variables, POOLED)))):
            pooled = choose_variables(series.members[part[:, 0]], POOLED, generator)
            batch = series.batch(part, linear.context, linear.horizon, pooled)
            statistics.update(
                batch.values,
                batch.targets,
                batch.observed,
                batch.target_observed,
                batch.members,
                choose_variables(batch.members, rows, generator),
            )
        return statistics

    linear.fit(collect(train), collect(validation))
    linear.requires_grad_(False)


def thin(index: Tensor, most: int) -> Tensor:
    """Every k-th window, so that at most `most` (and at least one) are left."""
    return index[:: max(1, -(-len(index) // max(1, most)))]
