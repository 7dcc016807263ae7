"""Runs cells: those without a result, several side by side, each writing its own file.

A run that is killed loses the cells that were under way and nothing else: the same command
continues with what is missing. A cell that fails does not stop the others.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orderless.bench.config import CellConfig
from orderless.bench.records import find_result, path_of
from orderless.bench.workers import Attempt, Run, attempt, run_side_by_side
from orderless.errors import SettingError
from orderless.io import make_folder

Say = Callable[[str], None]


def say_aloud(line: str) -> None:
    """Print the line; cells are run to the end although nobody may read on, as in `| head`."""
    with suppress(OSError):
        print(line, flush=True)


@dataclass
class Summary:
    """What became of the cells, by their full names; `failed` says why."""

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def run_cells(
    cells: Sequence[CellConfig],
    run: Run,
    folder: Path,
    *,
    jobs: int = 1,
    again: bool = False,
    fit_of: Callable[[CellConfig], Hashable] = lambda cell: cell,
    say: Say = say_aloud,
) -> Summary:
    """Run the cells that have no result for their exact config; with `again`, all of them.

    With several jobs, each is a process of its own and takes one cell after another; `run` must
    then be a function of a module. Otherwise cells run here, in order.

    fit_of      what a cell is fitted on: cells with the same go to one process
    """
    if jobs < 1:
        raise SettingError(f"`jobs` is {jobs}; at least one has to do the work.")
    summary = Summary()
    missing = []
    for cell in cells:
        if again or find_result(cell, folder) is None:
            missing.append(cell)
        else:
            summary.kept.append(cell.full_name)

    _make_places({path_of(cell, folder).parent for cell in missing})

    def note(cell: CellConfig, result: Attempt) -> None:
        if result.trouble:
            summary.failed[cell.full_name] = result.trouble
        else:
            summary.done.append(cell.full_name)
        words = result.trouble or f"done in {result.seconds:.1f} s"
        number = len(summary.done) + len(summary.failed)
        say(f"[{number} of {len(missing)}] {cell.full_name}: {words}")

    if jobs == 1:
        for cell in missing:
            note(cell, attempt(cell, run, folder))
    else:
        run_side_by_side(_groups(missing, fit_of), run, folder, jobs, note)
    return summary


def _make_places(places: Collection[Path]) -> None:
    """Make the folders of the results before the work, which would have nowhere to go."""
    for place in places:
        try:
            make_folder(place)
        except OSError as error:
            raise SettingError(
                f"Results cannot be written to {place}: {error.strerror}. Name another folder."
            ) from error


def _groups(
    cells: Sequence[CellConfig], fit_of: Callable[[CellConfig], Hashable]
) -> list[list[CellConfig]]:
    """Cells that share a fit, together."""
    groups: dict[Hashable, list[CellConfig]] = {}
    for cell in cells:
        groups.setdefault(fit_of(cell), []).append(cell)
    return list(groups.values())
