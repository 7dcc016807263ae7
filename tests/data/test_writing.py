from datetime import timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest
from dateutil import tz
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orderless.data import Frequency, read_panel, write_forecast, write_scores
from orderless.errors import DataError

TIMES = pd.date_range("2024-03-30", periods=8, freq="D")
INDIA = timezone(timedelta(hours=5.5), "IST")


def counting_forecast(panel, horizon, start=0.0):
    """Values that say which variable and step they belong to."""
    return [
        start + 10.0 * np.arange(len(one.variables))[:, None] + np.arange(horizon)
        for one in panel.systems
    ]


WIDE = {
    "pandas": pd.DataFrame({"when": TIMES, "b": 1.0, "a": 2}),
    "pandas index": pd.DataFrame({"b": 1.0, "a": 2}, index=TIMES.rename("when")),
    "pandas zoned": pd.DataFrame({"when": TIMES.tz_localize("Europe/Berlin"), "b": 1.0, "a": 2}),
    "pandas other zone": pd.DataFrame(
        {"when": TIMES.tz_localize("America/New_York"), "b": 1.0, "a": 2}
    ),
    "pandas offset": pd.DataFrame({"when": TIMES.tz_localize("+01:30"), "b": 1.0, "a": 2}),
    "pandas other zoned index": pd.DataFrame(
        {"b": 1.0, "a": 2}, index=TIMES.tz_localize("America/New_York")
    ),
    "pandas zoned index": pd.DataFrame(
        {"b": 1.0, "a": 2}, index=TIMES.tz_localize("Europe/Berlin")
    ),
    "pandas named offset": pd.DataFrame({"when": TIMES.tz_localize(INDIA), "b": 1.0, "a": 2}),
    "pandas index of a named offset": pd.DataFrame(
        {"b": 1.0, "a": 2}, index=TIMES.tz_localize(INDIA)
    ),
    "pandas zone of dateutil": pd.DataFrame(
        {"when": TIMES.tz_localize(tz.gettz("Europe/Berlin")), "b": 1.0, "a": 2}
    ),
    "pandas index of dateutil": pd.DataFrame(
        {"b": 1.0, "a": 2}, index=TIMES.tz_localize(tz.tzutc())
    ),
    "pandas periods": pd.DataFrame({"b": 1.0, "a": 2}, index=TIMES.to_period("D")),
    "pandas durations": pd.DataFrame({"b": 1.0, "a": 2}, index=TIMES - TIMES[0]),
    "pandas text index": pd.DataFrame({"b": 1.0, "a": 2}, index=TIMES.strftime("%Y-%m-%d")),
    "pandas nanoseconds": pd.DataFrame({"when": TIMES.as_unit("ns"), "b": 1.0, "a": 2}),
    "pandas range": pd.DataFrame({"b": np.ones(8), "a": 2}),
    "pandas text": pd.DataFrame({"when": TIMES.strftime("%d.%m.%Y %H:%M"), "b": 1.0, "a": 2}),
    "pandas numbers": pd.DataFrame({"time": np.arange(8) * 0.25, "b": 1.0, "a": 2}),
    "pandas text with an offset": pd.DataFrame(
        {"when": TIMES.strftime("%Y-%m-%dT%H:%M:%S+05:30"), "b": 1.0, "a": 2}
    ),
    "pandas dates as numbers": pd.DataFrame(
        {"time": TIMES.strftime("%Y%m%d").astype("int32"), "b": 1.0, "a": 2}
    ),
    "pandas index of dates as numbers": pd.DataFrame(
        {"b": 1.0, "a": 2}, index=TIMES.strftime("%Y%m%d").astype("int64").rename("date")
    ),
    "polars months as numbers": pl.DataFrame(
        {"time": [*range(202409, 202413), *range(202501, 202505)], "b": np.ones(8), "a": np.ones(8)}
    ),
    "polars": pl.DataFrame({"when": TIMES, "b": np.ones(8), "a": np.ones(8)}),
    "polars dates": pl.DataFrame({"when": list(TIMES.date), "b": np.ones(8), "a": np.ones(8)}),
    "polars zoned": pl.DataFrame(
        {
            "when": pl.Series(TIMES).dt.replace_time_zone("Asia/Tokyo"),
            "b": np.ones(8),
            "a": np.ones(8),
        }
    ),
    "polars small integers": pl.DataFrame(
        {"time": pl.Series(range(8), dtype=pl.Int16), "b": np.ones(8), "a": np.ones(8)}
    ),
    "arrow": pa.table({"when": TIMES, "b": np.ones(8), "a": np.ones(8)}),
}


