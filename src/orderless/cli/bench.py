"""`orderless bench`: the paper's tables: list, run, report, and check figures known elsewhere."""

import argparse
from pathlib import Path

from orderless.cli.arguments import Several

EXAMPLES = """\
  orderless bench list
  orderless bench list long-term
  orderless bench run long-term --only ETTh1/96/ridge --protocol both
  orderless bench run long-term m4 classification anomaly --protocol both --jobs 8
  orderless bench run long-term ablation --only /orderless/ --only ablation/ --jobs 8
  orderless bench run ablation --budget 2x50 --seeds 1
  orderless bench report
  orderless bench check"""

OTHER = "fewer seeds or in another setting"
"""What is wrong with a result that `bench run` would replace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which cells."""
    parser.add_argument("action", choices=("list", "run", "report", "check"))
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help="one or several; `bench list` names them"
    )
    parser.add_argument(
        "--only",
        action=Several,
        metavar="CELL",
        help="cells whose name holds this: ETTh1/96, /ridge/ or m4/; may be given several times",
    )
    parser.add_argument("--protocol", choices=("fair", "paper", "both"), default="fair")
    parser.add_argument("--seeds", type=_seeds, default=3, metavar="N", help="seeds 0 to N - 1 (3)")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="cells side by side, a process each (1)"
    )
    parser.add_argument(
        "--budget",
        type=_budget,
        metavar="EPOCHSxSTEPS",
        help="train networks for this long at most, 8x100 say; default: what the table says",
    )
    parser.add_argument("--again", action="store_true", help="run cells that have a result, too")
    parser.add_argument(
        "--html", action="store_true", help="of `report`: one page with plots, not Markdown"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results/"
    )


def run(arguments: argparse.Namespace) -> int:
    """List tables or cells, run cells that have no result, write the report, or check."""
    from orderless.bench.registry import ALL, find_table
    from orderless.errors import SettingError

    if arguments.action == "report":
        from orderless.bench.report import HTML, MARKDOWN, write_report

        print(write_report(arguments.results, HTML if arguments.html else MARKDOWN))
        return 0
    if arguments.action == "check":
        return _check(arguments)
    if arguments.action == "list" and not arguments.tables:
        for table in ALL.values():
            _print_state(table, arguments)
        return 0
    if not arguments.tables:
        raise SettingError("Name a table: `orderless bench list` shows them.")
    tables = [find_table(name) for name in arguments.tables]
    cells = [cell for table in tables for cell in _cells(table, arguments)]
    if not cells:
        parts = " or ".join(arguments.only or ["anything"])
        raise SettingError(
            f"No cell of {', '.join(arguments.tables)} under the protocol {arguments.protocol} "
            f"holds {parts} in its name; `orderless bench list TABLE` shows them."
        )
    if arguments.action == "list":
        _print_cells(cells, arguments)
        return 0
    return _run(tables, cells, arguments)


def _run(tables: list, cells: list, arguments: argparse.Namespace) -> int:
    """Run the cells that have no result, those of all tables by the same processes."""
    from orderless.bench.harness import run_cells, say_aloud
    from orderless.bench.registry import fit_of, run_cell

    cells = _without_absent_peers(tables, cells)
    here = _without_missing_sets(cells)
    summary = run_cells(
        here,
        run_cell,
        arguments.results,
        jobs=arguments.jobs,
        again=arguments.again,
        fit_of=fit_of,
    )
    done, kept, failed = (len(each) for each in (summary.done, summary.kept, summary.failed))
    say_aloud(f"{done} done, {kept} were there, {failed} failed")
    return 1 if failed or len(here) < len(cells) else 0


def interrupted(arguments: argparse.Namespace) -> str:
    """What is left after Ctrl-C."""
    return "finished cells are kept, and the same command continues with the others"


def _check(arguments: argparse.Namespace) -> int:
    """Run the golden cells, whatever results they have, and compare; 1 where a figure is off."""
    from orderless.bench.golden import golden_figures, run
    from orderless.bench.harness import run_cells, say_aloud
    from orderless.bench.records import find_result
    from orderless.bench.tables.long_term_table import fit_of

    figures = golden_figures()
    cells = list(dict.fromkeys(figure.cell for figure in figures))
    summary = run_cells(
        cells, run, arguments.results, jobs=arguments.jobs, again=True, fit_of=fit_of
    )
    wrong = len(summary.failed)
    for figure in figures:
        result = find_result(figure.cell, arguments.results)
        if result is None or figure.cell.full_name in summary.failed:
            continue
        measured = result.mean(figure.metric)
        holds = abs(measured - figure.expected) <= figure.tolerance
        wrong += not holds
        verdict = "holds" if holds else f"OFF by more than {figure.tolerance}"
        say_aloud(
            f"{figure.cell.name:<32}{figure.metric:<7}expected {figure.expected:<8}"
            f"measured {measured:<9.4f}{verdict}"
        )
    return 1 if wrong else 0


