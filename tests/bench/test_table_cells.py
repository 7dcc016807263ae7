from dataclasses import replace

import numpy as np
import pytest
import torch
from bench_data import write_cases, write_exchange, write_m4, write_monitored

from orderless.bench.config import frozen
from orderless.bench.models import forecasts
from orderless.bench.protocols.long_term_rules import scored_windows
from orderless.bench.registry import TABLES, find_table
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table
from orderless.cli import main
from orderless.data.benchmark_sets import long_term
from orderless.data.catalogue import CATALOGUE
from orderless.errors import DataError, SettingError

TINY = {"preset": "tiny", "epochs": 1, "training": {"steps_per_epoch": 2}}


def long_term_cell(model, protocol="fair", **options):
    cell = long_term_table.cell("Exchange", 6, model, protocol, (0,))
    return replace(cell, options=frozen({"look_backs": (12, 24), **options}))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_cells_have_names_of_their_own_and_sets_of_the_catalogue(table):
    for protocol in ("fair", "paper"):
        cells = table.cells(protocol, (0, 1))
        assert len({cell.file_name for cell in cells}) == len(cells)
        assert {cell.dataset for cell in cells} <= set(CATALOGUE)
        assert {cell.model for cell in cells} == set(table.models)
        assert table.metrics[protocol]


def test_an_unknown_table_is_an_error():
    with pytest.raises(SettingError, match="long-term"):
        find_table("short-long")


@pytest.mark.parametrize("model", ["naive", "seasonal naive", "ridge", "coupled ridge", "DLinear"])
def test_a_baseline_of_the_long_term_table_runs(folder, model):
    write_exchange(folder)
    outcome = long_term_table.run(long_term_cell(model, epochs=2))
    (seed,) = outcome.seeds
    assert seed.test["windows"] == 100 - 6 + 1
    assert 0 < seed.test["mse"] < 4
    assert seed.chosen["look_back"] in (12, 24)
    assert outcome.data_checksum.startswith("sha256:")
    if "ridge" in model:
        assert seed.test["mse"] < 0.1


def test_our_own_cell_of_the_long_term_table_runs(folder):
    write_exchange(folder)
    (seed,) = long_term_table.run(long_term_cell("orderless", forecaster=TINY)).seeds
    assert seed.test["mse"] < 0.2
    assert seed.epochs == 1
    assert 0 <= seed.chosen["blend"] <= 1


def test_a_model_of_no_name_is_an_error(folder):
    write_exchange(folder)
    with pytest.raises(SettingError, match="no model 'crystal ball'"):
        long_term_table.run(long_term_cell("crystal ball"))


def test_the_long_term_errors_are_those_of_a_plain_loop(folder):
    write_exchange(folder, rows=120)
    data = long_term("Exchange")
    problem = forecasts.pose(data, 12, 6)
    fitted = forecasts.fit("naive", problem, 0, {})
    squared, absolute = forecasts.errors_of_windows(problem, "test", fitted.forecast)
    train = data.values[:, : data.borders.train]
    scaled = (data.values - train.mean(1, keepdims=True)) / train.std(1, keepdims=True)
    expected = [
        np.mean((scaled[:, at : at + 6] - scaled[:, at - 1 : at]) ** 2)
        for at in range(data.borders.validation, 120 - 6 + 1)
    ]
    np.testing.assert_allclose(squared.numpy(), expected, rtol=1e-5)
    assert len(absolute) == len(expected)


def test_a_dropped_window_changes_the_score_of_a_cell(folder, monkeypatch):
    write_exchange(folder)
    cell = long_term_cell("naive")
    whole = long_term_table.run(cell).seeds[0].test
    monkeypatch.setattr(long_term_table, "scored_windows", lambda count, protocol: count - 1)
    fewer = long_term_table.run(cell).seeds[0].test
    assert whole["windows"] == fewer["windows"] + 1
    assert whole["mse"] != fewer["mse"]


def test_the_paper_scores_fewer_windows_and_chooses_the_look_back_by_them(folder):
    write_exchange(folder, rows=5200)
    fair, paper = (
        long_term_table.run(long_term_cell("seasonal naive", protocol)).seeds[0].test
        for protocol in ("fair", "paper")
    )
    assert fair["windows"] == 1040 - 6 + 1
    assert paper["windows"] == 1024 == scored_windows(1035, "paper")


def test_test_rows_change_nothing_of_what_was_fitted(folder):
    write_exchange(folder)
    data = long_term("Exchange")
    changed = data.values.copy()
    changed[:, data.borders.validation :] = 7.0
    other = replace(data, values=changed, checksum="sha256:other")
    window = torch.as_tensor(np.random.default_rng(0).normal(size=(1, 8, 24)), dtype=torch.float32)
    for model in ("ridge", "coupled ridge", "DLinear"):
        one, two = (
            forecasts.fit(model, forecasts.pose(each, 24, 6), 0, {"epochs": 1}).forecast(window)
            for each in (data, other)
        )
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_baselines_of_m4_run_and_naive2_is_read(folder):
    write_m4(folder)
    scores = {
        model: m4_table.run(m4_table.cell("Quarterly", model, "fair", (0,))).seeds[0].test
        for model in ("naive", "seasonal naive", "naive2")
    }
    # The file of Naive2 holds the future itself here.
    assert scores["naive2"]["smape"] == 0
    assert scores["seasonal naive"]["smape"] < scores["naive"]["smape"]
    assert set(scores["naive"]) == {"smape", "mase", "owa"}


