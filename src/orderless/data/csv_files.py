"""CSV files as frames that are the same whichever library reads them.

The first of polars, pandas and pyarrow that is installed reads them, and the standard library
otherwise.
"""

import csv
import importlib
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import narwhals as nw
import numpy as np

from orderless.data.roles import find_long_names
from orderless.data.text_files import read_text
from orderless.data.timestamps import is_missing, is_time_name
from orderless.errors import DataError

# What stands for a missing value in a CSV file, whichever library reads it: what does for pandas.
MISSING = (
    *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "null", "NULL", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
# A column may be called 7, but hardly 0.07.
FRACTION = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)
LEADING_ZERO = re.compile(r"0\d+")
# The same among the bytes of a file, where it is no part of a date, a clock or a fraction. That the
# pattern begins with the zero makes it five times as fast.
ZERO_WITHIN = re.compile(rb"0(?<![\w.:/+-]0)\d+(?![\w.:/-])")
# A name in quotes, after whichever separator, and all of the first row: names may have line breaks.
QUOTED = re.compile(r'(?<![^,;\t|])"(?:[^"]|"")*+"')
HEADER = re.compile(rf'(?:{QUOTED.pattern}|[^"\r\n]++|")*+')
LONGEST_HEADER = 2**24
BYTES_AT_ONCE = 2**20


def read_csv(path: Path, names: Collection[Any] = ()) -> Any:
    """A frame from a CSV file, as `read_table` says; a dict of arrays without a frame library."""
    try:
        header, separator = _csv_header(path)
        _check_rows(path, len(header), separator)
    except csv.Error as error:
        raise DataError(f"{path.name} cannot be read as CSV ({error}).") from error
    installed = next((name for name in CSV_READERS if find_spec(name)), None)
    try:
        if installed:
            source = _without_blank_lines(path, separator)
            table = _rename(CSV_READERS[installed](source, separator), header)
        else:
            table = _read_csv_plainly(path, header, separator)
        table = _read_numbers(_drop_nameless(table))
        table = _keep_zeros(table, path, header, separator, names)
    except DataError:
        raise
    except Exception as error:
        # Every library has its own words for what is not UTF-8; these are ours.
        read_text(path)
        raise DataError(
            f"{path.name} cannot be read as CSV with {separator!r} between {len(header)} columns "
            f"({str(error).strip().splitlines()[0]}). Separate columns by commas, semicolons, tabs "
            "or bars."
        ) from error
    return _name_first_column(table)


def _read_csv_plainly(path: Path, names: list[str], separator: str) -> dict[str, np.ndarray]:
    """A CSV file by the standard library alone: numbers where all entries are, else text."""
    columns: list[list[str]] = [[] for _ in names]
    rows = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=separator)
    next(rows)
    for number, row in enumerate(rows, 2):
        if _is_blank(row):
            continue
        if len(row) != len(names):
            raise _wrong_row(path, number, len(row), len(names))
        for column, entry in zip(columns, row, strict=True):
            column.append(entry)
    return {name: _plain_column(column) for name, column in zip(names, columns, strict=True)}


def _read_csv_polars(source: Path | io.BytesIO, separator: str) -> Any:
    return importlib.import_module("polars").read_csv(
        source, separator=separator, infer_schema_length=None, null_values=list(MISSING)
    )


def _read_csv_pandas(source: Path | io.BytesIO, separator: str) -> Any:
    pandas = importlib.import_module("pandas")
    with warnings.catch_warnings():
        # A row that is too long would only be cut, with a warning.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(
            source,
            sep=separator,
            encoding="utf-8-sig",
            index_col=False,
            keep_default_na=False,
            na_values=list(MISSING),
        )


def _read_csv_pyarrow(source: Path | io.BytesIO, separator: str) -> Any:
    arrow = importlib.import_module("pyarrow.csv")
    return arrow.read_csv(
        source,
        parse_options=arrow.ParseOptions(delimiter=separator),
        convert_options=arrow.ConvertOptions(null_values=list(MISSING), strings_can_be_null=True),
    )


CSV_READERS: dict[str, Callable[[Path | io.BytesIO, str], Any]] = {
    "polars": _read_csv_polars,
    "pandas": _read_csv_pandas,
    "pyarrow": _read_csv_pyarrow,
}


