"""Instance normalisation: every look-back of every variable by its own level and spread.

No weights, so it treats variables alike; missing values are ignored; a constant look-back becomes
zeros.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# In units of the data, which estimators scale to a standard deviation of about one. It keeps a
# constant look-back from being divided by zero.
VARIANCE_FLOOR = 1e-5


class Normalized(NamedTuple):
    """values * scale + center gives the data back; `values` is 0 where nothing is present."""

    values: Tensor
    center: Tensor
    scale: Tensor


def normalize(
    x: Tensor, present: Tensor | None = None, *, center: str = "mean", scale: bool = True
) -> Normalized:
    """Normalise x [batch, variable, time] over time; center and scale are [batch, variable, 1]."""
    if present is not None:
        present = present.expand_as(x)
        x = torch.where(present, x, 0.0)
    middle = _center(x, present, center)
    values = x - middle
    if present is not None:
        values = torch.where(present, values, 0.0)
    if not scale:
        return Normalized(values, middle, torch.ones_like(middle))
    spread = (_variance(values, present) + VARIANCE_FLOOR).sqrt()
    return Normalized(values / spread, middle, spread)


def movement(values: Tensor, present: Tensor | None = None) -> Tensor:
    """The spread of normalised values, [batch, variable, 1]: 1, or less where the floor was felt.

    The scale times this is the spread of the look-back itself. What is told from other variables
    is in units of that: a look-back that stands still is not moved by them.
    """
    if present is not None:
        present = present.expand_as(values)
    # The least there is, for a gradient where the spread is 0.
    return (_variance(values, present) + torch.finfo(values.dtype).tiny).sqrt()


def _variance(values: Tensor, present: Tensor | None) -> Tensor:
    """Over time, of values that are 0 where nothing is present."""
    count = _count(values, present)
    deviation = values - values.sum(-1, keepdim=True) / count
    if present is not None:
        deviation = torch.where(present, deviation, 0.0)
    return deviation.square().sum(-1, keepdim=True) / count


def _center(x: Tensor, present: Tensor | None, center: str) -> Tensor:
    if center == "none":
        return torch.zeros_like(x[..., :1])
    if center == "mean":
        return x.sum(-1, keepdim=True) / _count(x, present)
    if present is None:
        return x[..., -1:]
    position = torch.arange(x.shape[-1], device=x.device)
    last = torch.where(present, position, 0).amax(-1, keepdim=True)
    return x.gather(-1, last)


def _count(x: Tensor, present: Tensor | None) -> Tensor | int:
    if present is None:
        return x.shape[-1]
    return present.sum(-1, keepdim=True).clamp(min=1)
