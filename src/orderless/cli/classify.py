"""`orderless classify`: name the class of every case in a file."""

import argparse
import sys
from typing import Any

from orderless.cli.arguments import add_data, add_model, add_out, given_columns

EXAMPLES = """\
  orderless classify names/ gestures.ts > classes.csv
  orderless classify names/ cases.parquet --group case --label class --out classes.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the cases."""
    add_model(parser)
    add_data(parser)
    parser.add_argument(
        "--label", metavar="COLUMN", help="the true classes, to score by; a .ts file has its own"
    )
    add_out(parser, "the classes and their probabilities")


def run(arguments: argparse.Namespace) -> None:
    """Write a row for each case: its name, its class, the probability of every class."""
    from orderless.cli.models import open_model
    from orderless.cli.places import check_places
    from orderless.cli.tables import CASE, put_table
    from orderless.data import read_cases

    check_places(arguments)
    model = open_model(arguments.model, "Classifier")
    data, classes, columns = _read(arguments, model)
    panel = read_cases(data, **columns)
    probabilities = model.predict_proba(panel)
    new = sorted(set(panel.variables) - set(model.variables_in_))
    if new:
        # A column of classes in numbers would pass for a variable without a word.
        print(
            f"taken as variables, though `fit` did not see them: {', '.join(new[:5])} (name a "
            "column of classes with --label)",
            file=sys.stderr,
        )
    best = model.classes_[probabilities.argmax(1)]
    table: dict[str, Any] = {CASE: [system.name for system in panel.systems], "class": best}
    for column, name in enumerate(model.classes_):
        table[f"probability of {name}"] = probabilities[:, column]
    put_table(table, arguments.out)
    if classes is not None:
        right = int((best.astype(str) == classes.astype(str)).sum())
        print(f"{right} of {len(best)} cases named rightly", file=sys.stderr)


def _read(arguments: argparse.Namespace, model: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Cases, their classes where known, and the columns."""
    from orderless.cli.tables import open_cases, take_labels
    from orderless.data import read_table

    if arguments.data.suffix.lower() == ".ts":
        return *open_cases(arguments.data), {}
    columns = {**model.columns_, **given_columns(arguments)}
    table, classes = read_table(arguments.data), None
    if arguments.label is not None:
        table, classes = take_labels(table, arguments.label, columns.get("group", "case"))
    return table, classes, columns
