import pytest

from orderless.bench import registry
from orderless.bench.harness import Summary
from orderless.cli import main


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    """No cell may be run."""
    monkeypatch.setattr(registry, "run_cell", lambda cell: pytest.fail("a cell was run"))


@pytest.mark.parametrize("place", ["", "cells", "cells/pools"])
def test_a_place_that_takes_no_results_is_found_before_the_work(place, tmp_path, capsys):
    results = tmp_path / "results"
    taken = results / place
    taken.parent.mkdir(parents=True, exist_ok=True)
    taken.write_text("mine")
    command = ["bench", "run", "pools", "--only", "features/4096/mean", "--seeds", "1"]
    assert main([*command, "--results", str(results)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"orderless bench: Results cannot be written to {results}")
    assert said.count("\n") == 1
    assert taken.read_text() == "mine"


def test_results_that_are_there_need_no_place(tmp_path, capsys, monkeypatch):
    """A folder that only can be read is no hindrance where there is nothing to write."""
    monkeypatch.setattr("orderless.bench.harness.find_result", lambda cell, folder: cell)
    (tmp_path / "file").write_text("mine")
    command = ["bench", "run", "pools", "--only", "features/4096/mean", "--seeds", "1"]
    assert main([*command, "--results", str(tmp_path / "file")]) == 0
    assert "1 were there" in capsys.readouterr().out


@pytest.mark.parametrize(("failed", "code"), [({}, 0), ({"a cell": "no data"}, 1)])
def test_failures_count_though_nobody_reads_of_them(
    failed, code, tmp_path, monkeypatch, unread_main
):
    summary = Summary(failed=failed)
    monkeypatch.setattr("orderless.bench.harness.run_cells", lambda *args, **settings: summary)
    command = ["bench", "run", "pools", "--only", "features/16/mean", "--seeds", "1"]
    assert unread_main([*command, "--results", str(tmp_path)]) == code


@pytest.mark.parametrize("table", ["pools", "long-term", "ablation"])
@pytest.mark.parametrize("seeds", ["0", "-1", "two"])
def test_less_than_one_seed_is_refused(table, seeds, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "run", table, "--seeds", seeds, "--results", str(tmp_path)])
    assert f"'{seeds}' is not a number of seeds, 1 or more" in capsys.readouterr().err
    (tmp_path / "run.toml").write_text(f'seeds = "{seeds}"')
    assert main(["bench", "run", table, "--config", str(tmp_path / "run.toml")]) == 2
    assert f"seeds: '{seeds}' is not a number of seeds" in capsys.readouterr().err
