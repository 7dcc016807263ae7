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
def test_demo_compares_promises_and_leaves_a_picture_and_a_model(capsys, tmp_path):
    picture, folder = tmp_path / "demo.png", tmp_path / "model"
    threads = torch.get_num_threads()
    command = ["demo", "--picture", str(picture), "--epochs", "1"]
    assert main([*command, "--model", str(folder)]) == 0
    assert torch.get_num_threads() == threads
    shown = capsys.readouterr().out
    found = re.findall(r"^  (\S.*?) +(\d+\.\d{4})$", shown, re.MULTILINE)
    errors = {name: float(error) for name, error in found}
    assert set(errors) == {"naive", "seasonal naive", "ridge, each alone", "this model"}
    assert errors["this model"] < errors["naive"]
    assert "changes it by   0 (to the bit)" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    model = load(folder)
    assert len(model.variables_in_) == 4
    assert all(f"{name} " in shown for name in model.weights_)
    assert main([*command, "--model", str(folder)]) == 0
    assert _timeless(capsys.readouterr().out) == _timeless(shown)
    assert main([*command, "--seed", "1"]) == 0
    other = re.findall(r"^  (\S.*?) +(\d+\.\d{4})$", capsys.readouterr().out, re.MULTILINE)
    assert other != found


def _timeless(shown):
    return re.sub(r"in \d+ s", "", shown)
