"""CSV, parquet and .ts files by path, for the command line.

pandas, polars and pyarrow are optional. CSV is read by the first of polars, pandas and pyarrow
that is installed and by the standard library otherwise; parquet needs polars or pyarrow.
"""

from os import PathLike
from typing import Any

import numpy as np


def read_table(path: str | PathLike[str]) -> Any:
    """A frame that `read_panel` takes, from a file ending in .csv, .tsv, .parquet or .pq.

    Without a frame library a CSV file becomes a dict from column name to array.
    """
    raise NotImplementedError


def write_table(table: Any, path: str | PathLike[str]) -> None:
    """Write a frame, or a dict of columns, as .csv, .tsv or .parquet; never half a file."""
    raise NotImplementedError


def read_ts(path: str | PathLike[str]) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Cases [variable, time] and labels of a .ts file of the UEA/UCR archive.

    Cases may differ in length; `?` and `NaN` are missing values. Labels are None where the header
    says `@classLabel false`. Files with time stamps in their values are refused in words.
    """
    raise NotImplementedError
