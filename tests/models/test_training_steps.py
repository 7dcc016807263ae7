"""How much is in a training step: as usual for few variables, less where memory would not do."""

import numpy as np
import pytest
from orderless.estimators.forecasting_task import ForecastingTask

from orderless import Classifier, Detector, Forecaster
from orderless.estimators import base

SMALL = {"channels": 8, "states": 2}
NOISE = np.random.default_rng(0).standard_normal((64, 600))


@pytest.fixture
def sizes(monkeypatch) -> list[int]:
    """The batch size of every training that is begun."""
    seen, train = [], base.train

    def remember(task, settings, **options):
        seen.append(settings.batch_size)
        return train(task, settings, **options)

    monkeypatch.setattr(base, "train", remember)
    return seen


def test_a_forecaster_takes_fewer_windows_of_many_variables(sizes):
    for variables in (8, 50, 600):
        quick = {"context": 8, "network": SMALL, "epochs": 0, "verbose": False}
        Forecaster(4, **quick).fit(NOISE[:, :variables])
    assert sizes == [64, 20, 16]


@pytest.mark.parametrize("coupling", ["field", "none"])
def test_a_step_sees_some_of_very_many_variables(coupling, monkeypatch):
    drawn, draw = [], ForecastingTask.draw

    def remember(task, index):
        drawn.append(draw(task, index)[1])
        return draw(task, index)

    monkeypatch.setattr(ForecastingTask, "draw", remember)
    network = SMALL | {"coupling": coupling}
    model = Forecaster(4, 8, network=network, epochs=1, verbose=False)
    model.set_params(training={"steps_per_epoch": 2}).fit(NOISE)
    assert max(one.shape[1] for one in drawn) <= 256


def test_the_order_of_very_many_variables_changes_nothing():
    """More than a step, a held-out window and the ridge take; some of them stand still."""
    values = np.random.default_rng(0).standard_normal((48, 1200)).cumsum(0)
    values[:, ::7] = 3.0
    data = {f"sensor {k}": column for k, column in enumerate(values.T)}
    settings = {"network": SMALL, "epochs": 1, "training": {"steps_per_epoch": 3}}
    one, other = (
        Forecaster(4, 8, **settings, verbose=False).fit(each)
        for each in (data, dict(reversed(data.items())))
    )
    first, second = (model.predict(data, level=80) for model in (one, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    errors = one.error_table_.count
    # Of two windows, and six in seven variables: the seventh stands still.
    assert abs(errors / (2 * 1024 * 4) - 6 / 7) < 0.02


def test_a_detector_takes_fewer_windows_of_many_variables(sizes):
    for variables in (8, 64, 600):
        quick = {"context": 8, "network": SMALL, "epochs": 0, "verbose": False}
        Detector(**quick).fit(NOISE[:, :variables])
    assert sizes == [32, 32, 8]


def test_variables_of_other_systems_are_none_of_a_window(sizes):
    """A hundred systems of six variables each, every one with names of its own."""
    names = np.repeat([f"sensor {k}" for k in range(600)], 20)
    long = {
        "time": np.tile(np.arange(20), 600),
        "sensor": names,
        "value": NOISE.ravel()[:12_000],
        "plant": np.repeat(np.arange(100), 120),
    }
    Forecaster(4, 8, network=SMALL, epochs=0, verbose=False).fit(long, group="plant")
    assert sizes == [64]


def test_a_classifier_takes_fewer_large_cases(sizes, monkeypatch):
    monkeypatch.setattr("orderless.estimators.classifier.ENTRIES_PER_STEP", 2**12)
    for length in (4, 64):
        cases = [NOISE[:length, k : k + 10].T for k in range(12)]
        Classifier(network=SMALL, epochs=0, verbose=False).fit(cases, ["a", "b"] * 6)
    assert sizes == [16, 6]
