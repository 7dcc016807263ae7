"""What is said below a table about the results in it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from orderless.bench.config import CellConfig
from orderless.bench.records import CellResult
from orderless.bench.table import Table


def notes_of(
    known: Mapping[CellConfig, CellResult | None], absent: Sequence[str], table: Table
) -> Iterator[str]:
    """What has to be known about the results: parts of sets, budgets, seeds, machines.

    absent      peers that nobody has run, which have no column
    """
    results = {cell: result for cell, result in known.items() if result is not None}
    yield from sorted({f"{cell.dataset}: {one.note}" for cell, one in results.items() if one.note})
    for budget, models in _grouped(_budgets(results)).items():
        yield f"Trained for at most {budget}: {', '.join(dict.fromkeys(models))}."
    older = [cell.name for cell, result in results.items() if _is_older(cell, result)]
    if older:
        were = "1 cell was" if len(older) == 1 else f"{len(older)} cells were"
        yield (
            f"{were} run in another setting than the table has now, the first of them {older[0]}; "
            "`orderless bench run` runs them again."
        )
    if once := _single_seeds(results):
        yield f"One seed only: {'; '.join(once)}."
    if results:
        devices = _grouped((str(one.machine["device"]), one) for one in results.values())
        machines = ", ".join(f"{len(each)} on {device}" for device, each in sorted(devices.items()))
        changed = sum(bool(one.machine["uncommitted_changes"]) for one in results.values())
        if changed:
            machines += f"; {changed} of them by code with changes that its commit does not have"
        yield f"Cells: {machines}."
    if absent:
        packages = " and ".join(sorted({table.peers[model] for model in absent}))
        yield f"Not run yet, peers of {packages}: {', '.join(absent)}."


def _grouped(pairs: Iterable[tuple[Hashable, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _budgets(results: Mapping[CellConfig, CellResult]) -> Iterator[tuple[str, str]]:
    """How long networks were trained at most, in words, and which."""
    for cell, result in results.items():
        if budget := result.config["options"].get("budget"):
            steps = "all" if budget["steps"] is None else budget["steps"]
            yield f"{budget['epochs']} epochs of {steps} steps", cell.model


def _is_older(cell: CellConfig, result: CellResult) -> bool:
    """Whether a result is of other options; seeds and budgets are printed, and may differ."""
    asked, had = cell.to_json()["options"], dict(result.config["options"])
    return {**asked, "budget": None} != {**had, "budget": None}


def _single_seeds(results: Mapping[CellConfig, CellResult]) -> list[str]:
    """Which models that draw numbers were run once, so that nobody knows how far luck carried."""
    names = []
    drawn = _grouped((cell.model, cell) for cell in results if len(cell.seeds) > 1)
    once = _grouped((c.model, c) for each in drawn.values() for c in each if _is_single(results[c]))
    for model, cells in once.items():
        places = dict.fromkeys(
            c.dataset if c.setting == "all" else f"{c.dataset} {c.setting}" for c in cells
        )
        everywhere = len(cells) == len(drawn[model])
        names.append(model if everywhere else f"{model} on {', '.join(places)}")
    return names


def _is_single(result: CellResult) -> bool:
    return len(result.seeds) == 1
