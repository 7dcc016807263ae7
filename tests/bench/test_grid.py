import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest
from bench_data import write_cases, write_exchange

from orderless.bench import records
from orderless.bench.grid import Figure, Grid, Row, build_grid, rank
from orderless.bench.published import THE_PAPER
from orderless.bench.records import Outcome, SeedResult, write_result
from orderless.bench.registry import ALL, ANALYSES, TABLES, find_table
from orderless.bench.report import HTML, MARKDOWN, notes, overview, remarks, write_report
from orderless.bench.report.plots import draw
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table
from orderless.cli import main

MSE, MAE = long_term_table.METRICS
SMAPE, _, OWA = m4_table.METRICS
(ACCURACY,) = classification_table.METRICS
POINT_ADJUSTED = anomaly_table.PAPER_METRICS
DRIFT = ANALYSES["ordering"].metrics["fair"][-1]
OPERATIONS = ANALYSES["flops"].metrics["fair"]


def write(results, table, dataset, model, protocol, *values, setting="all", note=""):
    """A result with one value of every metric for each seed."""
    cells = find_table(table).cells(protocol, tuple(range(len(values))))
    (cell,) = [c for c in cells if (c.dataset, c.setting, c.model) == (dataset, setting, model)]
    names = [metric.name for metric in find_table(table).metrics[protocol]]
    seeds = [SeedResult(seed, dict.fromkeys(names, value)) for seed, value in enumerate(values)]
    write_result(cell, Outcome(tuple(seeds), "sha256:0", note), results)


def with_columns(table, *models):
    return replace(find_table(table), columns={model: {} for model in models})


def pages(results):
    return [write_report(results, name).read_text() for name in (MARKDOWN, HTML)]


def row(grid, label):
    (found,) = [row for row in grid.rows if row.label == label]
    return found


def test_equals_share_their_places():
    rows = [
        Row("one", {"a": Figure(0.1), "b": Figure(0.1004), "c": Figure(0.3)}),
        Row("two", {"a": Figure(0.5), "b": Figure(0.2), "c": Figure(None)}),
        Row("mean", {"a": Figure(0.0), "b": Figure(1.0), "c": Figure(1.0)}, summary=True),
    ]
    ranks, firsts = rank(rows, MSE, "abc")
    assert ranks == {"a": (1.5 + 2) / 2, "b": (1.5 + 1) / 2, "c": 3}
    assert firsts == {"a": 1, "b": 2, "c": 0}


def test_higher_may_be_better():
    rows = [Row("one", {"a": Figure(80.0), "b": Figure(90.0)})]
    assert rank(rows, ACCURACY, "ab")[0] == {"a": 2, "b": 1}
    grid = Grid(with_columns("m4", "a", "b"), "fair", ACCURACY, tuple(rows))
    assert grid.best(rows[0]) == {"b"}


def test_best_is_decided_at_the_printed_precision_and_not_alone():
    lone = Row("one", {"a": Figure(0.1), "b": Figure(None)})
    near = Row("two", {"a": Figure(0.1), "b": Figure(0.1002)})
    grid = Grid(with_columns("m4", "a", "b"), "fair", MSE, (lone, near))
    assert grid.best(lone) == set()
    assert grid.best(near) == {"a", "b"}


def test_a_cell_without_a_result_says_why(folder, tmp_path):
    write_exchange(folder)
    grid = build_grid(TABLES["long-term"], "fair", MSE, tmp_path)
    assert row(grid, "Exchange 96").figures["ridge"].words == "not run yet"
    assert row(grid, "Traffic 96").figures["ridge"].words == "no data here"
    assert row(grid, "Traffic average").figures["ridge"].words == "no data here"


