import contextlib
import os
from types import SimpleNamespace

import numpy as np
import pytest

from orderless import Forecaster
from orderless.data import read_panel
from orderless.estimators.report import describe_data, describe_trainings, member_table, table


def test_every_member_has_its_errors_and_its_weight_and_the_model_comes_last():
    errors = {"naive": (2.0, 3.0), "network on ridge": (1.0, 2.5), "this model": (0.9, 2.0)}
    heading, *rows = member_table(errors, {"naive": 0.25, "network on ridge": 0.75}, ("MAE", "MSE"))
    assert heading.split() == ["MAE", "MSE", "weight"]
    assert [row.split()[-3:] for row in rows[:2]] == [
        ["2.0000", "3.0000", "0.25"],
        ["1.0000", "2.5000", "0.75"],
    ]
    assert rows[2].split() == ["this", "model", "0.9000", "2.0000"]
    assert len({len(row) for row in (heading, *rows[:2])}) == 1


def test_trainings_say_how_long_they_took_and_what_was_kept():
    outcome = SimpleNamespace(
        history=[None] * 3, best_epoch=2, device="cpu", seconds=61.4, stopped="all epochs done"
    )
    (line,) = describe_trainings({"network": outcome})
    for words in ("network", "2 epochs", "61 s", "epoch 2", "all epochs done"):
        assert words in line
    outcome.best_epoch = 0
    assert "start" in describe_trainings({"network": outcome})[0]


def test_data_is_described_by_its_size_and_its_gaps():
    one, two = np.ones((40, 3)), np.ones((30, 3))
    one[:7] = np.nan
    assert describe_data(read_panel([one, two])) == (
        "3 variables, 2 systems, 30 to 40 time steps, 10.0 % missing"
    )


def test_columns_line_up():
    lines = table({"a": (1.0, 2.0), "longer": (3.0, 4.0)}, ("MAE", "MSE"))
    assert len({len(line) for line in lines}) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe that nobody reads")
def test_a_model_is_not_lost_when_nobody_reads_the_report(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    deaf = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stdout", deaf)
    model = Forecaster(2, 4, members="naive").fit(np.arange(40.0))
    monkeypatch.undo()
    assert model.predict(np.arange(40.0)).shape == (2,)
    with contextlib.suppress(BrokenPipeError):
        deaf.close()
