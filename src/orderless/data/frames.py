"""Frames of any library as plain columns, and plain columns as a frame of that library again.

pandas, polars and Arrow come through narwhals; a dict of arrays needs no library at all.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import narwhals as nw
import numpy as np

from orderless.data.frequency import name_of_zone
from orderless.data.panel import Form, TimeForm
from orderless.data.timestamps import (
    can_say,
    is_missing,
    is_time_name,
    parse_objects,
    parse_text,
    to_nanoseconds,
    write_text,
)
from orderless.errors import DataError


@dataclass(frozen=True)
class Column:
    """One column: numbers, time stamps, text or something else.

    kind    "number" (bool, integer or float), "time", "text" or "other"
    values  a 1-D array; datetime64[ns] or timedelta64[ns] for time stamps, objects for text
    texts   what time stamps written as text looked like
    """

    label: Hashable
    kind: str
    values: np.ndarray
    time: TimeForm | None = None
    dtype: Any = None
    texts: np.ndarray | None = None

    @property
    def where(self) -> str:
        """The column, as an error calls it."""
        return f"column {self.label!r}"


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

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values) if self.columns else 0


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
    _check_labels(list(frame.columns))
    columns = tuple(_columns(frame))
    if not frame.implementation.is_pandas_like():
        return Table(columns, frame.implementation)
    labels: Any = nw.maybe_get_index(frame)
    index = _pandas_index(labels)
    counted = type(labels).__name__ == "RangeIndex"
    return Table(
        columns,
        frame.implementation,
        None if counted else index,
        index if counted else None,
        labels,
    )


def is_number(entry: Any) -> bool:
    """Whether an entry is a number, or text that reads as one; 1_000 does to Python alone."""
    try:
        float(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return not (isinstance(entry, str) and "_" in entry)


def column_from_array(label: Hashable, values: Any, dtype: Any = None) -> Column:
    """A column from a NumPy array or anything that becomes one."""
    array = unmask(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    where = f"column {label!r}"
    if array.ndim != 1:
        raise DataError(
            f"The {where} has {array.ndim} dimensions instead of one. Give one column a variable."
        )
    if array.dtype.kind in "biuf":
        return Column(label, "number", array, dtype=dtype)
    if array.dtype.kind in "mM":
        kind = "datetime" if array.dtype.kind == "M" else "duration"
        form = TimeForm("date" if array.dtype == "M8[D]" else kind, label, dtype=dtype)
        return Column(label, "time", to_nanoseconds(array, where), form, dtype)
    if array.dtype.kind in "UT":
        array = array.astype(object)
    if array.dtype.kind != "O":
        return Column(label, "other", array, dtype=dtype)
    return _from_objects(label, array, dtype)


def unmask(values: np.ma.MaskedArray) -> np.ndarray:
    """A plain array in which masked entries are missing: NaN, NaT or None."""
    array, mask = values.data, np.ma.getmaskarray(values)
    # Records have a mask of records, and nothing reads them anyway.
    if mask.dtype != bool or not mask.any():
        return array
    if array.dtype.kind in "biuf":
        return np.where(mask, np.nan, array)
    if array.dtype.kind in "mM":
        return np.where(mask, np.array("NaT", array.dtype), array)
    return np.where(mask, np.array(None), array.astype(object))


def build_frame(form: Form, columns: list[Column], index: Any = None) -> Any:
    """A frame of the input's library, with the pandas index given."""
    labels = [one.label for one in columns]
    label, count = Counter(labels).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"The result would have two columns called {str(label)!r}. Rename the column of the "
            "input that has this name."
        )
    if form.library is None:
        return {
            one.label: (
                np.array(write_text(one.values, one.time), object)
                if one.time is not None and one.time.kind == "text"
                else one.values
            )
            for one in columns
        }
    # Places until all columns are there: narwhals and polars do not take an empty name for one.
    places = [str(place) for place in range(len(columns))]
    plain = [one.time is None and one.values.dtype == np.float64 for one in columns]
    frames = []
    for is_plain, run in groupby(zip(plain, places, columns, strict=True), key=itemgetter(0)):
        _, run_places, run_columns = zip(*run, strict=True)
        if is_plain:
            # Numbers go in as one block, since a frame may have thousands of such columns.
            block = np.stack([one.values for one in run_columns], 1)
            frames.append(nw.from_numpy(block, list(run_places), backend=form.library))
        else:
            # Not DataFrame.from_dict, which loses the time zones of pandas columns.
            frames += [
                _to_series(place, one, form.library).to_frame()
                for place, one in zip(run_places, run_columns, strict=True)
            ]
    frame = nw.concat(frames, how="horizontal") if len(frames) > 1 else frames[0]
    # Only pandas has labels that are no text; narwhals wants text, so they are set at the end.
    names = [str(label) for label in labels]
    native = frame.rename(dict(zip(places, names, strict=True))).to_native()
    if form.library.is_pandas_like():
        if names != labels:
            native.columns = labels
        if index is not None:
            native.index = index
    return native


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
    columns = tuple(column_from_array(label, values) for label, values in data.items())
    lengths = {str(one.label): len(one.values) for one in columns}
    if len(set(lengths.values())) > 1:
        raise DataError(f"The columns differ in length: {lengths}. Give all of them the same.")
    return Table(columns)


