import copy

import numpy as np
import pytest
import torch

import orderless
from orderless import Forecaster
from orderless.data.simulate import motions, plant
from orderless.errors import DataError, SettingError
from orderless.estimators import verification
from orderless.estimators.verification import Check, verify
from orderless.models import Stack
from orderless.models.forecasting import Naive

TINY = {"channels": 8, "states": 2, "branches": ["long"]}


@pytest.fixture(scope="module")
def data():
    values, _ = plant(0, sensors=4, steps=150, period=12)
    return values


TRAINING = {"steps_per_epoch": 3, "learning_rate": 0.01}
NETWORK = {"members": "network", "network": TINY, "epochs": 1, "training": TRAINING}


@pytest.fixture(scope="module")
def fitted(data):
    """A network whose last layer has a say."""
    model = Forecaster(6, 24, **NETWORK, verbose=False).fit(data)
    model.stack_.members[0].network.deep.weight.normal_(generator=torch.Generator().manual_seed(0))
    return model


@pytest.fixture
def forecaster(fitted):
    """A copy of it, to be broken."""
    return copy.deepcopy(fitted)


def body_of(model):
    return model.stack_.members[0].network.body


def errors(model, data=None):
    return {check.name: check for check in verify(model, data).checks}


def test_a_trained_forecaster_keeps_every_promise_on_new_variables(data):
    model = Forecaster(6, 24, network=TINY, epochs=1, training=TRAINING, verbose=False)
    model.fit(data[:, :2])
    gaps = data.copy()
    gaps[-8:, 1] = np.nan
    names = {f"unseen {i}": column for i, column in enumerate(gaps.T)}
    assert verify(model, names).holds


def test_a_member_with_loadings_keeps_its_promises(data):
    model = Forecaster(6, 24, members="factor ridge", verbose=False).fit(data)
    assert verify(model, data).holds


def test_a_horizon_that_waits_for_the_next_fit_changes_no_promise(forecaster, data):
    before = errors(forecaster, data)
    assert errors(forecaster.set_params(horizon=90), data) == before


def test_promises_are_measured_of_the_stack_and_of_each_member_with_weights(fitted, data):
    ridges = Forecaster(6, 24, members="coupled ridge", verbose=False).fit(data)
    members = (Naive(6), *ridges.stack_.members, *fitted.stack_.members)
    ridges.stack_ = Stack(members, (0.2, 0.3, 0.5))
    found = errors(ridges, data)
    assert all(check.holds for check in found.values())
    for promise in ("order", "masked entries", "padding", "batch"):
        assert f"{promise} (coupled ridge 24)" in found
        assert f"{promise} (network)" in found
    assert "causality (network)" in found  # what has no scan has no causal scan
    assert not any("naive" in name or name == "causality (coupled ridge 24)" for name in found)


def test_a_detector_keeps_every_promise_without_data(data):
    detector = orderless.Detector(
        24,
        members=("ridge", "PCA", "regression", "network"),
        network=TINY,
        epochs=1,
        training={"steps_per_epoch": 2},
        verbose=False,
    ).fit(data)
    assert verify(detector).holds


@pytest.mark.parametrize("identify", [None, "name"])
def test_a_classifier_keeps_every_promise_without_data(identify):
    cases, labels, _ = motions(0, cases=6, variables=3, shortest=15, longest=18)
    classifier = orderless.Classifier(network=TINY, identify=identify, epochs=1, verbose=False)
    assert verify(classifier.fit(cases, labels)).holds


@pytest.mark.parametrize(
    "kind", ["short", "one variable", "one row", "gaps", "constant", "systems"]
)
def test_promises_are_kept_on_awkward_data(kind, forecaster, data):
    gaps = data.copy()
    gaps[::3] = np.nan
    gaps[:, 2] = np.nan
    awkward = {
        "short": data[:10],
        "one variable": data[:, :1],
        "one row": data[:1],
        "gaps": gaps,
        "constant": np.ones((50, 2)),
        "systems": [data, data[:40, :2]],
    }
    assert verify(forecaster, awkward[kind]).holds


def test_data_without_a_value_cannot_be_verified_on(forecaster):
    with pytest.raises(DataError, match="value"):
        verify(forecaster, np.full((50, 2), np.nan))


def test_a_model_that_forbids_other_variables_can_be_verified(data):
    model = Forecaster(6, 24, members="ridge", strict_variables=True, verbose=False)
    assert verify(model.fit(data), data).holds
    assert model.strict_variables is True


def test_a_network_that_counts_its_variables_breaks_its_promise(forecaster, data):
    def count(module, inputs, output):
        tokens, where = output
        position = torch.arange(tokens.shape[1], dtype=tokens.dtype).reshape(1, -1, 1, 1)
        return tokens + 1e-6 * position, where

    body_of(forecaster).register_forward_hook(count)
    found = errors(forecaster, data)
    assert not found["order (network)"].holds
    assert 1e-8 < found["order (network)"].error < 1e-4
    assert found["batch (network)"].holds


def test_a_network_that_looks_at_its_neighbours_in_the_batch_breaks_its_promise(forecaster, data):
    body_of(forecaster).register_forward_hook(
        lambda module, inputs, output: (output[0] + output[0].mean(0, keepdim=True), output[1])
    )
    found = errors(forecaster, data)
    assert not found["batch (network)"].holds
    assert found["order (network)"].holds


def test_a_pool_that_counts_padding_breaks_its_promise(forecaster, data):
    body_of(forecaster).register_forward_hook(
        lambda module, inputs, output: (output[0] + output[0].mean(1, keepdim=True), output[1])
    )
    assert not errors(forecaster, data)["padding (network)"].holds


def test_a_forecast_that_knows_the_future_breaks_its_promise(forecaster, data, monkeypatch):
    original = Forecaster.backtest

    def peek(self, panel, *arguments, **settings):
        result = original(self, panel, *arguments, **settings)
        result.forecast[0][0, -1, 0] += panel.systems[0].values[0, -1]
        return result

    monkeypatch.setattr(Forecaster, "backtest", peek)
    assert not errors(forecaster, data)["causality"].holds


def test_a_model_that_loads_differently_breaks_its_promise(forecaster, data, monkeypatch):
    original = verification.load

    def blur(folder):
        model = original(folder)
        model.stack_.members[0].network.deep.weight.mul_(1 + 1e-5)
        return model

    monkeypatch.setattr(verification, "load", blur)
    found = errors(forecaster, data)["save and load"]
    assert not found.holds
    assert 0 < found.error < 1e-4


def test_an_error_that_is_not_a_number_is_a_broken_promise():
    check = Check("order", "", float("nan"), 1.0)
    assert not check.holds
    assert verification.Verification("Forecaster", 1, (check,)).to_dict()["checks"][0] == {
        "name": "order",
        "promise": "",
        "error": None,
        "tolerance": 1.0,
        "holds": False,
    }


def test_a_column_role_that_does_not_exist_is_named(forecaster, data):
    with pytest.raises(SettingError, match="tme"):
        verify(forecaster, data, columns={"tme": "t"})
