"""What is said below a table about the results in it."""

from collections.abc import Mapping, Sequence

from orderless.bench.config import CellConfig
from orderless.bench.records import CellResult
from orderless.bench.registry import Table


def notes_of(
    known: Mapping[CellConfig, CellResult | None], absent: Sequence[str], table: Table
) -> list[str]:
    """What has to be known about the results: parts of sets, budgets, seeds, machines.

    absent      peers that nobody has run, which have no column
    """
    results = {cell: result for cell, result in known.items() if result is not None}
    notes = {f"{cell.dataset}: {one.note}" for cell, one in results.items() if one.note}
    trained = [
        f"Trained for at most {budget}: {', '.join(models)}."
        for budget, models in _budgets(results).items()
    ]
    older = [cell.name for cell, result in results.items() if _is_older(cell, result)]
    if older:
        were = "1 cell was" if len(older) == 1 else f"{len(older)} cells were"
        trained.append(
            f"{were} run in another setting than the table has now, the first of them {older[0]}; "
            "`orderless bench run` runs them again."
        )
    devices: dict[str, int] = {}
    for result in results.values():
        device = str(result.machine["device"])
        devices[device] = devices.get(device, 0) + 1
    machines = ", ".join(f"{count} on {device}" for device, count in sorted(devices.items()))
    changed = sum(bool(one.machine["uncommitted_changes"]) for one in results.values())
    if changed:
        machines += f"; {changed} of them by code with changes that its commit does not have"
    return [
        *sorted(notes),
        *trained,
        *_single_seeds(results),
        *([f"Cells: {machines}."] if machines else []),
        *_peers_not_run(absent, table),
    ]


def _single_seeds(results: Mapping[CellConfig, CellResult]) -> list[str]:
    """Which models that draw numbers were run once, so that nobody knows how far luck carried."""
    drawn = [cell for cell in results if len(cell.seeds) > 1]
    once = [cell for cell in drawn if len(results[cell].seeds) == 1]
    names = []
    for model in dict.fromkeys(cell.model for cell in once):
        mine = [cell for cell in once if cell.model == model]
        places = dict.fromkeys(
            cell.dataset if cell.setting == "all" else f"{cell.dataset} {cell.setting}"
            for cell in mine
        )
        everywhere = len(mine) == sum(cell.model == model for cell in drawn)
        names.append(model if everywhere else f"{model} on {', '.join(places)}")
    return [f"One seed only: {'; '.join(names)}."] if names else []


def _budgets(results: Mapping[CellConfig, CellResult]) -> dict[str, list[str]]:
    """How long networks were trained at most, in words, and which."""
    budgets: dict[str, dict[str, None]] = {}
    for cell, result in results.items():
        budget = result.config["options"].get("budget")
        if budget is not None:
            steps = "all" if budget["steps"] is None else budget["steps"]
            words = f"{budget['epochs']} epochs of {steps} steps"
            budgets.setdefault(words, {})[cell.model] = None
    return {words: list(models) for words, models in budgets.items()}


def _is_older(cell: CellConfig, result: CellResult) -> bool:
    """Whether a result is of other options; seeds and budgets are printed, and may differ."""
    asked, had = cell.to_json()["options"], dict(result.config["options"])
    return {**asked, "budget": None} != {**had, "budget": None}


def _peers_not_run(absent: Sequence[str], table: Table) -> list[str]:
    if not absent:
        return []
    packages = " and ".join(sorted({table.peers[model] for model in absent}))
    return [f"Not run yet, peers of {packages}: {', '.join(absent)}."]