def _csv_header(path: Path) -> tuple[list[str], str]:
    """The column names and the separator, which no library may guess differently."""
    text = read_text(path, most=LONGEST_HEADER, newline="")
    header = HEADER.match(text)
    if header is None or not header[0].strip():
        raise DataError(f"{path.name} is empty, or its first line is. It must begin with a header.")
    bare = QUOTED.sub("", header[0])
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=bare.count)
    if separator not in bare and "|" in bare:
        separator = "|"
    names = next(csv.reader(io.StringIO(header[0], newline=""), delimiter=separator))
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path.name} has two columns called {twice!r}. Rename one of them.")
    number = next((name for name in names if FRACTION.fullmatch(name.strip())), None)
    if number is not None:
        raise DataError(
            f"The first line of {path.name} holds the number {number.strip()}, so it is no header. "
            "Add a line with the names of the columns."
        )
    return names, separator


def _check_rows(path: Path, columns: int, separator: str) -> None:
    """Refuse a row of the wrong length: some libraries fill it up, or cut it, without a word."""
    # What is no UTF-8 is for the reader to refuse, and so is what is too long for it.
    with _long_fields(), path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        rows = _count_entries(file, separator)
        for number, (entries, blank) in enumerate(rows, 1):
            if entries == columns or blank:
                continue
            # A forecast begins at the last row, and the number it breaks off at may be cut too.
            if entries < columns and all(blank for _, blank in rows):
                raise DataError(
                    f"The last row of {path.name} has {entries} entries; the header has {columns}. "
                    "Is the file still being written? Wait, or delete the row."
                )
            raise _wrong_row(path, number, entries, columns)


@contextmanager
def _long_fields() -> Iterator[None]:
    usual = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def _count_entries(file: TextIO, separator: str) -> Iterator[tuple[int, bool]]:
    """How many entries each row has, and whether it is a blank line."""
    for line in file:
        if '"' in line:
            # Separators within quotes are text, and the row may go on in the next line.
            row = next(csv.reader(chain([line], file), delimiter=separator))
            yield len(row), False
        else:
            entries = line.count(separator) + 1
            yield entries, entries == 1 and line.isspace()


def _without_blank_lines(path: Path, separator: str) -> Path | io.BytesIO:
    """The file as it is, or a copy without blank lines, of which polars would make rows."""
    with path.open("rb") as file:
        if not any(map(bytes.isspace, file)):
            return path
        file.seek(0)
        kept, quoted, mark = [], False, separator.encode()
        for line in file:
            # Tabs may be a row of missing values, and a blank line within quotes part of a text.
            if quoted or mark in line or not line.isspace():
                kept.append(line)
                quoted ^= line.count(b'"') % 2 == 1
    return io.BytesIO(b"".join(kept))


def _wrong_row(path: Path, number: int, entries: int, columns: int) -> DataError:
    return DataError(
        f"Row {number} of {path.name} has {entries} entries; the header has {columns}."
    )


def _rename(table: Any, names: list[str]) -> Any:
    """The names of the header as they are written: libraries change empty and quoted ones."""
    frame = nw.from_native(table, eager_only=True)
    return frame.rename(dict(zip(frame.columns, names, strict=True))).to_native()


def _read_numbers(table: Any) -> Any:
    """Numbers also where a library takes them for text: +3, NAN, Inf, or with spaces around."""
    if isinstance(table, dict):
        return table
    frame = nw.from_native(table, eager_only=True)
    found = []
    for series in frame.iter_columns():
        if series.dtype != nw.String:
            continue
        entries = ["" if is_missing(one) else one for one in series.to_list()]
        column = _plain_column(entries)
        if column.dtype != object:
            found.append(nw.new_series(series.name, column, backend=frame.implementation))
    # All at once: one by one, each is a frame of all of them.
    return frame.with_columns(found).to_native() if found else table


