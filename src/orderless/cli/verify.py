"""`orderless verify`: measure the promises of a saved model, each against its tolerance."""

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orderless.cli.arguments import add_columns, add_model, given_columns

if TYPE_CHECKING:
    from orderless.estimators.verification import Verification

EXAMPLES = """\
  orderless verify model/
  orderless verify model/ --data plant.csv
  orderless verify model/ --data plant.csv --json promises.json

exit code 1 when a promise is broken"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the data to measure on, and where the record goes."""
    add_model(parser)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DATA",
        help="series to measure on: .csv, .tsv, .parquet, .pq or .ts (default: simulated)",
    )
    add_columns(parser)
    parser.add_argument("--label", metavar="COLUMN", help="a column of classes, left out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 0 when every promise is kept, 1 otherwise."""
    from orderless.cli.models import open_model
    from orderless.cli.places import check_places, write_record
    from orderless.estimators.verification import verify

    check_places(arguments)
    model = open_model(arguments.model)
    data, columns = _read(arguments, model)
    verification = verify(model, data, columns=columns)
    if arguments.json is not None:
        write_record(verification.to_dict(), arguments.json)
    # The verdict is the same whether or not the table is read to its end.
    with suppress(BrokenPipeError):
        _print(verification)
    return 0 if verification.holds else 1


def _read(arguments: argparse.Namespace, model: Any) -> tuple[Any, dict[str, Any]]:
    from orderless.cli.tables import check_label, get_column, open_cases, open_series
    from orderless.estimators import Classifier

    if arguments.data is None:
        return None, {}
    columns = {**model.columns_, **given_columns(arguments)}
    check_label(arguments.data, arguments.label)
    if isinstance(model, Classifier) and arguments.data.suffix.lower() == ".ts":
        return open_cases(arguments.data)[0], {}
    if arguments.label is None:
        return open_series(arguments.data, columns)
    table, columns = open_series(arguments.data, columns)
    return table.drop(get_column(table, arguments.label).name), columns


def _print(verification: "Verification") -> None:
    from rich.table import Table

    from orderless.cli.console import open_console

    table = Table("promise", "what it means", "error", "tolerance", "")
    for check in verification.checks:
        table.add_row(
            check.name,
            check.promise,
            f"{check.error:.1e}" if check.error else "0",
            f"{check.tolerance:.0e}" if check.tolerance else "0",
            "kept" if check.holds else "BROKEN",
            style=None if check.holds else "bold red",
        )
    console = open_console()
    console.print(table)
    kept = sum(check.holds for check in verification.checks)
    console.print(
        f"{verification.estimator}, {verification.variables} variables: "
        f"{kept} of {len(verification.checks)} promises kept",
        highlight=False,
    )