def rows(frame, start, stop):
    return (
        frame[start:stop]
        if isinstance(frame, pl.DataFrame)
        else (
            frame.slice(start, stop - start)
            if isinstance(frame, pa.Table)
            else frame.iloc[start:stop]
        )
    )


def same_time_axis(result, truth):
    """The columns or the index of time stamps, type and time zone included."""
    if isinstance(truth, pd.DataFrame):
        name = next((one for one in ("when", "time") if one in truth), None)
        if name:
            pd.testing.assert_series_equal(
                result[name].reset_index(drop=True), truth[name].reset_index(drop=True)
            )
        else:
            pd.testing.assert_index_equal(
                result.index, truth.index, exact="equiv", check_freq=False
            )
    elif isinstance(truth, pa.Table):
        assert result["when"].to_pylist() == truth["when"].to_pylist()
        assert result.schema.field("when") == truth.schema.field("when")
    else:
        name = truth.columns[0]
        assert result[name].dtype == truth[name].dtype
        assert result[name].to_list() == truth[name].to_list()


@pytest.mark.parametrize("kind", WIDE)
def test_a_forecast_goes_out_as_the_frame_came_in_and_continues_its_time(kind):
    frame = WIDE[kind]
    panel = read_panel(rows(frame, 0, 5))
    point = counting_forecast(panel, 3)
    result = write_forecast(panel, {"": point, "lo-80": [one - 1 for one in point]})
    assert type(result) is type(frame)
    same_time_axis(result, rows(frame, 5, 8))
    assert list(result["b"].to_numpy()) == [0, 1, 2]
    assert list(result["a"].to_numpy()) == [10, 11, 12]
    assert list(result["a-lo-80"].to_numpy()) == [9, 10, 11]


LIBRARIES = {
    "pandas": lambda frame: frame,
    "pandas index": lambda frame: frame.set_index("time"),
    "pandas of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "dict": lambda frame: {name: frame[name].to_numpy() for name in frame},
}
CLOCKS = {
    "datetime": lambda times: times,
    "zoned": lambda times: times.tz_localize("UTC").tz_convert("America/New_York"),
    "offset": lambda times: times.tz_localize("UTC").tz_convert("+05:30"),
    "coarse": lambda times: times.as_unit("s"),
    "iso": lambda times: times.strftime("%Y-%m-%dT%H:%M:%S"),
    "iso with an offset": lambda times: times.strftime("%Y-%m-%d %H:%M-03:30"),
    "day first": lambda times: times.strftime("%d.%m.%Y %H:%M"),
    "as numbers": lambda times: times.strftime("%Y%m%d%H").astype("int64"),
    "durations": lambda times: times - times[0],
    "numbers": lambda times: (times.asi8 // times.asi8[0]).astype("int32") + np.arange(len(times)),
    "fractions": lambda times: np.arange(len(times)) / 4,
}


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=25)
@given(
    clock=st.sampled_from(list(CLOCKS)),
    step=st.sampled_from(["1h", "6h", "1D", "7D"]),
    groups=st.integers(1, 3),
    long=st.booleans(),
    seed=st.integers(0, 999),
)
def test_any_frame_comes_back_as_it_was(library, clock, step, groups, long, seed):
    # polars has no zones without a name, and arrays have none at all.
    assume((library, clock) != ("polars", "offset"))
    assume(library != "dict" or clock not in ("zoned", "offset"))
    random = np.random.default_rng(seed)
    parts = []
    for group in range(groups):
        length = int(random.integers(4, 12))
        when = pd.Index(CLOCKS[clock](pd.date_range("2024-03-01", periods=length, freq=step)))
        part = pd.DataFrame({"plant": f"plant {group}", "time": when})
        part["b"], part["a"] = random.normal(size=(2, length))
        parts.append(part.drop(index=random.choice(np.arange(2, length - 1))))
    frame = pd.concat(parts, ignore_index=True)
    frame.loc[random.random(len(frame)) < 0.2, "a"] = np.nan
    if long:
        frame = frame.melt(["plant", "time"], ["b", "a"])
    frame = LIBRARIES[library](frame.iloc[random.permutation(len(frame))].reset_index(drop=True))
    panel = read_panel(frame, group="plant", time="time")
    result = write_scores(panel, [one.values for one in panel.systems], name="value")
    assert type(result) is type(frame)
    if isinstance(frame, pd.DataFrame):
        # Numbers come back as ordinary ones.
        floats = ["a", "b", "value", *(["time"] if clock == "fractions" else [])]
        kinds = {name: "float64" for name in floats if name in frame}
        pd.testing.assert_frame_equal(result[list(frame.columns)], frame.astype(kinds))
    elif isinstance(frame, pl.DataFrame):
        assert result.select(frame.columns).with_columns(cs.float().fill_nan(None)).equals(frame)
    elif isinstance(frame, pa.Table):
        assert result.select(frame.column_names).schema.equals(frame.schema)
        assert str(result.select(frame.column_names).to_pydict()).replace("nan", "None") == str(
            frame.to_pydict()
        ).replace("nan", "None")
    else:
        for name, column in frame.items():
            assert np.array_equal(result[name], column, equal_nan=column.dtype.kind == "f")


