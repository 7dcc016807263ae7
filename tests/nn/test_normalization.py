import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_cases import drawn

from orderless.nn.normalization import movement, normalize


@pytest.mark.parametrize("center", ["mean", "last", "none"])
@pytest.mark.parametrize("scale", [True, False])
@given(seed=st.integers(0, 2**20), level=st.floats(-1e3, 1e3))
@settings(max_examples=20)
def test_values_scale_and_center_give_the_data_back(center, scale, seed, level):
    x, _, present = drawn((2, 3, 9), seed)
    values, middle, deviation = normalize(x + level, present, center=center, scale=scale)
    back = values * deviation + middle
    torch.testing.assert_close(back[present], (x + level)[present])
    assert (values[~present] == 0).all()


def test_missing_values_are_ignored():
    x = torch.tensor([[[1.0, torch.nan, 3.0, 1e30]]])
    present = torch.tensor([[[True, False, True, False]]])
    values, center, scale = normalize(x, present)
    assert center.item() == 2.0
    assert scale.item() == pytest.approx(1.0, abs=1e-5)
    torch.testing.assert_close(values, torch.tensor([[[-1.0, 0.0, 1.0, 0.0]]]), atol=1e-4, rtol=0)
    assert normalize(x, present, center="last").center.item() == 3.0


@pytest.mark.parametrize("center", ["mean", "last", "none"])
def test_constant_and_empty_contexts_become_zeros(center):
    x = torch.full((1, 2, 5), 4.0)
    present = torch.tensor([[[True] * 5, [False] * 5]])
    values, _, scale = normalize(x, present, center=center)
    assert (scale > 0).all()
    assert (values[0, 1] == 0).all()
    if center != "none":
        assert (values[0, 0] == 0).all()


@pytest.mark.parametrize("center", ["mean", "last", "none"])
def test_a_high_level_does_not_cost_the_scale_its_digits(center):
    x = torch.randn(1, 1, 1000, generator=torch.Generator().manual_seed(0))
    _, _, scale = normalize(x + 1000.0, center=center)
    torch.testing.assert_close(scale, normalize(x, center=center).scale, rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("center", ["mean", "last", "none"])
@given(seed=st.integers(0, 2**20), size=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]))
@settings(max_examples=20)
def test_scale_and_movement_give_the_standard_deviation_of_the_context(center, seed, size):
    x, _, present = drawn((2, 3, 9), seed)
    present[..., :2] = True
    values, _, scale = normalize(size * x, present, center=center)
    deviation = (scale * movement(values, present)).squeeze(-1)
    for row, seen, found in zip(
        x.flatten(0, 1), present.flatten(0, 1), deviation.flatten(), strict=True
    ):
        torch.testing.assert_close(found, size * row[seen].std(correction=0))
    if size >= 1:
        torch.testing.assert_close(deviation, scale.squeeze(-1), rtol=1e-2, atol=0.0)


def test_an_ordinary_context_hardly_feels_the_floor_and_a_constant_one_does_not_move():
    x = torch.randn(1, 1, 1000, generator=torch.Generator().manual_seed(0))
    assert abs(movement(normalize(x).values).item() - 1) < 1e-5
    constant = torch.full((1, 1, 9), 4.3, requires_grad=True)
    moved = movement(normalize(constant).values)
    moved.sum().backward()
    assert moved.item() < 1e-3
    assert constant.grad.isfinite().all()
