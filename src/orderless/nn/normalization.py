"""Instance normalisation: every context of every variable by its own level and scale.

No weights, so it treats variables alike; missing values are ignored; a constant context becomes
zeros.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# In units of the data, which estimators scale to a standard deviation of about one. It keeps a
# constant context from being divided by zero.
VARIANCE_FLOOR = 1e-5


class Normalized(NamedTuple):
    """values * scale + center gives the data back; `values` is 0 where nothing is observed."""

    values: Tensor
    center: Tensor
    scale: Tensor


def normalize(
    x: Tensor, observed: Tensor | None = None, *, center: str = "mean", scale: bool = True
) -> Normalized:
    """Normalise x [batch, variable, time] over time; center and scale are [batch, variable, 1]."""
    if observed is not None:
        observed = observed.expand_as(x)
        x = torch.where(observed, x, 0.0)
    middle = _center(x, observed, center)
    values = x - middle
    if observed is not None:
        values = torch.where(observed, values, 0.0)
    if not scale:
        return Normalized(values, middle, torch.ones_like(middle))
    unit = (_variance(values, observed) + VARIANCE_FLOOR).sqrt()
    return Normalized(values / unit, middle, unit)


def movement(values: Tensor, observed: Tensor | None = None) -> Tensor:
    """The standard deviation of normalised values, [batch, variable, 1]: 1, or less by the floor.

    The scale times this is the standard deviation of the context itself. What other variables add
    is in units of that: a constant context is not moved by them.
    """
    if observed is not None:
        observed = observed.expand_as(values)
    # The least there is, for a gradient where the standard deviation is 0.
    return (_variance(values, observed) + torch.finfo(values.dtype).tiny).sqrt()


def _variance(values: Tensor, observed: Tensor | None) -> Tensor:
    """Over time, of values that are 0 where nothing is observed."""
    count = _count(values, observed)
    deviation = values - values.sum(-1, keepdim=True) / count
    if observed is not None:
        deviation = torch.where(observed, deviation, 0.0)
    return deviation.square().sum(-1, keepdim=True) / count


def _center(x: Tensor, observed: Tensor | None, center: str) -> Tensor:
    if center == "none":
        return torch.zeros_like(x[..., :1])
    if center == "mean":
        return x.sum(-1, keepdim=True) / _count(x, observed)
    if observed is None:
        return x[..., -1:]
    position = torch.arange(x.shape[-1], device=x.device)
    last = torch.where(observed, position, 0).amax(-1, keepdim=True)
    return x.gather(-1, last)


def _count(x: Tensor, observed: Tensor | None) -> Tensor | int:
    if observed is None:
        return x.shape[-1]
    return observed.sum(-1, keepdim=True).clamp(min=1)
