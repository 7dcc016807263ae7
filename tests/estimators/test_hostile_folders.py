"""Folders that were cut short, killed over, or made to do harm."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from interrupted_saves import NETWORK, SMALL, VALUES
from safetensors.torch import load_file
from safetensors.torch import save as as_bytes

from orderless import Classifier, Detector, Forecaster, io, load
from orderless.data.simulate import motions
from orderless.errors import ModelFileError, OrderlessError
from orderless.estimators.saving import CARD, CONFIG, _digest

CASES, LABELS, _ = motions(0, cases=12)
KINDS = {
    "forecaster": (Forecaster(4, 12, **NETWORK).fit(VALUES), "predict", VALUES),
    "forecasts in closed form": (
        Forecaster(4, 12, members=["naive", "ridge"], verbose=False).fit(VALUES),
        "predict",
        VALUES,
    ),
    "classifier": (Classifier(members="network", **SMALL).fit(CASES, LABELS), "predict", CASES),
    "classes in closed form": (
        Classifier(members=["flat ridge", "convolutions"], verbose=False).fit(CASES, LABELS),
        "predict",
        CASES,
    ),
    "detector": (Detector(12, **SMALL).fit(VALUES), "score", VALUES),
}
SECONDS = 2.0
"""A second, as is promised, and one more for a busy machine."""


def run_script(*words) -> dict[str, int]:
    """What became of the loads, by kind of outcome."""
    script = Path(__file__).with_name("interrupted_saves.py")
    done = subprocess.run(
        [sys.executable, script, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    print(done.stdout)
    lines = (line.rpartition(" ") for line in done.stdout.splitlines())
    return {kind: int(count) for kind, _, count in lines}


@pytest.mark.parametrize("kills", [15, pytest.param(500, marks=pytest.mark.long)])
def test_a_save_that_is_killed_leaves_the_old_model_or_the_new(tmp_path, kills):
    found = run_script("kill", tmp_path, kills)
    assert found.get("Forecaster", 0) + found.get("Detector", 0) == kills
    assert any(words.startswith("files 3 ") for words in found), "strays are left"


@pytest.mark.parametrize("loads", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_a_reader_beside_two_writers_always_finds_a_model(tmp_path, loads):
    found = run_script("read", tmp_path, loads)
    assert found.get("Forecaster", 0) + found.get("Detector", 0) == loads


@pytest.fixture
def folder(tmp_path):
    KINDS["forecaster"][0].save(tmp_path / "model")
    return tmp_path / "model"


def weights_of(folder):
    (found,) = folder.glob("model-*.safetensors")
    return found


def change(folder, edit=None, weights=None):
    """Edit the config, replace the weights, and make all checksums fit."""
    config = json.loads((folder / CONFIG).read_text())
    del config["sha256"]
    if weights is not None:
        weights_of(folder).write_bytes(weights)
        config["weights"] |= {"bytes": len(weights), "sha256": io.sha256(weights)}
    if edit is not None:
        edit(config)
    config["sha256"] = _digest(config)
    (folder / CONFIG).write_text(json.dumps(config))


def refuse_soon(folder, match=None):
    begun = time.perf_counter()
    with pytest.raises(ModelFileError, match=match):
        load(folder)
    assert time.perf_counter() - begun < SECONDS


@pytest.mark.parametrize("part", [CONFIG, "weights", CARD])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
def test_what_is_no_file_of_the_right_size_is_refused_soon(folder, part, kind):
    path = weights_of(folder) if part == "weights" else folder / part
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2**40)
    refuse_soon(folder)


@pytest.mark.parametrize("file", ["../../secret", "/etc/passwd", "config.json", ["a"]])
def test_the_weights_lie_in_the_folder_itself(folder, file):
    change(folder, lambda config: config["weights"].update(file=file))
    refuse_soon(folder, "file")


@pytest.mark.parametrize("size", [2**40, -1, True, "1"])
def test_a_size_that_no_model_has_is_refused(folder, size):
    change(folder, lambda config: config["weights"].update(bytes=size))
    refuse_soon(folder, "bytes")


@pytest.mark.parametrize(
    "network",
    [
        {"layers": 100_000},
        {"branches": ["long"] * 50_000},
        {"channels": 10**12},
        {"states": 2.5},
        {"kernel": None},
        {"long_steps": [0.1]},
        {"nonsense": 1},
    ],
)
def test_a_network_that_nobody_could_have_saved_is_refused_soon(folder, network):
    def edit(config):
        (member,) = config["fitted"]["members"]
        member["facts"]["config"].update(network)

    change(folder, edit)
    refuse_soon(folder)


@pytest.mark.parametrize("how", ["nan", "inf", "float64", "shape", "missing", "more"])
def test_weights_of_another_kind_are_refused(folder, how):
    tensors = load_file(weights_of(folder))
    name = next(name for name in tensors if name.startswith("members/0/"))
    value = tensors[name]
    if how in ("nan", "inf"):
        value.view(-1)[0] = float(how)
    elif how == "float64":
        tensors[name] = value.double()
    elif how == "shape":
        tensors[name] = value.unsqueeze(0)
    elif how == "missing":
        del tensors[name]
    else:
        tensors["members/0/more"] = torch.zeros(1)
    change(folder, weights=as_bytes(tensors))
    refuse_soon(folder)


FORGED = (None, True, -1, 1.5, 10**400, 1e308, "", "x", [], [0], {}, {"a": 0}, [[["a"]]])


def places(value, path=()):
    """Every place in nested facts."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.long)])
def test_forged_facts_are_refused_or_give_a_model_that_answers(kind, count, tmp_path):
    model, verb, data = KINDS[kind]
    model.save(tmp_path)
    original = (tmp_path / CONFIG).read_text()
    draw = random.Random(0)
    for _ in range(count):
        (tmp_path / CONFIG).write_text(original)

        def forge(config):
            place = draw.choice([place for place in places(config["fitted"]) if place])
            inner = config["fitted"]
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = draw.choice(FORGED)

        change(tmp_path, forge)
        begun = time.perf_counter()
        try:
            loaded = load(tmp_path)
        except ModelFileError:
            continue
        finally:
            assert time.perf_counter() - begun < SECONDS
        try:
            with np.errstate(all="ignore"):
                getattr(loaded, verb)(data)
        except (OrderlessError, UserWarning):
            pass
