import re

import pytest
import torch

from orderless import load
from orderless.cli import demo, main


@pytest.fixture
def small(monkeypatch):
    """The same job on fewer sensors and steps."""
    for name, value in {"FITTED": 4, "OTHERS": 4, "TRAINED": 700, "STEPS": 860}.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(demo, "TRAINING", {"batch_size": 4, "steps_per_epoch": 2})
    monkeypatch.setattr(demo, "ORIGINS", 4)


@pytest.mark.usefixtures("small")
def test_demo_compares_promises_certifies_and_leaves_a_picture(capsys, tmp_path):
    picture, folder = tmp_path / "demo.png", tmp_path / "model"
    threads = torch.get_num_threads()
    command = ["demo", "--picture", str(picture), "--model", str(folder), "--epochs", "1"]
    assert main(command) == 0
    assert torch.get_num_threads() == threads
    shown = capsys.readouterr().out
    rivals = ("naive", "seasonal naive", "ridge", "coupled ridge", "uncoupled network")
    errors = {
        name: float(found.group(1))
        for name in (*rivals, "this model")
        if (found := re.search(rf"^  {name} +(\d\.\d{{4}})", shown, re.MULTILINE))
    }
    assert len(errors) == 6
    assert errors["coupled ridge"] < errors["naive"]
    assert "changes it by   0 (to the bit)" in shown
    assert "it holds for any number of variables" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(load(folder).variables_in_) == 4


@pytest.mark.usefixtures("small")
def test_the_same_seed_shows_the_same_numbers(capsys, tmp_path):
    shown = []
    for seed in ("1", "1", "2"):
        command = ["demo", "--seed", seed, "--members", "ridge"]
        main([*command, "--picture", str(tmp_path / "demo.png")])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]
