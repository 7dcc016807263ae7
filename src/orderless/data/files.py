"""CSV and parquet files by path, for the command line.

pandas, polars and pyarrow are optional: CSV is read without them, parquet needs polars or pyarrow.
"""

import csv
import importlib
import io
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from orderless.data.csv_files import read_csv
from orderless.errors import DataError
from orderless.io import check_destination, whole_file

# What pandas calls the one level of an index without a name in parquet. It comes last.
NAMELESS_INDEX = "__index_level_0__"
TABLES = (".csv", ".tsv", ".parquet", ".pq")


def read_table(path: str | PathLike[str], *, names: Collection[Any] = ()) -> Any:
    """A frame that `read_panel` takes, from a file ending in .csv, .tsv, .parquet or .pq.

    names: columns that name things, such as groups and labels. There 007 is not 7: if one entry of
    such a column in CSV has a leading zero, all are text. So they are in the column of variables of
    a long table, where it and that of values have names by which `read_panel` finds them.

    CSV is UTF-8 with a header; commas, semicolons, tabs and bars are told apart by the header. A
    first column without a name is dropped where it only numbers the rows, and called "time"
    otherwise; another one is dropped where it holds nothing, as after a comma at the end of lines.
    Blank lines are skipped. Without a frame library a CSV file becomes a dict from column name to
    array. In parquet, a pandas index of numbers without a name is no variable and is dropped.
    """
    path = Path(path)
    if not path.is_file():
        if path.exists():
            raise DataError(f"{path} is a folder or a device, not a file. Name a file.")
        raise DataError(f"There is no file {path}. Check the path.")
    if path.suffix.lower() not in TABLES:
        raise DataError(
            f"{path.name} does not end in {', '.join(TABLES)}, so its format is not known. Convert "
            "it, or rename it if only the ending is wrong."
        )
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    return read_csv(path, names)


def write_table(table: Any, path: str | PathLike[str]) -> None:
    """Write a frame, or a dict of columns, as .csv, .tsv or .parquet; never half a file.

    The index of a pandas frame is written as a column unless it only counts the rows.
    """
    check_destination(path, TABLES)
    with whole_file(path) as draft:
        _write(table, draft, Path(path))


def _read_parquet(path: Path) -> Any:
    try:
        if find_spec("polars"):
            return _drop_index(importlib.import_module("polars").read_parquet(path))
        if find_spec("pyarrow"):
            return _drop_index(importlib.import_module("pyarrow.parquet").read_table(path))
    except Exception as error:
        raise DataError(f"{path.name} cannot be read as parquet: {error}") from error
    raise DataError(f"Reading {path.name} needs polars or pyarrow. Install one, or convert to CSV.")


def _drop_index(table: Any) -> Any:
    """Without row numbers that pandas saved as its index; an index of time stamps stays.

    Nor are they time: rows that were filtered or shuffled have such numbers. An index of several
    levels stays too, since a level may be needed as group=.
    """
    frame = nw.from_native(table, eager_only=True)
    if frame.columns[-1:] != [NAMELESS_INDEX] or not frame.schema[NAMELESS_INDEX].is_numeric():
        return table
    return frame.drop(NAMELESS_INDEX).to_native()


def _write(table: Any, draft: Path, path: Path) -> None:
    """Write what is to become `path`."""
    parquet = draft.suffix in (".parquet", ".pq")
    separator = "\t" if draft.suffix == ".tsv" else ","
    if isinstance(table, Mapping):
        if len({len(column) for column in table.values()}) > 1:
            raise DataError("The columns differ in length. Give all of them the same.")
        if parquet:
            _write_parquet(_frame_of(table), draft, path)
            return
        with draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
        return
    if not nw.dependencies.is_into_dataframe(table):
        raise DataError(
            f"A table is a frame or a dict of columns, and this is a {type(table).__name__}."
        )
    frame = nw.from_native(table, eager_only=True)
    if frame.implementation.is_pandas_like():
        if type(table.index).__name__ != "RangeIndex":
            table = table.reset_index()
        table = table.set_axis([str(label) for label in table.columns], axis=1)
        frame = nw.from_native(table, eager_only=True)
    if parquet:
        _write_parquet(frame, draft, path)
    else:
        with draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerows(csv.reader(io.StringIO(frame.write_csv(), newline="")))


def _write_parquet(frame: nw.DataFrame, draft: Path, path: Path) -> None:
    try:
        frame.write_parquet(draft)
    except Exception as error:  # every library has errors of its own, also for a full disk
        raise DataError(f"{path} cannot be written as parquet: {error}") from error


def _frame_of(columns: Mapping[str, Any]) -> nw.DataFrame:
    """Columns as a frame of a library that knows parquet."""
    library = next((name for name in ("polars", "pyarrow") if find_spec(name)), None)
    if library is None:
        raise DataError("Writing parquet needs polars or pyarrow. Install one, or write CSV.")
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    plain = {name: one.tolist() if one.dtype.kind in "OUT" else one for name, one in arrays.items()}
    return nw.from_dict(plain, backend=importlib.import_module(library))
