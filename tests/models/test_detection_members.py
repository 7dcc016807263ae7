"""What every member that detects anomalies promises, and what each is good for."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from orderless.data import Batch
from orderless.models import Stack
from orderless.models.detection import KINDS
from orderless.models.detection.joint import PCA, REGRESSION, WIDEST, Joint, _fill
from orderless.models.detection.network import Reconstruction
from orderless.models.detection.ridge import Ridge
from orderless.nn import ReconstructionNetwork, tiny

COUNT = 4


def batch_of(values, observed=None, numbers=None) -> Batch:
    """[variable, time] as one window."""
    values = torch.as_tensor(values, dtype=torch.float32)
    observed = torch.isfinite(values) if observed is None else observed
    numbers = range(len(values)) if numbers is None else numbers
    return Batch(
        torch.where(observed, values, 0.0)[None],
        observed[None],
        observed.any(-1)[None],
        static=torch.tensor([*numbers])[None],
    )


def plant(steps=600, seed=0):
    """Four sensors that follow one wave, with own gains."""
    random = np.random.default_rng(seed)
    wave = np.sin(np.arange(steps) / 7)
    return np.array([[1.0], [0.5], [-1.0], [0.8]]) * wave + 0.1 * random.normal(size=(4, steps))


TRAIN, TEST = batch_of(plant()), plant(seed=1, steps=200)


def build(name):
    if name == "ridge":
        return Ridge.fit([TRAIN])
    if name == "network":
        torch.manual_seed(0)
        network = ReconstructionNetwork(tiny(32, center="none", scale=False, skip=False)).eval()
        return Reconstruction(network, 32)
    return Joint.fit([TRAIN], name, COUNT)


@pytest.fixture(params=["ridge", PCA, REGRESSION, "network"])
@torch.no_grad()
def member(request):
    return build(request.param)


@torch.no_grad()
def test_what_is_missing_has_no_error_and_what_it_holds_does_not_matter(member):
    holes = TEST.copy()
    holes[1, 50:80] = holes[:, 120] = np.nan
    batch = batch_of(holes)
    errors = member(batch)
    assert torch.isfinite(errors).all()
    assert torch.equal(errors == 0, ~batch.observed)
    poisoned = replace(batch, values=torch.where(batch.observed, batch.values, torch.nan))
    assert torch.equal(member(poisoned), errors)


@torch.no_grad()
def test_the_order_of_the_variables_and_company_change_nothing(member):
    batch = batch_of(TEST)
    order = [2, 0, 3, 1]
    moved = batch_of(TEST[order], numbers=order)
    torch.testing.assert_close(member(moved)[0], member(batch)[0, order], rtol=1e-4, atol=1e-5)
    pair = [torch.cat((one, one.flip(2) if one.dim() == 3 else one)) for one in
            (batch.values, batch.observed, batch.members, batch.static)]  # fmt: skip
    both = member(Batch(pair[0], pair[1], pair[2], static=pair[3]))
    torch.testing.assert_close(both[:1], member(batch), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_dead_variable_is_as_one_that_is_not_there(member):
    dead = TEST.copy()
    dead[3] = np.nan
    torch.testing.assert_close(member(batch_of(dead))[:, :3], member(batch_of(TEST[:3])))


@torch.no_grad()
def test_a_reading_far_off_is_an_error_of_its_own_alone(member):
    far = TEST.copy()
    far[1, 100] = 1e6
    batch = batch_of(far)
    errors, before = member(batch), member(batch_of(TEST))
    assert errors[0, 1, 100] > 9e5
    others = (errors - before).abs()
    others[0, 1, 100] = 0
    assert others.max() < 6


@torch.no_grad()
def test_the_same_after_saving_and_loading(member):
    stack = Stack((member,), (1.0,))
    facts, tensors = stack.state()
    loaded = Stack.restore(json.loads(json.dumps(facts)), tensors, KINDS)
    assert torch.equal(loaded.members[0](batch_of(TEST)), member(batch_of(TEST)))
    assert loaded.members[0].name == member.name


@pytest.mark.parametrize("name", ["ridge", PCA, REGRESSION])
def test_closed_forms_are_causal_and_explain_most(name):
    member = build(name)
    errors = member(batch_of(TEST))
    changed = TEST.copy()
    changed[:, 150:] += 3.0
    later = member(batch_of(changed))
    torch.testing.assert_close(later[..., :150], errors[..., :150], rtol=1e-4, atol=1e-5)
    assert errors.square().mean() < 0.3 * np.square(TEST).mean()


def test_a_ridge_expects_variables_that_fit_did_not_see_and_a_joint_member_does_not():
    batch = batch_of(TEST[:2], numbers=[7, 8])
    assert torch.isfinite(build("ridge")(batch)).all()
    assert torch.isnan(build(PCA)(batch)).all()


def test_a_sensor_that_begins_or_comes_back_makes_no_error_by_itself():
    late = TEST.copy()
    late[0, :100] = late[1, 60:120] = np.nan
    late[:2] += 3.0  # nothing like the others, so that a guess would be wrong
    errors = build("ridge")(batch_of(late))
    assert errors[0, 0, 100].abs() < 1
    assert errors[0, 1, 120].abs() < 1


def test_regression_finds_a_sensor_that_no_longer_follows_the_others():
    loose = TEST.copy()
    loose[2, 100:150] = TEST[2, 80:130]
    squares = build(REGRESSION)(batch_of(loose)).square()[0]
    assert squares[2, 100:150].mean() > 5 * squares[2, :100].mean()
    assert squares[:, 100:150].mean(1).argmax() == 2


def test_missing_entries_are_filled_as_the_covariance_has_it():
    random = torch.Generator().manual_seed(0)
    root = torch.randn(5, 5, generator=random)
    covariance = root @ root.T + torch.eye(5)
    known = torch.tensor([[True, False, True, False, True]])
    values = torch.where(known, torch.randn(1, 5, generator=random), 0.0)
    filled = _fill(values, known, torch.linalg.inv(covariance))
    free, given = ~known[0], known[0]
    expected = covariance[free][:, given] @ torch.linalg.solve(
        covariance[given][:, given], values[0, given]
    )
    torch.testing.assert_close(filled[0, free], expected, rtol=1e-3, atol=1e-4)
    assert torch.equal(filled[known], values[known])


def test_windows_are_shorter_where_there_are_very_many_variables():
    count = WIDEST // 4
    values = np.random.default_rng(0).normal(size=(count, 12))
    assert Joint.fit([batch_of(values)], PCA, count).window == 4


def test_nothing_to_learn_from_still_gives_a_member():
    constant = batch_of(np.zeros((2, 3)))
    for member in (
        Ridge.fit([constant]),
        *(Joint.fit([constant], n, 2) for n in (PCA, REGRESSION)),
    ):
        assert torch.isfinite(member(constant)).all()
