import numpy as np
import pytest
import torch

from orderless import load
from orderless.cli import main
from orderless.cli.main import _parser
from orderless.data import read_table, write_table
from orderless.errors import DataError


def test_predict_writes_csv_to_standard_output(files, forecaster, capsys):
    assert main(["predict", str(forecaster), str(files / "plant.csv"), "--level", "80"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split(",")[:4] == ["time", "sensor_0", "sensor_0-lo-80", "sensor_0-hi-80"]
    assert len(rows) == 6


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_writes_what_the_model_says(ending, files, forecaster, tmp_path):
    out = tmp_path / f"forecast.{ending}"
    assert main(["predict", str(forecaster), str(files / "plant.csv"), "--out", str(out)]) == 0
    expected = load(forecaster).predict(read_table(files / "plant.csv"))
    written = read_table(out)
    for name in ("sensor_0", "sensor_3"):
        np.testing.assert_allclose(written[name], expected[name], rtol=1e-12)


def test_predict_draws_a_picture(files, forecaster, tmp_path):
    picture = tmp_path / "forecast.png"
    command = ["predict", str(forecaster), str(files / "plant.csv"), "--plot", str(picture)]
    assert main([*command, "--plot-variables", "sensor_1, sensor_2"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_forecast_is_not_lost_with_its_picture(files, forecaster, tmp_path, monkeypatch):
    def fail(*arguments, **settings):
        raise DataError("no ink")

    monkeypatch.setattr("orderless.estimators.pictures.draw_forecast", fail)
    command = ["predict", str(forecaster), str(files / "plant.csv")]
    command += ["--plot", str(tmp_path / "f.png"), "--out", str(tmp_path / "f.csv")]
    assert main(command) == 2
    assert (tmp_path / "f.csv").exists()


def test_cases_of_a_ts_file_are_forecast_as_systems(files, forecaster, capsys):
    assert main(["predict", str(forecaster), str(files / "cases.ts")]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "case,v0,v1,v2"
    assert len(rows) == 9 * 6


def test_rows_with_gaps_are_forecast_at_the_step_of_fit(files, forecaster, tmp_path, capsys):
    write_table(read_table(files / "plant.csv")[[0, 3, 9]], tmp_path / "gaps.csv")
    whole = read_table(files / "plant.csv")["time"].to_list()
    assert main(["predict", str(forecaster), str(tmp_path / "gaps.csv")]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(",")[0][:13] for row in rows] == [str(one)[:13] for one in whole[10:16]]


def test_a_model_of_another_kind_is_refused_with_the_right_verb(files, detector, capsys):
    assert main(["predict", str(detector), str(files / "plant.csv")]) == 2
    assert "holds a Detector" in (said := capsys.readouterr().err)
    assert "orderless detect" in said


def test_a_folder_without_a_model_is_one_line(files, tmp_path, capsys):
    assert main(["predict", str(tmp_path / "none"), str(files / "plant.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_variables_without_a_forecast_are_named(files, forecaster, tmp_path, capsys):
    path = tmp_path / "dead.csv"
    write_table(read_table(files / "plant.csv").with_columns(dead=None), path)
    assert main(["predict", str(forecaster), str(path)]) == 0
    assert "no forecast for dead" in capsys.readouterr().err


@pytest.mark.parametrize("place", [["--out", "none/f.csv"], ["--plot", "none/f.png"]])
def test_places_are_looked_at_before_anything_is_read(place, capsys):
    assert main(["predict", "no model", "no data", *place]) == 2
    assert "There is no folder none" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["predict", "backtest"])
def test_a_level_that_is_no_percent_is_refused_before_anything_is_read(verb, capsys):
    assert main([verb, "no model", "no data", "--level", "80,0.8"]) == 2
    assert "in percent: give 80" in capsys.readouterr().err


def test_a_picture_is_drawn_even_if_nobody_reads_the_table(
    files, forecaster, tmp_path, monkeypatch
):
    def break_off(*arguments):
        raise BrokenPipeError

    monkeypatch.setattr("orderless.cli.tables.put_table", break_off)
    picture = tmp_path / "forecast.png"
    parser, _ = _parser("predict")
    words = ["predict", str(forecaster), str(files / "plant.csv"), "--plot", str(picture)]
    parsed = parser.parse_args(words)
    with pytest.raises(BrokenPipeError):
        parsed.run(parsed)
    assert picture.exists()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("verb", ["predict", "certify", "verify"])
def test_a_model_of_a_gpu_is_opened_where_there_is_none(
    verb, files, forecaster, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    load(forecaster).set_params(device="cuda").save(tmp_path)
    data = [str(files / "plant.csv")] if verb == "predict" else []
    assert main([verb, str(tmp_path), *data]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"{tmp_path} was saved with device='cuda', which this machine does not")


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(files, tmp_path, capsys):
    few = tmp_path / "few.csv"
    few.write_text("a\n" + "\n".join(str(i % 7) for i in range(60)))
    fit = ["--horizon", "6", "--context", "12", "--preset", "tiny", "--members", "ridge", "--quiet"]
    assert main(["fit", str(few), *fit, "--out", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    picture = ["--plot", str(tmp_path / "p.png")]
    assert main(["predict", str(tmp_path / "model"), str(few), "--level", "95", *picture]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("6 held-out errors")
    assert "lo-95" in said


def test_a_model_of_groups_forecasts_a_file_without_them(files, tmp_path, capsys):
    header, *rows = (files / "plant.csv").read_text().splitlines()
    grouped = [f"{name},{row}" for name in "ab" for row in rows]
    (tmp_path / "grouped.csv").write_text("\n".join([f"site,{header}", *grouped]))
    fit = ["fit", str(tmp_path / "grouped.csv"), "--group", "site", "--horizon", "6", "--quiet"]
    fit += ["--context", "12", "--preset", "tiny", "--members", "ridge"]
    assert main([*fit, "--out", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    command = ["predict", str(tmp_path / "model"), str(files / "plant.csv")]
    assert main(command) == 2
    assert 'or pass --group "".' in capsys.readouterr().err
    assert main([*command, "--group", ""]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == header
    assert len(shown) == 7


def test_a_model_of_a_long_table_forecasts_a_wide_one(files, tmp_path, capsys):
    header, *rows = (files / "plant.csv").read_text().splitlines()
    names = header.split(",")[1:]
    long = [
        f"{row.split(',')[0]},{name},{value}"
        for row in rows
        for name, value in zip(names, row.split(",")[1:], strict=True)
    ]
    (tmp_path / "long.csv").write_text("\n".join(["when,what,level", *long]))
    fit = ["fit", str(tmp_path / "long.csv"), "--time", "when", "--variable", "what", "--value"]
    fit += ["level", "--horizon", "6", "--context", "12", "--preset", "tiny", "--members", "ridge"]
    assert main([*fit, "--quiet", "--out", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    command = ["predict", str(tmp_path / "model"), str(files / "plant.csv"), "--time", ""]
    assert main([*command, "--variable", "", "--value", ""]) == 0
    assert capsys.readouterr().out.splitlines()[0] == header
