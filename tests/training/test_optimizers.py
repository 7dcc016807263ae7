import itertools

import pytest
import torch
from torch import nn

from orderless.training import TrainingConfig
from orderless.training.averaging import WeightAverage
from orderless.training.optimizers import build_optimizer, learning_rate_factor, set_learning_rate


def test_only_matrices_decay_and_all_that_is_trained_moves_at_one_rate():
    module = nn.ModuleDict({"still": nn.Linear(4, 4), "deep": nn.Linear(4, 4)})
    module["still"].requires_grad_(False)
    optimizer = build_optimizer(module, TrainingConfig(learning_rate=0.1, weight_decay=0.5))
    set_learning_rate(optimizer, 0.5)
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert set(of) == {id(parameter) for parameter in module["deep"].parameters()}
    assert of[id(module["deep"].weight)]["weight_decay"] == 0.5
    assert of[id(module["deep"].bias)]["weight_decay"] == 0
    assert all(group["lr"].item() == pytest.approx(0.05) for group in of.values())


def test_the_rate_rises_then_falls_to_nothing():
    factors = [learning_rate_factor(step, 100, 0.1) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9] == factors[10] == 1.0
    assert all(a >= b for a, b in itertools.pairwise(factors[10:]))
    assert factors[100] == pytest.approx(0)


def test_the_average_of_a_short_run_is_recent():
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(0)
    average = WeightAverage(module, 0.999)
    for step in range(1, 101):
        with torch.no_grad():
            module.weight.fill_(float(step))
        average.prepare(step)
        average.update(module)
    assert 80 < average.module.weight.item() < 100
