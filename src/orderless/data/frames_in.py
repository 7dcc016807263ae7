"""Frames of any library as columns of polars and NumPy.

pandas, polars and Arrow come through narwhals, and a dict of arrays is a frame too. Inside, numbers
and text are polars series, time stamps are NumPy arrays in UTC.
"""

import importlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    moments     time stamps or durations in UTC, NaT where missing
    odd         what it holds that is neither, for an error
    dtype       of the column in its library, to give results the same
    zone        the name of the time zone of zone-aware time stamps
    unit        in which its library counts time
    index       whether it was the index of a pandas frame
    period      for an index of pandas periods: their frequency
    """

    label: Hashable
    values: pl.Series | None = None
    moments: np.ndarray | None = None
    odd: str = ""
    dtype: Any = None
    zone: str | None = None
    unit: str | None = None
    index: bool = False
    period: str | None = None

    @property
    def where(self) -> str:
        """The column, as an error calls it."""
        return f"column {self.label!r}"

    @property
    def kind(self) -> str:
        """What is in it: "number", "time" (also as text), "text" or "other"."""
        if self.odd:
            return "other"
        if self.values is None:
            return "time"
        if self.values.dtype != pl.String:
            return "number"
        return "text" if self.stamps is None else "time"

    @property
    def text(self) -> pl.Series | None:
        """The text, also of time stamps that were written as such."""
        return self.values if self.values is not None and self.values.dtype == pl.String else None

    @cached_property
    def stamps(self) -> tuple[np.ndarray, TimeForm] | None:
        """Time stamps in nanoseconds and how they were written; None where there are none."""
        if self.moments is not None:
            kind = "duration" if self.moments.dtype.kind == "m" else "datetime"
            kind = "date" if self.unit == "D" else kind
            form = TimeForm(kind, time_zone=self.zone, unit=self.unit or "ns", period=self.period)
            return to_nanoseconds(self.moments, self.where), self._named(form)
        found = None if self.text is None else parse_text(self.text, self.where)
        return None if found is None else (found[0], self._named(found[1]))

    @cached_property
    def numbers(self) -> pl.Series | None:
        """Numbers; also text of whole numbers of which some have leading zeros, as in a file."""
        if self.text is None:
            return self.values
        if not self.text.str.contains(PADDED).any():
            return None
        numbers = self.text.str.strip_chars().cast(pl.Int64, strict=False)
        return None if numbers.null_count() > self.text.null_count() else numbers

    def _named(self, form: TimeForm) -> TimeForm:
        return replace(form, name=self.label, index=self.index, dtype=self.dtype)

    @property
    def as_numbers(self) -> TimeForm:
        """The form of numbers that count time."""
        floats = self.numbers is not None and self.numbers.dtype.is_float()
        return self._named(TimeForm("number", floats=floats))


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


def as_polars(data: Any) -> pl.DataFrame:
    """Any frame or dict of columns as a polars frame; an index is a column too."""
    native = nw.to_native(data, pass_through=True)
    if isinstance(native, pl.DataFrame):
        return native
    if hasattr(native, "reset_index") and type(native.index).__name__ != "RangeIndex":
        native = native.reset_index()
    table = open_table(native)
    if table is None:
        raise DataError(
            f"A table is a frame or a dict of columns, and this is a {type(data).__name__}."
        )
    frame = pl.DataFrame([_to_polars(str(place), one) for place, one in enumerate(table.columns)])
    frame.columns = [str(one.label) for one in table.columns]
    return frame


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
    name, count = Counter(map(str, labels)).most_common(1)[0] if labels else ("", 0)
    if count > 1:
        raise DataError(
            f"Two columns are called {name!r}. Variables are told apart by name: rename one."
        )


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
            f"The column {label!r} has {array.ndim} dimensions instead of one. Give one column a "
            "variable."
        )
    kind = array.dtype.kind
    if kind in "biuf":
        if array.dtype.itemsize > 8:
            array = to_numbers(array, f"column {label!r}")
        return _from_polars(label, pl.Series(array), dtype)
    if kind in "mM":
        unit = np.datetime_data(array.dtype)[0]
        # A dict of arrays can hold any unit, pandas one only.
        unit = unit if dtype is not None or array.dtype == "M8[D]" else "ns"
        return Column(label, moments=array, dtype=dtype, unit=unit)
    if kind in "OUT":
        return _from_objects(label, array.astype(object).tolist(), dtype)
    return _odd(label, dtype, f"values of type {array.dtype}")


def _from_objects(label: Hashable, entries: list[Any], dtype: Any) -> Column:
    """Text, dates or numbers out of Python objects."""
    types = set(map(type, entries))
    if types - {str, type(None)}:
        entries = [None if is_missing(one) else one for one in entries]
        types = set(map(type, entries))
    types -= {type(None)}
    if types and all(issubclass(one, date) for one in types):
        return _from_dates(label, entries, dtype)
    try:
        if all(issubclass(one, str) for one in types):
            text = pl.Series([one if one is None else str(one) for one in entries], dtype=pl.String)
            return _from_polars(label, text, dtype)
        numbers = np.array([to_number(one) for one in entries], np.float64)
        return _from_polars(label, pl.Series(numbers), dtype)
    except (TypeError, ValueError, OverflowError):
        return _odd(label, dtype, entries)


def _from_dates(label: Hashable, entries: list[Any], dtype: Any) -> Column:
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
    zone = "UTC" if aware == {True} else None
    return Column(label, moments=np.array(entries, "M8[us]"), dtype=dtype, zone=zone, unit=unit)


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
        moments = series.to_numpy()
        return Column(label, moments=moments, dtype=dtype, zone=zone, unit=kind.time_unit)
    elif isinstance(kind, pl.Duration):
        return Column(label, moments=series.to_numpy(), dtype=dtype, unit=kind.time_unit)
    elif kind == pl.Date:
        return Column(label, moments=series.to_numpy(), dtype=dtype, unit="D")
    elif kind == pl.Object:
        return _from_objects(label, series.to_list(), dtype)
    elif not (kind.is_numeric() or kind in (pl.Boolean, pl.String)):
        return _odd(label, dtype, f"values of type {kind}")
    return Column(label, series, dtype=dtype)


def _arrow() -> Any:
    return importlib.import_module("pyarrow")


def _from_arrow(label: Hashable, column: Any, dtype: Any) -> Column:
    """A column from an array of Arrow; a zone may be an offset, of which polars knows none."""
    pa = _arrow()
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        if zone is not None:
            column = column.cast(pa.timestamp(column.type.unit))
        unit = getattr(column.type, "unit", None)
        found = _from_polars(label, pl.Series(column), dtype)
    except (Exception, pl.exceptions.PanicException):
        # Arrow has more types than anybody else.
        return _odd(label, dtype, f"values of type {column.type}")
    return found if found.moments is None else replace(found, zone=zone, unit=unit or found.unit)


def _from_pandas(label: Hashable, column: Any) -> Column:
    """A column from a series or an index of pandas."""
    dtype = column.dtype
    if hasattr(dtype, "categories"):
        # Categories that are no text are ids or what else their values are.
        gaps = dtype.categories.dtype.kind in "biu" and column.isna().any()
        plain = column.astype("float64" if gaps else dtype.categories.dtype)
        found = _from_pandas(label, plain)
        return found if found.text is None else replace(found, dtype=dtype)
    if getattr(dtype, "tz", None) is not None:
        moments = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        zone = name_of_zone(dtype.tz)
        return Column(label, moments=moments, dtype=dtype, zone=zone, unit=dtype.unit)
    if isinstance(dtype, np.dtype):
        return _from_array(label, column.to_numpy(), dtype)
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", None) == "pyarrow":
        return _from_arrow(label, _arrow().chunked_array([column.array.__arrow_array__()]), dtype)
    if dtype.kind in "biuf":
        gaps = {"dtype": np.float64, "na_value": np.nan} if column.isna().any() else {}
        return _from_array(label, column.to_numpy(**gaps), dtype)
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
        moments = index.to_timestamp().to_numpy()
        return Column(label, moments=moments, unit="ns", index=True, period=index.freqstr)
    if kind == "RangeIndex":
        values = pl.Series(index.to_numpy())
        return None if index.step < 0 else Column(label, values, index=True)
    column = replace(_from_pandas(label, index.to_series()), index=True)
    counts = column.kind == "number" and is_time_name(label)
    return column if counts or column.kind == "time" else None


def _odd(label: Hashable, dtype: Any, holds: str | list[Any]) -> Column:
    """A column that nobody can read: what it holds, or all entries, of which one is shown."""
    if isinstance(holds, list):
        row = next(row for row, one in enumerate(holds) if not _is_number(one))
        holds = f"{repr(holds[row])[:40]} in row {row}"
    return Column(label, odd=holds, dtype=dtype)


def _is_number(entry: Any) -> bool:
    try:
        to_number(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _to_polars(name: str, column: Column) -> pl.Series:
    if column.odd:
        raise DataError(f"The {column.where} holds {column.odd}, which no file can hold.")
    if column.moments is None:
        return pl.Series(name, column.values)
    assert column.stamps is not None
    series = pl.Series(name, column.stamps[0])
    if column.zone is None:
        return series.cast(pl.Date) if column.unit == "D" else series
    series = series.dt.replace_time_zone("UTC")
    try:
        return series.dt.convert_time_zone(column.zone)
    except pl.exceptions.ComputeError:
        return series  # an offset, of which polars knows none
