import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from bench_data import write_cases, write_exchange, write_m4, write_monitored

from orderless import Detector
from orderless.bench.config import frozen
from orderless.bench.datasets.catalogue import CATALOGUE
from orderless.bench.datasets.readers import long_term
from orderless.bench.models import detectors, forecasts
from orderless.bench.models.chosen_epoch import EndChoosesEpoch, GivenCasesChooseEpoch
from orderless.bench.models.columns import COLUMNS, column
from orderless.bench.models.detectors import fit_pca, own_score, squared_error
from orderless.bench.protocols.long_term_rules import scored_windows
from orderless.bench.registry import TABLES, find_table
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table
from orderless.cli import main
from orderless.data import read_panel
from orderless.errors import DataError, SettingError
from orderless.models.classification import NETWORK

TINY = {"preset": "tiny"}
BRIEF = {"epochs": 1, "steps": 2}


def long_term_cell(model, protocol="fair", **options):
    cell = long_term_table.TABLE.cell("Exchange", "6", model, protocol, (0,))
    return replace(cell, options=frozen({"contexts": (12, 24), "budget": BRIEF, **options}))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_cells_have_names_of_their_own_and_sets_of_the_catalogue(table):
    for protocol in ("fair", "paper"):
        cells = table.cells(protocol, (0, 1))
        assert len({cell.file_name for cell in cells}) == len(cells)
        assert {cell.dataset for cell in cells} <= set(CATALOGUE)
        assert {cell.model for cell in cells} == set(table.models)
        assert table.metrics[protocol]


def test_every_column_of_a_table_with_data_is_fitted_by_something():
    assert {name: set(columns) for name, columns in COLUMNS.items()} == {
        name: set(table.models) for name, table in TABLES.items()
    }


def test_an_unknown_table_is_an_error():
    with pytest.raises(SettingError, match="long-term"):
        find_table("short-long")


@pytest.mark.parametrize("model", ["naive", "seasonal naive", "ridge", "coupled ridge", "DLinear"])
def test_a_baseline_of_the_long_term_table_runs(folder, model):
    write_exchange(folder)
    outcome = long_term_table.run(long_term_cell(model))
    (seed,) = outcome.seeds
    assert seed.test["windows"] == 100 - 6 + 1
    assert 0 < seed.test["mse"] < 4
    assert seed.chosen["context"] in (12, 24)
    assert outcome.data_checksum.startswith("sha256:")
    if "ridge" in model:
        assert seed.test["mse"] < 0.1


@pytest.mark.parametrize("model", long_term_table.OURS)
def test_our_own_cell_of_the_long_term_table_runs(folder, model):
    write_exchange(folder)
    forecaster = long_term_table.TABLE.cell("Exchange", "6", model, "fair", (0,)).option(
        "forecaster"
    )
    assert (forecaster["network"] == {"coupling": "none"}) == ("uncoupled" in model)
    (seed,) = long_term_table.run(long_term_cell(model, forecaster=forecaster | TINY)).seeds
    assert seed.test["mse"] < 0.2
    assert seed.epochs == 1
    assert sum(seed.chosen[name] for name in seed.chosen if name != "context") == pytest.approx(1)


@pytest.mark.parametrize("model", ["orderless", "ridge", "coupled ridge", "DLinear"])
def test_what_is_fitted_and_chosen_does_not_know_the_test_rows(folder, model):
    cell = long_term_cell(model, forecaster=TINY)
    write_exchange(folder)
    path = folder / "ltsf" / "exchange_rate.parquet"
    table = pl.read_parquet(path)
    (before,) = long_term_table.run(cell).seeds
    test_row = pl.int_range(pl.len()) >= 400
    table.with_columns(
        pl.when(test_row).then(9.0).otherwise(pl.col(table.columns[1:])).name.keep()
    ).write_parquet(path)
    (after,) = long_term_table.run(cell).seeds
    assert after.test != before.test
    assert (after.validation, after.chosen) == (before.validation, before.chosen)


def test_a_model_of_no_name_is_an_error(folder):
    write_exchange(folder)
    with pytest.raises(SettingError, match="crystal ball"):
        long_term_table.run(replace(long_term_cell("naive"), model="crystal ball"))


def test_the_long_term_errors_are_those_of_a_plain_loop(folder):
    write_exchange(folder, rows=120)
    data = long_term("Exchange")
    problem = forecasts.pose(data, 12, 6)
    fitted = forecasts.fit(column("long-term", "naive"), problem, 0, {})
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


