import json
from argparse import Namespace
from pathlib import Path

import pytest

from orderless.cli import main
from orderless.cli.places import PARTS, check_places, write_record
from orderless.errors import DataError
from orderless.estimators import saving


@pytest.mark.parametrize("flag", ["out", "json", "plot", "picture"])
def test_a_missing_folder_is_found_for_every_kind_of_result(flag, tmp_path):
    endings = {"out": "csv", "json": "json"}
    path = tmp_path / "none" / f"result.{endings.get(flag, 'png')}"
    with pytest.raises(DataError, match="There is no folder"):
        check_places(Namespace(**{flag: path}))


def test_a_verb_without_results_has_nothing_to_check():
    check_places(Namespace(out=None, plot=None))


def test_records_are_json_that_any_program_reads(tmp_path):
    write_record({"a": [float("nan"), 1.0], "b": {"c": float("inf")}}, tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, 1.0], "b": {"c": None}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder: data, a model, and links to them and out of the model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.csv").write_text("mine")
    (tmp_path / "m").mkdir()
    (tmp_path / "stored").write_text("{}")
    Path("soft.csv").symlink_to("c.csv")
    Path("hard.csv").hardlink_to("c.csv")
    Path("m/config.json").symlink_to(tmp_path / "stored")
    Path("same").symlink_to("m")
    return tmp_path


WORDS = {
    "predict": ["predict", "m", "c.csv"],
    "detect": ["detect", "m", "c.csv"],
    "backtest": ["backtest", "m", "c.csv"],
    "classify": ["classify", "m", "c.csv"],
    "verify": ["verify", "m", "--data", "c.csv"],
}


@pytest.mark.parametrize(
    ("verb", "words", "said"),
    [
        ("predict", ["--out", "c.csv"], "--out c.csv is the file that the data is read from"),
        ("detect", ["--out", "m/../c.csv"], "the file that the data is read from"),
        ("backtest", ["--out", "soft.csv"], "the file that the data is read from"),
        ("classify", ["--out", "hard.csv"], "the file that the data is read from"),
        ("verify", ["--json", "{here}/c.csv"], "the file that the data is read from"),
        ("verify", ["--config", "r.toml", "--json", "r.toml"], "that --config is read from"),
        ("backtest", ["--json", "m/config.json"], "is a part of the model m,"),
        ("backtest", ["--json", "same/config.json"], "is a part of the model"),
        ("verify", ["--json", "stored"], "is a part of the model"),
        ("backtest", ["--out", "o.csv", "--json", "o.csv"], "--out and --json both name o.csv"),
        ("backtest", ["--json", "o.png", "--plot", "./o.png"], "--json and --plot both name o.png"),
    ],
)
def test_an_output_destroys_nothing_else(verb, words, said, place, capsys):
    (place / "r.toml").write_text("")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert main([*WORDS[verb], *(word.format(here=place) for word in words)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_outputs_beside_the_data_and_the_model_are_fine(place):
    (place / "old.csv").write_text("to be replaced")
    paths = {"out": place / "old.csv", "json": place / "m" / "o.json", "plot": place / "o.png"}
    check_places(Namespace(data=place / "c.csv", model=place / "m", config=None, **paths))


def test_a_link_that_leads_round_is_nobody_elses_file(place):
    Path("round.json").symlink_to("round.json")
    check_places(Namespace(data=place / "c.csv", json=place / "round.json"))


def test_the_parts_of_a_model_are_those_that_are_saved():
    assert (saving.CONFIG, saving.WEIGHTS.replace(".", "-*."), saving.CARD) == PARTS


def test_a_device_is_no_place_for_a_file(place):
    with pytest.raises(DataError, match="device"):
        check_places(Namespace(data=place / "c.csv", json=Path("/dev/null")))


@pytest.mark.parametrize("flag", ["out", "json", "plot"])
def test_a_link_to_a_stream_is_no_place_for_a_file_even_if_the_stream_is_one(flag, place):
    with (place / "captured.txt").open("w") as stream:
        Path("stream").symlink_to(f"/dev/fd/{stream.fileno()}")
        Path("folder").symlink_to("/dev/fd")
        Path("again").symlink_to("stream")
        assert Path("again").is_file()
        for path in ("stream", "again", f"folder/{stream.fileno()}", "/dev/stdout"):
            with pytest.raises(DataError, match=r"device or a pipe, .* Name a file"):
                check_places(Namespace(**{flag: Path(path)}))
    assert Path("stream").is_symlink()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no folder of files in memory")
def test_files_may_lie_in_memory():
    check_places(Namespace(json=Path("/dev/shm/orderless.json")))