def _columns(frame: nw.DataFrame) -> Iterator[Column]:
    """The columns one by one, but floating-point numbers out of one block: frames have many."""
    schema = frame.schema
    if not all(isinstance(name, str) for name in schema):
        # narwhals finds such columns by position only.
        yield from map(_from_series, frame.iter_columns())
        return
    floats = {
        name: place
        for place, (name, dtype) in enumerate(schema.items())
        if isinstance(dtype, (nw.Float64, nw.Float32))
    }
    # By position: polars would take a name such as "*" for all columns.
    numbers = frame[:, list(floats.values())].to_numpy() if floats else np.empty((0, 0))
    block = dict(zip(floats, numbers.T, strict=True)) if numbers.dtype.kind == "f" else {}
    for name, dtype in schema.items():
        if name in block:
            yield Column(name, "number", block[name], dtype=dtype)
        else:
            yield _from_series(frame.get_column(name))


def _from_series(series: nw.Series) -> Column:
    label, dtype = series.name, series.dtype
    if dtype == nw.Boolean or dtype.is_numeric():
        # NumPy has neither decimals nor integers of 128 bits, and no gaps in booleans or integers.
        foreign = dtype.is_decimal() or dtype in (nw.Boolean, nw.Int128, nw.UInt128)
        if foreign or series.null_count():
            values = series.cast(nw.Float64).to_numpy()
        else:
            values = series.to_numpy()
        return Column(label, "number", np.asarray(values), dtype=dtype)
    zone = getattr(getattr(series.to_native(), "dtype", None), "tz", None)
    if zone is not None:
        # A pandas column, whose type holds the zone itself; narwhals has names of some only.
        native: Any = series.to_native()
        naive = native.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        column = column_from_array(label, naive, native.dtype)
        assert column.time is not None
        return replace(column, time=replace(column.time, time_zone=name_of_zone(zone)))
    if isinstance(dtype, nw.Datetime):
        zone = dtype.time_zone
        if zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        column = column_from_array(label, series.to_numpy(), dtype)
        assert column.time is not None
        return replace(column, time=replace(column.time, time_zone=zone))
    if dtype == nw.Date:
        column = column_from_array(label, series.cast(nw.Datetime("ms")).to_numpy(), dtype)
        assert column.time is not None
        return replace(column, time=replace(column.time, kind="date"))
    if isinstance(dtype, nw.Duration):
        return column_from_array(label, series.to_numpy(), dtype)
    categorical = dtype == nw.Categorical or isinstance(dtype, nw.Enum)
    plain = _without_categories(series) if categorical else None
    if plain is not None:
        return _from_series(plain)
    if categorical or dtype in (nw.String, nw.Object):
        values = np.empty(len(series), object)
        values[:] = series.to_list()
        if dtype == nw.String and len(values) and not series.null_count():
            return _from_text(label, values, dtype)
        return _from_objects(label, values, dtype)
    if series.null_count() == len(series):
        # Arrow and polars have a type for columns in which nothing ever was.
        return Column(label, "number", np.full(len(series), np.nan))
    return Column(label, "other", np.empty(len(series), object), dtype=dtype)


def _without_categories(series: nw.Series) -> nw.Series | None:
    """The values themselves where categories are no text, as of ids; None where they are text."""
    native: Any = series.to_native()
    categories = getattr(getattr(native, "dtype", None), "categories", None)
    if series.implementation.is_pandas_like() and categories is not None:
        if all(isinstance(one, str) for one in categories):
            return None
        # Integers have no missing value.
        gaps = categories.dtype.kind in "biu" and series.null_count()
        native = native.astype("float64" if gaps else categories.dtype)
    elif series.implementation.is_pyarrow():
        if "string" in str(native.type.value_type):
            return None
        native = native.cast(native.type.value_type)
    else:
        return None
    return nw.from_native(native, series_only=True).alias(series.name)


def _from_text(label: Hashable, texts: np.ndarray, dtype: Any) -> Column:
    """Time stamps where the text reads as such, text otherwise; None where there is none."""
    parsed = parse_text(texts.tolist(), f"column {label!r}")
    if parsed is not None:
        return Column(label, "time", parsed[0], replace(parsed[1], name=label), dtype, texts)
    return Column(label, "text", texts, dtype=dtype)


