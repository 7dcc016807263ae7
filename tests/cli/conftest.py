"""Files and saved models that the verbs are tried on: as small as they can be."""

import os
from contextlib import redirect_stdout

import numpy as np
import pytest

from orderless import Classifier, Detector, Forecaster
from orderless.cli import main
from orderless.data import write_table
from orderless.data.simulate import faulty_plant, motions, plant

TINY = {"channels": 8, "states": 2, "branches": ["long"]}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """plant.csv, today.csv, cases.ts, cases.csv."""
    folder = tmp_path_factory.mktemp("files")
    values, names = plant(0, sensors=4, steps=160, period=12)
    start = np.datetime64("2026-01-01T00:00", "m")
    times = [str(start + 60 * hour) for hour in range(160)]
    write_table({"time": times} | dict(zip(names, values.T, strict=True)), folder / "plant.csv")
    train, test, _, names = faulty_plant(0, sensors=4, train_steps=200, test_steps=100, faults=3)
    write_table(dict(zip(names, train.T, strict=True)), folder / "healthy.csv")
    write_table(dict(zip(names, test.T, strict=True)), folder / "today.csv")
    series, labels, names = motions(0, cases=9, variables=3, shortest=20, longest=24)
    _write_ts(series, labels, folder / "cases.ts")
    _write_cases(series, labels, names, folder / "cases.csv")
    return folder


@pytest.fixture(scope="session")
def forecaster(files):
    folder = files / "forecaster"
    model = Forecaster(6, 24, network=TINY, members="ridge", verbose=False)
    model.fit(_read(files / "plant.csv")).save(folder)
    return folder


@pytest.fixture(scope="session")
def detector(files):
    folder = files / "detector"
    brief = {"epochs": 1, "training": {"steps_per_epoch": 2}}
    model = Detector(24, members=("ridge", "network"), network=TINY, **brief, verbose=False)
    model.fit(_read(files / "healthy.csv")).save(folder)
    return folder


@pytest.fixture(scope="session")
def classifier(files):
    from orderless.data import read_ts

    folder = files / "classifier"
    model = Classifier(network=TINY, members="network", epochs=1, verbose=False)
    model.fit(*read_ts(files / "cases.ts")).save(folder)
    return folder


@pytest.fixture
def unread_main():
    """The program with a pipe for its output whose reader has gone, as behind `| head`."""

    def run(words):
        reading, writing = os.pipe()
        os.close(reading)
        # Closing the pipe is an error where anything is still to be written.
        with os.fdopen(writing, "w") as stream, redirect_stdout(stream):
            return main(words)

    return run


def _read(path):
    from orderless.data import read_table

    return read_table(path)


def _write_ts(series, labels, path):
    lines = ["@problemName motions", "@classLabel true drift fast slow", "@data"]
    for case, label in zip(series, labels, strict=True):
        rows = [",".join(f"{value:.6f}" for value in row) for row in case]
        lines.append(":".join([*rows, str(label)]))
    path.write_text("\n".join(lines) + "\n")


def _write_cases(series, labels, names, path):
    lengths = [case.shape[1] for case in series]
    columns = {
        "case": np.repeat([f"case {number}" for number in range(len(series))], lengths),
        "class": np.repeat(labels, lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
    }
    columns |= dict(zip(names, np.concatenate(series, axis=1), strict=True))
    write_table(columns, path)
