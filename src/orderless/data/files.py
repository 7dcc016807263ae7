"""CSV and parquet files by path."""

import csv
import io
from os import PathLike
from pathlib import Path
from typing import Any

from orderless.data.engine import need
from orderless.errors import DataError
from orderless.io import check_destination, whole_file

# What pandas calls the one level of an index without a name in parquet. It comes last.
NAMELESS_INDEX = "__index_level_0__"
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", *PARQUET)


def read_table(path: str | PathLike[str]) -> Any:
    """A polars frame that `read_panel` takes, from a file ending in .csv, .tsv, .parquet or .pq.

    CSV is UTF-8 with a header; commas, semicolons, tabs and bars are distinguished by the header. A
    column without a name is dropped where it holds nothing, as after a comma at the end of lines;
    a first one, such as an index saved by pandas, is for `read_panel` to judge. Blank lines are
    skipped. A column of whole numbers with leading zeros, such as 007, is text, which `read_panel`
    takes for numbers again unless it names something. In parquet, a pandas index of numbers without
    a name is no variable and is dropped.
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
    csv_files = need("orderless.data.csv_files")
    return _read_parquet(path) if path.suffix.lower() in PARQUET else csv_files.read_csv(path)


def write_table(table: Any, path: str | PathLike[str]) -> None:
    """Write a frame, or a dict of columns, as .csv, .tsv or .parquet; never half a file.

    The index of a pandas frame is written as a column unless it only counts the rows.
    """
    check_destination(path, TABLES)
    frame = need("orderless.data.frames_out").to_write(table)
    with whole_file(path) as draft:
        try:
            if draft.suffix in PARQUET:
                frame.write_parquet(draft)
            elif draft.suffix == ".csv":
                frame.write_csv(draft)
            else:
                rows = csv.reader(io.StringIO(frame.write_csv(), newline=""))
                with draft.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, delimiter="\t").writerows(rows)
        except OSError:
            raise
        except Exception as error:  # every library has errors of its own, also for a full disk
            kind = "parquet" if draft.suffix in PARQUET else "CSV"
            raise DataError(f"{path} cannot be written as {kind}: {error}") from error


def _read_parquet(path: Path) -> Any:
    """Without row numbers that pandas saved as its index; an index of time stamps stays.

    Nor are they time: rows that were filtered or shuffled have such numbers. An index of several
    levels stays too, since a level may be needed as group=.
    """
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except Exception as error:
        raise DataError(f"{path.name} cannot be read as parquet: {error}") from error
    numbered = frame.columns[-1:] == [NAMELESS_INDEX] and frame.dtypes[-1].is_numeric()
    return frame.drop(NAMELESS_INDEX) if numbered else frame