def _from_objects(label: Hashable, values: np.ndarray, dtype: Any) -> Column:
    known = [one for one in values if not is_missing(one)]
    if all(isinstance(one, str) for one in known):
        texts = np.array([None if is_missing(one) else one for one in values], object)
        if not known:
            # Readers of files call a column without a single value text.
            return Column(label, "number", np.full(len(values), np.nan), dtype=dtype)
        return _from_text(label, texts, dtype)
    times = parse_objects(values, f"column {label!r}")
    if times is not None:
        return Column(label, "time", times[0], replace(times[1], name=label), dtype)
    try:
        numbers = np.array([np.nan if is_missing(one) else float(one) for one in values])
    except (TypeError, ValueError, OverflowError):
        return Column(label, "other", values, dtype=dtype)
    if any(isinstance(one, str) for one in known):
        return Column(label, "other", values, dtype=dtype)
    return Column(label, "number", numbers, dtype=dtype)


def _pandas_index(index: Any) -> Column | None:
    """The index of a pandas frame where it can count as time: time stamps, or a plain range."""
    kind, label = type(index).__name__, index.name
    if kind == "MultiIndex":
        raise DataError(
            "The index of the frame has several levels. Call .reset_index() and name the columns: "
            "time=, variable= and value=, or group=."
        )
    if kind == "PeriodIndex":
        stamps = index.to_timestamp().to_numpy()
        form = TimeForm("datetime", label, True, period=index.freqstr)
        return Column(label, "time", to_nanoseconds(stamps, "the index"), form)
    if kind == "DatetimeIndex":
        zone = index.tz
        stamps = (index if zone is None else index.tz_convert("UTC").tz_localize(None)).to_numpy()
        name = None if zone is None else name_of_zone(zone)
        form = TimeForm("datetime", label, True, time_zone=name, dtype=index.unit, zone=zone)
        return Column(label, "time", to_nanoseconds(stamps, "the index"), form)
    if kind == "RangeIndex":
        if index.step < 0:
            return None
        return Column(label, "number", index.to_numpy(), TimeForm("number", label, True))
    column = column_from_array(label, index.to_numpy())
    if column.time is not None:
        unit = getattr(index, "unit", None)
        return replace(column, time=replace(column.time, index=True, dtype=unit))
    if column.kind == "number" and is_time_name(label):
        return replace(column, time=TimeForm("number", label, True))
    return None


def _to_series(name: str, column: Column, library: Any) -> nw.Series:
    form = column.time
    if form is None:
        values = column.values.tolist() if column.values.dtype == object else column.values
        series = nw.new_series(name, values, backend=library)
        return _cast(series, column.dtype)
    if form.kind == "text":
        return nw.new_series(name, write_text(column.values, form), backend=library)
    series = nw.new_series(name, column.values, backend=library)
    if form.time_zone is None:
        return _cast(series, form.dtype)
    series = series.dt.replace_time_zone("UTC")
    if form.zone is not None:
        return nw.from_native(series.to_native().dt.tz_convert(form.zone), series_only=True)
    if form.dtype is not None and not isinstance(form.dtype, nw.Datetime):
        # The type of a pandas column, time zone included.
        return nw.from_native(series.to_native().astype(form.dtype), series_only=True)
    return _cast(series.dt.convert_time_zone(form.time_zone), form.dtype)


def _cast(series: nw.Series, dtype: Any) -> nw.Series:
    """The type the input's column had, where narwhals has a name for it."""
    if dtype is None or dtype in (nw.Object, series.dtype):
        return series
    return series.cast(dtype)


def can_hold(form: TimeForm, times: np.ndarray) -> bool:
    """Whether a column of the input's type, or text as it is written, can say these time stamps."""
    if form.period is not None:
        return np.array_equal(pandas_index(times, form).to_timestamp().to_numpy(), times)
    if form.pattern is not None:
        return can_say(form.pattern, times)
    if form.kind == "number":
        return True
    unit = form.dtype
    if not form.index:
        # As narwhals calls it, or pandas where the type is its own.
        unit = getattr(unit, "time_unit", None) or getattr(unit, "unit", None)
    unit = "D" if form.kind == "date" else unit or "ns"
    return np.array_equal(times.astype(f"{times.dtype.kind}8[{unit}]"), times)


def pandas_index(times: np.ndarray, form: TimeForm) -> Any:
    """An index of time stamps as the input had it."""
    import pandas as pd

    if form.kind == "text":
        return pd.Index(write_text(times, form), name=form.name)
    index: Any = pd.Index(times, name=form.name)
    if form.period is not None:
        return index.to_period(form.period)
    if form.time_zone is not None:
        index = index.tz_localize("UTC").tz_convert(form.zone or form.time_zone)
    return index if form.dtype is None else index.as_unit(form.dtype)
