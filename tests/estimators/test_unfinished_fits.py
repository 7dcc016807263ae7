"""A fit that fails or is stopped leaves the estimator as it was."""

import signal

import numpy as np
import pytest
from sklearn.base import clone

import orderless
from orderless import Forecaster
from orderless.data.simulate import motions, plant
from orderless.errors import NotFittedError, OrderlessError
from orderless.models import run
from orderless.training.loop import train

VALUES, _ = plant(0, sensors=3, steps=120)
OTHER = 50 + 9 * plant(1, sensors=2, steps=80)[0]
CASES, LABELS, _ = motions(0, cases=9)
COMMON = {
    "network": {"channels": 8, "states": 2, "branches": ["long"]},
    "epochs": 1,
    "training": {"steps_per_epoch": 2},
    "verbose": False,
}
NETWORK = COMMON | {"members": ("naive", "network"), "epochs": 2}
SERIES = ((VALUES,), (OTHER,))
KINDS = {
    "Forecaster": (
        {"horizon": 4, "context": 12, "members": ("ridge", "network")},
        "predict",
        *SERIES,
    ),
    "Classifier": (
        {},
        "predict_proba",
        (CASES, LABELS),
        ([9 * case[:2] for case in CASES[:4]], ["left", "right", "up", "down"]),
    ),
    "Detector": ({"context": 12, "members": ("ridge", "network")}, "score", *SERIES),
}


@pytest.fixture(params=KINDS)
def case(request):
    settings, verb, first, other = KINDS[request.param]
    return getattr(orderless, request.param)(**settings, **COMMON), verb, first, other


def stop(*_, **__):
    raise KeyboardInterrupt


def test_a_first_fit_that_fails_leaves_nothing(case):
    model, verb, first, _ = case
    model.set_params(training={"batch_size": -1})
    before = dict(vars(model))
    with pytest.raises(OrderlessError):
        model.fit(*first)
    assert vars(model) == before
    with pytest.raises(NotFittedError, match="fit"):
        getattr(model, verb)(first[0])


@pytest.mark.parametrize("step", ["_run", "_print_report"])
def test_a_stopped_refit_leaves_the_earlier_fit(case, step, monkeypatch):
    """Stopped before anything is trained, and after everything is."""
    model, verb, first, other = case
    expected = getattr(model.fit(*first), verb)(first[0])
    before = dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr(type(model), step, stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*other)
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(getattr(model, verb)(first[0]), expected)


def test_a_refit_that_finishes_is_the_same_as_a_fresh_fit(case):
    model, verb, first, other = case
    fresh = clone(model).fit(*other)
    again = model.fit(*first).fit(*other)
    assert again is model
    np.testing.assert_array_equal(getattr(again, verb)(other[0]), getattr(fresh, verb)(other[0]))


def test_ctrl_c_in_a_training_leaves_a_model_that_can_be_used(case, monkeypatch):
    """What was asked for comes at once: no further network is trained."""
    model, verb, first, _ = case
    if isinstance(model, Forecaster):
        model.set_params(members=("naive", "ridge", "network on ridge", "network"))
    trainings = []

    def press(task, *given, **more):
        loss = task.loss

        def pressed(*of_step):
            task.loss = loss
            signal.raise_signal(signal.SIGINT)
            return loss(*of_step)

        task.loss = pressed
        trainings.append(train(task, *given, **more))
        return trainings[-1]

    monkeypatch.setattr(run, "train", press)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*first)
    (outcome,) = trainings
    assert outcome.interrupted
    assert np.isfinite(getattr(model, verb)(first[0])).all()
    assert list(model.history_.values()) == [outcome.history]


def train_and_stop(*given, **more):
    train(*given, **more)
    raise KeyboardInterrupt


def test_a_stopped_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    straight = Forecaster(4, 12, **NETWORK).fit(VALUES)
    model = Forecaster(4, 12, **NETWORK)
    with monkeypatch.context() as patch:
        patch.setattr(run, "train", train_and_stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(VALUES, checkpoint=tmp_path)
    assert any(tmp_path.iterdir())
    model.fit(VALUES, checkpoint=tmp_path)
    np.testing.assert_array_equal(model.predict(VALUES), straight.predict(VALUES))


SEEDLESS = (None, np.random.default_rng(0), np.random.RandomState(0))


@pytest.mark.parametrize("random_state", SEEDLESS, ids=["none", "generator", "legacy generator"])
def test_a_stopped_fit_whose_seed_was_drawn_goes_on_with_that_seed(
    random_state, tmp_path, monkeypatch
):
    model = Forecaster(4, 12, random_state=random_state, **NETWORK)
    drawn = []

    def remember_and_stop(task, config, **more):
        drawn.append(config.seed)
        train_and_stop(task, config, **more)

    with monkeypatch.context() as patch:
        patch.setattr(run, "train", remember_and_stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(VALUES, checkpoint=tmp_path)
    model.fit(VALUES, checkpoint=tmp_path)
    assert [model.seed_] == drawn
    straight = Forecaster(4, 12, random_state=model.seed_, **NETWORK).fit(VALUES)
    np.testing.assert_array_equal(model.predict(VALUES), straight.predict(VALUES))
    # Elsewhere there is no run to go on with.
    assert model.fit(VALUES, checkpoint=tmp_path / "other").seed_ != straight.seed_
