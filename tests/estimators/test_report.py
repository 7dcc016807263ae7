import contextlib
import os

import numpy as np
import pytest

from orderless import Forecaster
from orderless.estimators.report import table, verdict


def test_a_baseline_that_wins_is_named():
    assert verdict({"naive": 2.0, "ridge": 1.0, "this model": 1.1}, "this model") == (
        "A baseline wins: ridge is better than the model by 10.0 % here."
    )


def test_a_model_that_wins_says_by_how_much():
    assert "10.0 % better than the best baseline (ridge)" in verdict(
        {"naive": 2.0, "ridge": 1.0, "this model": 0.9}, "this model"
    )


def test_a_tie_is_called_one():
    assert "equals" in verdict({"ridge": 1.0, "this model": 1.0}, "this model")


def test_a_perfect_baseline_is_no_division_by_zero():
    said = verdict({"naive": 0.0, "this model": 0.1}, "this model")
    assert said == "A baseline wins: naive makes no error here, and the model does."


def test_columns_line_up():
    lines = table({"a": (1.0, 2.0), "longer": (3.0, 4.0)}, ("MAE", "MSE"))
    assert len({len(line) for line in lines}) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe that nobody reads")
def test_a_model_is_not_lost_when_nobody_reads_the_report(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    deaf = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stdout", deaf)
    model = Forecaster(2, 4, epochs=0).fit(np.arange(40.0))
    monkeypatch.undo()
    assert model.predict(np.arange(40.0)).shape == (2,)
    with contextlib.suppress(BrokenPipeError):
        deaf.close()
