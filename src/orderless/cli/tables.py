"""Tables in and out, by the ending of the file."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from orderless.cli.arguments import COLUMNS

CASE = "case"


def open_series(path: Path, columns: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The table in a file, and its columns; the cases of a .ts file are independent systems.

    Of those, roles without a column are None: what a model was fitted with does not apply.
    """
    from orderless.data import read_table

    if path.suffix.lower() != ".ts":
        return read_table(path), columns
    cases, _ = open_cases(path)
    return _as_table(cases), {**dict.fromkeys(COLUMNS), "group": CASE}


def open_cases(path: Path) -> tuple[Any, Any]:
    """The cases [variable, time] of a .ts file and their classes, None where it has none."""
    from orderless.data import read_ts

    return read_ts(path)


def check_label(path: Path, label: str | None) -> None:
    """Refuse a column of classes for a file that has no columns."""
    from orderless.errors import SettingError

    if label is not None and path.suffix.lower() == ".ts":
        raise SettingError(
            f"--label names a column, and {path.name} has none: a .ts file has its classes at the "
            "end of each case. Leave --label out."
        )


def take_labels(table: Any, label: str, group: str) -> tuple[Any, Any]:
    """The table without its column of classes, and the class of each case, in order."""
    import numpy as np

    from orderless.data.containers import is_missing
    from orderless.errors import DataError

    entries = [get_column(table, name).to_list() for name in (group, label)]
    classes: dict[Any, Any] = {}
    for case, own in zip(*entries, strict=True):
        if is_missing(own):
            raise DataError(f"The label of case {case!r} is missing. Leave such cases out.")
        if classes.setdefault(case, own) != own:
            raise DataError(
                f"Case {case!r} belongs to two classes, {classes[case]!r} and {own!r}. A case has "
                f"one value in the column {label!r}."
            )
    return table.drop(label), np.array(list(classes.values()))


def get_column(table: Any, name: str) -> Any:
    """A column of a frame."""
    from orderless.errors import DataError

    if name not in table.columns:
        raise DataError(f"There is no column {name!r}; the table has {table.columns}.")
    return table[name]


def add_column(table: Any, name: str, values: Any) -> Any:
    """The frame with one more column."""
    import polars as pl

    return table.with_columns(pl.Series(name, values))


def put_table(table: Any, out: Path | None) -> None:
    """Write the table to the file, or as CSV to standard output."""
    from orderless.data import write_table

    if out is not None:
        write_table(table, out)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(table, path)
        text = path.read_text("utf-8")
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        print(text, end="")  # also where there is no standard output at all
        return
    # In UTF-8 as a file is: the encoding of standard output may not know the letters of a name.
    sys.stdout.flush()
    buffer.write(text.encode())


def _as_table(cases: list[Any]) -> Any:
    """Cases of a .ts file as one wide frame: a column for the case, and one for each variable."""
    import numpy as np
    import polars as pl

    rows = np.concatenate(cases, axis=1)
    lengths = [case.shape[1] for case in cases]
    variables = {f"v{number}": row for number, row in enumerate(rows)}
    return pl.DataFrame({CASE: np.repeat(np.arange(len(cases)), lengths), **variables})
