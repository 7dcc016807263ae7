"""Feedback coupling against its sequential definition, and its bound over a long run."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.errors import FormUnavailable, ValueRangeError
from orderless.ops import FullGenerator, Generator, vi_scan
from orderless.theory.modes import input_bound

CHANNELS = 2


def randn(*shape, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def block(generator, head, state):
    h, v, vh, *rest = (rate[head, state] for rate in generator)
    hv = rest[0] if rest else torch.zeros_like(h)
    return torch.stack((torch.stack((h, hv)), torch.stack((vh, v))))


def whole_system(x, step, own, mean, write, read, state, field, field_write):
    """Exp of the generator I(x)A + (1/C) 11'(x)W of all variables, tick by tick, inputs held."""
    n_variables, time = x.shape[1:3]
    heads, states = own.h.shape
    per_head = CHANNELS // heads
    identity = torch.eye(n_variables, dtype=x.dtype)
    average = torch.full_like(identity, 1 / n_variables)
    y, last = torch.zeros_like(x), torch.zeros_like(state)
    for head in range(heads):
        columns = slice(head * per_head, (head + 1) * per_head)
        for n in range(states):
            a, w = block(own, head, n), block(mean, head, n) - block(own, head, n)
            generator = torch.kron(identity, a) + torch.kron(average, w)
            h = state[0, :, :, n, columns].reshape(2 * n_variables, per_head)
            for t in range(time):
                u = write[0, :, t, :, n, None] * x[0, :, t, None, columns]
                u = u + field_write[0, t, :, n, None] * field[0, t, columns]
                h = held(generator, h, u.reshape(2 * n_variables, per_head), step[0, t, head])
                pair = h.reshape(n_variables, 2, per_head)
                y[0, :, t, columns] += torch.einsum("vk,vkp->vp", read[0, :, t, :, n], pair)
            last[0, :, :, n, columns] = h.reshape(n_variables, 2, per_head)
    return y, last


def held(generator, h, u, span):
    """The solution of h' = generator h + u after `span`, from one exponential."""
    size, columns = u.shape
    # Large input columns would make the exponential square more often than the generator needs.
    scale = u.abs().sum()
    augmented = generator.new_zeros(size + columns, size + columns)
    augmented[:size, :size], augmented[:size, size:] = generator, u / scale
    grown = exponential(span * augmented)
    return grown[:size, :size] @ h + scale * grown[:size, size:]


def exponential(matrix):
    """Exp by its series and repeated squaring.

    Against 40 digits, torch's own is wrong by 5e-12 for small matrices, and scipy's by 1e-5 for
    triangular ones with two nearly equal rates.
    """
    squarings = max(0, math.ceil(math.log2(torch.linalg.matrix_norm(matrix, 1).item())) + 1)
    matrix = matrix / 2**squarings
    total = term = torch.eye(len(matrix), dtype=matrix.dtype)
    for k in range(1, 19):
        term = term @ matrix / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


def draw_arguments(n_variables, time, seed, *, heads, states):
    return {
        "x": randn(1, n_variables, time, CHANNELS, seed=seed + 1),
        "write": randn(1, n_variables, time, 2, states, seed=seed + 2),
        "read": randn(1, n_variables, time, 2, states, seed=seed + 3),
        "state": randn(1, n_variables, 2, states, CHANNELS, seed=seed + 4),
        "step": (1.5 * randn(1, time, heads, seed=seed + 5) - 1.0).exp(),
        "field": randn(1, time, CHANNELS, seed=seed + 6),
        "field_write": randn(1, time, 2, states, seed=seed + 7),
    }


def check_against_definition(n_variables, time, seed, *, heads, states, gap):
    h, v, vh, mean_h, mean_vh = randn(5, heads, states, seed=seed)
    own = Generator(-h.exp(), -h.exp() * (1 + gap), vh)
    mean = Generator(-mean_h.exp(), -mean_h.exp() - gap * v.exp(), mean_vh)
    arguments = draw_arguments(n_variables, time, seed, heads=heads, states=states)
    expected, expected_state = whole_system(own=own, mean=mean, **arguments)
    for form in ("chunked", "reference"):
        y, state = vi_scan(generator=own, mean_generator=mean, **arguments, form=form)
        assert (y - expected).norm() <= 1e-12 * expected.norm()
        assert (state - expected_state).norm() <= 1e-12 * expected_state.norm()


