"""From the variables of a case to channels of a fixed meaning: by name, or order-free."""

import torch
from torch import Tensor

from orderless.data import Batch
from orderless.schema import whole

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SUMMARIES = len(QUANTILES) + 2
COUNT = whole(0, 10**6)
"""Of names, in the facts of a saved model."""


def by_name(batch: Batch, values: Tensor, names: int) -> Tensor:
    """Values [case, variable, time] as [case, name, time]; 0 for a name that a case lacks."""
    assert batch.static is not None
    place = batch.static.unsqueeze(-1).expand(values.shape)
    channels = values.new_zeros(len(values), names + 1, values.shape[-1])
    return channels.scatter_(1, place, values)[:, 1:]


def over_variables(values: Tensor, mask: Tensor) -> Tensor:
    """Mean, standard deviation and quantiles over the variables at each time, [case, 7, time].

    The same to the bit in any order: values are sorted first. 0 where nothing is observed.
    """
    ordered = torch.where(mask, values, torch.inf).sort(1).values
    count = mask.sum(1, keepdim=True)
    there = torch.arange(values.shape[1], device=values.device)[:, None] < count
    ordered = torch.where(there, ordered, 0.0)
    some = count.clamp(min=1)
    mean = ordered.sum(1, keepdim=True) / some
    deviation = (
        torch.where(there, ordered - mean, 0.0).square().sum(1, keepdim=True) / some
    ).sqrt()
    place = values.new_tensor(QUANTILES)[:, None] * (some - 1)
    low = place.floor().long()
    high = torch.minimum(low + 1, some - 1)
    lower, upper = ordered.gather(1, low), ordered.gather(1, high)
    return torch.cat((mean, deviation, lower + (place - low) * (upper - lower)), 1)


def fill_gaps(values: Tensor, observed: Tensor) -> Tensor:
    """Values [..., time] with straight lines across gaps, and level before and after the readings.

    0 where nothing is observed at all.
    """
    if bool(observed.all()):
        return values
    steps = values.shape[-1]
    time = torch.arange(steps, device=values.device).expand(observed.shape)
    before = torch.where(observed, time, -1).cummax(-1).values
    after = torch.where(observed, time, steps).flip(-1).cummin(-1).values.flip(-1)
    nothing = before[..., -1:] < 0
    first = torch.where(before < 0, after, before).clamp(max=steps - 1)
    last = torch.where(after == steps, before, after).clamp(min=0)
    values = torch.where(observed, values, 0.0)
    low, high = values.gather(-1, first), values.gather(-1, last)
    share = (time - first) / (last - first).clamp(min=1)
    return torch.where(nothing, 0.0, low + share * (high - low))


def extent(batch: Batch) -> Tensor:
    """The time steps of each case, [case, time]: from its first reading to its last."""
    there = (batch.observed & batch.members[..., None]).any(1).long()
    return (there.cummax(-1).values * there.flip(-1).cummax(-1).values.flip(-1)).bool()
