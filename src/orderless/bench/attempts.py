"""One cell, tried: its result on disk, or words for what went wrong."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
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
