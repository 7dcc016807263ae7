from bench_data import write_m4

from orderless.bench import golden
from orderless.bench.config import CellConfig
from orderless.bench.golden import Golden, golden_figures, run
from orderless.cli import main


def test_the_golden_figures_are_those_of_both_protocols_and_of_m4():
    figures = golden_figures()
    assert len(figures) == 6 * 4 + 2 * 6
    by_name = {(one.cell.name, one.metric): one.expected for one in figures}
    assert by_name["ETTh1/336/ridge/fair", "mse"] == 0.426
    assert by_name["Exchange/720/naive/paper", "mse"] == 0.654
    assert by_name["M4-Yearly/all/naive2/fair", "smape"] == 16.342


def test_check_compares_and_fails_where_a_figure_is_off(folder, tmp_path, monkeypatch, capsys):
    write_m4(folder)
    cell = CellConfig("golden", "M4-Quarterly", "all", "naive2", "fair")
    assert run(cell).seeds[0].test["smape"] == 0
    monkeypatch.setattr(golden, "golden_figures", lambda: [Golden(cell, "smape", 0.0, 0.001)])
    command = ["bench", "check", "--results", str(tmp_path / "results")]
    assert main(command) == 0
    assert "holds" in capsys.readouterr().out
    monkeypatch.setattr(golden, "golden_figures", lambda: [Golden(cell, "smape", 0.1, 0.001)])
    assert main(command) == 1
    assert "OFF" in capsys.readouterr().out


def test_check_does_not_trust_an_old_result_and_fails_without_data(
    folder, tmp_path, monkeypatch, capsys
):
    write_m4(folder)
    cell = CellConfig("golden", "M4-Quarterly", "all", "naive2", "fair")
    monkeypatch.setattr(golden, "golden_figures", lambda: [Golden(cell, "smape", 0.0, 0.001)])
    command = ["bench", "check", "--results", str(tmp_path / "results")]
    assert main(command) == 0
    (folder / "m4" / "Quarterly-train.parquet").unlink()
    assert main(command) == 1
    assert "holds" not in capsys.readouterr().out.splitlines()[-1]
