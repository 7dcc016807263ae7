import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_cases import drawn, error, shaken

from orderless.nn.spectral import SpectralBranch

LAYOUTS = ("stacked", "concatenated")


def identity(module):
    """Make the scan pass its input on."""
    with torch.no_grad():
        for layer in (module.upward, getattr(module, "downward", None)):
            if layer is not None:
                layer.write_and_read.size[1].zero_()
                layer.direct.zero_()
                layer.pooled_input.zero_()
                layer.skip.fill_(1.0 if module.layout == "concatenated" else 0.5)
    return module


@given(tokens=st.integers(1, 17))
@settings(max_examples=17)
def test_the_literal_layout_is_as_long_as_the_input_and_loses_nothing(tokens):
    branch = identity(shaken(SpectralBranch(4, layout="concatenated", states=2), 0))
    x, _, _ = drawn((2, 3, tokens, 4), tokens)
    torch.testing.assert_close(branch(x)[0], x)


@given(tokens=st.integers(1, 17))
@settings(max_examples=17)
def test_stacked_parts_come_back_through_inverse_maps(tokens):
    branch = identity(shaken(SpectralBranch(2, layout="stacked", states=2), 0))
    with torch.no_grad():
        branch.enter.weight.copy_(torch.eye(2, 4))  # keeps the real parts
        branch.leave.weight.copy_(torch.eye(4, 2))
    x, _, _ = drawn((2, 3, tokens, 2), tokens)
    even = 0.5 * (x + torch.roll(x.flip(2), 1, 2))  # what a real spectrum means in time
    torch.testing.assert_close(branch(x)[0], even)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_pass_through_the_transform(layout):
    branch = shaken(SpectralBranch(4, layout=layout, states=2), 0)
    x, _, _ = drawn((1, 2, 6, 4), 0)
    x.requires_grad_()
    branch(x)[0][..., 0, 0].sum().backward()
    assert (x.grad.abs().sum((0, 1, 3)) > 0).all()  # every token, not only the first


@pytest.mark.parametrize("layout", LAYOUTS)
def test_masked_tokens_are_zero_and_unseen(layout):
    branch = shaken(SpectralBranch(4, layout=layout, states=2), 0)
    x, members, observed = drawn((2, 5, 7, 4), 3)
    observed[0, 1] = False
    there = (members.unsqueeze(-1) & observed).unsqueeze(-1)
    y, _ = branch(torch.where(there, x, torch.nan), members=members, observed=observed)
    assert y.isfinite().all()
    assert (torch.where(there, 0.0, y) == 0).all()
    without = torch.ones(5, dtype=torch.bool)
    without[1] = False  # a variable without a token is not in the set
    rest, _ = branch(x[:1, without], members=members[:1, without], observed=observed[:1, without])
    assert error(rest, y[:1, without]) <= 1e-10


def test_low_precision_tokens_are_transformed_in_float32():
    branch = SpectralBranch(4, layout="stacked", states=2).bfloat16()
    with torch.no_grad():
        x = torch.randn(1, 2, 6, 4, dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert branch(x)[0].dtype == torch.bfloat16
