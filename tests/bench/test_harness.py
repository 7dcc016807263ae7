import io
import json
import os
import signal
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from orderless.bench.config import CellConfig, frozen
from orderless.bench.harness import run_cells
from orderless.bench.measuring import peak_bytes, peak_of_tensors, start_measuring
from orderless.bench.records import (
    Outcome,
    SeedResult,
    describe_machine,
    find_result,
    path_of,
    read_result,
)
from orderless.bench.workers import _Worker
from orderless.errors import DataError, SettingError

CELL = CellConfig("toy", "sine", "96", "a model", "fair", (0, 1), (("width", 3),))


def run(config):
    """The seed is the score, unless the name of the model says otherwise."""
    if config.model == "broken":
        raise DataError("there is no data")
    if config.model == "huge":
        raise torch.OutOfMemoryError("10 TiB")
    if config.model == "bug":
        raise ZeroDivisionError
    if config.model == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if config.model == "process":
        return Outcome((SeedResult(0, {"mse": float(os.getpid())}),), "sha256:0")
    seeds = tuple(SeedResult(seed, {"mse": float(seed)}, {"mse": 9.0}) for seed in config.seeds)
    return Outcome(seeds, "sha256:0", "half of it")


def fit_of_shared(cell):
    return cell.model if cell.table == "shared" else cell


def quietly(line):
    pass


def test_a_config_is_frozen_and_complete():
    with pytest.raises(FrozenInstanceError):
        CELL.model = "other"
    assert CELL.option("width") == 3
    nested = {"contexts": (96, 336), "network": {"width": 3, "training": {"epochs": 1}}}
    cell = replace(CELL, options=frozen(nested))
    assert cell.settings == nested
    assert hash(cell) == hash(replace(CELL, options=frozen(nested)))
    assert replace(CELL, options=()).settings == {}
    with pytest.raises(SettingError, match="depth"):
        CELL.option("depth")
    with pytest.raises(SettingError, match="protocol"):
        replace(CELL, protocol="generous")
    with pytest.raises(SettingError, match="seed"):
        replace(CELL, seeds=())


def test_a_result_holds_what_is_needed_to_believe_it(tmp_path):
    run_cells([CELL], run, tmp_path, say=quietly)
    record = json.loads(path_of(CELL, tmp_path).read_text())
    assert record["config"] == CELL.to_json()
    assert record["config"]["options"] == {"width": 3}
    assert [seed["test"] for seed in record["seeds"]] == [{"mse": 0.0}, {"mse": 1.0}]
    assert {"validation", "epochs", "seconds", "peak_memory_bytes"} <= set(record["seeds"][0])
    assert record["data_checksum"] == "sha256:0"
    assert {"commit", "uncommitted_changes", "device", "packages", "date"} <= set(record["machine"])
    assert "torch" in record["machine"]["packages"]


def test_a_copy_that_is_told_its_commit_believes_it_and_not_its_own_history(monkeypatch):
    monkeypatch.setenv("ORDERLESS_COMMIT", "abc1234")
    machine = describe_machine()
    assert machine["commit"] == "abc1234"
    # Nobody can tell whether the copy has changes after that commit.
    assert machine["uncommitted_changes"] is None
    monkeypatch.delenv("ORDERLESS_COMMIT")
    assert describe_machine()["commit"] != "abc1234"


def test_a_result_reads_back_with_mean_and_deviation(tmp_path):
    run_cells([CELL], run, tmp_path, say=quietly)
    result = find_result(CELL, tmp_path)
    assert result.mean("mse") == 0.5
    assert result.deviation("mse") == pytest.approx(0.5**0.5)
    assert result.note == "half of it"


def test_only_missing_cells_are_run(tmp_path):
    cells = [replace(CELL, setting=str(horizon)) for horizon in (96, 192)]
    run_cells(cells[:1], run, tmp_path, say=quietly)
    before = path_of(cells[0], tmp_path).read_bytes()
    summary = run_cells(cells, run, tmp_path, say=quietly)
    assert (summary.done, summary.kept) == ([cells[1].full_name], [cells[0].full_name])
    assert path_of(cells[0], tmp_path).read_bytes() == before


def test_a_killed_run_keeps_what_was_finished(tmp_path):
    def killed(config):
        if config.setting == "192":
            raise KeyboardInterrupt
        return run(config)

    cells = [replace(CELL, setting=str(horizon)) for horizon in (96, 192, 336)]
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, killed, tmp_path, say=quietly)
    summary = run_cells(cells, run, tmp_path, say=quietly)
    assert summary.kept == [cells[0].full_name]
    assert len(summary.done) == 2
    assert not list(tmp_path.rglob(".*.json*"))


def test_cells_are_run_again_when_asked(tmp_path):
    run_cells([CELL], run, tmp_path, say=quietly)
    assert run_cells([CELL], run, tmp_path, again=True, say=quietly).done == [CELL.full_name]


def test_another_config_is_another_result(tmp_path):
    run_cells([CELL], run, tmp_path, say=quietly)
    for other in (replace(CELL, seeds=(0, 1, 2)), replace(CELL, options=(("width", 4),))):
        assert find_result(other, tmp_path) is None


