"""How wide a forecast may be off: by the context, and by quantiles where a network has any."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from orderless.data import Batch
from orderless.data.transform import CALM
from orderless.models.forecasting.naive import naive
from orderless.models.forecasting.network import NetworkForecast
from orderless.models.forecasting.windows import DEFAULT_CONTEXT
from orderless.models.stack import Stack
from orderless.nn.normalization import movement, normalize

NARROWEST = 1e-6
"""Between the outer quantiles, in units of a variable's scale; errors are divided by it."""


def width_of(batch: Batch) -> Tensor:
    """The unit of errors after each context, [window, variable, 1].

    It is the standard deviation in the context and some of the baseline scale: rain that has not
    fallen for a day may fall. The variance of n independent readings is too small by an n-th, which
    is added too.
    """
    recent = batch.last(min(batch.values.shape[-1], DEFAULT_CONTEXT))
    values, observed = recent.values, None if recent.complete else recent.observed
    scale = movement(normalize(values, observed, scale=False).values, observed)
    count = values.shape[-1] if observed is None else observed.sum(-1, keepdim=True).clamp(min=1)
    assert batch.baseline is not None
    return (scale.square() + (CALM + 1 / count) * batch.baseline.unsqueeze(-1).square()).sqrt()


def hide_earlier(batch: Batch, history: int, *, known: bool) -> Batch:
    """The windows after their last `history` time steps, and the targets that these can forecast.

    known: whether `fit` saw the variables. Otherwise their baseline scale is that of these steps,
    and a constant has none.
    """
    earlier = torch.arange(batch.values.shape[-1], 0, -1) > history
    observed = batch.observed & ~earlier.to(batch.observed.device)
    values = batch.values.masked_fill(~observed, 0.0)
    counts, baseline = observed.any(-1), batch.baseline
    if not known:
        counts = (observed & (values != naive(values, observed, 1))).any(-1)
        scale = movement(normalize(values, observed, scale=False).values, observed).squeeze(-1)
        baseline = torch.where(counts, scale, 1.0)
    return replace(
        batch,
        values=values,
        observed=observed,
        target_observed=batch.target_observed & counts.unsqueeze(-1),
        baseline=baseline,
        complete=batch.complete and history >= batch.values.shape[-1],
    )


def quantile_table(errors: Tensor, steps: Tensor, horizon: int, levels: Sequence[float]) -> Tensor:
    """Quantiles [horizon, level] of errors [entry], by how many steps ahead [entry] each lies.

    A step without an error has the quantiles of all.
    """
    wanted = torch.tensor(levels, dtype=errors.dtype)
    everything = errors.quantile(wanted)
    rows = [errors[steps == step] for step in range(horizon)]
    return torch.stack([row.quantile(wanted) if len(row) else everything for row in rows])


def with_quantiles(closed: Stack, table: Tensor, batch: Batch) -> Tensor:
    """Quantiles [..., horizon, level] around the point forecast of closed forms."""
    point = closed(batch)
    return point.unsqueeze(-1) + width_of(batch).unsqueeze(-1) * table.to(point)


def point_and_width(stack: Stack, table: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
    """The forecast of a stack, and the unit of its errors.

    table: quantiles of the errors of the closed forms; then the unit is the distance between the
    outer quantiles, those of the networks among them. Without one, it follows from the context.
    """
    if table is None:
        return stack(batch), width_of(batch)
    point, range_, closed = torch.zeros(()), torch.zeros(()), 0.0
    for member, weight in zip(stack.members, stack.weights, strict=True):
        if isinstance(member, NetworkForecast):
            forecast = member.forecast(batch)
            assert forecast.quantiles is not None
            low, *_, high = forecast.quantiles.unbind(-1)
            point, range_ = point + weight * forecast.point, range_ + weight * (high - low)
        else:
            point = point + weight * member(batch)
            closed += weight
    outer = (table[:, -1] - table[:, 0]).to(batch.values)
    return point, (range_ + closed * width_of(batch) * outer).clamp(min=NARROWEST)
