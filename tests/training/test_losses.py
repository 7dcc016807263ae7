import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.training.losses import LOSSES, cross_entropy, l1, mse, pinball, smape


def _of_one_quantile(prediction, target, mask):
    return pinball(prediction.unsqueeze(-1), target, mask, levels=torch.tensor([0.3]))


POINT = [*LOSSES.items(), ("pinball", _of_one_quantile)]


@pytest.mark.parametrize(("name", "loss"), POINT)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_a_masked_entry_has_no_influence_on_value_or_gradient(name, loss, seed):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(3, 4, generator=generator) > 0.5
    prediction = torch.randn(3, 4, generator=generator)
    target = torch.randn(3, 4, generator=generator)
    poisoned = torch.where(mask, prediction, math.nan).requires_grad_()
    value = loss(poisoned, torch.where(mask, target, math.inf), mask)
    value.backward()
    if mask.any():
        torch.testing.assert_close(value, loss(prediction[mask], target[mask], None))
    else:
        assert value == 0
    assert (poisoned.grad[~mask] == 0).all()
    assert poisoned.grad.isfinite().all()


def test_known_values():
    prediction, target = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])
    assert l1(prediction, target) == 1.5
    assert mse(prediction, target) == 2.5
    assert smape(prediction, target) == pytest.approx((2 / 3 + 1) / 2)


def test_pinball_is_least_at_the_quantile():
    target = torch.arange(1.0, 100.0)
    guesses = torch.arange(1.0, 100.0)
    losses = [pinball(torch.full((99, 1), g), target, levels=torch.tensor([0.9])) for g in guesses]
    assert guesses[int(torch.stack(losses).argmin())] == pytest.approx(90, abs=1)


def test_masked_classes_do_not_count():
    logits = torch.tensor([[2.0, 0.0], [math.nan, math.nan]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0, -7]), torch.tensor([True, False]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-2)))
    assert logits.grad.isfinite().all()
