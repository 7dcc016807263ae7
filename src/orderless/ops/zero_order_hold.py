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
    x, y = generator.h * span, generator.v * span
    return Block(torch.exp(x), torch.exp(y), generator.vh * span * exp_difference(x, y))


def hold(generator: Generator, span: Tensor) -> Block:
    """The integral of exp(A s) over [0, span]: what an input held over `span` [..., head] adds."""
    span = span.unsqueeze(-1)
    x, y = generator.h * span, generator.v * span
    return Block(
        span * exprel(x),
        span * exprel(y),
        generator.vh * span * span * exp_difference_from_zero(x, y),
    )


def exprel(x: Tensor) -> Tensor:
    """(exp(x) - 1) / x, and 1 at x = 0: the divided difference exp[0, x]."""
    small = x.abs() < 0.5
    far = torch.where(small, 1.0, x)
    return torch.where(small, _series_exprel(torch.where(small, x, 0.0)), torch.expm1(far) / far)


def exp_difference(x: Tensor, y: Tensor) -> Tensor:
    """exp[x, y] = (exp(x) - exp(y)) / (x - y), and exp(x) where x = y."""
    gap = (x - y).abs()
    near = gap < 1.0
    half_gap = torch.where(near, 0.5 * (x - y), 0.0)
    far_gap = torch.where(near, 1.0, gap)
    near_value = torch.exp(0.5 * (x + y)) * _series_sinhc(half_gap * half_gap)
    far_value = torch.exp(torch.maximum(x, y)) * (-torch.expm1(-far_gap) / far_gap)
    return torch.where(near, near_value, far_value)


def exp_difference_from_zero(x: Tensor, y: Tensor) -> Tensor:
    """exp[0, x, y], the second divided difference of exp; 1/2 where all three points meet."""
    # exp[0, x, y] = (exp[x, y] - exp[0, small]) / big subtracts numbers that differ once the
    # larger argument is away from zero; close to zero the Taylor series is short.
    x_is_small = x.abs() < y.abs()
    small, big = torch.where(x_is_small, x, y), torch.where(x_is_small, y, x)
    near = big.abs() < 1.0
    series = _series_from_zero(torch.where(near, small, 0.0), torch.where(near, big, 0.0))
    far = torch.where(near, 1.0, big)
    return torch.where(near, series, (exp_difference(x, y) - exprel(small)) / far)


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
