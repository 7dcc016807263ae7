import datetime as dt
import decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from orderless.data import read_panel

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


def test_narwhals_frames_are_frames():
    frame = nw.from_native(pl.DataFrame({"x": [1.0, 2.0]}))
    assert read_panel(frame).variables == ("x",)
