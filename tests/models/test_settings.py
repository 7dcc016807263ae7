from pathlib import Path

import numpy as np
import pytest
from orderless.estimators.settings import build_network_config, build_training_config

from orderless import Classifier, Detector, Forecaster
from orderless.errors import SettingError


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"channels": "many"}, "a whole number"),
        ({"channels": True}, "a whole number"),
        ({"layers": 1.5}, "a whole number"),
        ({"dropout": "a"}, "a number"),
        ({"scale": "x"}, "true or false"),
        ({"pool": 3}, "text"),
        ({"branches": "long"}, "a list of names"),
        ({"long_steps": [1]}, "a list of two numbers"),
    ],
)
def test_a_network_setting_of_the_wrong_type_says_what_to_give(changes, wanted):
    with pytest.raises(SettingError, match=f"{next(iter(changes))} = .*; give {wanted}"):
        build_network_config("tiny", 24, changes)


@pytest.mark.parametrize(
    "changes", [{"batch_size": "x"}, {"batch_size": 2.5}, {"seed": "x"}, {"checkpoint": 5}]
)
def test_a_training_setting_of_the_wrong_type_is_refused(changes):
    with pytest.raises(SettingError, match=next(iter(changes))):
        build_training_config({}, changes)


def test_settings_may_be_lists_none_where_allowed_and_numbers_of_numpy():
    network = build_network_config(
        "tiny", 24, {"branches": ["long"], "channels": np.int64(8), "long_steps": [1, 2.0]}
    )
    assert network.branches == ("long",)
    assert type(network.channels) is int
    training = build_training_config({}, {"steps_per_epoch": None, "learning_rate": 1})
    assert training.steps_per_epoch is None


def test_an_unknown_preset_is_refused_whatever_it_is():
    with pytest.raises(SettingError, match="choose one of"):
        build_network_config(["tiny"], 24, None)  # pyrefly: ignore[bad-argument-type]


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("epochs", 3, "`epochs`"),
        ("seed", 1, "`random_state`"),
        ("device", "cpu", "`device`"),
        ("precision", "bf16", "`precision`"),
        ("checkpoint", Path("here"), "`checkpoint` to `fit`"),
        ("checkpoint", "here", "`checkpoint` to `fit`"),
    ],
)
def test_what_the_estimator_was_given_is_not_given_again_among_the_settings(key, value, place):
    with pytest.raises(SettingError, match=f"`training` has {key} = .*Give {place}"):
        build_training_config({}, {key: value}, **{key: None})


def test_all_that_an_estimator_gives_to_the_training_is_refused_as_a_setting_of_it():
    values = np.random.default_rng(0).normal(size=(60, 2))
    for key, value in {"epochs": 0, "seed": 0, "device": "cpu", "precision": "no"}.items():
        model = Forecaster(2, 8, epochs=0, preset="tiny", training={key: value}, verbose=False)
        with pytest.raises(SettingError, match=f"`training` has {key}"):
            model.fit(values)


def test_every_estimator_refuses_a_device_that_does_not_exist_in_the_same_words():
    values = np.random.default_rng(0).normal(size=(60, 2))
    settings = {"epochs": 0, "preset": "tiny", "device": "gpu", "verbose": False}
    for fit in (
        lambda: Forecaster(2, 8, **settings).fit(values),
        lambda: Detector(8, **settings).fit(values),
        lambda: Classifier(**settings).fit(values.reshape(6, 2, 10), list("ababab")),
    ):
        with pytest.raises(SettingError, match="`device` is 'gpu'; choose auto, cpu or cuda"):
            fit()
