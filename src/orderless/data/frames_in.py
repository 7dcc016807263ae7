"""Frames of any library as columns of polars and NumPy.

pandas, polars and Arrow come through narwhals, and a dict of arrays is a frame too. Inside, numbers
and text are polars series, time stamps are NumPy arrays in UTC.
"""

import importlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from orderless.data.containers import (
    find_too_large,
    is_missing,
    to_array,
    to_number,
    to_numbers,
)
from orderless.data.frequency import name_of_zone
from orderless.data.panel import TimeForm
from orderless.data.timestamps import is_time_name, parse_text, to_nanoseconds
from orderless.errors import DataError

# Whole numbers such as 007: names where they name something, numbers elsewhere.
PADDED = r"^\s*0\d+\s*$"


@dataclass(frozen=True)
class Column:
    """One column as it came, one of the first three being there.

    values      numbers, truth values or text, null where missing
    times       time stamps or durations in UTC, NaT where missing
    odd         what it holds that is neither, for an error
    form        what its library says about it: name, type, unit and zone of time
    """

    label: Hashable
    values: pl.Series | None = None
    times: np.ndarray | None = None
    odd: str = ""
    form: TimeForm = field(default_factory=TimeForm)

    @property
    def where(self) -> str:
        """The column, as an error calls it."""
        return f"column {self.label!r}"

    @property
    def kind(self) -> str:
        """What is in it: "number", "time" (also as text), "text" or "other"."""
        if self.odd:
            return "other"
        if self.stamps is not None:
            return "time"
        return "number" if self.text is None else "text"

    @property
    def text(self) -> pl.Series | None:
        """The text, also of time stamps that were written as such."""
        return self.values if self.values is not None and self.values.dtype == pl.String else None

    @cached_property
    def stamps(self) -> tuple[np.ndarray, TimeForm] | None:
        """Time stamps in nanoseconds and how they were written; None where there are none."""
        if self.times is not None:
            return to_nanoseconds(self.times, self.where), self.form
        return None if self.text is None else parse_text(self.text, self.where, self.form)

    @cached_property
    def numbers(self) -> pl.Series | None:
        """Numbers; also text of whole numbers of which some have leading zeros, as in a file."""
        if self.text is None or not self.text.str.contains(PADDED).any():
            return self.values if self.text is None else None
        numbers = self.text.str.strip_chars().cast(pl.Int64, strict=False)
        return None if numbers.null_count() > self.text.null_count() else numbers


@dataclass(frozen=True)
class Table:
    """Columns in their order, and what only a pandas frame has: an index.

    index       the index as a column where it holds time stamps
    counted     the index as a column where it is a plain range
    labels      the index itself, to label the rows of a result
    library     the narwhals name of the library; None for a dict of columns
    """

    columns: tuple[Column, ...]
    library: Any = None
    index: Column | None = None
    counted: Column | None = None
    labels: Any = None
    rows: int = 0


