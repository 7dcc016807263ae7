import torch
from nn_cases import drawn, error, shaken

from orderless.nn.block import Block, BranchGate, CausalConvolution
from orderless.nn.config import NetworkConfig


def test_the_short_convolution_is_a_grouped_convolution_padded_in_front():
    layer = shaken(CausalConvolution(5, 4), 0)
    x, _, _ = drawn((2, 3, 9, 5), 1)
    rows = torch.nn.functional.pad(x.flatten(0, 1).mT, (3, 0))
    expected = torch.nn.functional.conv1d(rows, layer.weight.mT.unsqueeze(1), layer.bias, groups=5)
    torch.testing.assert_close(layer(x), expected.mT.unflatten(0, (2, 3)))


def test_without_spectrum_and_gate_a_block_is_causal():
    config = NetworkConfig(channels=8, states=2, branches=("long",))
    block = shaken(Block(config), 0)
    x, _, _ = drawn((2, 3, 9, 8), 1)
    changed = x.clone()
    changed[:, :, 5:] += 1.0
    before = block(x, members=None, observed=None)
    after = block(changed, members=None, observed=None)
    assert error(after[:, :, :5], before[:, :, :5]) <= 1e-12
    assert error(after[:, :, 5:], before[:, :, 5:]) > 1e-3


def test_the_gate_weighs_branches_for_each_variable_or_for_all():
    results = [torch.ones(2, 3, 4, 5).double() * drawn((2, 3, 1, 1), k)[0] for k in range(3)]
    for shared in (False, True):
        gate = shaken(BranchGate(5, 3, shared=shared), 0)
        fused = gate(results, members=None, observed=None)
        low, high = torch.stack(results).amin(0), torch.stack(results).amax(0)
        assert (fused >= low - 1e-12).all()
        assert (fused <= high + 1e-12).all()
        moved = [y.clone() for y in results]
        moved[0][:, 0] += 1.0
        others = gate(moved, members=None, observed=None)[:, 1:]
        assert (error(others, fused[:, 1:]) > 1e-9) == shared


def test_one_branch_needs_no_gate():
    x, _, _ = drawn((2, 3, 4, 5), 0)
    assert BranchGate(5, 1, shared=False)([x], members=None, observed=None) is x
