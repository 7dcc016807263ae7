"""How much is in a training step: as usual for few variables, less where memory would not do."""

import numpy as np
import pytest
import torch
from forecasting_cases import SMALL

from orderless import Forecaster
from orderless.models import run
from orderless.models.forecasting.network import ForecastingTask

NOISE = np.random.default_rng(0).standard_normal((64, 600))
NETWORK = {
    "context": 8,
    "members": "network",
    "network": SMALL,
    "epochs": 1,
    "training": {"steps_per_epoch": 2},
    "verbose": False,
}


@pytest.fixture
def sizes(monkeypatch) -> list[int]:
    """The batch size of every training that is begun."""
    seen, train = [], run.train

    def remember(task, settings, **options):
        seen.append(settings.batch_size)
        return train(task, settings, **options)

    monkeypatch.setattr(run, "train", remember)
    return seen


def test_fewer_windows_of_many_variables_are_taken(sizes):
    for variables in (8, 50, 600):
        Forecaster(4, **NETWORK).fit(NOISE[:, :variables])
    assert sizes == [64, 20, 16]


@pytest.mark.parametrize("coupling", ["field", "none"])
def test_a_step_sees_some_of_very_many_variables(coupling, monkeypatch):
    drawn, draw = [], ForecastingTask.draw

    def remember(task, index):
        drawn.append(draw(task, index)[1])
        return draw(task, index)

    monkeypatch.setattr(ForecastingTask, "draw", remember)
    network = {"network": SMALL | {"coupling": coupling}}
    Forecaster(4, **NETWORK | network).fit(NOISE)
    assert max(one.shape[1] for one in drawn) <= 256


def test_the_order_of_very_many_variables_changes_nothing():
    """More than a step, a held-out window and the ridge take; some of them are constant."""
    values = np.random.default_rng(0).standard_normal((48, 1200)).cumsum(0)
    values[:, ::7] = 3.0
    data = {f"sensor {k}": column for k, column in enumerate(values.T)}
    settings = NETWORK | {"members": ("naive", "coupled ridge", "network")}
    one, other = (
        Forecaster(4, **settings).fit(each) for each in (data, dict(reversed(data.items())))
    )
    assert one.weights_ == other.weights_
    first, second = (model.predict(data, level=80) for model in (one, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    errors = one.error_table_.count
    # Of two windows, and six in seven variables: the seventh is constant.
    assert abs(errors / (2 * 1024 * 4) - 6 / 7) < 0.02


def test_variables_of_other_systems_are_none_of_a_window(sizes):
    """A hundred systems of six variables each, every one with names of its own."""
    names = np.repeat([f"sensor {k}" for k in range(600)], 20)
    long = {
        "time": np.tile(np.arange(20), 600),
        "sensor": names,
        "value": NOISE.ravel()[:12_000],
        "plant": np.repeat(np.arange(100), 120),
    }
    Forecaster(4, **NETWORK).fit(long, group="plant")
    assert sizes == [64]


def test_a_network_with_a_shorter_context_is_trained_on_the_same_targets(monkeypatch):
    """A season longer than the context makes windows longer than the network's."""
    tasks, train = [], run.train
    monkeypatch.setattr(
        run,
        "train",
        lambda task, *more, **options: tasks.append(task) or train(task, *more, **options),
    )
    values = np.arange(200.0)[:, None] + NOISE[:1, :2]
    Forecaster(4, **NETWORK, season=20).fit(values)
    (task,) = tasks
    batch = task.evaluator.series.batch(task.train, 8, 4)
    longer = task.evaluator.series.batch(task.train - torch.tensor([0, 12]), 20, 4)
    assert torch.equal(batch.targets, longer.targets)
    assert torch.equal(batch.values, longer.values[..., -8:])
    assert int(task.train[:, 1].min()) >= 0
