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
    from orderless.cli.variables import name_unseen
    from orderless.data import read_cases

    check_places(arguments)
    model = open_model(arguments.model, "Classifier")
    data, classes, columns = _read(arguments, model)
    panel = read_cases(data, **columns)
    probabilities = model.predict_proba(panel)
    name_unseen(arguments, panel, model, "name a column of classes with --label")
    best = probabilities.argmax(1)
    names = [system.name for system in panel.systems]
    table: dict[str, Any] = {CASE: names, "class": model.classes_[best]}
    for column, name in enumerate(model.classes_):
        table[f"probability of {name}"] = probabilities[:, column]
    put_table(table, arguments.out)
    if classes is not None:
        print(_score(best, classes, model.classes_), file=sys.stderr)


def _score(best: Any, labels: Any, classes: Any) -> str:
    """How many cases were named rightly, in words; `best` holds the number of a class."""
    is_class = _compare(labels, classes)
    right = int(is_class[range(len(best)), best].sum())
    said = f"{right} of {len(best)} cases named rightly"
    if is_class.any():
        return said
    given, known = (
        ", ".join(map(str, sorted(set(each.tolist()))[:5])) for each in (labels, classes)
    )
    return f"{said}: the labels {given} are none of the model's classes {known}"


def _compare(labels: Any, classes: Any) -> Any:
    """Which label is which class, [label, class]; numbers by value, as `Classifier.score` does."""
    if isinstance(labels[0], str) != isinstance(classes[0], str):
        # A .ts file holds its classes as text, even where they are numbers.
        try:
            labels, classes = labels.astype(float), classes.astype(float)
        except ValueError:
            labels, classes = labels.astype(str), classes.astype(str)
    return labels[:, None] == classes


def _read(arguments: argparse.Namespace, model: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Cases, their classes where known, and the columns."""
    from orderless.cli.tables import CASE, check_label, open_cases, take_labels
    from orderless.data import read_table

    check_label(arguments.data, arguments.label)
    if arguments.data.suffix.lower() == ".ts":
        return *open_cases(arguments.data), {}
    columns = {**model.columns_, **given_columns(arguments)}
    if arguments.label is None:
        return read_table(arguments.data), None, columns
    table = read_table(arguments.data)
    return *take_labels(table, arguments.label, columns.get("group") or CASE), columns