def test_an_average_needs_all_of_its_rows(folder, tmp_path):
    for number, horizon in enumerate(("96", "192", "336")):
        write(tmp_path, "long-term", "ETTh1", "naive", "fair", number + 1.0, setting=horizon)
    grid = build_grid(TABLES["long-term"], "fair", MSE, tmp_path)
    assert row(grid, "ETTh1 average").figures["naive"].value is None
    write(tmp_path, "long-term", "ETTh1", "naive", "fair", 4.0, setting="720")
    grid = build_grid(TABLES["long-term"], "fair", MSE, tmp_path)
    assert row(grid, "ETTh1 average").figures["naive"].value == 2.5


def test_seeds_are_averaged_and_their_deviation_is_shown(folder, tmp_path):
    write(tmp_path, "classification", "BasicMotions", "ridge", "fair", 90.0, 92.0)
    grid = build_grid(TABLES["classification"], "fair", ACCURACY, tmp_path)
    assert row(grid, "BasicMotions").figures["ridge"].text(ACCURACY) == "91.0 ± 1.4"


def test_simulated_rows_compare_the_seeds_that_all_of_them_have(folder, tmp_path):
    of_world = ("scaling", "VAR(1) on a small world")
    write(tmp_path, *of_world, "VI 2D SSM", "fair", 0.5, setting="64")
    write(tmp_path, *of_world, "ordered 2D SSM", "fair", 0.6, 0.1, 0.1, setting="64")
    figures = row(build_grid(ANALYSES["scaling"], "fair", MAE, tmp_path), "64 variables").figures
    assert figures["VI 2D SSM"].value == 0.5
    assert (figures["ordered 2D SSM"].value, figures["ordered 2D SSM"].seeds) == (0.6, 1)


def test_printed_averages_are_shown_with_what_their_rows_give(folder, tmp_path):
    table = TABLES["long-term"]
    mse = remarks(build_grid(table, "paper", MSE, tmp_path))
    assert f"{THE_PAPER}, ETTh1 average: printed 0.397, its rows give 0.3977" in mse
    assert f"{THE_PAPER}, Traffic average: printed 0.398, its rows give 0.3987" in mse
    assert not any(THE_PAPER in line and "ETTm1" in line for line in mse)
    mae = remarks(build_grid(table, "paper", MAE, tmp_path))
    assert f"{THE_PAPER}, ETTm2 average: printed 0.318, 0.317 in its main table" in mae


def test_a_printed_f1_that_its_parts_contradict_is_marked(folder, tmp_path):
    grid = build_grid(TABLES["anomaly"], "paper", POINT_ADJUSTED[0], tmp_path)
    figure = row(grid, "SWaT").figures[THE_PAPER]
    assert figure.value == 93.94
    assert figure.remark == "its precision and recall give 93.49"
    assert not row(grid, "PSM").figures[THE_PAPER].remark


def test_averages_of_m4_weigh_series_and_owa_comes_from_means(folder, tmp_path):
    for group in ("Yearly", "Quarterly", "Monthly", "Weekly", "Daily", "Hourly"):
        value = 10.0 if group == "Monthly" else 0.0
        write(tmp_path, "m4", f"M4-{group}", "naive", "paper", value)
    smape = build_grid(TABLES["m4"], "paper", SMAPE, tmp_path)
    assert row(smape, "average, by series").figures["naive"].value == pytest.approx(4.8)
    assert row(smape, "M4-Others").figures["naive"].value == 0
    owa = build_grid(TABLES["m4"], "paper", OWA, tmp_path)
    expected = (4.8 / 13.564 + 4.8 / 1.912) / 2
    assert row(owa, "average, by series").figures["naive"].value == pytest.approx(
        expected, abs=1e-3
    )
    assert row(owa, "average, by series").figures[THE_PAPER].remark == "its rows give 0.838"