def test_the_paper_scores_fewer_windows_and_chooses_the_context_by_them(folder):
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
            forecasts.fit(column("long-term", model), problem, 0, {"budget": BRIEF}).forecast(
                window
            )
            for problem in (forecasts.pose(each, 24, 6) for each in (data, other))
        )
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_baselines_of_m4_run_and_naive2_is_read(folder):
    write_m4(folder)
    scores = {
        model: m4_table.run(m4_table.TABLE.cell("M4-Quarterly", "all", model, "fair", (0,)))
        .seeds[0]
        .test
        for model in ("naive", "seasonal naive", "naive2")
    }
    # The file of Naive2 holds the future itself here.
    assert scores["naive2"]["smape"] == 0
    assert scores["seasonal naive"]["smape"] < scores["naive"]["smape"]
    assert set(scores["naive"]) == {"smape", "mase", "owa"}


def m4_cell(protocol):
    options = {"forecaster": TINY | {"loss": "smape"}, "context_in_horizons": 2, "budget": BRIEF}
    cell = m4_table.TABLE.cell("M4-Quarterly", "all", "orderless", protocol, (0,))
    return replace(cell, options=frozen(options))


@pytest.mark.parametrize("protocol", ["fair", "paper"])
def test_our_own_cell_of_m4_runs(folder, protocol):
    write_m4(folder)
    (seed,) = m4_table.run(m4_cell(protocol)).seeds
    assert set(seed.validation) == {"mae", "mse"}
    assert seed.test["smape"] < 60
    assert seed.epochs == 1


def what_chose(monkeypatch, run):
    """The systems that our forecaster was shown, and where their training part ended."""
    seen = []
    cut = EndChoosesEpoch._cut_windows

    def spy(self, panel):
        windows = cut(self, panel)
        seen.append(([system.values[0] for system in panel.systems], windows))
        return windows

    monkeypatch.setattr(EndChoosesEpoch, "_cut_windows", spy)
    run()
    return seen[0]


@pytest.mark.parametrize("protocol", ["fair", "paper"])
def test_the_epoch_on_m4_is_chosen_by_what_the_protocol_says(folder, monkeypatch, protocol):
    write_m4(folder)
    data = m4_table.m4_group("Quarterly")
    systems, windows = what_chose(monkeypatch, lambda: m4_table.run(m4_cell(protocol)))
    for number, (system, history) in enumerate(zip(systems, data.history, strict=True)):
        hidden = 8 if protocol == "paper" else 0
        assert len(system) == len(history) + hidden
        end = windows.ends[number]
        assert end == len(system) - 8
        mine = windows.train[windows.train[:, 0] == number, 1]
        assert (mine + 16 + 8 <= end).all()
    assert (windows.selection[:, 1] + 16).tolist() == windows.ends


def case_cell(model, protocol, **changes):
    cell = classification_table.TABLE.cell("BasicMotions", "all", model, protocol, (0,))
    options = cell.settings | {"classifier": cell.option("classifier") | changes, "budget": BRIEF}
    return replace(cell, options=frozen(options))


def test_test_cases_choose_the_epoch_of_a_network_where_the_protocol_says_so(folder, monkeypatch):
    write_cases(folder)
    shown = {}

    def spy(self, cases, labels, chooser, chooser_labels, *, by_accuracy):
        shown["teach"], shown["choose"], shown["by accuracy"] = cases, chooser, by_accuracy
        return fit(self, cases, labels, chooser, chooser_labels, by_accuracy=by_accuracy)

    fit = GivenCasesChooseEpoch.fit_with
    monkeypatch.setattr(GivenCasesChooseEpoch, "fit_with", spy)
    (seed,) = classification_table.run(case_cell("orderless", "paper", **TINY)).seeds
    assert (len(shown["teach"]), len(shown["choose"])) == (20, 20)
    assert shown["by accuracy"]
    assert seed.validation["accuracy"] == seed.test["accuracy"]


def test_the_stack_learns_from_all_training_cases_and_names_its_weights(folder):
    write_cases(folder)
    cell = case_cell("orderless", "fair", members=["flat ridge"])
    (seed,) = classification_table.run(cell).seeds
    assert seed.chosen["weight of flat ridge"] == 1.0
    assert seed.validation["accuracy"] > 90