def test_a_result_with_more_seeds_is_kept(tmp_path):
    run_cells([CELL], run, tmp_path, say=quietly)
    fewer = replace(CELL, seeds=(1,))
    assert run_cells([fewer], run, tmp_path, say=quietly).kept == [CELL.full_name]
    assert len(find_result(fewer, tmp_path).seeds) == 2


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path):
    cells = [replace(CELL, model=name) for name in ("broken", "huge", "bug", "a model")]
    said = []
    summary = run_cells(cells, run, tmp_path, say=said.append)
    assert summary.done == [CELL.full_name]
    assert summary.failed[cells[0].full_name] == "there is no data"
    assert "10 TiB" in summary.failed[cells[1].full_name]
    assert not path_of(cells[0], tmp_path).exists()
    # A bug of ours is told with its place, and does not cost the other cells either.
    assert "ZeroDivisionError in test_harness.py" in summary.failed[cells[2].full_name]
    assert len(said) == 4


def test_a_process_that_dies_costs_its_cell_and_no_other(tmp_path):
    cells = [replace(CELL, model="killed")]
    cells += [replace(CELL, model="bug", protocol="paper")]
    cells += [replace(CELL, model=name, protocol="paper") for name in ("killed", "broken", "good")]
    summary = run_cells(cells, run, tmp_path, jobs=2, fit_of=lambda cell: cell.model, say=quietly)
    assert summary.done == ["toy/sine/96/good/paper"]
    assert len(summary.failed) == 4
    # The second cell of its group is tried all the same, by another process.
    assert "process died" in summary.failed["toy/sine/96/killed/fair"]
    assert "process died" in summary.failed["toy/sine/96/killed/paper"]
    assert "ZeroDivisionError" in summary.failed["toy/sine/96/bug/paper"]


def test_cells_that_share_a_fit_go_to_one_process_and_others_to_several(tmp_path):
    cells = [
        replace(CELL, table=table, protocol=protocol, model="process")
        for protocol in ("fair", "paper")
        for table in ("shared", "apart")
    ]
    cells += [replace(CELL, setting=str(horizon)) for horizon in (96, 192)]
    summary = run_cells(cells, run, tmp_path, jobs=2, fit_of=fit_of_shared, say=quietly)
    assert sorted(summary.done) == sorted(cell.full_name for cell in cells)
    *cells, one, two = cells
    assert find_result(one, tmp_path).seeds == find_result(two, tmp_path).seeds == run(one).seeds
    fair, apart, paper, other = (find_result(cell, tmp_path).mean("mse") for cell in cells)
    assert fair == paper
    assert len({fair, apart, other}) == 2
    assert os.getpid() not in (fair, apart, other)


def test_a_process_whose_starter_is_killed_keeps_its_result_and_ends(tmp_path):
    worker = _Worker(run, tmp_path, 1)
    worker.give([CELL])
    worker.connection.close()
    worker.process.join()
    assert worker.process.exitcode == 0
    assert find_result(CELL, tmp_path) is not None


def test_nobody_to_do_the_work_is_an_error(tmp_path):
    with pytest.raises(SettingError, match="jobs"):
        run_cells([CELL], run, tmp_path, jobs=0)


@pytest.mark.skipif(os.name != "posix", reason="there is no umask")
def test_a_result_may_be_read_by_those_whom_the_umask_lets(tmp_path):
    for mask, mode in ((0o027, 0o640), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            run_cells([CELL], run, tmp_path, again=True, say=quietly)
        finally:
            os.umask(before)
        assert path_of(CELL, tmp_path).stat().st_mode & 0o777 == mode


def test_a_damaged_result_says_so(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(DataError, match="result"):
        read_result(path)


@pytest.mark.skipif(peak_bytes() is None, reason="this system does not tell")
def test_the_peak_of_memory_is_that_of_the_work():
    start_measuring()
    before = peak_bytes()
    block = bytearray(200 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    assert peak_bytes() >= before + (150 << 20)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the allocator tells")
def test_what_a_gpu_holds_for_others_is_not_counted(monkeypatch):
    held = iter([1000])
    for name, value in {
        "is_available": lambda: True,
        "synchronize": lambda: None,
        "reset_peak_memory_stats": lambda: None,
        "memory_allocated": lambda: next(held),
        "max_memory_allocated": lambda: 1600,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    mine = torch.zeros(25)
    # 100 bytes of the 1000 are ours, twice the same; the work adds 600.
    assert peak_of_tensors(lambda: None, [mine, mine.view(5, 5)]) == 700


def test_tensors_are_counted_while_they_live():
    x = torch.ones(1000)

    def work():
        y = x + 1  # 4,000 bytes, beside the 4,000 of x
        del y
        for _ in range(3):
            z = torch.cat([x, x])  # 8,000; a view of it costs nothing
            z.view(2, 1000)
            del z

    assert peak_of_tensors(work, [x]) == 4000 + 8000


def test_cells_are_run_although_nobody_reads_of_them(tmp_path, monkeypatch):
    class Left(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Left())
    cells = [replace(CELL, setting=str(horizon)) for horizon in (96, 192, 336)]
    summary = run_cells(cells, run, tmp_path)
    assert len(summary.done) == 3


@pytest.mark.parametrize("had", [{"budget": {"epochs": 8, "steps": 100}}, {"epochs": 10}])
def test_a_budget_is_that_of_every_cell_that_trains(had):
    cell = replace(CELL, options=frozen(had))
    assert cell.with_budget(2, 50).settings == had | {"budget": {"epochs": 2, "steps": 50}}
    assert CELL.with_budget(2, 50) == CELL
