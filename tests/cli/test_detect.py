import numpy as np

from orderless import load
from orderless.cli import main
from orderless.data import read_table


def test_detect_writes_scores_and_alarms(files, detector, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert main(["detect", str(detector), str(files / "today.csv"), "--out", str(out)]) == 0
    written = read_table(out)
    model = load(detector)
    expected = model.score(read_table(files / "today.csv"))
    np.testing.assert_allclose(written["score"], expected["score"], rtol=1e-9)
    alarms = np.asarray(written["anomaly"])
    np.testing.assert_array_equal(alarms, np.asarray(written["score"]) > model.threshold_)
    assert f"{alarms.sum()} of 100 moments" in capsys.readouterr().err


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
