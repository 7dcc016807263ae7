"""What is committed under results/ can be believed as far as a reader without the data can see."""

import math
from pathlib import Path

import pytest

from orderless.bench.config import CellConfig
from orderless.bench.golden import NAME as GOLDEN
from orderless.bench.golden import golden_figures
from orderless.bench.protocols import PROTOCOLS
from orderless.bench.records import CellResult, path_of, read_result
from orderless.bench.registry import ALL

RESULTS = Path(__file__).parents[2] / "results"


def cells_of(name: str) -> dict[str, CellConfig]:
    """The cells that a table has now, by the name of their file."""
    if name == GOLDEN:
        every = [figure.cell for figure in golden_figures()]
    else:
        table = ALL[name]
        every = [cell for p in PROTOCOLS if p in table.metrics for cell in table.cells(p, (0, 1))]
    return {cell.file_name: cell for cell in every}


def committed(name: str) -> dict[Path, CellResult]:
    found = {path: read_result(path) for path in sorted((RESULTS / "cells" / name).glob("*"))}
    assert found, f"nothing is committed of {name}"
    return found


def test_no_result_is_of_a_table_that_does_not_exist():
    assert {path.name for path in (RESULTS / "cells").iterdir()} == {*ALL, GOLDEN}


@pytest.mark.parametrize("name", [*ALL, GOLDEN])
def test_every_result_is_that_of_a_cell_of_its_table(name):
    cells = cells_of(name)
    for path, result in committed(name).items():
        cell = cells[path.name]
        where = [result.config[part] for part in ("table", "dataset", "setting", "model")]
        assert where == [cell.table, cell.dataset, cell.setting, cell.model]
        assert result.config["protocol"] == cell.protocol
        assert path == path_of(cell, RESULTS)


@pytest.mark.parametrize("name", [*ALL, GOLDEN])
def test_every_result_has_a_finite_figure_of_every_metric_for_every_seed(name):
    for path, result in committed(name).items():
        assert [seed.seed for seed in result.seeds] == result.config["seeds"], path
        metrics = {
            metric.name
            for metric in (ALL[name].metrics[result.config["protocol"]] if name in ALL else ())
        }
        for seed in result.seeds:
            assert metrics <= set(seed.test), path
            assert seed.test, path
            for part in (seed.test, seed.validation):
                assert all(math.isfinite(value) for value in part.values()), path


@pytest.mark.parametrize("name", [*ALL, GOLDEN])
def test_every_result_says_what_it_was_made_of(name):
    for path, result in committed(name).items():
        assert result.data_checksum, path
        assert result.machine["commit"], path
        assert result.machine["device"], path
        assert {"torch", "numpy"} <= set(result.machine["packages"]), path
        trained = "budget" in result.config["options"]
        assert not trained or all(seed.epochs is not None for seed in result.seeds), path
        assert not trained or all(seed.validation for seed in result.seeds), path
