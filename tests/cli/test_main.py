import signal
import subprocess
import sys

import pytest

from orderless.cli import fit, main
from orderless.cli.main import VERBS, _parser

NAMES = [verb.__name__.rpartition(".")[2] for verb in VERBS]


def test_help_names_every_verb_and_says_what_it_does(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    for name in NAMES:
        assert name in shown
    assert "learn from a file and save the model" in shown


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_verb_shows_examples_of_itself(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"orderless {name}" in capsys.readouterr().out.partition("examples:")[2]


def test_help_imports_nothing_heavy():
    """What is left cannot be slow; how long it takes is in benchmarks/start_up.py."""
    program = (
        "import sys\n"
        "from orderless.cli.main import VERBS, _name, _parser\n"
        "[part.format_help() for verb in VERBS for part in _parser(_name(verb))]\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'rich', 'narwhals'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_error_of_ours_is_one_line_and_exit_code_two(capsys):
    assert main(["certify", "--channels", "64", "--heads", "5"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("orderless certify: ")
    assert shown.err.count("\n") == 1


def test_an_unknown_verb_is_exit_code_two(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["divine"])
    assert "divine" in capsys.readouterr().err


def test_what_the_system_refuses_is_one_line(capsys, monkeypatch):
    def refuse(arguments):
        raise PermissionError(13, "Permission denied", "model/config.json")

    monkeypatch.setattr("orderless.cli.doctor.run", refuse)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == "orderless doctor: model/config.json: Permission denied.\n"


def test_ctrl_c_says_that_nothing_was_written(capsys, monkeypatch):
    def press(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.cli.doctor.run", press)
    assert main(["doctor"]) == 128 + signal.SIGINT
    assert "stopped; nothing was written" in capsys.readouterr().err


def test_every_argument_of_fit_reaches_an_estimator_or_is_a_place():
    """A setting that the parser knows and nobody reads would be ignored without a word."""
    import inspect

    from orderless import Classifier, Detector, Forecaster

    places = {"help", "data", "out", "task", "label", "checkpoint", "quiet", "config"}
    columns = {"time", "variable", "value", "group"}
    _, own = _parser("fit")
    known = {action.dest for action in own._actions} - places - columns
    parameters = {
        name
        for kind in (Forecaster, Classifier, Detector)
        for name in inspect.signature(kind).parameters
    }
    assert known <= parameters
    assert parameters - known == {"verbose"}
    assert set(fit.TASKS) == {"forecast", "classify", "detect"}


def test_ctrl_c_while_the_program_loads_is_one_line_too(capsys, monkeypatch):
    """Loading PyTorch a second time after half of a first one ends in a crash."""

    def press(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.cli.fit.run", press)
    monkeypatch.setitem(sys.modules, "orderless.training.checkpoints", None)
    assert main(["fit", "none.csv", "--out", "none"]) == 130
    assert "nothing was kept" in capsys.readouterr().err
    monkeypatch.setattr("argparse.ArgumentParser.parse_args", press)
    assert main(["fit", "none.csv", "--out", "none"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_errors_name_flags_and_not_the_arguments_of_python(tmp_path, forecaster, capsys):
    (tmp_path / "plants.csv").write_text("plant,a\nnorth,1\nsouth,2\n")
    assert main(["predict", str(forecaster), str(tmp_path / "plants.csv")]) == 2
    said = capsys.readouterr().err
    assert "--group" in said
    assert "group=" not in said


@pytest.mark.parametrize("words", ["doctor", "certify", "data list"])
def test_a_reader_who_leaves_early_is_no_failure(words, unread_main):
    assert unread_main(words.split()) == 0


def test_flags_are_not_abbreviated(tmp_path, capsys):
    """`--conf` would be taken for `--config`, and its file not be read."""
    (tmp_path / "run.toml").write_text("nonsense = 1")
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "--conf", str(tmp_path / "run.toml")])
    assert "--conf" in capsys.readouterr().err