def test_the_average_of_the_sets_with_data_is_the_same_for_all_columns(folder, tmp_path):
    for dataset in ("Handwriting", "JapaneseVowels"):
        write(tmp_path, "classification", dataset, "ridge", "paper", 50.0)
    grid = build_grid(TABLES["classification"], "paper", ACCURACY, tmp_path)
    common = row(grid, "average of the 2 with data").figures
    assert common["ridge"].value == 50
    assert common[THE_PAPER].value == pytest.approx((35.3 + 98.4) / 2)
    assert row(grid, "average of the paper's 10").figures[THE_PAPER].value == 74.4


def test_the_pages_say_what_there_is_and_need_no_other_file(folder, tmp_path):
    write(tmp_path, "anomaly", "SMD", "PCA", "fair", 40.0, note="23 of 28 machines")
    write(tmp_path, "anomaly", "SMD", "random score", "fair", 20.0, note="23 of 28 machines")
    write(tmp_path, "m4", "M4-Yearly", "orderless", "paper", 13.0)
    markdown, page = pages(tmp_path)
    assert pages(tmp_path) == [markdown, page]
    assert "| SMD | no data here | **40.0*** | 20.0* |" in markdown
    assert "- SMD: 23 of 28 machines" in markdown
    assert "its precision and recall give 93.49" in markdown
    assert "<svg" in page
    assert "<b>40.0</b>" in page
    for outside in ("http://", "https://", "<script", "<link", "src="):
        where = page.replace("http://www.w3.org", "").replace("http://purl.org", "")
        where = where.replace("http://creativecommons.org", "").replace("https://matplotlib", "")
        assert outside not in where
    # What is true of a table is said once for all its metrics.
    assert "### MASE" in markdown
    for text in (markdown, page):
        assert text.count("Trained for at most 8 epochs of 100 steps: orderless.") == 1
        assert text.count("The epoch was chosen by test SMAPE") == 1


def test_the_command_writes_the_report(folder, tmp_path, capsys):
    command = ["bench", "report", "--results", str(tmp_path / "results")]
    assert main(command) == 0
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["report.md"]
    assert main([*command, "--html"]) == 0
    assert (tmp_path / "results" / "report.html").is_file()
    assert "report.md" in capsys.readouterr().out


def test_a_result_of_other_seeds_is_still_shown(folder, tmp_path):
    write_cases(folder)
    (cell, *_) = TABLES["classification"].cells("fair", (0,))
    result = Outcome((SeedResult(7, {"accuracy": 61.0}),), "sha256:0")
    write_result(replace(cell, seeds=(7,)), result, tmp_path)
    grid = build_grid(TABLES["classification"], "fair", ACCURACY, tmp_path)
    assert row(grid, cell.dataset).figures[cell.model].value == 61.0


def test_a_difference_within_the_seeds_is_called_so(folder, tmp_path):
    for horizon in ("96", "192", "336", "720"):
        for model, values in {
            "whole": (0.40, 0.41, 0.42),
            "w/o long": (0.415, 0.425, 0.435),
            "w/o short": (0.50, 0.51, 0.52),
        }.items():
            write(tmp_path, "ablation", "ETTh1", model, "fair", *values, setting=horizon)
    grid = build_grid(ANALYSES["ablation"], "fair", MSE, tmp_path)
    line = row(grid, "ETTh1 96")
    assert line.figures["w/o long"].alike
    assert line.figures["w/o long"].text(MSE) == "≈ 0.425 ± 0.010"
    assert not line.figures["w/o short"].alike
    assert not line.figures["whole"].alike
    # A mean of four is known better than each: what was within the noise of one may not be here.
    average = row(grid, "ETTh1 average").figures["w/o long"]
    assert average.deviation == pytest.approx(0.005)
    assert not average.alike
    tally = remarks(grid)[-1]
    assert "within the noise of the seeds" in tally
    assert "Of 8 figures that are no averages 4 are so, 0 better and 4 worse." in tally


