"""Tables in and out, by the ending of the file."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from orderless.cli.arguments import COLUMNS

CASE = "case"


def open_series(path: Path, columns: dict[str, Any], *labels: str) -> tuple[Any, dict[str, Any]]:
    """The table in a file, and its columns; the cases of a .ts file are independent systems.

    Of those, roles without a column are None: what a model was fitted with does not apply.

    labels: columns that hold classes.
    """
    if path.suffix.lower() != ".ts":
        return open_table(path, columns, *labels), columns
    cases, _ = open_cases(path)
    return _as_table(cases), {**dict.fromkeys(COLUMNS), "group": CASE}


def open_table(path: Path, columns: dict[str, Any], *labels: str) -> Any:
    """The table in a file, in which columns that name things keep leading zeros."""
    from orderless.data import read_table

    named = (columns.get(role) for role in ("group", "variable"))
    return read_table(path, names=[*labels, *(name for name in named if name is not None)])


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

    from orderless.data.timestamps import is_missing
    from orderless.errors import DataError

    rest = drop_column(table, label)
    entries = {name: get_column(table, name) for name in (label, group)}
    classes: dict[Any, Any] = {}
    for case, own in zip(entries[group].tolist(), entries[label].tolist(), strict=True):
        if is_missing(own):
            raise DataError(f"The label of case {case!r} is missing. Leave such cases out.")
        if classes.setdefault(case, own) != own:
            raise DataError(
                f"Case {case!r} belongs to two classes, {classes[case]!r} and {own!r}. A case has "
                f"one value in the column {label!r}."
            )
    return rest, np.array(list(classes.values()))


def get_column(table: Any, name: str) -> Any:
    """A column of a frame or of a dict of columns, as an array."""
    import narwhals as nw
    import numpy as np

    _check_column(table, name)
    if isinstance(table, dict):
        return np.asarray(table[name])
    return nw.from_native(table, eager_only=True)[name].to_numpy()


def drop_column(table: Any, name: str) -> Any:
    """The table without one of its columns."""
    import narwhals as nw

    _check_column(table, name)
    if isinstance(table, dict):
        return {label: values for label, values in table.items() if label != name}
    return nw.from_native(table, eager_only=True).drop(name).to_native()


def _check_column(table: Any, name: str) -> None:
    import narwhals as nw

    from orderless.errors import DataError

    columns = list(table) if isinstance(table, dict) else nw.from_native(table).columns
    if name not in columns:
        raise DataError(f"There is no column {name!r}; the table has {columns}.")


def add_column(table: Any, name: str, values: Any) -> Any:
    """The table with one more column."""
    import narwhals as nw

    if isinstance(table, dict):
        return {**table, name: values}
    frame = nw.from_native(table, eager_only=True)
    column = nw.new_series(name, values.tolist(), backend=frame.implementation)
    return frame.with_columns(column).to_native()


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


def _as_table(cases: list[Any]) -> dict[str, Any]:
    """Cases of a .ts file as one wide table: a column for the case, and one for each variable."""
    import numpy as np

    rows = np.concatenate(cases, axis=1)
    lengths = [case.shape[1] for case in cases]
    variables = {f"v{number}": row for number, row in enumerate(rows)}
    return {CASE: np.repeat(np.arange(len(cases)), lengths), **variables}
