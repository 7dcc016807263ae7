"""What all estimators have in common."""

import subprocess
import sys

import numpy as np
import pytest

import orderless
from orderless.errors import SettingError

VALUES = np.random.default_rng(0).normal(size=(60, 2))
COMMON = {"preset": "tiny", "epochs": 1, "verbose": False}
FITS = {
    "Forecaster": lambda kind, **more: kind(2, 8, **COMMON | more).fit(VALUES),
    "Detector": lambda kind, **more: kind(8, **COMMON | more).fit(VALUES),
    "Classifier": lambda kind, **more: kind(**COMMON | more).fit(
        VALUES.reshape(6, 2, 10), list("ababab")
    ),
}
every_kind = pytest.mark.parametrize("kind", FITS)


@every_kind
def test_a_device_that_does_not_exist_is_refused(kind):
    with pytest.raises(SettingError, match="`device`"):
        FITS[kind](getattr(orderless, kind), device="gpu")


@every_kind
@pytest.mark.parametrize(
    ("key", "value"), [("epochs", 1), ("seed", 0), ("device", "cpu"), ("precision", "no")]
)
def test_what_an_estimator_gives_to_the_training_is_refused_as_a_setting_of_it(kind, key, value):
    with pytest.raises(SettingError, match=f"`training` has {key}"):
        FITS[kind](getattr(orderless, kind), training={key: value})


@every_kind
def test_epochs_are_at_least_one(kind):
    with pytest.raises(SettingError, match="epochs"):
        FITS[kind](getattr(orderless, kind), epochs=0)


@every_kind
def test_an_estimator_does_not_load_the_others(kind):
    code = f"from orderless import {kind}; import sys; "
    code += "print(*(name for name in sys.modules if name.startswith('orderless.estimators.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.rsplit(".", 1)[-1] for name in done.stdout.split()}
    assert kind.lower() in loaded
    assert not {other.lower() for other in FITS if other != kind} & loaded