def test_what_one_seed_says_is_called_so(folder, tmp_path):
    for horizon, values in (("96", (0.4,)), ("192", (0.4, 0.5))):
        write(tmp_path, "long-term", "ETTh1", "DLinear", "fair", *values, setting=horizon)
        write(tmp_path, "long-term", "ETTh1", "ridge", "fair", 0.3, setting=horizon)
    write(tmp_path, "long-term", "ETTh1", "orderless", "fair", 0.4, setting="96")
    notes = build_grid(TABLES["long-term"], "fair", MSE, tmp_path).notes
    assert "One seed only: orderless; DLinear on ETTh1 96." in notes


def test_code_that_no_commit_has_is_called_so(folder, tmp_path, monkeypatch):
    for changed, model in ((True, "naive"), (False, "ridge")):
        machine = records.describe_machine() | {"uncommitted_changes": changed}
        monkeypatch.setattr(records, "describe_machine", lambda machine=machine: machine)
        write(tmp_path, "long-term", "ETTh1", model, "fair", 0.4, setting="96")
    (line,) = [
        note
        for note in build_grid(TABLES["long-term"], "fair", MSE, tmp_path).notes
        if note.startswith("Cells: 2 on ")
    ]
    assert "; 1 of them by code with changes" in line


def test_figures_of_other_data_stand_beside_ours_and_are_not_ranked(folder, tmp_path):
    data = "VAR(1) on a small world"
    for model, value in (("VI 2D SSM", 0.7), ("1D SSM", 0.8)):
        write(tmp_path, "scaling", data, model, "fair", value, setting="64")
    grid = build_grid(ANALYSES["scaling"], "fair", ANALYSES["scaling"].metrics["fair"][0], tmp_path)
    line = row(grid, "64 variables")
    assert line.figures[THE_PAPER].value == 0.093
    assert grid.best(line) == {"VI 2D SSM"}
    assert not grid.ranks
    assert any("not ranked" in note for note in notes(grid))
    # Numbers of variables are an axis of its plot.
    write(tmp_path, "scaling", data, "1D SSM", "fair", 0.8, setting="128")
    grid = build_grid(ANALYSES["scaling"], "fair", MAE, tmp_path)
    assert ">variables<" in draw(grid)


def test_a_peer_that_was_not_run_is_a_line_and_not_a_column(folder, tmp_path):
    grid = build_grid(TABLES["long-term"], "fair", MSE, tmp_path)
    assert "PatchTST" not in grid.measured
    assert any("PatchTST" in note and "neuralforecast" in note for note in grid.notes)
    write(tmp_path, "long-term", "ETTh1", "PatchTST", "fair", 0.4, setting="96")
    grid = build_grid(TABLES["long-term"], "fair", MSE, tmp_path)
    assert "PatchTST" in grid.measured


def test_budget_and_machine_are_said_below_the_table(folder, tmp_path):
    write(tmp_path, "long-term", "ETTh1", "DLinear", "fair", 0.4, setting="96")
    notes = build_grid(TABLES["long-term"], "fair", MSE, tmp_path).notes
    assert "Trained for at most 20 epochs of 100 steps: DLinear." in notes
    assert any(note.startswith("Cells: 1 on ") for note in notes)


def test_a_drift_is_printed_with_its_power_of_ten_and_nobody_is_best():
    assert Figure(1.2e-6).text(DRIFT) == "1.2e-06"
    line = Row("permuted", {"a": Figure(1.2e-6), "b": Figure(1.21e-6), "c": Figure(3e-2)})
    grid = Grid(with_columns("ordering", "a", "b", "c"), "fair", DRIFT, (line, line))
    # One rounding is no better than another.
    assert grid.best(line) == set()
    assert "10^{-6}" in draw(grid)


