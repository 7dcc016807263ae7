"""CSV files as polars frames."""

import csv
import io
import mmap
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

import polars as pl

from orderless.data.frames_in import PADDED
from orderless.data.text_files import read_text
from orderless.errors import DataError

# What stands for a missing value: all that does for pandas.
MISSING = (
    *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "null", "NULL", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
# A column may be called 7, but hardly 0.07.
FRACTION = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)
# A leading zero among the bytes of a file, where it is no part of a date, a clock or a fraction.
# That the pattern begins with the zero makes it five times as fast.
ZERO_WITHIN = re.compile(rb"0(?<![\w.:/+-]0)\d+(?![\w.:/-])")
# A name in quotes, after whichever separator, and all of the first row: names may have line breaks.
QUOTED = re.compile(r'(?<![^,;\t|])"(?:[^"]|"")*+"')
HEADER = re.compile(rf'(?:{QUOTED.pattern}|[^"\r\n]++|")*+')
LONGEST_HEADER = 2**24


def read_csv(path: Path) -> pl.DataFrame:
    """A frame from a CSV file, as `read_table` says."""
    try:
        names, separator = _header(path)
    except csv.Error as error:
        raise DataError(f"{path.name} cannot be read as CSV ({error}).") from error
    try:
        frame = _read(path, names, separator)
    except DataError:
        raise
    except Exception as error:
        # polars has its own words for what is not UTF-8, and for a row that is too long.
        read_text(path)
        _blank_rows(path, len(names), separator)
        raise DataError(
            f"{path.name} cannot be read as CSV with {separator!r} between {len(names)} columns "
            f"({str(error).strip().splitlines()[0]}). Separate columns by commas, semicolons, tabs "
            "or bars."
        ) from error
    # Commas at the end of lines make a column without a name and without a value.
    empty = "" in names[1:] and frame[""].null_count() == len(frame)
    return frame.drop("") if empty else frame


def _read(path: Path, names: list[str], separator: str) -> pl.DataFrame:
    options = {"separator": separator, "null_values": list(MISSING), "glob": False}
    try:
        frame = pl.read_csv(path, infer_schema_length=None, **options)
    except pl.exceptions.ComputeError:
        # Before polars 2, an integer of more than 64 bits is only text.
        frame = pl.read_csv(path, infer_schema=False, **options)
    # Names come last: where frames are made, polars takes an empty one for none.
    frame.columns = [str(place) for place in range(len(names))]
    whole = [place for place, one in enumerate(frame.dtypes) if one.is_integer()]
    if whole and _has_zeros(path):
        # What names things keeps its leading zeros. Whether it does is asked when roles are.
        texts = pl.read_csv(path, columns=whole, infer_schema=False, **options)
        texts.columns = [str(place) for place in whole]
        frame = frame.with_columns(one for one in texts if one.str.contains(PADDED).any())
    # polars makes rows of blank lines, and fills up a row that is too short.
    if len(names) == 1 or frame.to_series(-1).null_count():
        frame = frame.filter(~pl.Series(_blank_rows(path, len(names), separator), dtype=pl.Boolean))
    frame = pl.DataFrame([_read_numbers(one) for one in frame])
    frame.columns = names
    return frame


def _read_numbers(column: pl.Series) -> pl.Series:
    """Numbers also where polars takes them for text: +3, NAN, Inf, or with spaces around."""
    if column.dtype != pl.String:
        return column
    entries = column.str.strip_chars()
    entries = entries.set(entries.is_in(MISSING), None)
    for dtype in (pl.Int64, pl.Float64):
        numbers = entries.cast(dtype, strict=False)
        if numbers.null_count() == entries.null_count():
            return entries if entries.str.contains(PADDED).any() else numbers
    truth = entries.str.to_lowercase()
    return truth == "true" if truth.drop_nulls().is_in(["true", "false"]).all() else column


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and the separator."""
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


def _blank_rows(path: Path, columns: int, separator: str) -> list[bool]:
    """Whether each row is a blank line. A row of the wrong length is refused."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            rows = _count_entries(file, separator)
            next(rows)
            found = []
            for number, (entries, blank) in enumerate(rows, 2):
                found.append(blank)
                if entries == columns or blank:
                    continue
                # A forecast begins at the last row, and the number it breaks off at may be cut too.
                if entries < columns and all(blank for _, blank in rows):
                    raise DataError(
                        f"The last row of {path.name} has {entries} entries; the header has "
                        f"{columns}. Is the file still being written? Wait, or delete the row."
                    )
                raise DataError(
                    f"Row {number} of {path.name} has {entries} entries; the header has {columns}."
                )
            return found
    except csv.Error as error:
        raise DataError(f"{path.name} cannot be read as CSV ({error}).") from error
    finally:
        csv.field_size_limit(limit)


def _count_entries(file: TextIO, separator: str) -> Iterator[tuple[int, bool]]:
    """How many entries each row has, and whether it is a blank line."""
    for line in file:
        if '"' in line:
            # Separators within quotes are text, and the row may go on in the next line.
            yield len(next(csv.reader(chain([line], file), delimiter=separator))), False
        else:
            entries = line.count(separator) + 1
            yield entries, entries == 1 and line.isspace()


def _has_zeros(path: Path) -> bool:
    """Whether any entry may have a leading zero; a small part of the time that reading takes."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return ZERO_WITHIN.search(content) is not None
