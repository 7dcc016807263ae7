"""The exact discretisation of the coupled pair (h_h, h_v).

In:  the generator A = [[h, 0], [vh, v]] for every head and state, and a time span.
Out: exp(A span), and the integral of exp(A s) over [0, span]; both are lower-triangular 2x2 blocks.

The textbook formulas divide by (h - v) and lose every digit where the two rates meet, which is
where training starts. Here each entry is a divided difference of exp, evaluated without
cancellation; derivation in docs/concepts/recurrence.md.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Generator(NamedTuple):
    """A = [[h, 0], [vh, v]] of every head and state, each part [head, state]; h and v negative."""

    h: Tensor
    v: Tensor
    vh: Tensor


class Block(NamedTuple):
    """A lower-triangular 2x2 block [[h, 0], [vh, v]] at every (batch, time, head, state)."""

    h: Tensor
    v: Tensor
    vh: Tensor


def transition(generator: Generator, span: Tensor) -> Block:
    """exp(A span), the block that carries a state over `span` [..., head]."""
    span = span.unsqueeze(-1)
    return _transition(generator, span, _crossing(generator, span))


def hold(generator: Generator, span: Tensor) -> Block:
    """The integral of exp(A s) over [0, span]: what an input held over `span` [..., head] adds."""
    return transition_and_hold(generator, span)[1]


def transition_and_hold(generator: Generator, span: Tensor) -> tuple[Block, Block]:
    """Both, in less time than one after the other."""
    span = span.unsqueeze(-1)
    crossing = _crossing(generator, span)
    held_h, held_v = integral(generator.h, span), integral(generator.v, span)
    held_vh = generator.vh * _crossing_integral(generator, span, crossing, held_h, held_v)
    return _transition(generator, span, crossing), Block(held_h, held_v, held_vh)


def _transition(generator: Generator, span: Tensor, crossing: Tensor) -> Block:
    h, v, vh = generator
    return Block(torch.exp(h * span), torch.exp(v * span), vh * crossing)


# Each of the three functions below has a branch near zero, a series in span * rate, and a branch
# away from it that divides by rates alone. So the derivative by the span, which is the integrand,
# comes out as accurate as the value: s * f(rate * s) would lose it where f decays like 1 / s.


def integral(rate: Tensor, span: Tensor) -> Tensor:
    """(exp(rate span) - 1) / rate, the integral of exp(rate s)."""
    x = rate * span
    near = x.abs() < 0.5
    series = _series_exprel(torch.where(near, x, 0.0))
    return torch.where(near, span * series, (torch.exp(torch.where(near, -1.0, x)) - 1) / rate)


def _crossing(generator: Generator, span: Tensor) -> Tensor:
    """(exp(h span) - exp(v span)) / (h - v), and span exp(h span) where h = v."""
    x, y = generator.h * span, generator.v * span
    gap = (x - y).abs()
    near = gap < 1.0
    half_gap = torch.where(near, 0.5 * (x - y), 0.0)
    around = span * torch.exp(0.5 * (x + y)) * _series_sinhc(half_gap * half_gap)
    rate_gap = torch.where(near, 1.0, (generator.h - generator.v).abs())
    grown = 1 - torch.exp(-torch.where(near, 1.0, gap))
    return torch.where(near, around, torch.exp(torch.maximum(x, y)) * grown / rate_gap)


def _crossing_integral(
    generator: Generator, span: Tensor, crossing: Tensor, held_h: Tensor, held_v: Tensor
) -> Tensor:
    """The integral of `_crossing` over [0, span]: span^2 exp[0, h span, v span]."""
    # (crossing - integral of the slow mode) / (rate of the fast mode) subtracts numbers that
    # differ once the fast mode has moved; before that the Taylor series is short.
    h_is_slow = generator.h.abs() < generator.v.abs()
    slow = torch.where(h_is_slow, generator.h, generator.v)
    fast = torch.where(h_is_slow, generator.v, generator.h)
    near = (fast * span).abs() < 1.0
    x, y = (torch.where(near, rate * span, 0.0) for rate in (slow, fast))
    moved = (crossing - torch.where(h_is_slow, held_h, held_v)) / fast
    return torch.where(near, span * span * _series_from_zero(x, y), moved)


def _terms(dtype: torch.dtype, for_float32: int, for_float64: int) -> int:
    return for_float64 if dtype == torch.float64 else for_float32


def _horner(z: Tensor, coefficients: list[float]) -> Tensor:
    total = torch.full_like(z, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * z + coefficient
    return total


def _series_exprel(x: Tensor) -> Tensor:
    """Sum of x^k / (k+1)!, for |x| < 1/2."""
    return _horner(x, [1 / math.factorial(k + 1) for k in range(_terms(x.dtype, 8, 14))])


def _series_sinhc(z: Tensor) -> Tensor:
    """sinh(d) / d in z = d^2, for |d| < 1/2."""
    return _horner(z, [1 / math.factorial(2 * k + 1) for k in range(_terms(z.dtype, 4, 8))])


def _series_from_zero(x: Tensor, y: Tensor) -> Tensor:
    """Sum of h_k(x, y) / (k+2)!, h_k the complete homogeneous polynomial, for |x|, |y| < 1."""
    total = torch.full_like(x, 0.5)
    power, homogeneous = torch.ones_like(y), torch.ones_like(x)
    for k in range(1, _terms(x.dtype, 10, 19)):
        power = power * y
        homogeneous = homogeneous * x + power
        total = total + homogeneous / math.factorial(k + 2)
    return total
