"""The specification of `vi_scan`: a loop over time that reads like the equations.

    h[t] = exp(A step[t]) h[t-1]  +  (integral of exp(A s) over [0, step[t]]) u[t]
    u[t] = write[t] x[t]  +  field_write[t] field[t]
    y[t] = read[t] h[t]

for every variable, with h = (h_h, h_v). Under feedback the deviations from the mean over the
variables evolve so, and the mean evolves with the generator of the mean mode in place of A. That
one may be full, so that the mean of h_v drives h_h too: the paper's most general form, which this
loop alone computes.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import (
    Block,
    FullBlock,
    FullGenerator,
    Generator,
    full_transition_and_hold,
    hold,
    transition,
)


class _RepeatedBlock(NamedTuple):
    """[[h, 0], [vh, v]] plus a diagonal of zeros and ones.

    A tick that is the same at every time rounds in the same way at every time. So where a state
    hardly decays in it, exp(A step) - 1 is kept, which has more digits.
    """

    h: Tensor
    v: Tensor
    vh: Tensor
    plus_h: Tensor
    plus_v: Tensor


# exp(A step), and its integral
Coefficients = tuple[Block | FullBlock | _RepeatedBlock, Block | FullBlock]
Pair = tuple[Tensor, Tensor]  # (h_h, h_v), each [B,V,N,H,P] with D = H P


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    heads, time = r.step.shape[-1], r.x.shape[2]
    x = r.x.unflatten(-1, (heads, -1))
    own = _coefficients(r.generator, r.step)
    mean = None if r.mean is None else _coefficients(r.mean.generator, r.step)

    start_h, start_v = r.initial_state().unflatten(-1, (heads, -1)).unbind(2)
    h: Pair = (start_h, start_v)
    outputs = []
    for t in range(time):
        u = _times(_at(r.write, 2, t), x[:, :, t])
        if r.field is not None:
            signal = r.field.signal[:, None, t].unflatten(-1, (heads, -1))
            u = _add(u, _times(_at(r.field.write, 1, t).unsqueeze(1), signal))
        if r.mean is None or mean is None:
            h = _advance(_at_time(own, t), h, u)
        else:
            weight = r.mean.weight
            deviation = _advance(_at_time(own, t), _deviation(h, weight), _deviation(u, weight))
            h = _add(deviation, _advance(_at_time(mean, t), _mean(h, weight), _mean(u, weight)))
        outputs.append(_read(_at(r.read, 2, t), h))
    return torch.stack(outputs, dim=2).flatten(-2), torch.stack(h, dim=2).flatten(-2)


def _advance(coefficients: Coefficients, h: Pair, u: Pair) -> Pair:
    e, phi = coefficients
    first = e.h * h[0] + phi.h * u[0]
    if isinstance(e, FullBlock) and isinstance(phi, FullBlock):
        first = first + e.hv * h[1] + phi.hv * u[1]
    second = e.v * h[1] + e.vh * h[0] + phi.v * u[1] + phi.vh * u[0]
    if isinstance(e, _RepeatedBlock):
        first, second = e.plus_h * h[0] + first, e.plus_v * h[1] + second
    return first, second


def _coefficients(generator: Generator | FullGenerator, step: Tensor) -> Coefficients:
    """exp(A step) and its integral for every time, [B,T,1,N,H,1]."""
    if isinstance(generator, FullGenerator):
        blocks = full_transition_and_hold(generator, step)
    else:
        e, phi = transition(generator, step), hold(generator, step)
        blocks = (e if step.shape[1] > 1 else _repeated(generator, e, phi)), phi
    return _each(blocks, lambda part: part.transpose(-1, -2)[:, :, None, :, :, None])


def _repeated(generator: Generator, e: Block, phi: Block) -> _RepeatedBlock:
    stays_h, stays_v = e.h > 0.5, e.v > 0.5
    h = torch.where(stays_h, generator.h * phi.h, e.h)  # exp(a s) - 1 = a (integral of exp)
    v = torch.where(stays_v, generator.v * phi.v, e.v)
    return _RepeatedBlock(h, v, e.vh, stays_h.to(h), stays_v.to(v))


def _each(coefficients: Coefficients, change: Callable[[Tensor], Tensor]) -> Coefficients:
    e, phi = coefficients
    return type(e)(*map(change, e)), type(phi)(*map(change, phi))


def _at(value: Tensor, axis: int, t: int) -> Tensor:
    return value.select(axis, t if value.shape[axis] > 1 else 0)


def _at_time(coefficients: Coefficients, t: int) -> Coefficients:
    return _each(coefficients, lambda part: _at(part, 1, t))


def _times(weights: Tensor, signal: Tensor) -> Pair:
    """weights [B,V,2,N] and a signal [B,V,H,P]: the pair of inputs, each [B,V,N,H,P]."""
    h, v = weights[..., None, None].unbind(2)
    signal = signal.unsqueeze(2)
    return h * signal, v * signal


def _read(weights: Tensor, h: Pair) -> Tensor:
    read_h, read_v = weights[..., None, None].unbind(2)
    return (read_h * h[0] + read_v * h[1]).sum(2)


def _mean(pair: Pair, weight: Tensor) -> Pair:
    def mean(part: Tensor) -> Tensor:
        # Not a matrix product: those autocast would round in a backward pass inside of it.
        return (weight[..., None, None, None] * part).sum(1, keepdim=True)

    return mean(pair[0]), mean(pair[1])


def _deviation(pair: Pair, weight: Tensor) -> Pair:
    # Views, so that the gradients of both terms meet here before others are added: those of a
    # variable that is alone cancel to zero, and not to the rounding errors of a larger sum.
    h, v = pair
    pair = h.view_as(h), v.view_as(v)
    mean_h, mean_v = _mean(pair, weight)
    return pair[0] - mean_h, pair[1] - mean_v


def _add(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]