def test_a_long_forecast_has_a_row_a_variable_and_step():
    frame = pl.DataFrame(
        {"unique_id": ["b", "b", "a", "a"], "ds": [1, 2, 1, 2], "y": [1.0, 2.0, 3.0, 4.0]}
    )
    panel = read_panel(frame)
    result = write_forecast(panel, {"": counting_forecast(panel, 2)})
    assert result.to_dict(as_series=False) == {
        "unique_id": ["b", "b", "a", "a"],
        "ds": [3, 4, 3, 4],
        "y": [0.0, 1.0, 10.0, 11.0],
    }


def test_a_long_frame_scored_by_time_has_a_row_a_time():
    frame = pd.DataFrame({"unique_id": ["b", "a", "a"], "ds": [2, 1, 2], "y": [1.0, 2.0, 3.0]})
    result = write_scores(read_panel(frame), [np.array([5.0, 6.0])])
    assert result.to_dict("list") == {"ds": [1, 2], "score": [5.0, 6.0]}


def test_groups_and_categories_keep_their_types():
    frame = pl.DataFrame(
        {
            "plant": pl.Series(["p", "p", "q", "q"], dtype=pl.Categorical),
            "unique_id": pl.Series(["a", "a", "b", "b"], dtype=pl.Enum(["a", "b"])),
            "ds": [1, 2, 1, 2],
            "y": [1.0, 2.0, 3.0, 4.0],
        }
    )
    panel = read_panel(frame, group="plant")
    result = write_forecast(panel, {"": counting_forecast(panel, 1)})
    assert result.schema == frame.schema
    assert result["plant"].to_list() == ["p", "q"]


def test_a_backtest_has_a_cutoff_for_every_window():
    panel = read_panel(WIDE["pandas"])
    values = np.arange(8.0).reshape(2, 2, 2)
    result = write_forecast(panel, {"": [values]}, origins=[np.array([3, 5])])
    assert result["cutoff"].tolist() == [TIMES[2], TIMES[2], TIMES[4], TIMES[4]]
    assert result["when"].tolist() == [TIMES[3], TIMES[4], TIMES[5], TIMES[6]]
    assert result["b"].tolist() == [0, 1, 4, 5]
    assert result["a"].tolist() == [2, 3, 6, 7]
    long = read_panel(WIDE["pandas"].melt("when"))
    result = write_forecast(long, {"": [values]}, origins=[np.array([3, 5])])
    assert result["variable"].tolist() == ["b"] * 4 + ["a"] * 4
    assert result["value"].tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert result["cutoff"].tolist() == [TIMES[2], TIMES[2], TIMES[4], TIMES[4]] * 2


