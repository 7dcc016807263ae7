"""Properties of every layer that is called like `VI2DSSM`."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_cases import drawn, error, shaken

from orderless.errors import SettingError, ShapeError
from orderless.nn import VI2DSSM
from orderless.nn.comparison import OrderedSSM2D, SelectiveSSM1D

SETTINGS = (
    {"coupling": "field", "pool": "mean"},
    {"coupling": "field", "pool": "sum"},
    {"coupling": "field", "pool": "attention"},
    {"coupling": "feedback"},
    {"coupling": "none"},
)
INVARIANT = [pytest.param(lambda c, s=s: VI2DSSM(c, states=3, **s), id=str(s)) for s in SETTINGS]
INVARIANT.append(pytest.param(lambda c: SelectiveSSM1D(c, states=3), id="SelectiveSSM1D"))
ORDERED = pytest.param(lambda c: OrderedSSM2D(c, states=3), id="OrderedSSM2D")
ALL = [*INVARIANT, ORDERED]

sizes = st.tuples(
    st.integers(1, 2),
    st.sampled_from((1, 2, 3, 5, 13)),
    st.sampled_from((1, 2, 7, 19, 37)),
    st.sampled_from((1, 6, 32)),
)
seeds = st.integers(0, 2**20)
modest = settings(max_examples=15)


def called(build, shape, seed, *, masks=True):
    """A layer with every parameter moved off its start, its input, and masks."""
    layer = shaken(build(shape[-1]), seed)
    x, members, observed = drawn(shape, seed)
    gate = x.flip(2) if seed % 2 else None
    return layer, x, {"members": members, "observed": observed} if masks else {}, gate


@pytest.mark.parametrize("build", INVARIANT)
@given(shape=sizes, seed=seeds, masks=st.booleans())
@modest
def test_reordering_variables_reorders_output_and_state(build, shape, seed, masks):
    layer, x, masked, gate = called(build, shape, seed, masks=masks)
    order = torch.randperm(shape[1], generator=torch.Generator().manual_seed(seed))
    y, state = layer(x, gate=gate, **masked)
    reordered = {name: mask[:, order] for name, mask in masked.items()}
    y2, state2 = layer(x[:, order], gate=None if gate is None else gate[:, order], **reordered)
    assert error(y2, y[:, order]) <= 1e-10
    assert error(state2, state[:, order]) <= 1e-10


def test_the_ordered_recurrence_depends_on_the_order_of_the_variables():
    layer = shaken(OrderedSSM2D(32, states=3), 0)
    x, _, _ = drawn((2, 7, 19, 32), 0)
    order = torch.arange(6, -1, -1)
    assert error(layer(x[:, order])[0], layer(x)[0][:, order]) > 1e-2


@pytest.mark.parametrize("build", ALL)
@given(shape=sizes, seed=seeds)
@modest
def test_the_future_changes_nothing_before_it(build, shape, seed):
    layer, x, masked, _ = called(build, shape, seed)
    cut = seed % shape[2]
    changed = x.clone()
    changed[:, :, cut:] += 3.0
    before, _ = layer(x, **masked)
    after, _ = layer(changed, **masked)
    assert error(after[:, :, :cut], before[:, :, :cut]) <= 1e-12


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("rubbish", [float("nan"), 1e30])
def test_masked_entries_may_hold_anything_and_output_zero(build, rubbish):
    layer, x, masked, _ = called(build, (2, 5, 9, 6), 3)
    masked["observed"][1, :, 4] = False  # a time with nobody there
    there = masked["members"].unsqueeze(-1) & masked["observed"]
    clean = torch.where(there.unsqueeze(-1), x, 0.0)
    dirty = torch.where(there.unsqueeze(-1), x, rubbish)
    gate = torch.where(there.unsqueeze(-1), x.flip(-1), rubbish)
    y, state = layer(clean, gate=clean.flip(-1), **masked)
    y2, state2 = layer(dirty, gate=gate, **masked)
    assert torch.equal(y, y2)
    assert torch.equal(state, state2)
    assert (y2[~there] == 0).all()
    y2.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


@pytest.mark.parametrize("build", ALL)
@given(shape=sizes, seed=seeds)
@modest
def test_padding_variables_change_nothing(build, shape, seed):
    layer, x, _, _ = called(build, shape, seed)
    padded = torch.cat((x, torch.full_like(x, torch.nan)), dim=1)
    members = torch.arange(2 * shape[1]).expand(shape[0], -1) < shape[1]
    y, state = layer(x)
    y2, state2 = layer(padded, members=members)
    assert error(y2[:, : shape[1]], y) <= 1e-10
    assert error(state2[:, : shape[1]], state) <= 1e-10
    assert (y2[:, shape[1] :] == 0).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("build", ALL)
@given(shape=sizes, seed=seeds)
@modest
def test_two_calls_with_the_state_handed_over_equal_one(build, reverse, shape, seed):
    layer, x, masked, _ = called(build, shape, seed)
    cut = 1 + seed % max(1, shape[2] - 1)
    y, state = layer(x, reverse=reverse, **masked)
    pieces = [slice(0, cut), slice(cut, shape[2])]
    found, carried = {}, None
    for piece in reversed(pieces) if reverse else pieces:
        if x[:, :, piece].shape[2]:
            found[piece.start], carried = layer(
                x[:, :, piece],
                state=carried,
                reverse=reverse,
                members=masked["members"],
                observed=masked["observed"][:, :, piece],
            )
    assert error(torch.cat([found[k] for k in sorted(found)], dim=2), y) <= 1e-10
    assert error(carried, state) <= 1e-10


@pytest.mark.parametrize("build", ALL)
@given(shape=sizes, seed=seeds)
@modest
def test_reverse_equals_flipping_time(build, shape, seed):
    layer, x, masked, gate = called(build, shape, seed)
    y, state = layer(x, gate=gate, reverse=True, **masked)
    y2, state2 = layer(
        x.flip(2),
        gate=None if gate is None else gate.flip(2),
        members=masked["members"],
        observed=masked["observed"].flip(2),
    )
    assert error(y2.flip(2), y) <= 1e-10
    assert error(state2, state) <= 1e-10


@pytest.mark.parametrize("build", ALL)
def test_a_saved_layer_comes_back_bit_for_bit(build, tmp_path):
    layer = shaken(build(6), 1)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    again = build(6).double()
    again.load_state_dict(torch.load(tmp_path / "layer.pt"))
    x, _, _ = drawn((2, 3, 5, 6), 2)
    assert torch.equal(again(x)[0], layer(x)[0])


@pytest.mark.parametrize("build", ALL)
def test_one_layer_serves_any_number_of_variables(build):
    layer = shaken(build(6), 1)
    for variables in (1, 4, 50):
        x, _, _ = drawn((2, variables, 5, 6), variables)
        y, state = layer(x)
        assert y.shape == x.shape
        assert state.shape[:2] == (2, variables)


@pytest.mark.parametrize("build", ALL)
def test_every_parameter_receives_a_gradient_from_the_start(build):
    layer = build(32).double()
    x, _, _ = drawn((2, 5, 7, 32), 0)
    y, _ = layer(x)
    (y * drawn(y.shape, 1)[0]).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def influence(layer, x, source):
    """How much each variable's output moves when one variable's input does, [variable]."""
    moved = x.clone()
    moved[:, source] += 1.0
    return (layer(moved)[0] - layer(x)[0]).abs().amax((0, 2, 3))


@pytest.mark.parametrize(
    "build", [lambda: SelectiveSSM1D(6), lambda: VI2DSSM(6, coupling="none")], ids=("1D", "none")
)
def test_without_coupling_no_variable_influences_another(build):
    x, _, _ = drawn((2, 5, 7, 6), 0)
    moved = influence(shaken(build(), 0), x, 2)
    assert (moved > 0).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("settings", SETTINGS[:4], ids=str)
def test_with_coupling_every_variable_influences_every_other(settings):
    x, _, _ = drawn((2, 5, 7, 6), 0)
    assert (influence(shaken(VI2DSSM(6, **settings), 0), x, 2) > 1e-6).all()


def test_feedback_starts_from_variables_whose_states_are_on_their_own():
    layer = VI2DSSM(6, coupling="feedback").double()
    x, _, _ = drawn((1, 5, 9, 6), 0)
    with torch.no_grad():
        layer.step.weight.zero_()  # the step is shared; all else starts apart
    assert (influence(layer, x, 2) > 1e-12).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("coupling", ["field", "feedback"])
def test_the_linear_terms_of_the_field_start_at_zero(coupling):
    layer = VI2DSSM(6, coupling=coupling)
    assert (layer.direct == 0).all()
    assert (layer.pooled_input == 0).all()


def test_steps_start_within_their_range_spread_over_the_heads():
    layer = VI2DSSM(64, heads=8, step_range=(0.01, 1.0))
    steps = torch.nn.functional.softplus(layer.step.bias)
    assert (steps > 0.01).all()
    assert (steps < 1.0).all()
    ratios = steps[1:] / steps[:-1]
    torch.testing.assert_close(ratios, torch.full((7,), 100 ** (1 / 8)), rtol=1e-4, atol=0.0)


@given(scale=st.floats(-50, 20))
@settings(max_examples=20)
def test_both_modes_are_stable_whatever_the_parameters_are(scale):
    layer = VI2DSSM(6, coupling="feedback").double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(scale)
    for generator in (layer.generator(), layer.mean_generator()):
        assert generator is not None
        assert (generator.h < 0).all()
        assert (generator.v < 0).all()


def test_only_feedback_has_a_mean_generator():
    assert VI2DSSM(6, coupling="field").mean_generator() is None
    assert VI2DSSM(6, coupling="none").mean_generator() is None


def test_no_weight_has_the_size_of_the_number_of_variables():
    x = torch.randn(1, 11, 4, 6)
    for settings_ in SETTINGS:
        layer = VI2DSSM(6, states=3, **settings_)
        layer(x)
        assert all(11 not in parameter.shape for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 4}, "does not divide"),
        ({"states": 0}, "at least 1"),
        ({"pool": "median"}, "not one of mean"),
        ({"coupling": "ring"}, "not one of field"),
        ({"coupling": "feedback", "pool": "attention"}, "two modes"),
        ({"step_range": (0.1, 0.01)}, "smaller one first"),
    ],
)
def test_settings_that_cannot_be_are_errors_in_words(arguments, message):
    with pytest.raises(SettingError, match=message):
        VI2DSSM(6, **arguments)


def test_zero_variables_are_an_error_in_words():
    with pytest.raises(ShapeError, match="0 variables"):
        VI2DSSM(6)(torch.zeros(1, 0, 4, 6))


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("inputs", [torch.float32, torch.bfloat16])
def test_layers_run_under_autocast_and_answer_like_their_input(build, inputs):
    layer = build(32)
    x = torch.randn(2, 3, 9, 32)
    exact, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = layer(x.to(inputs), gate=x.to(inputs))
        rough, _ = layer(x.to(inputs))
    assert y.dtype == inputs
    assert state.dtype == torch.float32
    assert error(rough.float(), exact) < 0.05
    y.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