@settings(max_examples=25)
@given(
    n_variables=st.integers(1, 16),
    time=st.integers(1, 40),
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([0.0, 1e-13, 1e-9, 1e-4, 0.3, 5.0]),
)
def test_feedback_is_the_exponential_of_the_whole_generator(n_variables, time, seed, gap):
    check_against_definition(n_variables, time, seed, heads=2, states=2, gap=gap)


@settings(max_examples=15)
@given(n_variables=st.integers(1, 12), time=st.integers(1, 20), seed=st.integers(0, 10_000))
def test_a_mean_of_h_v_that_drives_h_h_is_the_exponential_of_the_whole(n_variables, time, seed):
    h, v, vh, mean_h, mean_v, mean_vh = randn(6, 2, 2, seed=seed)
    own = Generator(-h.exp(), -v.exp(), vh)
    # Half of what stability leaves, with either sign.
    mean_hv = 0.5 * mean_h.exp() * mean_v.exp() / mean_vh
    mean = FullGenerator(-mean_h.exp(), -mean_v.exp(), mean_vh, mean_hv)
    arguments = draw_arguments(n_variables, time, seed, heads=2, states=2)
    expected, expected_state = whole_system(own=own, mean=mean, **arguments)
    y, state = vi_scan(generator=own, mean_generator=mean, **arguments)
    assert (y - expected).norm() <= 1e-9 * expected.norm()
    assert (state - expected_state).norm() <= 1e-9 * expected_state.norm()


def test_only_the_reference_runs_a_full_mean_and_an_unstable_one_is_refused():
    own = Generator(*(-torch.ones(1, 1, dtype=torch.float64) for _ in range(3)))
    arguments = draw_arguments(2, 3, 0, heads=1, states=1)
    full = FullGenerator(*own, 0.5 * own.vh)
    for form in ("chunked", "convolution", "triton"):
        with pytest.raises(FormUnavailable):
            vi_scan(generator=own, mean_generator=full, **arguments, form=form)
    growing = FullGenerator(*own, 2.0 * own.vh)
    with pytest.raises(ValueRangeError, match="h v - vh hv = -1"):
        vi_scan(generator=own, mean_generator=growing, **arguments)


@pytest.mark.parametrize("n_variables", [97, 193, 300])
@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_feedback_is_the_exponential_of_the_whole_generator_for_many_variables(n_variables, gap):
    check_against_definition(n_variables, 4, n_variables, heads=1, states=1, gap=gap)


@pytest.mark.parametrize(
    ("n_variables", "segment", "form"),
    [(1, 2_000, "chunked"), (10, 2_000, "chunked"), (1_000, 400, "convolution")],
)
def test_a_long_run_stays_within_its_bound(n_variables, segment, form):
    """Over 100,000 steps the state never exceeds sup |input| times the integral of |exp(A v)|.

    Sizes are root mean squares over the variables. Half of the inputs push one way all the time,
    the worst case for slow rates; the other half are random signs. Steps vary from tick to tick,
    or from segment to segment where the convolution makes many variables affordable.
    """
    own = Generator(*(torch.tensor([[rate]]) for rate in (-0.05, -0.05, 0.04)))
    mean = Generator(*(torch.tensor([[rate]]) for rate in (-0.02, -0.4, -0.1)))
    bound = input_bound(own, mean)
    random = torch.Generator().manual_seed(n_variables)
    weights = torch.full((1, n_variables, 1, 2, 1), math.sqrt(0.5))
    state, largest = None, 0.0
    for number in range(100_000 // segment):
        x = torch.ones(1, n_variables, segment, 1)
        if number % 2:
            x = x - 2 * torch.randint(0, 2, x.shape, generator=random)
        ticks = 1 if form == "convolution" else segment
        step = 0.01 + torch.rand(1, ticks, 1, generator=random)
        y, state = vi_scan(
            x, step, own, weights, weights, mean_generator=mean, state=state, form=form
        )
        # `write` and `read` have norm 1, so |input| = |x| = 1, and |y| is at most |state|.
        largest = max(largest, y.square().mean(1).sqrt().max().item())
        largest = max(largest, state.square().sum(2).mean(1).sqrt().item())
    assert 0.3 * bound < largest <= bound
