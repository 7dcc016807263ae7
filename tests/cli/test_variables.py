from pathlib import Path

import pytest

from orderless.cli import main
from orderless.cli.variables import shorten

VERBS = {
    "predict": ("forecaster", "plant.csv"),
    "backtest": ("forecaster", "plant.csv"),
    "detect": ("detector", "today.csv"),
}


@pytest.fixture(params=VERBS)
def command(request, files):
    """A verb, its model and its data, which has the sensors of `fit`."""
    model, data = VERBS[request.param]
    return [request.param, str(request.getfixturevalue(model)), str(files / data)]


def test_a_misspelt_variable_is_found_before_anything_is_written(command, tmp_path, capsys):
    words = ["--plot", str(tmp_path / "p.png"), "--out", str(tmp_path / "o.csv")]
    assert main([*command, *words, "--plot-variables", "sensor_1,ghost"]) == 2
    shown = capsys.readouterr()
    assert "There is no variable 'ghost' to draw;" in shown.err
    assert "has sensor_0, sensor_1, sensor_2, sensor_3." in shown.err
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []


def test_variables_that_fit_did_not_see_are_named(command, tmp_path, capsys):
    header, *rows = Path(command[2]).read_text().splitlines()
    new = tmp_path / "new.csv"
    more = [f"{header},extra", *(f"{row},{number % 7}" for number, row in enumerate(rows))]
    new.write_text("\n".join(more) + "\n")
    assert main([*command[:2], str(new)]) == 0
    said = capsys.readouterr().err
    assert said.count("variables that `fit` did not see: extra (as they should be") == 1
    assert main(command) == 0
    assert "did not see" not in capsys.readouterr().err


def test_new_variables_of_a_long_table_are_names_in_its_rows(files, forecaster, tmp_path, capsys):
    times = [row.split(",")[0] for row in (files / "plant.csv").read_text().splitlines()[1:]]
    rows = [f"{time},extra,{number % 7}" for number, time in enumerate(times)]
    (tmp_path / "long.csv").write_text("\n".join(["time,sensor,value", *rows]))
    assert main(["predict", str(forecaster), str(tmp_path / "long.csv")]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("not see: extra (if they are known, compare the names in column sensor)")


@pytest.mark.filterwarnings("default:.*systems have fewer than")  # cases are short for a detector
@pytest.mark.parametrize(
    "words", [["predict", "forecaster"], ["detect", "detector"], ["classify", "named"]]
)
def test_the_names_of_a_ts_file_are_ours_and_nothing_is_said_of_them(
    words, files, request, tmp_path, capsys
):
    verb, model = words
    if model == "named":
        folder = tmp_path / "named"
        fit = ["fit", str(files / "cases.csv"), "--task", "classify", "--group", "case"]
        fit += ["--label", "class", "--time", "step", "--members", "flat ridge"]
        assert main([*fit, "--quiet", "--out", str(folder)]) == 0
    else:
        folder = request.getfixturevalue(model)
    assert main([verb, str(folder), str(files / "cases.ts")]) == 0
    assert "did not see" not in capsys.readouterr().err


def test_long_lists_of_names_are_cut():
    assert shorten(list("abcde")) == "a, b, c, d, e"
    assert shorten(list("abcdefg")) == "a, b, c, d, e and 2 more"