def open_table(data: Any) -> Table | None:
    """The columns of a frame, a series or a dict of columns; None for anything else."""
    if isinstance(data, Mapping):
        return _from_mapping(data)
    data = nw.to_native(data, pass_through=True)
    if nw.dependencies.is_pandas_like_dataframe(data):
        _check_labels(list(data.columns))
    try:
        frame = nw.from_native(data, pass_through=True, allow_series=True)
    except (ValueError, nw.exceptions.NarwhalsError) as error:
        raise DataError(f"The frame cannot be read: {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise DataError("The frame is lazy and holds no values yet. Call .collect() on it first.")
    if isinstance(frame, nw.Series):
        # No name is None in pandas and empty in polars; 0 is one.
        frame = (frame.alias("value") if frame.name in (None, "") else frame).to_frame()
    if not isinstance(frame, nw.DataFrame):
        return None
    native: Any = frame.to_native()
    library = frame.implementation
    if library.is_polars():
        columns = [_from_polars(one.name, one, one.dtype) for one in native.iter_columns()]
        return Table(tuple(columns), library, rows=native.height)
    if library.is_pyarrow():
        _check_labels(native.column_names)
        columns = [
            _from_arrow(label, column, column.type)
            for label, column in zip(native.column_names, native.columns, strict=True)
        ]
        return Table(tuple(columns), library, rows=native.num_rows)
    native = native if library.is_pandas() else frame.to_pandas()
    columns = [_from_pandas(label, column) for label, column in native.items()]
    index = _from_index(native.index)
    counted = index if type(native.index).__name__ == "RangeIndex" else None
    index = None if counted else index
    return Table(tuple(columns), library, index, counted, native.index, len(native))


def to_matrix(columns: Sequence[Column]) -> np.ndarray:
    """The numbers of the columns, [column, row], none of them infinite."""
    series = [
        pl.Series(str(place), one.numbers).cast(pl.Float64) for place, one in enumerate(columns)
    ]
    matrix = pl.DataFrame(series).to_numpy(order="fortran").T
    # Where polars only lends its memory, or that of the frame.
    matrix = matrix if matrix.flags.writeable else matrix.copy()
    found = find_too_large(matrix)
    if found is not None:
        (column, row), name = found
        raise DataError(
            f"There is {name} in row {row} of {columns[column].where}. Replace it by a missing "
            "value (NaN) if it means that there was no reading."
        )
    return matrix


def first_no_number(text: pl.Series) -> int | None:
    """The row of the first entry that does not read as a number."""
    odd = text.is_not_null() & text.str.strip_chars().cast(pl.Float64, strict=False).is_null()
    return odd.arg_max() if odd.any() else None


def _check_labels(labels: list[Hashable]) -> None:
    for label in labels:
        if isinstance(label, tuple):
            raise DataError(
                f"The frame has several levels of column names, such as {label!r}. Join them to "
                "one name each."
            )
        if not _is_text(str(label)):
            raise DataError(f"The column name {label!r} is no text that can be written. Rename it.")
    name, count = Counter(map(str, labels)).most_common(1)[0] if labels else ("", 0)
    if count > 1:
        raise DataError(
            f"Two columns are called {name!r}. A variable is known by its name: rename one."
        )


def _is_text(name: str) -> bool:
    """Whether a name can be encoded, which half of a pair of surrogates cannot."""
    return name == name.encode("utf-8", "ignore").decode()


def _from_mapping(data: Mapping[Hashable, Any]) -> Table:
    _check_labels(list(data))
    arrays = {label: to_array(values, f"column {label!r}") for label, values in data.items()}
    columns = tuple(_from_array(label, array) for label, array in arrays.items())
    lengths = {str(label): len(array) for label, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"The columns differ in length: {lengths}. Give all of them the same.")
    return Table(columns, rows=next(iter(lengths.values()), 0))


def _from_array(label: Hashable, array: np.ndarray, dtype: Any = None) -> Column:
    """A column from a NumPy array of any type."""
    if array.ndim != 1:
        raise DataError(
            f"The column {label!r} has {array.ndim} dimensions instead of one. Give one column "
            "for each variable."
        )
    kind = array.dtype.kind
    if kind in "biuf":
        if array.dtype.itemsize > 8:
            array = to_numbers(array, f"column {label!r}")
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return _from_polars(label, pl.Series(native), dtype if dtype is None else native.dtype)
    if kind in "mM":
        unit = np.datetime_data(array.dtype)[0]
        # A dict of arrays can hold any unit, pandas one only.
        return _time(label, array, unit if dtype is not None or unit == "D" else "ns", dtype)
    if kind in "OUT":
        return _from_objects(label, array.astype(object).tolist(), dtype)
    return _odd(label, f"values of type {array.dtype}")


def _from_objects(label: Hashable, entries: list[Any], dtype: Any) -> Column:
    """Text, dates or numbers out of Python objects."""
    types = set(map(type, entries))
    if types - {str, type(None)}:
        entries = [None if is_missing(one) else one for one in entries]
        types = set(map(type, entries))
    types -= {type(None)}
    if types and all(issubclass(one, date) for one in types):
        return _from_dates(label, entries)
    try:
        if all(issubclass(one, str) for one in types):
            text = pl.Series([one if one is None else str(one) for one in entries], dtype=pl.String)
            return _from_polars(label, text, dtype)
        if (
            types == {int}
            and None not in entries
            and -(2**63) <= min(entries) <= max(entries) < 2**63
        ):
            return _from_polars(label, pl.Series(entries, dtype=pl.Int64), None)
        numbers = np.array([to_number(one) for one in entries], np.float64)
        return _from_polars(label, pl.Series(numbers), None)
    except (TypeError, ValueError, OverflowError):
        return _odd(label, entries)


def _from_dates(label: Hashable, entries: list[Any]) -> Column:
    """Python dates or datetimes; None where one is missing."""
    aware = {getattr(one, "tzinfo", None) is not None for one in entries if one is not None}
    if len(aware) > 1:
        raise DataError(
            f"Some time stamps in column {label!r} have a time zone and some have none. Give all "
            "of them the same."
        )
    if aware == {True}:
        entries = [one and one.astimezone(UTC).replace(tzinfo=None) for one in entries]
    unit = "ns" if any(isinstance(one, datetime) for one in entries) else "D"
    return _time(label, np.array(entries, "M8[us]"), unit, zone="UTC" if aware == {True} else None)


def _from_polars(label: Hashable, series: pl.Series, dtype: Any) -> Column:
    kind = series.dtype
    if series.null_count() == len(series) and kind in (pl.Null, pl.String):
        # Readers of files call a column without a single value text.
        series = series.cast(pl.Float64)
    elif kind.is_decimal():
        series = series.cast(pl.Float64)
    elif kind in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    elif isinstance(kind, pl.Datetime):
        zone = kind.time_zone
        if zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return _time(label, series.to_numpy(), kind.time_unit, dtype, zone)
    elif isinstance(kind, pl.Duration):
        return _time(label, series.to_numpy(), kind.time_unit, dtype)
    elif kind == pl.Date:
        return _time(label, series.to_numpy(), "D", dtype)
    elif kind == pl.Object:
        return _from_objects(label, series.to_list(), dtype)
    elif not (kind.is_numeric() or kind in (pl.Boolean, pl.String)):
        return _odd(label, f"values of type {kind}")
    form = TimeForm("number", label, dtype=dtype, floats=series.dtype.is_float())
    return Column(label, series, form=form)


def _from_arrow(label: Hashable, column: Any, dtype: Any) -> Column:
    """A column from an array of Arrow; a zone may be an offset, of which polars knows none."""
    arrow = importlib.import_module("pyarrow")
    try:
        if arrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if arrow.types.is_decimal(column.type):
            column = column.cast(arrow.float64())
        zone = column.type.tz if arrow.types.is_timestamp(column.type) else None
        if zone is not None:
            column = column.cast(arrow.timestamp(column.type.unit))
        unit = getattr(column.type, "unit", None)
        found = _from_polars(label, pl.Series(column), dtype)
    except (Exception, pl.exceptions.PanicException):
        # Arrow has more types than anybody else.
        return _odd(label, f"values of type {column.type}")
    form = replace(found.form, time_zone=zone, unit=unit or found.form.unit)
    return replace(found, form=form)


def _from_pandas(label: Hashable, column: Any) -> Column:
    """A column from a series of pandas."""
    dtype = column.dtype
    if getattr(dtype, "tz", None) is not None:
        times = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return _time(label, times, dtype.unit, dtype, name_of_zone(dtype.tz))
    if isinstance(dtype, np.dtype):
        return _from_array(label, column.to_numpy(), dtype)
    if hasattr(dtype, "pyarrow_dtype"):
        chunks = [column.array.__arrow_array__()]
        return _from_arrow(label, importlib.import_module("pyarrow").chunked_array(chunks), dtype)
    # Text, nullable numbers, categories of anything.
    return _from_objects(label, column.to_numpy(object).tolist(), dtype)


def _from_index(index: Any) -> Column | None:
    """The index of a pandas frame where it can count as time: time stamps, or a plain range."""
    kind, label = type(index).__name__, index.name
    if kind == "MultiIndex":
        raise DataError(
            "The index of the frame has several levels. Call .reset_index() and name the columns: "
            "time=, variable= and value=, or group=."
        )
    if kind == "PeriodIndex":
        found = _time(label, index.to_timestamp().to_numpy(), "ns")
        found = replace(found, form=replace(found.form, period=index.freqstr))
    else:
        found = _from_pandas(label, index.to_series())
    ranged = kind == "RangeIndex" and index.step > 0
    counts = found.kind == "number" and is_time_name(label)
    if not (ranged or counts or found.kind == "time"):
        return None
    return replace(found, form=replace(found.form, index=True))


def _time(
    label: Hashable, times: np.ndarray, unit: str, dtype: Any = None, zone: str | None = None
) -> Column:
    kind = "duration" if times.dtype.kind == "m" else "date" if unit == "D" else "datetime"
    form = TimeForm(kind, label, time_zone=zone, unit=unit, dtype=dtype)
    return Column(label, times=times, form=form)


def _odd(label: Hashable, holds: str | list[Any]) -> Column:
    """A column that nobody can read: what it holds, or all entries, of which one is shown."""
    if isinstance(holds, list):
        row = next(row for row, one in enumerate(holds) if not _is_number(one))
        holds = f"{repr(holds[row])[:40]} in row {row}"
    return Column(label, odd=holds)


def _is_number(entry: Any) -> bool:
    try:
        to_number(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
