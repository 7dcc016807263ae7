"""How large one mode of the dynamics can get: decay, transient growth, response to inputs.

In:  a generator, A = [[h, 0], [vh, v]] for every head and state.
Out: numbers about exp(A t) for all t >= 0, in the 2-norm of its 2x2 blocks, in float64.

With a = -(h + v)/2, d = (h - v)/2 and w = sqrt(d^2 + (vh/2)^2), that norm is

    |exp(A t)| = exp(-a t + asinh(w sinh(d t) / d))

so its largest value has a closed form; derivation in docs/concepts/recurrence.md.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from orderless.errors import NothingToCertify, ValueRangeError
from orderless.ops.zero_order_hold import FullGenerator, Generator, transition

# The trapezoid rule on a logarithmic time axis: the integrand is analytic there in a strip of
# half-width pi/2, so at this spacing the error is far below rounding.
_POINTS = 2048
_FIRST, _LAST = 1e-16, 60.0  # in units of the fastest and of the slowest time scale


@dataclass(frozen=True)
class Mode:
    """The worst case over all heads and states of one generator."""

    rate: float
    """The largest real part of an eigenvalue: the mode dies like exp(rate * summed step)."""
    transient: float
    """Sup over t >= 0 of |exp(A t)|: how far a state can grow before it dies; 1 if it cannot."""
    input_bound: float
    """Integral over t >= 0 of |exp(A t)|: the largest state that inputs of size 1 can build up."""

    def radius(self, summed_step: float = 1.0) -> float:
        """Spectral radius of the transition over a span; exact, since transitions commute."""
        return math.exp(self.rate * summed_step)


def mode(generator: Generator) -> Mode:
    """Decay, transient and response of the dynamics that `generator` describes."""
    generator = _as_blocks(generator)
    for name, value in generator._asdict().items():
        if not bool(value.isfinite().all()):
            raise ValueRangeError(
                f"`{name}` of a generator is not finite; nothing is certain about such dynamics."
            )
    rate = torch.maximum(generator.h, generator.v).max().item()
    if not rate < 0.0:
        return Mode(rate, float("inf"), float("inf"))
    return Mode(rate, transient_bound(generator), input_bound(generator))


def transient_bound(generator: Generator) -> float:
    """Sup over t >= 0 of |exp(A t)|, the worst over heads and states; exact."""
    h, v, vh = _as_blocks(generator)
    a, d = -(h + v) / 2, (h - v) / 2
    w = torch.hypot(d, vh / 2)
    # The derivative vanishes once, where sinh(d t)/d = y; there is no growth where w <= a.
    y = ((w - a).clamp(min=0.0) * (w + a) / (h * v)).sqrt() / torch.maximum(w, a)
    at = y * _asinh_ratio(d * y)
    return (torch.asinh(w * y) - a * at).max().exp().item()


def input_bound(*generators: Generator) -> float:
    """Integral over t >= 0 of |exp(A t)|, the worst over heads and states.

    With several generators, of the largest of their norms at each time: the modes of one system
    are orthogonal, so that is the norm of the whole. The rule errs upwards where they cross.
    """
    blocks = [_as_blocks(generator) for generator in generators]
    rates = torch.stack([rate for block in blocks for rate in (block.h, block.v)]).neg()
    coupling = torch.stack([block.vh for block in blocks]).abs()
    fastest = rates.amax(0) + coupling.amax(0)
    first, last = (_FIRST / fastest).log(), (_LAST / rates.amin(0)).log()
    where = torch.linspace(0.0, 1.0, _POINTS, dtype=torch.float64)
    time = torch.lerp(first, last, where[:, None]).exp()
    norms = torch.stack([transition_norm(block, time) for block in blocks]).amax(0)
    # Dropping half of the end points changes nothing: the integrand vanishes there.
    integral = (norms * time).sum(0) * (last - first) / (_POINTS - 1)
    return integral.max().item()


def transition_norm(generator: Generator, time: Tensor) -> Tensor:
    """|exp(A time)| in the 2-norm; `time` is [..., block], `generator` flat over the blocks."""
    columns = Generator(*(rate.unsqueeze(-1) for rate in generator))
    e_h, e_v, e_vh = (part.squeeze(-1) for part in transition(columns, time))
    return (torch.hypot(e_h + e_v, e_vh) + torch.hypot(e_h - e_v, e_vh)) / 2


def _as_blocks(generator: Generator) -> Generator:
    if isinstance(generator, FullGenerator):
        raise NothingToCertify(
            "In a FullGenerator v drives h as well, and what is known of a mode is that of "
            "[[h, 0], [vh, v]]. Give a Generator."
        )
    return Generator(*(rate.detach().to("cpu", torch.float64).flatten() for rate in generator))


def _asinh_ratio(z: Tensor) -> Tensor:
    """asinh(z) / z, and 1 at z = 0."""
    near = z.abs() < 1e-4  # the next term of the series is below rounding
    far = torch.where(near, 1.0, z)
    return torch.where(near, 1 - z * z / 6, torch.asinh(far) / far)
