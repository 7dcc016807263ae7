import numpy as np
import pandas as pd
import pytest

from orderless import Detector, load
from orderless.cli import main
from orderless.data import read_table

pytestmark = pytest.mark.filterwarnings("ignore:These data are not what was fitted")


def test_detect_writes_scores_and_alarms(files, detector, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert main(["detect", str(detector), str(files / "today.csv"), "--out", str(out)]) == 0
    written = read_table(out)
    model = load(detector)
    expected = model.score(read_table(files / "today.csv"))
    np.testing.assert_allclose(written["score"], expected["score"], rtol=1e-9)
    alarms = np.asarray(written["anomaly"])
    np.testing.assert_array_equal(alarms, np.asarray(written["score"]) > model.threshold_)
    assert f"{alarms.sum()} of 100 time steps" in capsys.readouterr().err


def test_detect_names_who_is_to_blame(files, detector, capsys):
    assert main(["detect", str(detector), str(files / "today.csv"), "--per-variable"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "sensor_0,sensor_1,sensor_2,sensor_3"
    assert len(rows) == 100


def test_detect_draws_a_picture(files, detector, tmp_path):
    picture = tmp_path / "today.png"
    command = ["detect", str(detector), str(files / "today.csv"), "--out", str(tmp_path / "s.csv")]
    assert main([*command, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    assert main([*command, "--plot", str(picture), "--plot-variables", "sensor_2"]) == 0
    assert picture.exists()


@pytest.fixture
def plants(files, tmp_path):
    """healthy.csv as two plants, 001 and 002; beside it a model to which they are numbers."""
    header, *rows = (files / "healthy.csv").read_text().splitlines()
    rows = [f"00{1 + number // 100},{row}" for number, row in enumerate(rows)]
    path = tmp_path / "plants.csv"
    path.write_text("\n".join([f"plant,{header}", *rows]))
    model = Detector(24, members="ridge", verbose=False)
    model.fit(pd.read_csv(path), group="plant").save(tmp_path / "model")
    return path


def test_groups_are_known_with_leading_zeros_and_without(plants, capsys):
    model = plants.parent / "model"
    assert main(["detect", str(model), str(plants)]) == 0
    shown = capsys.readouterr()
    assert "did not see" not in shown.err
    scores = np.array([float(row.split(",")[1]) for row in shown.out.splitlines()[1:]])
    np.testing.assert_allclose(scores, load(model).score(pd.read_csv(plants))["score"], rtol=1e-9)


def test_groups_that_fit_did_not_see_are_named(plants, capsys):
    plants.write_text(plants.read_text().replace("\n002,", "\n030,"))
    assert main(["detect", str(plants.parent / "model"), str(plants)]) == 0
    said = capsys.readouterr().err
    assert said.count("groups that `fit` did not see: 030 (each is scored around its own") == 1


@pytest.mark.parametrize("name", ["score", "anomaly"])
def test_a_group_called_as_a_column_of_the_result_is_refused_before_scoring(
    name, plants, capsys, monkeypatch
):
    plants.write_text(plants.read_text().replace("plant,", f"{name},", 1))
    command = ["detect", str(plants.parent / "model"), str(plants), "--group", name]
    monkeypatch.setattr(Detector, "score_panel", None)
    assert main(command) == 2
    shown = capsys.readouterr()
    assert f"two columns called '{name}'" in shown.err
    assert shown.out == ""


def test_a_group_called_anomaly_is_kept_where_the_result_has_no_such_column(plants, capsys):
    plants.write_text(plants.read_text().replace("plant,", "anomaly,", 1))
    command = ["detect", str(plants.parent / "model"), str(plants), "--group", "anomaly"]
    assert main([*command, "--per-variable"]) == 0
    assert capsys.readouterr().out.startswith("anomaly,")


def test_a_picture_of_variables_that_no_group_has_together_is_refused_before_scoring(
    files, tmp_path, capsys, monkeypatch
):
    header, *rows = (files / "healthy.csv").read_text().splitlines()
    names = header.split(",")
    long = [
        f"{site},{name},{step},{row.split(',')[0]}"
        for site, name in [*(("a", name) for name in names), ("b", "other")]
        for step, row in enumerate(rows)
    ]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["site,variable,time,value", *long]))
    model = Detector(24, members="ridge", verbose=False)
    model.fit(pd.read_csv(path), group="site").save(tmp_path / "model")
    picture = tmp_path / "d.png"
    command = ["detect", str(tmp_path / "model"), str(path), "--plot", str(picture)]
    command += ["--out", str(tmp_path / "scores.csv"), "--plot-variables"]
    for drawn in (f"{names[3]},{names[1]}", "other"):
        assert main([*command, drawn]) == 0
        assert picture.exists()
    monkeypatch.setattr(Detector, "score_panel", None)
    assert main([*command, f"{names[3]},other"]) == 2
    assert f"No system has all of the variables {names[3]}, other" in capsys.readouterr().err
