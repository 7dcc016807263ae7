"""Measure the two promises of every layer: variables have no order, and time has one.

In:  a function of tensors [batch, variable, time, ...], returning such a tensor or a tuple that
     starts with one.
Out: a relative error by norm; 0 up to rounding when the promise holds.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from orderless.errors import ShapeError

Function = Callable[..., Tensor | tuple]


@torch.no_grad()
def equivariance_error(
    function: Function, *inputs: Tensor, permutations: int = 4, seed: int = 0
) -> float:
    """How much reordering the variables does more than reorder the output, at worst.

    max over permutations P of |function(P x) - P function(x)| / |function(x)|. Every input is
    reordered along its axis 1, so masks and states can be passed beside x. The first permutation
    turns the order around, the others are random.
    """
    n_variables = inputs[0].shape[1]
    expected = _first(function(*inputs))
    random = torch.Generator().manual_seed(seed)
    orders = [torch.arange(n_variables).flip(0)]
    orders += [torch.randperm(n_variables, generator=random) for _ in range(permutations - 1)]
    worst = 0.0
    for order in orders:
        moved = _first(function(*(value[:, order.to(value.device)] for value in inputs)))
        worst = max(worst, _relative(moved - expected[:, order.to(expected.device)], expected))
    return worst


@torch.no_grad()
def causality_error(function: Function, x: Tensor, *, cuts: int = 4, seed: int = 0) -> float:
    """How much the future of `x` changes the past of the output, at worst.

    max over times s of |what function(x) does before s when x changes from s on| / |function(x)|.
    The last time is always among the cuts, the others are random.
    """
    time = x.shape[2]
    if time < 2:
        raise ShapeError(f"`x` has {time} time step; causality needs a past and a future.")
    expected = _first(function(x))
    if expected.shape[2] != time:
        raise ShapeError(
            f"`function` returns {expected.shape[2]} time steps for {time}; "
            "entries of the output must belong to entries of the input."
        )
    random = torch.Generator().manual_seed(seed)
    times = [time - 1, *(torch.randint(1, time, (cuts - 1,), generator=random).tolist())]
    size = x.square().mean().sqrt().clamp(min=1.0)
    worst = 0.0
    for cut in times:
        other = torch.randn(x[:, :, cut:].shape, generator=random, dtype=x.dtype).to(x.device)
        changed = torch.cat((x[:, :, :cut], size * other), dim=2)
        difference = _first(function(changed))[:, :, :cut] - expected[:, :, :cut]
        worst = max(worst, _relative(difference, expected))
    return worst


def _first(result: Tensor | tuple) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def _relative(difference: Tensor, expected: Tensor) -> float:
    error, size = difference.double().norm().item(), expected.double().norm().item()
    # An answer that is not a number keeps no promise; and a maximum would pass over NaN.
    if not (math.isfinite(error) and math.isfinite(size)):
        return math.inf
    if error == 0.0:
        return 0.0
    return error / size if size > 0.0 else math.inf