def _cells(table, arguments: argparse.Namespace) -> list:
    protocols = ("fair", "paper") if arguments.protocol == "both" else (arguments.protocol,)
    seeds = tuple(range(arguments.seeds))
    every = [table.cells(protocol, seeds) for protocol in protocols if protocol in table.metrics]
    # The two protocols of a cell side by side: a fit that both need is made once.
    together = [cell for pair in zip(*every, strict=True) for cell in pair]
    wanted = arguments.only or [""]
    cells = [cell for cell in together if any(part in cell.full_name for part in wanted)]
    if arguments.budget is None:
        return cells
    return [cell.with_budget(*arguments.budget) for cell in cells]


def _seeds(words: str) -> int:
    if not words.isdecimal() or int(words) < 1:
        raise argparse.ArgumentTypeError(f"{words!r} is not a number of seeds, 1 or more")
    return int(words)


def _budget(words: str) -> tuple[int, int]:
    epochs, _, steps = words.partition("x")
    if not (epochs.isdecimal() and steps.isdecimal() and int(steps)):
        raise argparse.ArgumentTypeError(f"{words!r} is not EPOCHSxSTEPS, such as 8x100")
    return int(epochs), int(steps)


def _without_absent_peers(tables: list, cells: list) -> list:
    """Models of libraries that are not here are left out in one line, not failed one by one."""
    from importlib.util import find_spec

    from orderless.bench.harness import say_aloud

    peers = {model: package for table in tables for model, package in table.peers.items()}
    absent = {model: package for model, package in peers.items() if not find_spec(package)}
    left_out = {cell.model for cell in cells} & set(absent)
    if left_out:
        packages = ", ".join(sorted({absent[model] for model in left_out}))
        say_aloud(f"left out: {', '.join(sorted(left_out))}; not installed: {packages}")
    return [cell for cell in cells if cell.model not in absent]


def _without_missing_sets(cells: list) -> list:
    """Cells of sets that are not here are left out, in one line that says how to get them."""
    from orderless.bench.harness import say_aloud
    from orderless.bench.registry import has_data

    missing = {cell.dataset: None for cell in cells if not has_data(cell)}
    if missing:
        left_out = sum(cell.dataset in missing for cell in cells)
        say_aloud(
            f"left out: {left_out} cells, no data here; `orderless data get {' '.join(missing)}` "
            "fetches it, or ORDERLESS_DATA names its folder"
        )
    return [cell for cell in cells if cell.dataset not in missing]


def _print_state(table, arguments: argparse.Namespace) -> None:
    from orderless.bench.records import find_any_result, find_result
    from orderless.bench.registry import has_data

    cells = _cells(table, arguments)
    here = [cell for cell in cells if has_data(cell)]
    done = sum(find_result(cell, arguments.results) is not None for cell in cells)
    other = sum(find_any_result(cell, arguments.results) is not None for cell in cells) - done
    words = [f"{done} of {len(cells)} cells of `{arguments.protocol}`"]
    if other:
        words.append(f"{other} with {OTHER}")
    if len(here) < len(cells):
        words.append(f"{len(cells) - len(here)} have no data here")
    print(f"{table.name:<16}{table.title:<32}{', '.join(words)}")


def _print_cells(cells: list, arguments: argparse.Namespace) -> None:
    from orderless.bench.records import find_any_result, find_result
    from orderless.bench.registry import has_data

    for cell in cells:
        result = find_any_result(cell, arguments.results)
        if result is not None:
            figures = (f"{name} {result.mean(name):.4g}" for name in result.seeds[0].test)
            state = ", ".join(figures)
            if find_result(cell, arguments.results) is None:
                state = f"{state} (with {OTHER})"
        else:
            state = "not run yet" if has_data(cell) else "no data here"
        print(f"{cell.name:<44} {state}")