def test_our_own_cell_of_m4_runs(folder):
    write_m4(folder)
    cell = m4_table.cell("Quarterly", "orderless", "fair", (0,))
    options = frozen({"forecaster": TINY | {"loss": "smape"}, "context_in_horizons": 2})
    (seed,) = m4_table.run(replace(cell, options=options)).seeds
    assert seed.test["smape"] < 60


def test_what_the_paper_does_and_we_cannot_yet_is_said(folder):
    write_m4(folder)
    with pytest.raises(SettingError, match="fair"):
        m4_table.run(m4_table.cell("Quarterly", "orderless", "paper", (0,)))
    write_cases(folder)
    cell = classification_table.cell("BasicMotions", "orderless", "paper", (0,))
    with pytest.raises(SettingError, match="fair"):
        classification_table.run(cell)


def test_classifiers_run(folder):
    write_cases(folder)
    scores = {}
    for model in ("commonest class", "ridge"):
        for protocol in ("fair", "paper"):
            cell = classification_table.cell("BasicMotions", model, protocol, (0,))
            scores[model, protocol] = classification_table.run(cell).seeds[0].test["accuracy"]
    assert scores["commonest class", "fair"] == 50
    assert scores["ridge", "fair"] > 90
    assert scores["ridge", "paper"] >= scores["ridge", "fair"]


def test_our_own_cell_of_classification_runs(folder):
    write_cases(folder)
    for model, identify in (("orderless", None), ("orderless identified", "name")):
        cell = classification_table.cell("BasicMotions", model, "fair", (0,))
        assert cell.option("classifier")["identify"] == identify
        settings = {"preset": "tiny", "epochs": 1, "identify": identify}
        cell = replace(cell, options=frozen({"classifier": settings}))
        (seed,) = classification_table.run(cell).seeds
        assert seed.epochs == 1
        assert 0 <= seed.test["accuracy"] <= 100


def test_pca_finds_what_a_random_score_does_not(folder):
    write_monitored(folder)
    fair = {
        model: anomaly_table.run(anomaly_table.cell("SMD", model, "fair", (0,)))
        for model in ("PCA", "random score")
    }
    assert fair["PCA"].note == "2 of 28 machines"
    assert fair["PCA"].seeds[0].test["vus_pr"] > 80
    assert fair["random score"].seeds[0].test["vus_pr"] < 60


def test_the_paper_joins_the_machines(folder):
    write_monitored(folder)
    (seed,) = anomaly_table.run(anomaly_table.cell("SMD", "PCA", "paper", (0,))).seeds
    assert seed.test["point_adjusted_f1"] > 50
    joined = anomaly_table._join(anomaly_table.anomaly("SMD"))
    assert joined.train.shape == (800, 38)


def test_our_own_cell_of_anomaly_detection_runs(folder):
    write_monitored(folder, names=("machine-1-1",))
    cell = anomaly_table.cell("SMD", "orderless", "fair", (0,))
    settings = {"preset": "tiny", "epochs": 1, "context": 20}
    (seed,) = anomaly_table.run(replace(cell, options=frozen({"detector": settings}))).seeds
    assert 0 <= seed.test["vus_pr"] <= 100


def test_the_command_runs_lists_and_resumes_cells(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cases(folder)
    command = ["bench", "run", "classification", "--only", "BasicMotions/all/ridge", "--seeds", "1"]
    assert main(command) == 0
    assert "1 done, 0 were there" in capsys.readouterr().out
    assert main(command) == 0
    assert "0 done, 1 were there" in capsys.readouterr().out
    assert main(["bench", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in TABLES)
    assert main(["bench", "list", "classification", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "accuracy" in shown
    assert "not run yet" in shown
    assert "no data here" in shown


def test_a_cell_without_data_fails_and_says_how_to_get_it(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "run", "m4", "--only", "M4-Hourly/all/naive/"]) == 1
    assert "orderless data get M4-Hourly" in capsys.readouterr().out


def test_a_request_that_names_nothing_is_an_error(capsys):
    assert main(["bench", "run"]) == 2
    assert main(["bench", "run", "pools", "--protocol", "paper"]) == 2
    assert main(["bench", "run", "m4", "--only", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_naive2_without_its_file_says_so(folder):
    write_m4(folder)
    (folder / "m4" / "naive2.parquet").unlink()
    with pytest.raises(DataError, match=r"naive2\.parquet"):
        m4_table.run(m4_table.cell("Quarterly", "naive2", "fair", (0,)))
