"""The exact discretisation of the coupled pair (h_h, h_v).

In:  the generator A = [[h, 0], [vh, v]] for every head and state, and a time span.
Out: exp(A span), and the integral of exp(A s) over [0, span]; both are lower-triangular 2x2 blocks.

The textbook formulas divide by (h - v) and lose every digit where the two rates meet, which is
where training starts. Here each entry is a divided difference of exp, evaluated without
cancellation; derivation in docs/concepts/recurrence.md. Derivatives are written out: they need the
same care as the values, and autograd would take several times as many operations.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from orderless.ops.backward import run_once

NEAR = 0.5  # |rate * span| below which a difference of exponentials is taken from its series
TINY = 1e-20  # keeps a gap between rates from being 0; changes no digit of any other gap


class Generator(NamedTuple):
    """A = [[h, 0], [vh, v]] of every head and state, each part [head, state]; h and v negative."""

    h: Tensor
    v: Tensor
    vh: Tensor


class FullGenerator(NamedTuple):
    """[[h, hv], [vh, v]]: v drives h as well. For the mean under feedback, in `reference` alone.

    Stable where h and v are negative and h v exceeds vh hv.
    """

    h: Tensor
    v: Tensor
    vh: Tensor
    hv: Tensor


class Block(NamedTuple):
    """A lower-triangular 2x2 block [[h, 0], [vh, v]] at every (batch, time, head, state)."""

    h: Tensor
    v: Tensor
    vh: Tensor


class FullBlock(NamedTuple):
    """A 2x2 block [[h, hv], [vh, v]] at every (batch, time, head, state)."""

    h: Tensor
    v: Tensor
    vh: Tensor
    hv: Tensor


def transition(generator: Generator, span: Tensor) -> Block:
    """exp(A span), the block that carries a state over `span` [..., head]."""
    return _as_block(_Transition, generator, span)


def hold(generator: Generator, span: Tensor) -> Block:
    """The integral of exp(A s) over [0, span]: what an input held over `span` [..., head] adds."""
    return _as_block(_Hold, generator, span)


def full_transition_and_hold(generator: FullGenerator, span: Tensor) -> tuple[FullBlock, FullBlock]:
    """`transition` and `hold` where both directions are there, from one exponential of 4 x 4."""
    h, v, vh, hv = generator
    matrix = torch.stack((torch.stack((h, hv), -1), torch.stack((vh, v), -1)), -2)
    identity = torch.eye(2, dtype=h.dtype, device=h.device).expand_as(matrix)
    # exp of [[A, I], [0, 0]] span holds exp(A span), and beside it the integral.
    both = pad(torch.cat((matrix, identity), -1), (0, 0, 0, 2))
    grown = torch.linalg.matrix_exp(span[..., None, None, None] * both)

    def block(columns: slice) -> FullBlock:
        part = grown[..., :2, columns]
        return FullBlock(part[..., 0, 0], part[..., 1, 1], part[..., 1, 0], part[..., 0, 1])

    return block(slice(0, 2)), block(slice(2, 4))


def integral(rate: Tensor, span: Tensor) -> Tensor:
    """(exp(rate span) - 1) / rate, the integral of exp(rate s) over [0, span]."""
    return torch.expm1(rate * span) / rate


def _as_block(function: type, generator: Generator, span: Tensor) -> Block:
    entries = function.apply(*generator, span.unsqueeze(-1))  # [..., head, 3 state, 1]
    return Block(*entries.squeeze(-1).tensor_split(3, -1))


class _Transition(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return Spans(Generator(*inputs[:3]), inputs[3]).transition()

    @staticmethod
    def backward(ctx, *gradients):
        def compute(h, v, vh, span, d):
            return Spans(Generator(h, v, vh), span).transition_gradient(d)

        return run_once(compute, *ctx.saved_tensors, *gradients)


class _Hold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return Spans(Generator(*inputs[:3]), inputs[3]).hold()

    @staticmethod
    def backward(ctx, *gradients):
        def compute(h, v, vh, span, d):
            spans = Spans(Generator(h, v, vh), span)
            spans.hold()
            return spans.hold_gradient(d)

        return run_once(compute, *ctx.saved_tensors, *gradients)


class Spans:
    """exp(A s) and its integral over spans [..., head, time], none of them negative.

    Both are [..., head, 3 state, time]: the entries h, then v, then vh of every block.
    """

    def __init__(self, generator: Generator, span: Tensor):
        self.h, self.v, self.vh = (part.unsqueeze(-1) for part in generator)  # [head, state, 1]
        self.span = span.unsqueeze(-2)
        self.slow, self.fast = torch.maximum(self.h, self.v), torch.minimum(self.h, self.v)
        # The third rate is the gap. With it what crosses, (exp(h s) - exp(v s)) / (h - v), is
        # exp(slow s) times the integral of exp(gap s): nothing cancels.
        self.rates = torch.cat((self.h, self.v, self.fast - self.slow - TINY), -2)
        self.x = self.rates * self.span
        self.exp, self.integrals = torch.exp(self.x), torch.expm1(self.x).div_(self.rates)
        e_h, e_v, _ = _thirds(self.exp)
        self.e_slow = torch.maximum(e_h, e_v)
        self.crossing = self.e_slow * _thirds(self.integrals)[2]

    def transition(self) -> Tensor:
        """exp(A s)."""
        return _replace_third(self.exp, self.vh * self.crossing)

    def hold(self) -> Tensor:
        """The integral of exp(A s)."""
        held_h, held_v, _ = _thirds(self.integrals)
        # `crossing` integrated: what the fast mode has moved by, and before it moves a series.
        moved = (self.crossing - torch.maximum(held_h, held_v)).div_(self.fast)
        self.fast_x = self.fast * self.span
        self.series = _crossing_series(self.slow, self.fast)
        self.crossing_integral = self._where_near(self.fast_x, moved, self.series[0])
        return _replace_third(self.integrals, self.vh * self.crossing_integral)

    def transition_gradient(self, d: Tensor) -> tuple[Tensor, ...]:
        """By h, v, vh and the span, from the gradient of `transition`."""
        over_gap = (_thirds(z)[2] for z in (self.rates, self.exp, self.integrals))
        by_fast = self.e_slow * self._moments(*over_gap)
        by_slow = torch.addcmul(-by_fast, self.span, self.crossing)
        # Also exp(slow s) + fast crossing, which would cancel where the rates are far apart.
        e_fast = torch.minimum(*_thirds(self.exp)[:2])
        slope = self.vh * torch.addcmul(e_fast, self.slow, self.crossing)
        slope = _replace_third(self.rates * self.exp, slope)
        by_entry = _replace_third(self.span * self.exp, self.crossing)
        return self._gradient(d, by_entry, by_slow, by_fast, slope)

    def hold_gradient(self, d: Tensor) -> tuple[Tensor, ...]:
        """By h, v, vh and the span, from the gradient of `hold`, which comes first."""
        moments = self._moments(self.rates, self.exp, self.integrals)
        by_h, by_v, by_gap = _thirds(moments)
        # By the slow and by the fast rate, first of `crossing`, then of its integral.
        by_fast = self.e_slow * by_gap
        by_slow = torch.addcmul(-by_fast, self.span, self.crossing)
        by_slow = (by_slow - torch.maximum(by_h, by_v)).div_(self.fast)
        by_fast = (by_fast - self.crossing_integral).div_(self.fast)
        by_slow = self._where_near(self.fast_x, by_slow, self.series[1])
        by_fast = self._where_near(self.fast_x, by_fast, self.series[2])
        by_entry = _replace_third(moments, self.crossing_integral)
        return self._gradient(d, by_entry, by_slow, by_fast, self.transition())

    def _gradient(
        self, d: Tensor, by_entry: Tensor, by_slow: Tensor, by_fast: Tensor, slope: Tensor
    ) -> tuple[Tensor, ...]:
        """Each entry h, v by its own rate and vh by itself; vh also by both rates."""
        dcrossing = self.vh * _thirds(d)[2]
        terms = torch.cat((d * by_entry, dcrossing * by_slow, dcrossing * by_fast), -2)
        terms = terms.flatten(0, -4).sum(0) if terms.dim() > 3 else terms
        h, v, vh, slow, fast = terms.sum(-1).tensor_split(5, -1)
        h_is_slow = (self.h > self.v).squeeze(-1)
        h = h + torch.where(h_is_slow, slow, fast)
        v = v + torch.where(h_is_slow, fast, slow)
        return h, v, vh, (d * slope).sum(-2)

    def _moments(self, rate: Tensor, exp: Tensor, integrals: Tensor) -> Tensor:
        """The integral of s exp(rate s) over the spans, the derivative of that of exp(rate s)."""
        k, factorial = _terms(rate.dtype, rate.device)
        far = (self.span * exp - integrals).div_(rate)
        return self._where_near(rate * self.span, far, (k + 1) / factorial)

    def _where_near(self, x: Tensor, far: Tensor, coefficients: Tensor) -> Tensor:
        """The sum over k of coefficients [..., k] times x^k span^2 where x > -NEAR, else `far`."""
        first, *rest = coefficients.unsqueeze(-2).unbind(-1)[::-1]
        # Not further than it is used: a series that overflows would not be weighted by 0.
        z = x.clamp(min=-NEAR)
        series = torch.addcmul(rest[0], first, z)
        for coefficient in rest[1:]:
            series = torch.addcmul(coefficient, series, z)
        # Weighted by 1 and 0: comparing and selecting would take ten times as long.
        near = (x + NEAR).sign_().clamp_(min=0.0)
        return torch.lerp(far, series.mul_(self.span).mul_(self.span), near)


def _thirds(entries: Tensor) -> tuple[Tensor, ...]:
    return entries.tensor_split(3, -2)


def _replace_third(entries: Tensor, third: Tensor) -> Tensor:
    h, v, _ = _thirds(entries)
    return torch.cat((h, v, third), -2)


@lru_cache
def _terms(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """k = 0, 1, ..., as many as a series needs where x is near, and (k+2)!."""
    k = torch.arange(14 if dtype == torch.float64 else 8, dtype=dtype, device=device)
    return k, (k + 1).cumprod(0) * (k + 2)


def _crossing_series(slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """h_k(slow, fast) / (k+2)! for all k, and its derivatives by the slow and by the fast rate.

    h_k, the complete homogeneous polynomial, is fast^k times the sum of (slow / fast)^i to i = k.
    All three are given over fast^k.
    """
    (k, factorial), ratio = _terms(fast.dtype, fast.device), slow / fast
    power = ratio**k
    total, moment = power.cumsum(-1), (k * power).cumsum(-1)
    scale = 1 / (fast * factorial)
    return total / factorial, scale * moment / ratio, scale * (k * total - moment)
