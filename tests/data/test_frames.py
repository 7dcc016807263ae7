import datetime as dt
import decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from orderless.data import read_cases, read_panel
from orderless.errors import DataError

INDICES = {
    "time stamps": pd.date_range("2024-01-01", periods=4, freq="h"),
    "zoned": pd.date_range("2024-01-01", periods=4, freq="h", tz="Europe/Paris"),
    "periods": pd.period_range("2024-01", periods=4, freq="M"),
    "durations": pd.timedelta_range("0s", periods=4, freq="s"),
    "dates as text": pd.Index(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]),
    "a plain range": pd.RangeIndex(10, 14),
    "named numbers": pd.Index([2, 4, 6, 8], name="time"),
    "other numbers": pd.Index([9, 2, 7, 1]),
    "other text": pd.Index(["a", "b", "c", "d"]),
}


@pytest.mark.parametrize("kind", INDICES)
def test_a_pandas_index_counts_as_time_where_it_is_one(kind):
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4]}, index=INDICES[kind])
    panel = read_panel(frame)
    assert panel.systems[0].values.tolist() == [[1, 2, 3, 4]]
    assert panel.form.time.index == (not kind.startswith("other"))


def test_dates_decimals_and_nullable_columns_are_numbers_with_gaps():
    frame = pd.DataFrame(
        {
            "date": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 4)],
            "a": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "c": [decimal.Decimal("1.5"), None, decimal.Decimal("2.5")],
            "d": pd.array([1.0, None, 2.0], dtype="double[pyarrow]"),
        }
    )
    (system,) = read_panel(frame).systems
    nan = np.nan
    expected = [[1, nan, nan, 3], [1, nan, nan, 0], [1.5, nan, nan, 2.5], [1, nan, nan, 2]]
    assert np.array_equal(system.values, expected, equal_nan=True)


def test_nulls_of_polars_and_arrow_are_unobserved():
    frame = pl.DataFrame(
        {"i": [1, None], "b": [None, True], "f": [None, float("nan")], "n": [None, None]}
    ).with_columns(s=pl.lit(None, pl.String))
    for one in (frame, frame.to_arrow(), frame.to_pandas()):
        (system,) = read_panel(one).systems
        assert system.observed.tolist() == [[True, False], [False, True], *[[False, False]] * 3]


def test_series_are_frames_of_one_column():
    assert read_panel(pd.Series([1.0, 2.0], name="x")).variables == ("x",)
    assert read_panel(pl.Series("x", [1.0, 2.0])).variables == ("x",)


def test_a_series_without_a_name_is_called_value_and_0_is_a_name():
    assert read_panel(pd.Series([1.0, 2.0])).variables == ("value",)
    assert read_panel(pl.Series([1.0, 2.0])).variables == ("value",)
    series = pd.Series([1.0, 2.0], name=0)
    assert read_panel(series).variables == read_panel(series.to_frame()).variables == ("0",)


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_integers_of_128_bits_are_numbers(dtype):
    frame = pl.DataFrame({"time": [1, 2], "a": [2**100, 3]}, {"time": dtype, "a": dtype})
    (system,) = read_panel(frame).systems
    assert system.values.tolist() == [[2.0**100, 3]]
    assert system.times.tolist() == [1, 2]


def test_narwhals_frames_are_frames():
    frame = nw.from_native(pl.DataFrame({"x": [1.0, 2.0]}))
    assert read_panel(frame).variables == ("x",)


@pytest.mark.parametrize(
    "times",
    [
        np.arange(3).astype("M8[D]"),
        np.arange(3).astype("m8[s]"),
        np.arange(3),
        np.array(["2024-01-01", "2024-01-02", "2024-01-03"]),
    ],
    ids=["time stamps", "durations", "numbers", "text"],
)
def test_a_masked_time_stamp_is_missing(times):
    columns = {"time": np.ma.array(times, mask=[False, True, False]), "x": [1.0, 2.0, 3.0]}
    with pytest.raises(DataError, match=r"time stamp in row 1 .* is missing"):
        read_panel(columns)
    (system,) = read_panel({**columns, "time": np.ma.array(times)}).systems
    assert len(system.times) == 3


def categories(library, values, ordered=False):
    if library == "arrow":
        return pa.chunked_array([pa.array(values).dictionary_encode()])
    return pd.Categorical(values, ordered=ordered)


def frame_of(library, columns):
    return pa.table(columns) if library == "arrow" else pd.DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "arrow"])
@pytest.mark.parametrize(
    "values", [[1, 2, 1], [0.5, 2.5, 0.5], [True, False, True], [3, None, 3], [True, None, True]]
)
def test_categories_that_are_numbers_are_numbers(library, values):
    frame = frame_of(library, {"a": [1.0, 2.0, 3.0], "k": categories(library, values)})
    panel = read_panel(frame)
    assert panel.variables == ("a", "k")
    expected = [np.nan if one is None else float(one) for one in values]
    assert np.array_equal(panel.systems[0].values[1], expected, equal_nan=True)


@pytest.mark.parametrize("library", ["pandas", "arrow"])
def test_categories_that_are_numbers_name_systems_and_variables(library):
    ids, days = categories(library, [7, 7, 9, 9]), pd.to_datetime(["2024-01-01", "2024-01-02"] * 2)
    frame = frame_of(library, {"ds": days, "unique_id": ids, "y": [1.0, 2.0, 3.0, 4.0]})
    for read in (read_panel, read_cases):
        panel = read(frame, group="unique_id")
        assert [one.name for one in panel.systems] == [7, 9]
        assert panel.variables == ("y",)
    assert read_panel(frame).variables == ("7", "9")


def test_ordered_categories_and_those_of_other_types_are_what_they_are():
    columns = {"x": [1.0, 2.0], "k": categories("pandas", [1, 2], ordered=True)}
    assert read_panel(pd.DataFrame(columns)).systems[0].values.tolist() == [[1, 2], [1, 2]]
    for days in (pd.date_range("2024", periods=2), pd.date_range("2024", periods=2, tz="UTC")):
        columns["k"] = categories("pandas", days)
        assert read_panel(pd.DataFrame(columns)).form.time.kind == "datetime"
    for odd in (["a", 1], pd.interval_range(0, 2)):
        columns["k"] = categories("pandas", odd)
        with pytest.raises(DataError, match="column 'k' holds"):
            read_panel(pd.DataFrame(columns))


def test_categories_of_text_stay_text():
    for ids in (pd.Categorical(["p", "q"]), pd.Categorical(["p", "q"], ordered=True)):
        frame = pd.DataFrame({"x": [1.0, 2.0], "id": ids})
        panel = read_panel(frame, group="id")
        assert [one.name for one in panel.systems] == ["p", "q"]
        assert panel.form.dtypes["id"] == frame["id"].dtype
