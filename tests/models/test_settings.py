from pathlib import Path

import numpy as np
import pytest

from orderless.errors import SettingError
from orderless.models.settings import build_network_config, build_training_config


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
    with pytest.raises(SettingError, match="preset"):
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
    with pytest.raises(SettingError, match=place):
        build_training_config({}, {key: value}, **{key: None})