def _keep_zeros(
    table: Any, path: Path, header: list[str], separator: str, names: Collection[Any]
) -> Any:
    """The table, in which columns that name things keep their leading zeros."""
    names = set(names)
    columns, numbers = _columns(table)
    long = find_long_names(columns - names, numbers - names)
    asked = numbers & (names if long is None else names | {long[0]})
    if not asked or not _has_zeros(path):
        return table
    for name, entries in _entries(path, header, separator, asked).items():
        known = set(entries) - set(MISSING)
        # If it is found by name, `read_panel` takes whole numbers for names, others for readings.
        if name not in names and not all(map(str.isdecimal, known)):
            continue
        if not any(map(LEADING_ZERO.fullmatch, known)):
            continue
        texts = [None if one in MISSING else one for one in entries]
        if isinstance(table, dict):
            table = table | {name: np.array(texts, object)}
            continue
        frame = nw.from_native(table, eager_only=True)
        series = nw.new_series(name, texts, nw.String, backend=frame.implementation)
        table = frame.with_columns(series).to_native()
    return table


def _has_zeros(path: Path) -> bool:
    """Whether any entry may have a leading zero; a small part of the time that reading takes."""
    with path.open("rb") as file:
        while lines := file.read(BYTES_AT_ONCE) + file.readline():
            if ZERO_WITHIN.search(lines):
                return True
    return False


def _entries(
    path: Path, header: list[str], separator: str, names: Collection[Any]
) -> dict[str, list[str]]:
    """What is written in some columns of a CSV file, without spaces around."""
    columns: dict[str, list[str]] = {name: [] for name in names}
    places = [(header.index(name), entries) for name, entries in columns.items()]
    with _long_fields(), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        next(rows)
        for row in rows:
            if not _is_blank(row):
                for place, entries in places:
                    # Each name once, in however many rows.
                    entries.append(sys.intern(row[place].strip()))
    return columns


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and row[0].isspace())


def _columns(table: Any) -> tuple[set[Any], set[Any]]:
    """The names of all columns, and of those that are not text."""
    if isinstance(table, dict):
        return set(table), {name for name, values in table.items() if values.dtype != object}
    schema = nw.from_native(table, eager_only=True).schema
    return set(schema), {name for name, dtype in schema.items() if dtype != nw.String}


def _drop_nameless(table: Any) -> Any:
    """Without a column, after the first, that has neither a name nor a value."""
    if isinstance(table, dict):
        empty = "" in list(table)[1:] and all(one is None or one != one for one in table[""])
        return {name: values for name, values in table.items() if name or not empty}
    frame = nw.from_native(table, eager_only=True)
    if "" not in frame.columns[1:] or frame[""].null_count() < len(frame):
        return table
    return frame.drop("").to_native()


def _name_first_column(table: Any) -> Any:
    """What a saved index becomes: nothing where it numbers the rows, else the time column."""
    if isinstance(table, dict):
        first = next(iter(table))
        if first:
            return table
        rest = {name: values for name, values in table.items() if name != first}
        numbers = _numbers_rows(table[first], rest)
        return rest if numbers or "time" in rest else {"time": table[first], **rest}
    frame = nw.from_native(table, eager_only=True)
    first = frame.columns[0]
    if first:
        return table
    if _numbers_rows(frame[first].to_numpy(), frame.columns) or "time" in frame.columns:
        return frame.drop(first).to_native()
    return frame.rename({first: "time"}).to_native()


def _numbers_rows(values: np.ndarray, names: Iterable[str]) -> bool:
    """Whether a saved index counts the rows, or did before some were dropped: time is elsewhere."""
    if values.dtype.kind not in "iuf" or not len(values):
        return False
    return any(map(is_time_name, names)) or np.array_equal(
        values, np.arange(len(values)) + values[0]
    )


def _plain_column(entries: list[str]) -> np.ndarray:
    """Numbers or truth values where all entries are, else text; NaN or None where there is none."""
    known = [None if one.strip() in MISSING else one for one in entries]
    if known and None not in known:
        # Floating-point numbers are too coarse for nanoseconds since 1970.
        with suppress(ValueError, OverflowError):
            return np.array([_to_number(one, int) for one in known if one], np.int64)
    for read in (_to_number, _to_truth):
        with suppress(ValueError):
            return np.array([np.nan if one is None else read(one) for one in known])
    column = np.empty(len(known), object)
    column[:] = known
    return column


def _to_number(entry: str, kind: type[int] | type[float] = float) -> float:
    if "_" in entry:
        raise ValueError("Python alone takes 1_000 for a number.")
    return kind(entry)


def _to_truth(entry: str) -> float:
    return float(("false", "true").index(entry.strip().lower()))
