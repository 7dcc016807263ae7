import json
from dataclasses import dataclass

import pytest
import torch
from forecasting_cases import SMALL

from orderless.data import Batch
from orderless.models import Stack
from orderless.models.forecasting import KINDS, Naive, NetworkForecast, Ridge
from orderless.models.settings import build_network_config
from orderless.models.stack import LEAST_WEIGHT, certify_members, keep_earners
from orderless.nn import ForecastingNetwork, LinearForecast

CONTEXT, HORIZON = 24, 4


@dataclass
class Constant:
    """A member that always answers with one number, and counts how often it is asked."""

    number: float
    asked: int = 0
    module = None

    @property
    def name(self):
        return f"always {self.number:g}"

    def __call__(self, batch):
        self.asked += 1
        return torch.full((*batch.values.shape[:2], HORIZON), self.number)

    def to(self, device):
        pass


@pytest.fixture
def batch() -> Batch:
    random = torch.Generator().manual_seed(0)
    values = torch.randn(3, 5, 30, generator=random)  # a longer context than any member's
    observed = torch.rand(values.shape, generator=random) < 0.9
    return Batch(torch.where(observed, values, 0.0), observed, observed.any(-1))


@pytest.fixture
def every_kind() -> Stack:
    """One member of each kind, none of which answers with zeros."""
    linear = LinearForecast(CONTEXT, HORIZON).requires_grad_(False)
    config = build_network_config("tiny", CONTEXT, SMALL)
    network = ForecastingNetwork(config, CONTEXT, HORIZON, quantiles=(0.1, 0.9))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in (*linear.parameters(), *network.parameters()):
            one.normal_(std=0.2, generator=random)
    members = (
        Naive(HORIZON),
        Naive(HORIZON, 6),
        Ridge(linear.without_company()),
        Ridge(linear),
        NetworkForecast(network.eval().requires_grad_(False)),
    )
    return Stack(members, (0.1, 0.15, 0.2, 0.25, 0.3))


def test_a_stack_answers_with_the_weighted_mean_of_its_members(batch):
    stack = Stack((Constant(1.0), Constant(5.0)), (0.25, 0.75))
    assert (stack(batch) == 4.0).all()
    assert [one.asked for one in stack.members] == [1, 1]


def test_a_stack_of_one_member_is_that_member_to_the_bit(every_kind, batch):
    for member in every_kind.members:
        assert torch.equal(Stack((member,), (1.0,))(batch), member(batch))


def test_each_member_looks_at_its_own_context_of_a_longer_one(every_kind, batch):
    older = Batch(batch.values.clone(), batch.observed, batch.members)
    older.values[..., : 30 - CONTEXT] += 100.0
    for member in every_kind.members:
        assert torch.equal(member(older), member(batch)), member.name


def test_a_stack_is_restored_to_the_bit_from_json_and_tensors(every_kind, batch):
    facts, tensors = every_kind.state()
    again = Stack.restore(json.loads(json.dumps(facts)), tensors, KINDS)
    assert [one.name for one in again.members] == [one.name for one in every_kind.members]
    assert again.weights == every_kind.weights
    assert torch.equal(again(batch), every_kind(batch))
    network, other = (one.members[-1].forecast(batch).quantiles for one in (every_kind, again))
    assert torch.equal(network, other)
    assert len({name.split("/")[1] for name in tensors}) == 3  # those that have any


def test_members_that_earned_next_to_nothing_are_left_out(batch):
    members = [Constant(float(number)) for number in range(4)]
    stack = keep_earners(members, torch.tensor([0.0, 0.59, 0.99 * LEAST_WEIGHT, 0.3605]))
    assert stack.members == (members[1], members[3])
    assert sum(stack.weights) == pytest.approx(1.0)
    assert stack.weights[0] / stack.weights[1] == pytest.approx(0.59 / 0.3605)
    stack(batch)
    assert [one.asked for one in members] == [0, 1, 0, 1]


def test_of_many_members_that_are_all_alike_one_is_kept():
    members = [Constant(float(number)) for number in range(40)]
    weights = torch.full((40,), 0.0249)
    weights[7] = 0.0289
    assert keep_earners(members, weights) == Stack((members[7],), (1.0,))


def test_a_stack_lives_where_its_weights_do(every_kind):
    assert every_kind.device == torch.device("cpu")
    assert Stack(every_kind.members[:2], (0.5, 0.5)).device == torch.device("cpu")
    every_kind.to(torch.device("meta"))
    assert every_kind.device == torch.device("meta")
    assert all(
        one.module is None or next(one.module.parameters()).is_meta for one in every_kind.members
    )


def test_only_members_with_dynamics_are_certified(every_kind):
    assert list(certify_members(every_kind, 5)) == ["network on ridge"]
    assert certify_members(Stack(every_kind.members[:4], (0.25,) * 4), 5) == {}
