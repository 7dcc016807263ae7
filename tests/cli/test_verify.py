import json

import pytest

from orderless.cli import main


@pytest.mark.parametrize(
    ("model", "data"),
    [("forecaster", "plant.csv"), ("detector", "today.csv"), ("classifier", "cases.ts")],
)
def test_every_kind_of_model_keeps_its_promises(model, data, files, request, tmp_path, capsys):
    folder, record = request.getfixturevalue(model), tmp_path / "promises.json"
    command = ["verify", str(folder), "--data", str(files / data), "--json", str(record)]
    assert main(command) == 0
    assert "promises kept" in capsys.readouterr().out
    written = json.loads(record.read_text())
    assert written["holds"] is True
    names = {check["name"] for check in written["checks"]}
    assert {"order", "dead variable", "masked entries", "batch and padding"} <= names
    assert "save and load" in names
    inside = "ridge 24" if model == "forecaster" else "network"
    assert {f"{one} ({inside})" for one in ("order", "masked entries", "padding", "batch")} <= names
    assert ("causality" in names) is (model == "forecaster")
    for check in written["checks"]:
        assert check["error"] <= check["tolerance"]


def test_verify_needs_no_data(forecaster, capsys):
    assert main(["verify", str(forecaster)]) == 0
    assert "4 variables" in capsys.readouterr().out


def test_a_table_of_cases_is_verified_without_its_classes(files, classifier):
    command = ["verify", str(classifier), "--data", str(files / "cases.csv"), "--time", "step"]
    assert main([*command, "--group", "case", "--label", "class"]) == 0


def test_a_broken_promise_is_exit_code_one(forecaster, capsys, monkeypatch):
    from orderless.estimators import member_checks

    monkeypatch.setattr(member_checks, "ROUNDING_64", -1.0)
    assert main(["verify", str(forecaster)]) == 1
    assert "BROKEN" in capsys.readouterr().out


@pytest.mark.parametrize(("rounding", "code"), [(1e-9, 0), (-1.0, 1)])
def test_the_verdict_does_not_depend_on_a_reader(
    rounding, code, forecaster, monkeypatch, unread_main
):
    from orderless.estimators import member_checks

    monkeypatch.setattr(member_checks, "ROUNDING_64", rounding)
    assert unread_main(["verify", str(forecaster)]) == code


def test_the_columns_of_fit_are_not_asked_of_a_ts_file(files, tmp_path, capsys):
    (tmp_path / "a.csv").write_text((files / "plant.csv").read_text().replace("time,", "when,"))
    fit = ["fit", str(tmp_path / "a.csv"), "--time", "when", "--horizon", "6", "--context", "12"]
    fit += ["--preset", "tiny", "--members", "ridge", "--quiet", "--out", str(tmp_path / "model")]
    assert main(fit) == 0
    assert main(["verify", str(tmp_path / "model"), "--data", str(files / "cases.ts")]) == 0
    assert "3 variables" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "data"), [("forecaster", "plant"), ("detector", "today")])
def test_a_column_of_classes_is_left_out_without_groups(
    model, data, files, request, tmp_path, capsys
):
    header, *rows = (files / f"{data}.csv").read_text().splitlines()
    path = tmp_path / "labelled.csv"
    path.write_text("\n".join([f"{header},state", *(f"{row},good" for row in rows)]))
    command = ["verify", str(request.getfixturevalue(model)), "--data", str(path), "--label"]
    assert main([*command, "state"]) == 0
    assert "4 variables" in capsys.readouterr().out
    assert main([*command, "stat"]) == 2
    assert "There is no column 'stat'; the table has" in capsys.readouterr().err
