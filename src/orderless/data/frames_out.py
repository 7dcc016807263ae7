"""Results as a frame of the library that the input came from, its columns of the types they had."""

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from orderless.data.containers import to_array
from orderless.data.panel import Form
from orderless.data.timestamps import write_text
from orderless.data.writing import Names, Stamps
from orderless.errors import DataError


def build_frame(
    form: Form,
    head: Sequence[Names | Stamps],
    labels: Sequence[Any],
    values: np.ndarray,
    index: Any = None,
) -> Any:
    """A frame of the input's library: the columns of `head`, then `values` [column, row].

    index   of a pandas frame: its row labels, or the time stamps that were its index
    """
    labels = [*(one.label for one in head), *labels]
    label, count = Counter(labels).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"The result would have two columns called {str(label)!r}. Rename the column of the "
            "input that has this name."
        )
    library = form.library
    if library is None:
        return dict(zip(labels, [*map(_to_numpy, head), *values], strict=True))
    if library.is_polars():
        columns = [*map(_to_polars, head), *map(pl.Series, values)]
        frame = pl.DataFrame([one.alias(str(place)) for place, one in enumerate(columns)])
        frame.columns = labels  # only now: in the making, an empty name is none
        return frame
    if library.is_pyarrow():
        arrow = importlib.import_module("pyarrow")
        columns = [*(_to_arrow(one, arrow) for one in head), *map(arrow.array, values)]
        return arrow.table(columns, labels)
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame(values.T, columns=range(len(head), len(labels)), copy=False)
    if head:
        first = pandas.DataFrame({place: _to_pandas(one, pandas) for place, one in enumerate(head)})
        frame = pandas.concat([first, frame], axis=1)
    frame.columns = labels
    if isinstance(index, Stamps):
        frame.index = pandas.Index(_to_pandas(index, pandas), name=index.label)
        if form.time.period is not None:
            frame.index = frame.index.to_period(form.time.period)
    elif index is not None:
        frame.index = index
    return frame if library.is_pandas() else library.to_native_namespace().DataFrame(frame)


def to_write(table: Any) -> nw.DataFrame:
    """A frame or a dict of columns as it goes to a file: without an index that counts the rows."""
    if isinstance(table, Mapping):
        arrays = {name: to_array(column, f"column {name!r}") for name, column in table.items()}
        if len({len(one) for one in arrays.values()}) > 1:
            raise DataError("The columns differ in length. Give all of them the same.")
        columns = [one.tolist() if one.dtype.kind in "OUT" else one for one in arrays.values()]
        frame = pl.DataFrame(dict(zip(map(str, arrays), columns, strict=True)))
        return nw.from_native(frame)
    if not nw.dependencies.is_into_dataframe(table):
        raise DataError(
            f"A table is a frame or a dict of columns, and this is a {type(table).__name__}."
        )
    frame = nw.from_native(table, eager_only=True)
    if not frame.implementation.is_pandas_like():
        return frame
    if type(table.index).__name__ != "RangeIndex":
        table = table.reset_index()
    named = table.set_axis([str(label) for label in table.columns], axis=1)
    return nw.from_native(named, eager_only=True)


def _to_numpy(column: Names | Stamps) -> np.ndarray:
    if isinstance(column, Names):
        names = np.empty(len(column.names), object)
        names[:] = column.names
        return names[column.codes]
    if column.form.kind == "text":
        return write_text(column.times, column.form).to_numpy().astype(object)
    return column.times


def _to_polars(column: Names | Stamps) -> pl.Series:
    if isinstance(column, Names):
        names = pl.Series(column.names)
        names = names if column.dtype is None else names.cast(column.dtype)
        return names.gather(column.codes)
    form, dtype = column.form, column.form.dtype
    if form.kind == "text":
        return write_text(column.times, form)
    series = pl.Series(column.times)
    if form.kind == "number":
        # A wider type where that of the input is too small for the future.
        narrow = series if dtype is None or form.floats else series.cast(dtype, strict=False)
        return series if narrow.null_count() else narrow
    if form.time_zone is not None:
        series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(form.time_zone)
    return series if dtype is None else series.cast(dtype)


def _to_arrow(column: Names | Stamps, arrow: Any) -> Any:
    if isinstance(column, Names):
        # Decimals were read as floating-point numbers.
        plain = not arrow.types.is_decimal(column.dtype)
        names = arrow.array(column.names, column.dtype if plain else None)
        return names.cast(column.dtype, safe=False).take(arrow.array(column.codes))
    form, dtype = column.form, column.form.dtype
    if form.kind == "text":
        text = write_text(column.times, form).to_arrow()
        return text.cast(arrow.string() if arrow.types.is_dictionary(dtype) else dtype)
    array = arrow.array(column.times)
    if dtype is None or form.floats:
        return array
    try:
        # Time stamps may be finer than their type, numbers not larger.
        return array.cast(dtype, safe=form.kind == "number")
    except arrow.ArrowException:
        return array


def _to_pandas(column: Names | Stamps, pandas: Any) -> Any:
    if isinstance(column, Names):
        names = pandas.Series(column.names, dtype=column.dtype)
        return names.take(column.codes).reset_index(drop=True)
    form, dtype = column.form, column.form.dtype
    if form.kind == "text":
        kept = None if hasattr(dtype, "categories") else dtype
        return pandas.Series(write_text(column.times, form).to_list(), dtype=kept)
    series = pandas.Series(column.times)
    if form.time_zone is not None:
        series = series.dt.tz_localize("UTC")
    if dtype is None or str(dtype) == "object" or form.floats:
        return series
    if form.kind == "number":
        try:
            narrow = series.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return series
        return narrow if (narrow == series).all() else series
    return series.astype(dtype)
