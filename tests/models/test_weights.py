import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.models.weights import fit_shrunk_weights, fit_weights
from orderless.training import LOSSES
from orderless.training.losses import pinball

few = settings(max_examples=10)
seeds = st.integers(0, 10**6)
GRID = torch.linspace(0, 1, 1001)


def problem(seed, members, entries=300):
    """Answers [entry, member] of various quality and the targets."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randn(entries, generator=random)
    common = torch.randn(entries, 1, generator=random)
    noise = torch.randn(entries, members, generator=random)
    size = torch.rand(2, members, generator=random) * 1.5
    offset = 0.3 * torch.randn(members, generator=random)
    return target.unsqueeze(1) + size[0] * common + size[1] * noise + offset, target


def loss_of(name, answers, target, unit=1.0):
    return lambda weights: unit * LOSSES[name](answers @ weights, target, None)


@few
@given(seed=seeds, members=st.integers(1, 8), name=st.sampled_from(["l1", "mse", "huber"]))
def test_weights_lie_on_the_simplex_and_beat_every_member(seed, members, name):
    answers, target = problem(seed, members)
    loss = loss_of(name, answers, target)
    weights = fit_weights(loss, members)
    assert (weights >= 0).all()
    assert float(weights.sum()) == pytest.approx(1.0)
    alone = [float(loss(one)) for one in torch.eye(members)]
    assert float(loss(weights.float())) <= 1.002 * min(alone)


@few
@given(seed=seeds, name=st.sampled_from(["l1", "mse"]))
def test_two_weights_are_those_of_a_search_by_brute_force(seed, name):
    answers, target = problem(seed, 2)
    loss = loss_of(name, answers, target)
    losses = torch.stack([loss(torch.stack((share, 1 - share))) for share in GRID])
    weights = fit_weights(loss, 2)
    assert float(loss(weights.float())) <= float(losses.min()) * 1.002
    # Where the least is sharp, at the same place.
    near = GRID[losses <= float(losses.min()) * 1.002]
    assert near.min() - 0.01 <= weights[0] <= near.max() + 0.01


@few
@given(seed=seeds)
def test_quantiles_are_weighed_by_the_pinball_loss(seed):
    levels = torch.tensor([0.1, 0.5, 0.9])
    random = torch.Generator().manual_seed(seed)
    target = torch.randn(400, generator=random)
    # The same point, and quantiles that are too narrow or too wide by far.
    normal = torch.tensor([-1.2816, 0.0, 1.2816])
    answers = torch.stack((0.2 * normal, 3.0 * normal)).expand(400, 2, 3)

    def loss(weights):
        return pinball(answers.movedim(1, -1) @ weights, target, None, levels=levels)

    narrow, wide = fit_weights(loss, 2).tolist()
    assert 0.2 * narrow + 3.0 * wide == pytest.approx(1.0, abs=0.2)


@few
@given(seed=seeds, unit=st.sampled_from([1e-6, 1e6]))
def test_the_unit_of_the_loss_does_not_matter(seed, unit):
    answers, target = problem(seed, 3)
    one, other = (fit_weights(loss_of("mse", answers, target, u), 3) for u in (1.0, unit))
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_members_that_nothing_tells_apart_have_equal_weights():
    answers = torch.randn(50, 1).expand(50, 4)
    weights = fit_weights(loss_of("l1", answers, torch.zeros(50)), 4)
    torch.testing.assert_close(weights, torch.full_like(weights, 0.25))


def test_each_part_is_left_out_once():
    parts = [problem(seed, 3, 40) for seed in range(4)]
    losses = [loss_of("mse", *part) for part in parts]
    expected = []
    for left_out in range(4):
        rest = [loss for number, loss in enumerate(losses) if number != left_out]
        expected.append(fit_weights(lambda w, rest=rest: sum(one(w) for one in rest) / 3, 3))
    found = fit_shrunk_weights(losses, 3)
    torch.testing.assert_close(found, torch.stack(expected).mean(0), rtol=1e-4, atol=1e-4)
    assert torch.equal(fit_shrunk_weights(losses[:1], 3), fit_weights(losses[0], 3))


def test_what_one_part_alone_is_for_gets_less_than_it_asks_for():
    """The second member is a little off in three parts, and the first far off in one."""
    truth = torch.linspace(-1, 1, 30)
    usual = torch.stack((truth, truth + 0.5), 1)
    odd = torch.stack((truth + 4.0, truth), 1)
    losses = [loss_of("mse", one, truth) for one in (usual, usual, usual, odd)]
    together = fit_weights(lambda weights: torch.stack([one(weights) for one in losses]).mean(), 2)
    without = fit_weights(losses[0], 2)
    shrunk = fit_shrunk_weights(losses, 2)
    assert float(together[1]) > float(shrunk[1]) > float(without[1])
    assert float(together[1]) > 0.9
    assert np.isclose(float(shrunk.sum()), 1.0)
