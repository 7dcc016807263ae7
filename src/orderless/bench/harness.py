"""Runs cells: those without a result, several side by side, each writing its own file.

A run that is killed loses the cells that were under way and nothing else: the same command
continues with what is missing. A cell that fails does not stop the others.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import torch

from orderless.bench.config import CellConfig
from orderless.bench.records import Outcome, find_result, write_result
from orderless.errors import OrderlessError, SettingError

Run = Callable[[CellConfig], Outcome]
Say = Callable[[str], None]


@dataclass
class Summary:
    """What became of the cells, by name; `failed` says why."""

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def run_cells(
    cells: Sequence[CellConfig],
    run: Run,
    folder: Path,
    *,
    workers: int = 1,
    again: bool = False,
    say: Say = print,
) -> Summary:
    """Run the cells that have no result for their exact config; with `again`, all of them.

    With several workers, each is a process of its own and takes one cell after another; `run` must
    then be a function of a module. Otherwise cells run here, in order.
    """
    if workers < 1:
        raise SettingError(f"`workers` is {workers}; at least one has to do the work.")
    summary = Summary()
    missing = []
    for cell in cells:
        if again or find_result(cell, folder) is None:
            missing.append(cell)
        else:
            summary.kept.append(cell.name)
    if workers == 1:
        for cell in missing:
            _note(summary, cell, _attempt(cell, run, folder), say)
        return summary
    # A forked process cannot use CUDA, and inherits whatever locks threads held.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = {pool.submit(_attempt, cell, run, folder): cell for cell in missing}
        for future in as_completed(waiting):
            _note(summary, waiting[future], future.result(), say)
    return summary


def _attempt(cell: CellConfig, run: Run, folder: Path) -> str:
    """Run one cell and write its result; returns what went wrong, empty if nothing did."""
    try:
        write_result(cell, run(cell), folder)
    except OrderlessError as error:
        return str(error)
    except torch.OutOfMemoryError as error:
        return f"too large for the memory here: {error}"
    return ""


def _note(summary: Summary, cell: CellConfig, trouble: str, say: Say) -> None:
    if trouble:
        summary.failed[cell.name] = trouble
        say(f"{cell.name}: {trouble}")
    else:
        summary.done.append(cell.name)
        say(f"{cell.name}: done")