def test_the_epoch_with_the_most_right_cases_is_chosen_where_accuracy_chooses(folder):
    write_cases(folder)
    data = classification_table.uea("BasicMotions")
    settings = {"preset": "tiny", "epochs": 3, "verbose": False}
    for by_accuracy in (False, True):
        model = GivenCasesChooseEpoch(**settings)
        model.fit_with(
            data.train, data.train_labels, data.test, data.test_labels, by_accuracy=by_accuracy
        )
        scores = [epoch.score for epoch in model.history_[NETWORK]]
        wrong = float((model.predict(data.test) != data.test_labels).mean())
        assert (min(scores) == pytest.approx(wrong)) == by_accuracy


def test_cases_that_choose_teach_nothing_else(folder):
    write_cases(folder)
    data = classification_table.uea("BasicMotions")
    scales = []
    for factor in (1, 1000):
        model = GivenCasesChooseEpoch(preset="tiny", epochs=1, verbose=False)
        model.fit_with(data.train, data.train_labels, factor * data.test, data.test_labels)
        scales.append(model.transform_)
    assert scales[0] == scales[1]


def test_classifiers_run(folder):
    write_cases(folder)
    scores = {}
    for model in ("commonest class", "ridge"):
        for protocol in ("fair", "paper"):
            cell = classification_table.TABLE.cell("BasicMotions", "all", model, protocol, (0,))
            scores[model, protocol] = classification_table.run(cell).seeds[0].test["accuracy"]
    assert scores["commonest class", "fair"] == 50
    assert scores["ridge", "fair"] > 90
    assert scores["ridge", "paper"] >= scores["ridge", "fair"]


def test_our_own_cell_of_classification_runs(folder):
    write_cases(folder)
    for model, identify in (("orderless", None), ("orderless identified", "name")):
        cell = classification_table.TABLE.cell("BasicMotions", "all", model, "fair", (0,))
        assert cell.option("classifier")["identify"] == identify
        (seed,) = classification_table.run(case_cell(model, "paper", **TINY)).seeds
        assert seed.epochs == 1
        assert 0 <= seed.test["accuracy"] <= 100


def test_pca_finds_what_a_random_score_does_not(folder):
    write_monitored(folder)
    fair = {
        model: anomaly_table.run(anomaly_table.TABLE.cell("SMD", "all", model, "fair", (0,)))
        for model in ("PCA", "random score")
    }
    assert fair["PCA"].note == "2 of 28 machines"
    assert fair["PCA"].seeds[0].test["vus_pr"] > 80
    assert fair["random score"].seeds[0].test["vus_pr"] < 60


def test_the_paper_joins_the_machines_and_fair_has_a_model_for_each(folder, monkeypatch):
    write_monitored(folder)
    fitted_on = []

    def spy(rows, seed, options):
        fitted_on.append(rows.shape)
        return detectors.Fitted(fit_pca(rows))

    monkeypatch.setitem(detectors.COLUMNS, "PCA", spy)
    (seed,) = anomaly_table.run(anomaly_table.TABLE.cell("SMD", "all", "PCA", "paper", (0,))).seeds
    assert seed.test["point_adjusted_f1"] > 50
    assert fitted_on == [(800, 38)]
    anomaly_table.run(anomaly_table.TABLE.cell("SMD", "all", "PCA", "fair", (0,)))
    assert fitted_on[1:] == [(320, 38), (320, 38)]


@pytest.mark.parametrize("protocol", ["fair", "paper"])
def test_our_own_cell_of_anomaly_detection_runs(folder, protocol):
    write_monitored(folder, names=("machine-1-1",))
    cell = anomaly_table.TABLE.cell("SMD", "all", "orderless", protocol, (0,))
    options = cell.settings | {"detector": TINY | {"context": 20}, "budget": BRIEF}
    (seed,) = anomaly_table.run(replace(cell, options=frozen(options))).seeds
    assert all(0 <= value <= 100 for value in seed.test.values())
    assert seed.epochs == (BRIEF["epochs"] if protocol == "paper" else 0)
    assert ("mse of network" in seed.validation) == (protocol == "paper")
    assert all(error > 0 for error in seed.validation.values())


