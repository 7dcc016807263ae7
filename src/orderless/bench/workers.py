"""Cells, tried here or by processes side by side, on one GPU or on the cores of a machine.

A process that dies, or meets an error that may have spoiled it (of the GPU, say), is replaced; its
cell has failed, and everything else goes on.
"""

import multiprocessing
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from orderless.bench.config import CellConfig
from orderless.bench.records import Outcome, write_result
from orderless.errors import OrderlessError

Run = Callable[[CellConfig], Outcome]


@dataclass(frozen=True)
class Attempt:
    """What became of one cell; `trouble` is empty where nothing went wrong."""

    trouble: str = ""
    unexpected: bool = False
    """Whether the trouble is none that this library knows: the process may be beyond repair."""
    seconds: float = 0.0


def attempt(cell: CellConfig, run: Run, folder: Path) -> Attempt:
    """Run one cell and write its result."""
    begun = time.perf_counter()
    try:
        write_result(cell, run(cell), folder)
    except OrderlessError as error:
        return Attempt(str(error))
    except torch.OutOfMemoryError as error:
        return Attempt(f"too large for the memory here: {error}")
    except Exception as error:
        # A night of cells is worth more than an early end; the words lead to the line.
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        return Attempt(f"{type(error).__name__} in {where}: {error}", unexpected=True)
    return Attempt(seconds=time.perf_counter() - begun)


class _Worker:
    """A process, and the cells that it has been given and not answered for."""

    def __init__(self, run: Run, folder: Path, threads: int) -> None:
        # A forked process cannot use CUDA, and inherits whatever locks threads held.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_work, args=(theirs, run, folder, threads), daemon=True
        )
        self.process.start()
        theirs.close()
        self.cells: list[CellConfig] = []

    def give(self, cells: Sequence[CellConfig]) -> None:
        self.cells = list(cells)
        self.connection.send(self.cells)

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def run_side_by_side(
    groups: Sequence[Sequence[CellConfig]],
    run: Run,
    folder: Path,
    jobs: int,
    note: Callable[[CellConfig, Attempt], None],
) -> None:
    """Run every group of cells in one of the processes; `note` hears of each cell as it ends."""
    waiting = deque(groups)
    jobs = min(jobs, len(groups))
    threads = max(1, torch.get_num_threads() // max(1, jobs))
    crew = [_Worker(run, folder, threads) for _ in range(jobs)]
    try:
        while True:
            for worker in crew:
                if waiting and not worker.cells:
                    worker.give(waiting.popleft())
            busy = {worker.connection: worker for worker in crew if worker.cells}
            if not busy:
                return
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                cell, *left = worker.cells
                try:
                    result = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    result = Attempt(
                        f"its process died (exit code {worker.process.exitcode}): out of memory, "
                        "or killed from outside",
                        unexpected=True,
                    )
                note(cell, result)
                worker.cells = left
                if result.unexpected:
                    worker.end()
                    crew[crew.index(worker)] = _Worker(run, folder, threads)
                    if left:
                        waiting.appendleft(left)
    finally:
        for worker in crew:
            worker.end()


def _work(connection: Connection, run: Run, folder: Path, threads: int) -> None:
    """The life of a process: cells in, what became of them out."""
    # Ctrl-C is for the one who started us; they end us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    # When the one who started us is gone, what was done is on disk, and nobody listens.
    with suppress(EOFError, BrokenPipeError):
        while True:
            for cell in connection.recv():
                result = attempt(cell, run, folder)
                connection.send(result)
                if result.unexpected:
                    return