ARRAYS = {
    "one variable": (np.zeros(5), (3,), (5,), (5,)),
    "two dimensions": (np.zeros((5, 2)), (3, 2), (5,), (5, 2)),
    "three dimensions": (np.zeros((4, 5, 2)), (4, 3, 2), (4, 5), (4, 5, 2)),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back_with_the_axes_they_had(kind):
    array, forecast_shape, score_shape, each_shape = ARRAYS[kind]
    panel = read_panel(array)
    result = write_forecast(panel, {"": counting_forecast(panel, 3)})
    assert result.shape == forecast_shape
    scores = [np.arange(len(one.times)) for one in panel.systems]
    assert write_scores(panel, scores).shape == score_shape
    each = write_scores(panel, [one.values for one in panel.systems])
    assert each.shape == each_shape
    both = write_forecast(
        panel, {"": counting_forecast(panel, 3), "hi-90": counting_forecast(panel, 3, 1)}
    )
    assert np.array_equal(both["hi-90"], both[""] + 1)


def test_a_list_of_arrays_comes_back_as_a_list():
    panel = read_panel([np.zeros((5, 2)), np.zeros((7, 3))])
    result = write_forecast(panel, {"": counting_forecast(panel, 3)})
    assert [one.shape for one in result] == [(3, 2), (3, 3)]
    assert result[1][1].tolist() == [1, 11, 21]


def test_a_list_of_columns_and_tables_loses_no_variable():
    panel = read_panel([np.zeros(5), np.zeros((7, 2)), np.zeros((6, 1))])
    result = write_forecast(panel, {"": counting_forecast(panel, 3)})
    assert [one.shape for one in result] == [(3,), (3, 2), (3, 1)]
    assert result[1][1].tolist() == [1, 11]
    past = [np.stack([one, one]) for one in counting_forecast(panel, 3)]
    result = write_forecast(panel, {"": past}, origins=[np.array([1, 2])] * 3)
    assert [one.shape for one in result] == [(2, 3), (2, 3, 2), (2, 3, 1)]
    each = write_scores(panel, [one.values for one in panel.systems])
    assert [one.shape for one in each] == [(5,), (7, 2), (6, 1)]


@pytest.mark.parametrize("kind", ["jitter", "rounded", "gap"])
def test_a_backtest_has_the_time_stamps_of_the_data(kind):
    seconds = {
        "jitter": 60 * np.arange(40) + np.random.default_rng(0).integers(-1, 2, 40),
        "rounded": np.arange(40) * 100 // 3,
        "gap": np.delete(60 * np.arange(40), 20),
    }[kind]
    frame = pl.DataFrame(
        {"time": np.datetime64("2026-01-01", "us") + seconds * np.timedelta64(1, "s"), "x": 1.0}
    )
    panel = read_panel(frame)
    length = len(panel.systems[0].times)
    origins = np.array([10, 15, length - 2])
    forecast = {"": [np.zeros((3, 1, 5))]}
    result = write_forecast(panel, forecast, origins=[origins])
    stamps = result["time"].to_numpy().reshape(3, 5)
    times = panel.systems[0].times
    assert np.array_equal(stamps[0], times[10:15])
    assert np.array_equal(stamps[1], times[15:20])
    assert np.array_equal(stamps[2, :2], times[-2:])
    later = write_forecast(panel, {"": [np.zeros((1, 3))]})
    assert np.array_equal(stamps[2, 2:], later["time"].to_numpy())
    if kind != "gap":
        assert set(stamps[:2].ravel()) <= set(frame["time"].to_numpy())


def test_the_rows_of_a_slice_keep_their_labels():
    frame = pd.DataFrame({"time": np.arange(10), "x": 1.0})[4:]
    result = write_scores(read_panel(frame), [np.arange(6.0)])
    assert result.index.tolist() == frame.index.tolist()


def test_labels_that_are_no_text_come_back_as_they_were():
    panel = read_panel(pd.DataFrame(np.zeros((4, 2)), columns=[7, 3]))
    assert panel.variables == ("7", "3")
    assert list(write_forecast(panel, {"": counting_forecast(panel, 1)}).columns) == [7, 3]


def test_a_gap_has_no_row_in_the_scores():
    frame = pd.DataFrame({"time": [1, 2, 3, 5], "x": 1.0})
    result = write_scores(read_panel(frame), [np.array([1.0, 2.0, 3.0, np.nan, 5.0])])
    assert result["score"].tolist() == [1, 2, 3, 5]


def test_a_single_time_stamp_has_no_future_unless_the_step_is_given():
    panel = read_panel(pd.DataFrame({"time": TIMES[:1], "x": [1.0]}))
    with pytest.raises(DataError, match="single time stamp"):
        write_forecast(panel, {"": counting_forecast(panel, 2)})
    hourly = Frequency(3_600_000_000_000, "nanoseconds")
    result = write_forecast(panel, {"": counting_forecast(panel, 2)}, frequency=hourly)
    assert result["time"].tolist() == [TIMES[0] + pd.Timedelta(hours=hour) for hour in (1, 2)]
    numbered = read_panel(pd.DataFrame({"time": [3], "x": [1.0]}))
    result = write_forecast(numbered, {"": counting_forecast(numbered, 2)})
    assert result["time"].tolist() == [4, 5]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_too_small_for_the_future_are_widened(library, dtype):
    last = np.iinfo(dtype).max
    frame = library({"time": np.arange(last - 9, last, dtype=dtype), "x": np.ones(9)})
    panel = read_panel(frame)
    assert panel.systems[0].times.dtype == np.int64
    within = write_forecast(panel, {"": counting_forecast(panel, 1)})
    assert within["time"].dtype == frame["time"].dtype
    assert within["time"].to_list() == [last]
    beyond = write_forecast(panel, {"": counting_forecast(panel, 3)})
    assert beyond["time"].to_list() == [last, last + 1, last + 2]


def test_a_cutoff_is_a_number_where_dates_are():
    frame = pd.DataFrame({"date": [20260130, 20260131, 20260201, 20260202], "x": 1.0})
    panel = read_panel(frame)
    result = write_forecast(panel, {"": [np.zeros((1, 1, 2))]}, origins=[np.array([2])])
    assert result["cutoff"].tolist() == [20260131, 20260131]
    assert result["date"].tolist() == [20260201, 20260202]
    single = read_panel(frame[:1])
    hourly = Frequency(3_600_000_000_000, "nanoseconds")
    with pytest.raises(DataError, match="cannot be written as a date in one number"):
        write_forecast(single, {"": counting_forecast(single, 2)}, frequency=hourly)


def test_a_name_that_the_result_needs_is_refused():
    panel = read_panel(pd.DataFrame({"time": [1, 2], "x": 1.0, "x-lo-80": 2.0}))
    point = counting_forecast(panel, 1)
    with pytest.raises(DataError, match="two columns called 'x-lo-80'"):
        write_forecast(panel, {"": point, "lo-80": point})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_names_that_mean_something_elsewhere_are_only_names(library):
    names = ["*", "^a.*$", "a", "", " ", "a.b", "零", "-lo-80"]
    columns = {name: np.arange(4.0) + place for place, name in enumerate(names)}
    panel = read_panel(library({"when": TIMES[:4], **columns}))
    assert panel.variables == tuple(names)
    result = write_forecast(panel, {"": counting_forecast(panel, 2)})
    for place, name in enumerate(names):
        assert list(np.asarray(result[name])) == [10.0 * place, 10.0 * place + 1]


def test_dates_in_a_column_of_floating_numbers_stay_floating():
    frame = pl.DataFrame({"date": [20260130.0, 20260131.0, 20260201.0], "x": 1.0})
    result = write_forecast(read_panel(frame), {"": [np.ones((1, 2))]})
    assert result["date"].to_list() == [20260202.0, 20260203.0]
    assert result.schema["date"] == pl.Float64
