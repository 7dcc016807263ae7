"""The coefficients against 40-digit arithmetic, for every gap between the rates and every step."""

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.ops.zero_order_hold import Generator, hold, transition

# float32: rounding h * span alone moves exp(-69) = 1e-30 by 4e-6. float64 likewise.
RELATIVE = {torch.float32: 1e-5, torch.float64: 1e-13}
SMALLEST = 1e-30  # below it a coefficient no longer matters

rates = st.floats(1e-3, 1e3).map(lambda r: -r)
gaps = st.one_of(st.just(0.0), st.floats(-10, 6).map(lambda e: 10**e))
steps = st.one_of(st.just(0.0), st.floats(-6, 6).map(lambda e: 10**e))


def exact(h, v, span):
    """exp(A span) and its integral, with vh = 1, from the defining formulas."""
    with mpmath.workdps(60):
        h, v, span = (mpmath.mpf(float(value)) for value in (h, v, span))
        e_h, e_v = mpmath.exp(h * span), mpmath.exp(v * span)
        phi_h, phi_v = (e_h - 1) / h, (e_v - 1) / v
        if h == v:
            crossing, crossing_integral = span * e_h, (span * e_h - phi_h) / h
        else:
            crossing, crossing_integral = (e_h - e_v) / (h - v), (phi_h - phi_v) / (h - v)
        return e_h, e_v, crossing, phi_h, phi_v, crossing_integral


def coefficients(h, v, span):
    generator = Generator(*(value.reshape(1, 1) for value in (h, v, torch.ones_like(h))))
    span = span.reshape(1, 1, 1)
    return [part.reshape(()) for part in (*transition(generator, span), *hold(generator, span))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=400)
@given(rate=rates, gap=gaps, span=steps, swap=st.booleans())
def test_coefficients_are_accurate_for_every_gap_and_step(dtype, rate, gap, span, swap):
    h, v = torch.tensor(rate, dtype=dtype), torch.tensor(rate * (1 + gap), dtype=dtype)
    h, v = (v, h) if swap else (h, v)
    span = torch.tensor(span, dtype=dtype)
    for found, truth in zip(coefficients(h, v, span), exact(h, v, span), strict=True):
        if abs(truth) > SMALLEST:
            assert abs(found.item() - truth) <= RELATIVE[dtype] * abs(truth)


@settings(max_examples=200)
@given(rate=rates, gap=gaps, span=steps)
def test_the_derivative_of_the_hold_by_its_span_is_the_transition(rate, gap, span):
    h, v = torch.tensor(rate), torch.tensor(rate * (1 + gap))
    span = torch.tensor(span).requires_grad_()
    carried_h, carried_v, carried_vh, *held = coefficients(h, v, span)
    for integral, integrand in zip(held, (carried_h, carried_v, carried_vh), strict=True):
        (slope,) = torch.autograd.grad(integral, span, retain_graph=True)
        if integrand > SMALLEST:
            assert (slope - integrand).abs() <= 1e-5 * integrand


@settings(max_examples=400)
@given(rate=rates, gap=gaps, span=steps, swap=st.booleans())
def test_float32_has_the_derivatives_of_float64(rate, gap, span, swap):
    h, v = torch.tensor(rate), torch.tensor(rate) * (1 + torch.tensor(gap))
    h, v = (v, h) if swap else (h, v)

    def derivatives(dtype):
        leaves = [value.to(dtype).requires_grad_() for value in (h, v, torch.tensor(span))]
        return [
            found.item()
            for entry in coefficients(*leaves)
            for found in torch.autograd.grad(entry, leaves, retain_graph=True)
        ]

    exact = derivatives(torch.float64)
    sizes = [abs(truth) for truth in exact]
    # What crosses grows and then decays: where its slope is 0, the terms of the slope are not.
    sizes[8] += torch.exp(min(h, v).double() * span).item()
    for found, truth, size in zip(derivatives(torch.float32), exact, sizes, strict=True):
        assert abs(found - truth) <= 2e-5 * size + SMALLEST


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-6, 1e-2, 1.0])
def test_gradients_of_the_coefficients_pass_gradcheck(gap):
    h = torch.tensor([[-1.3, -0.2]], dtype=torch.float64).requires_grad_()
    v = (h.detach() - gap).requires_grad_()
    vh = torch.tensor([[0.7, -1.1]], dtype=torch.float64).requires_grad_()
    span = torch.tensor([[1e-3], [0.4], [9.0]], dtype=torch.float64).requires_grad_()

    def both(h, v, vh, span):
        generator = Generator(h, v, vh)
        return (*transition(generator, span), *hold(generator, span))

    assert torch.autograd.gradcheck(both, (h, v, vh, span))
