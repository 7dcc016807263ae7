"""From the variables of a case to channels of a fixed meaning: by name, or order-free."""

import torch
from torch import Tensor

from orderless.models.classification.cases import CaseBatch

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SUMMARIES = len(QUANTILES) + 2


def by_name(batch: CaseBatch, values: Tensor, names: int) -> Tensor:
    """Values [case, variable, time] as [case, name, time]; 0 for a name that a case lacks."""
    assert batch.names is not None
    place = batch.names.unsqueeze(-1).expand(values.shape)
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
    deviation = (torch.where(there, ordered - mean, 0.0).square().sum(1, keepdim=True) / some).sqrt()
    place = values.new_tensor(QUANTILES)[:, None] * (some - 1)
    low = place.floor().long()
    high = torch.minimum(low + 1, some - 1)
    lower, upper = ordered.gather(1, low), ordered.gather(1, high)
    return torch.cat((mean, deviation, lower + (place - low) * (upper - lower)), 1)
