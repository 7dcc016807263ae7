import json

import pytest

from orderless.cli import main
from orderless.data import read_table
from orderless.errors import DataError


def test_backtest_prints_scores_and_writes_forecasts_json_and_picture(
    files, forecaster, tmp_path, capsys
):
    out, scores, picture = (tmp_path / name for name in ("f.csv", "s.json", "b.png"))
    command = ["backtest", str(forecaster), str(files / "plant.csv"), "--windows", "3"]
    command += ["--level", "80,95", "--out", str(out), "--json", str(scores)]
    assert main([*command, "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "seasonal naive" in shown
    assert "coverage 95" in shown
    assert len(read_table(out)) == 3 * 6
    written = json.loads(scores.read_text())
    assert written["this model"]["mae"] < written["naive"]["mae"]
    assert written["drift"] is None
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_more_windows_than_the_data_holds_is_one_line(files, forecaster, capsys):
    command = ["backtest", str(forecaster), str(files / "plant.csv"), "--windows", "300"]
    assert main(command) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_scores_are_printed_though_the_picture_fails(
    files, forecaster, tmp_path, capsys, monkeypatch
):
    def fail(*arguments, **settings):
        raise DataError("no ink")

    monkeypatch.setattr("orderless.estimators.pictures.draw_backtest", fail)
    command = ["backtest", str(forecaster), str(files / "plant.csv"), "--windows", "2"]
    assert main([*command, "--plot", str(tmp_path / "b.png")]) == 2
    shown = capsys.readouterr()
    assert "no ink" in shown.err
    assert "seasonal naive" in shown.out


def test_a_reader_who_leaves_early_does_not_cost_the_picture(
    files, forecaster, tmp_path, unread_main
):
    command = ["backtest", str(forecaster), str(files / "plant.csv"), "--windows", "2"]
    assert unread_main([*command, "--plot", str(tmp_path / "b.png")]) == 0
    assert (tmp_path / "b.png").exists()


def test_help_says_that_forecasts_are_written_only_where_asked(capsys):
    for verb, default in {"backtest": "not written", "predict": "CSV on standard output"}.items():
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        assert f"(default: {default})" in " ".join(capsys.readouterr().out.split())
