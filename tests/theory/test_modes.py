import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from orderless.errors import ValueRangeError
from orderless.ops import Generator
from orderless.ops.zero_order_hold import transition
from orderless.theory.modes import input_bound, mode, transient_bound, transition_norm

exponents = st.floats(-3.0, 2.0)


@st.composite
def generators(draw):
    """One block: rates over five decades, gaps down to none, coupling of both signs."""
    h = -(10 ** draw(exponents))
    gap = draw(st.sampled_from([0.0, 1e-12, 1e-6, 1e-2, 1.0, 30.0]))
    v = h * (1 + gap) if draw(st.booleans()) else h / (1 + gap)
    vh = draw(st.sampled_from([-1.0, 0.0, 1.0])) * 10 ** draw(exponents)
    return Generator(*(torch.tensor([[value]], dtype=torch.float64) for value in (h, v, vh)))


def norm_at(generator, time):
    h, v, vh = (rate.flatten() for rate in generator)
    return transition_norm(Generator(h, v, vh), torch.tensor([time], dtype=torch.float64)).item()


@settings(max_examples=50)
@given(generators(), st.floats(-2.0, 1.0))
def test_the_norm_of_a_transition_is_its_largest_singular_value(generator, exponent):
    h, v, vh = (rate.item() for rate in generator)
    time = 10**exponent / max(-h, -v, abs(vh))
    e_h, e_v, e_vh = (
        part.item() for part in transition(generator, torch.tensor([time], dtype=torch.float64))
    )
    matrix = torch.tensor([[e_h, 0.0], [e_vh, e_v]], dtype=torch.float64)
    expected = torch.linalg.matrix_norm(matrix, 2).item()
    assert norm_at(generator, time) == pytest.approx(expected, rel=1e-12)
    # The closed form of docs/concepts/recurrence.md.
    a, d = -(h + v) / 2, (h - v) / 2
    ratio = math.sinh(d * time) / d if d else time
    closed = math.exp(-a * time + math.asinh(math.hypot(d, vh / 2) * ratio))
    assert closed == pytest.approx(expected, rel=1e-12)


@settings(max_examples=50)
@given(generators())
def test_the_transient_bound_is_reached_and_never_passed(generator):
    bound = transient_bound(generator)
    slowest = -max(generator.h.item(), generator.v.item())
    fastest = max(-generator.h.item(), -generator.v.item(), abs(generator.vh.item()))
    edges = math.log10(1e-4 / fastest), math.log10(50 / slowest)
    times = torch.logspace(*edges, 2000, dtype=torch.float64)
    flat = Generator(*(rate.flatten() for rate in generator))
    norms = transition_norm(flat, times[:, None]).flatten()
    assert norms.max().item() <= bound * (1 + 1e-12)
    best = int(norms.argmax())
    if 0 < best < len(times) - 1:
        peak = minimize_scalar(
            lambda time: -norm_at(generator, time),
            bounds=(times[best - 1].item(), times[best + 1].item()),
            method="bounded",
        )
        assert -peak.fun == pytest.approx(bound, rel=1e-6)
    else:
        assert bound == pytest.approx(1.0, abs=1e-3)


@settings(max_examples=25)
@given(generators())
def test_the_input_bound_is_the_integral_of_the_norm(generator):
    # Integrated over the logarithm of time, in pieces, by a rule that adapts itself.
    def integrand(log_time):
        return norm_at(generator, math.exp(log_time)) * math.exp(log_time)

    slowest = -max(generator.h.item(), generator.v.item())
    edges = [math.log(1 / slowest) + offset for offset in (-36, -24, -12, -6, -3, 0, 1, 2, 4)]
    expected = sum(
        quad(integrand, a, b, epsabs=0, epsrel=1e-9, limit=200)[0]
        for a, b in itertools.pairwise(edges)
    )
    assert input_bound(generator) == pytest.approx(expected, rel=1e-7)


def test_without_coupling_between_the_pair_nothing_grows_and_the_slowest_rate_decides():
    generator = Generator(*(torch.tensor([[r]]) for r in (-2.0, -0.5, 0.0)))
    found = mode(generator)
    assert found.rate == -0.5
    assert found.transient == 1.0
    assert found.input_bound == pytest.approx(2.0, rel=1e-12)
    assert found.radius(3.0) == pytest.approx(math.exp(-1.5))


def test_the_bound_of_two_modes_lies_above_each_and_below_their_sum():
    one = Generator(*(torch.tensor([[r]]) for r in (-2.0, -0.5, 3.0)))
    other = Generator(*(torch.tensor([[r]]) for r in (-0.1, -4.0, 0.2)))
    both = input_bound(one, other)
    assert max(input_bound(one), input_bound(other)) <= both
    assert both <= input_bound(one) + input_bound(other)


def test_growing_rates_have_no_bound_and_broken_ones_are_an_error():
    growing = mode(Generator(*(torch.tensor([[r]]) for r in (-2.0, 0.1, 0.0))))
    assert growing.rate == pytest.approx(0.1)
    assert growing.transient == growing.input_bound == math.inf
    with pytest.raises(ValueRangeError, match="`vh` of a generator is not finite"):
        mode(Generator(*(torch.tensor([[r]]) for r in (-2.0, -0.1, math.nan))))