def test_the_paper_scores_a_time_step_by_its_squared_error_and_fair_as_the_detector_does(folder):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(200, 3)) * (1.0, 5.0, 0.1)
    model = Detector(members="ridge", verbose=False).fit(rows)
    own, squared = (score(model)(rows) for score in (own_score, squared_error))
    each = model.score(rows, per_variable=True)
    np.testing.assert_allclose(own, each.mean(1))
    scales = np.array([model.transform_.scales[name][1] for name in model.variables_in_])
    assert scales.argmax() == 1
    (errors,) = model.member_errors(read_panel(rows))
    np.testing.assert_allclose(squared, np.square(errors[0].T * scales).mean(1))
    # The variable with the largest numbers matters most, as it would not to the detector.
    assert np.corrcoef(squared, rows[:, 1] ** 2)[0, 1] > 0.9
    # A constant is expected to stay, in units of the rows.
    constant = np.column_stack([rows, np.full(200, 3.0)])
    model = Detector(members="ridge", verbose=False).fit(constant)
    expected = squared_error(model)(constant)
    constant[50, 3] = 5.0
    difference = squared_error(model)(constant) - expected
    assert difference[50] == pytest.approx(2.0**2 / 4)
    assert not np.delete(difference, 50).any()
    told = [
        anomaly_table.TABLE.cell("MSL", "all", "orderless", p, (0,)).settings
        for p in ("fair", "paper")
    ]
    assert ["score" in one for one in told] == [False, True]


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
    assert "fewer seeds" not in shown
    assert "not run yet" in shown
    assert "no data here" in shown
    assert main(["bench", "list", "classification", "--seeds", "2"]) == 0
    assert "(with fewer seeds or in another setting)" in capsys.readouterr().out
    assert main(["bench", "list", "--seeds", "2"]) == 0
    (line,) = [
        one for one in capsys.readouterr().out.splitlines() if one.startswith("classification")
    ]
    assert "0 of 90 cells" in line
    assert "1 with fewer seeds" in line
    assert "84 have no data here" in line


def test_one_command_runs_several_tables(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cases(folder)
    write_m4(folder)
    parts = ["--only", "BasicMotions/all/ridge", "--only", "Quarterly/all/naive/"]
    assert main(["bench", "run", "classification", "m4", *parts, "--seeds", "1"]) == 0
    assert "2 done, 0 were there, 0 failed" in capsys.readouterr().out
    # What is asked of one table only is said with its name.
    assert main(["bench", "list", "classification", "m4", "--only", "m4/M4-Weekly"]) == 0
    names = [line.split("/")[0] for line in capsys.readouterr().out.splitlines()]
    assert set(names) == {"M4-Weekly"}


def test_a_budget_is_part_of_what_is_recorded(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cases(folder)
    command = ["bench", "run", "classification", "--only", "BasicMotions/all/orderless/"]
    command += ["--seeds", "1", "--protocol", "paper"]
    assert main([*command, "--budget", "1x2"]) == 0
    (path,) = Path("results").rglob("*.json")
    record = json.loads(path.read_text())
    assert record["config"]["options"]["budget"] == {"epochs": 1, "steps": 2}
    assert record["seeds"][0]["epochs"] == 1
    assert main([*command, "--budget", "1x2"]) == 0
    assert "1 were there" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--budget", "8"])
    ridge = classification_table.TABLE.cell("BasicMotions", "all", "ridge", "fair", (0,))
    assert ridge.with_budget(1, 2) == ridge


def test_peers_whose_library_is_not_here_are_left_out_in_one_line(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "aeon", None)
    monkeypatch.chdir(tmp_path)
    write_cases(folder)
    assert main(["bench", "run", "classification", "--only", "BasicMotions/all/M"]) == 0
    shown = capsys.readouterr().out
    assert "left out: MiniRocket, MultiRocketHydra; not installed: aeon" in shown
    assert "0 done, 0 were there, 0 failed" in shown


def test_sets_that_are_not_here_are_one_line_that_says_how_to_get_them(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_m4(folder)
    assert main(["bench", "run", "m4", "--only", "/naive/", "--protocol", "both"]) == 1
    first, *cells, last = capsys.readouterr().out.splitlines()
    assert first.startswith("left out: 10 cells, no data here; `orderless data get M4-Yearly M4-M")
    assert [line.split("] ")[1].split(":")[0] for line in cells] == [
        "m4/M4-Quarterly/all/naive/fair",
        "m4/M4-Quarterly/all/naive/paper",
    ]
    assert last == "2 done, 0 were there, 0 failed"


def test_a_request_that_names_nothing_is_an_error(capsys):
    assert main(["bench", "run"]) == 2
    assert main(["bench", "run", "pools", "--protocol", "paper"]) == 2
    assert main(["bench", "run", "m4", "--only", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_naive2_without_its_file_says_so(folder):
    write_m4(folder)
    (folder / "m4" / "naive2.parquet").unlink()
    with pytest.raises(DataError, match=r"naive2\.parquet"):
        m4_table.run(m4_table.TABLE.cell("M4-Quarterly", "all", "naive2", "fair", (0,)))