def test_a_figure_is_drawn_even_where_nothing_is_to_scale(folder, tmp_path):
    lone = Row("321 variables", {"a": Figure(3.0), "b": Figure(61.0)})
    grid = Grid(with_columns("flops", "a", "b"), "fair", OPERATIONS[0], (lone,))
    assert "<svg" in draw(grid)
    nothing = Row("as it comes", {"a": Figure(0.0), "b": Figure(None)})
    assert draw(replace(grid, rows=(nothing, nothing))) == ""
    far = Row("far", {"a": Figure(1.0, deviation=0.1, seeds=3), "b": Figure(9.0)})
    assert "border" in draw(replace(grid, metric=MSE, rows=(far, far)))
    near = Row("near", {"a": Figure(1.0, deviation=0.1, seeds=3), "b": Figure(1.1)})
    assert "border" not in draw(replace(grid, metric=MSE, rows=(near, near)))


def test_every_table_is_explained_and_those_with_data_under_every_protocol():
    about = tomllib.loads((files("orderless.bench.report") / "tables.toml").read_text("utf-8"))
    for name, table in ALL.items():
        assert about[name].pop("about")
        assert table.simulated or set(about[name]) == set(table.metrics)
    assert set(about) == set(ALL)


def test_a_result_of_another_setting_is_counted_and_named(folder, tmp_path):
    (cell, *_) = [c for c in TABLES["long-term"].cells("fair", (0,)) if c.model == "ridge"]
    result = Outcome((SeedResult(0, {"mse": 1.0, "mae": 1.0}),), "sha256:0")
    write_result(cell, result, tmp_path)
    assert not any(
        "setting" in note for note in build_grid(TABLES["long-term"], "fair", MSE, tmp_path).notes
    )
    write_result(replace(cell, options=(("contexts", (5,)),)), result, tmp_path)
    notes = build_grid(TABLES["long-term"], "fair", MSE, tmp_path).notes
    assert any(f"the first of them {cell.name}" in note for note in notes)


def test_the_overview_compares_on_the_same_rows(folder, tmp_path):
    for setting, ours, ridge in (("96", 0.36, 0.37), ("192", 0.40, 0.41)):
        write(tmp_path, "long-term", "ETTh1", "orderless", "paper", ours, setting=setting)
        write(tmp_path, "long-term", "ETTh1", "orderless uncoupled", "paper", 0.1, setting=setting)
        write(tmp_path, "long-term", "ETTh1", "ridge", "paper", ridge, setting=setting)
    write(tmp_path, "long-term", "ETTh1", "naive", "paper", 0.0, setting="96")
    (standing,) = overview([build_grid(TABLES["long-term"], "paper", MSE, tmp_path)])
    # Naive lacks a row, and what is ours too is no baseline; the paper has .365 and .407.
    assert standing[1:5] == ["2 rows", "0.380", "ridge 0.390", "0.386"]
    assert not overview([build_grid(TABLES["m4"], "paper", SMAPE, tmp_path)])
    assert "ridge 0.390" in write_report(tmp_path).read_text()


def test_the_overview_compares_on_rows_that_the_paper_has(folder, tmp_path):
    for dataset, value in (("JapaneseVowels", 90.0), ("BasicMotions", 10.0)):
        write(tmp_path, "classification", dataset, "orderless", "paper", value)
        write(tmp_path, "classification", dataset, "ridge", "paper", value)
    (standing,) = overview([build_grid(TABLES["classification"], "paper", ACCURACY, tmp_path)])
    assert standing[1:5] == ["1 row", "90.0", "ridge 90.0", "98.4"]


def test_the_overview_of_m4_is_the_mean_over_all_series(folder, tmp_path):
    for group in ("Yearly", "Quarterly", "Monthly", "Weekly", "Daily", "Hourly"):
        value = 10.0 if group == "Monthly" else 0.0
        write(tmp_path, "m4", f"M4-{group}", "orderless", "paper", value)
        write(tmp_path, "m4", f"M4-{group}", "naive", "paper", 2 * value)
    (standing,) = overview([build_grid(TABLES["m4"], "paper", SMAPE, tmp_path)])
    assert standing[1:5] == ["all series", "4.800", "naive 9.600", "11.686"]
