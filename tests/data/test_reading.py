import contextlib
import datetime as dt
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orderless.data import (
    Frequency,
    Panel,
    read_cases,
    read_labels,
    read_panel,
    write_forecast,
    write_scores,
)
from orderless.errors import DataError

LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "dict": dict,
}
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6
)
STARTS = ["2024-02-25 23:00", "2024-10-26", "1999-12-31 12:30"]
STEPS = {"15min": 15 * 60, "1h": 3600, "1D": 86400}
DAYS = ["2026-01-01", "2026-01-04", "2026-01-10"]
DAILY, HOURLY = (Frequency(hours * 3600 * 10**9, "nanoseconds") for hours in (24, 1))


@st.composite
def tables(draw):
    """Columns, and what must be found in them: times on a grid with gaps, and values."""
    rows = draw(st.integers(4, 14))
    step = draw(st.sampled_from(list(STEPS)))
    grid = pd.date_range(draw(st.sampled_from(STARTS)), periods=rows + 4, freq=step).to_numpy()
    # Neighbours at the start fix the step; gaps come later.
    gone = set(draw(st.lists(st.integers(3, rows + 2), max_size=2, unique=True)))
    kept = np.array([place for place in range(rows + 4) if place not in gone])
    names = draw(
        st.lists(
            NAMES.filter(lambda one: one.lower() not in {"when"}),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    columns = {}
    for name in names:
        kind = draw(
            st.sampled_from(["float", "float32", "missing", "int", "bool", "constant", "dead"])
        )
        values = random.normal(size=len(kept))
        columns[name] = {
            "float": values,
            "float32": values.astype(np.float32),
            "missing": np.where(random.random(len(kept)) < 0.4, np.nan, values),
            "int": random.integers(-9, 9, len(kept)),
            "bool": values > 0,
            "constant": np.full(len(kept), 2.5),
            "dead": np.full(len(kept), np.nan),
        }[kind]
    order = random.permutation(len(kept)) if draw(st.booleans()) else np.arange(len(kept))
    return grid[: kept[-1] + 1], kept, columns, order


def expected_values(grid, kept, columns):
    values = np.full((len(columns), len(grid)), np.nan)
    for row, column in zip(values, columns.values(), strict=True):
        row[kept] = column.astype(np.float64)
    return values


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=30)
@given(table=tables())
def test_a_wide_frame_is_read_whatever_its_order_types_and_gaps(library, table):
    grid, kept, columns, order = table
    frame = LIBRARIES[library](
        {"when": grid[kept][order], **{name: values[order] for name, values in columns.items()}}
    )
    panel = read_panel(frame)
    (system,) = panel.systems
    expected = expected_values(grid, kept, columns)
    assert system.variables == tuple(columns)
    assert np.array_equal(system.times, grid)
    assert np.array_equal(system.values, expected, equal_nan=True)
    assert np.array_equal(system.observed, ~np.isnan(expected))
    assert np.array_equal(system.rows, kept[order])
    assert system.values.dtype == np.float64


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=20)
@given(table=tables(), random=st.randoms(use_true_random=False))
def test_a_long_frame_says_the_same_as_the_wide_one(library, table, random):
    grid, kept, columns, _ = table
    rows = [
        (name, grid[place], float(value))
        for name, values in columns.items()
        for place, value in zip(kept, values, strict=True)
    ]
    random.shuffle(rows)
    names, times, values = zip(*rows, strict=True)
    data = {"unique_id": list(names), "ds": np.array(times), "y": np.array(values)}
    (system,) = read_panel(LIBRARIES[library](data)).systems
    assert set(system.variables) == set(columns)
    expected = dict(zip(columns, expected_values(grid, kept, columns), strict=True))
    for name, row in zip(system.variables, system.values, strict=True):
        assert np.array_equal(row, expected[name], equal_nan=True)


@pytest.mark.filterwarnings("ignore:The time stamps are .* apart")
@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=15)
@given(first=tables(), second=tables(), known=st.lists(st.sampled_from([DAILY, HOURLY])))
def test_groups_are_read_as_if_each_were_alone(library, first, second, known):
    parts = []
    for number, (grid, kept, columns, order) in enumerate((first, second)):
        values = next(iter(columns.values()))
        parts.append((grid[kept][order], values[order].astype(float), f"plant {number}"))
    frame = LIBRARIES[library](
        {
            "plant": [plant for times, _, plant in parts for _ in times],
            "when": np.concatenate([times for times, _, _ in parts]),
            "x": np.concatenate([values for _, values, _ in parts]),
        }
    )
    panel = read_panel(frame, group="plant", frequencies=known)
    assert [system.name for system in panel.systems] == ["plant 0", "plant 1"]
    for system, (times, values, _) in zip(panel.systems, parts, strict=True):
        data = LIBRARIES[library]({"when": times, "x": values})
        (alone,) = read_panel(data, frequencies=known).systems
        assert np.array_equal(system.values, alone.values, equal_nan=True)
        assert np.array_equal(system.times, alone.times)
        assert system.frequency == alone.frequency


def step_of(times, *known):
    (system,) = read_panel({"time": times, "x": np.zeros(len(times))}, frequencies=known).systems
    return system.frequency


def test_a_known_step_is_taken_where_it_divides_all_gaps():
    times = np.array(DAYS, "M8[ns]")
    panel = read_panel({"time": times, "x": np.arange(3.0)}, frequencies=[DAILY])
    (system,) = panel.systems
    assert system.frequency == DAILY
    assert system.rows.tolist() == [0, 3, 9]
    assert np.flatnonzero(system.observed[0]).tolist() == [0, 3, 9]
    assert read_panel(panel, frequencies=[HOURLY]) is panel
    assert str(step_of(times)) == "3 days"
    # No step divides all gaps but a small one, which time stamps alone do not tell.
    uneven = np.array(["2026-01-01", "2026-01-06", "2026-01-13"], "M8[ns]")
    assert step_of(uneven, DAILY) == DAILY
    with pytest.raises(DataError, match="not equally spaced"):
        step_of(uneven, Frequency(2 * DAILY.count, "nanoseconds"))
    # A single time stamp tells nothing, a known step does.
    assert step_of(times[:1], DAILY) == DAILY
    assert step_of(times[:1], Frequency(1, "step")) is None
    # Of several, the coarsest that fits; but a step of their own that is known is no chance.
    assert step_of(times, Frequency(1, "step"), HOURLY, DAILY) == DAILY
    assert str(step_of(times, DAILY, Frequency(3 * DAILY.count, "nanoseconds"))) == "3 days"


@pytest.mark.parametrize("rows", [4, 40, 4000])
@pytest.mark.parametrize("lost", [0, 1])
def test_rows_of_a_coarser_step_are_read_at_a_known_one_if_it_is_little_finer(rows, lost):
    days = np.datetime64("2026-01-01", "ns") + np.arange(rows + lost) * np.timedelta64(1, "D")
    days = np.delete(days, [2] * lost)
    with pytest.warns(UserWarning, match="1 day apart.* forecast at 1 hour"):
        assert step_of(days, HOURLY) == HOURLY
    seconds, table = Frequency(10**9, "nanoseconds"), {"time": days, "x": np.zeros(rows)}
    assert str(step_of(days, seconds)) == "1 day"
    assert str(read_panel(table, frequencies=[HOURLY], finer=23).systems[0].frequency) == "1 day"
    # Two rows may be a day apart by chance.
    assert step_of(days[:2], HOURLY) == HOURLY


def test_a_known_step_is_left_where_it_does_not_fit():
    assert str(step_of(np.array(["2026-01-01T00:00", "2026-01-01T00:15"], "M8[ns]"), HOURLY)) == (
        "15 minutes"
    )
    assert str(step_of(np.array(["2026-01-01", "2026-01-02T12:00"], "M8[ns]"), DAILY)) == "36 hours"
    assert str(step_of([0, 3, 9], DAILY)) == "3"
    # Rows that are only counted have no gaps.
    half = Frequency(0.5, "step")
    assert str(read_panel(np.zeros((4, 1)), frequencies=[half]).systems[0].frequency) == "1"
    ranged = pd.DataFrame({"x": [0.0, 1.0]}, index=pd.RangeIndex(0, 10, 5))
    assert str(read_panel(ranged, frequencies=[Frequency(1, "step")]).systems[0].frequency) == "5"


@pytest.mark.parametrize(
    ("make", "says_hours"),
    [
        (lambda: pl.DataFrame({"time": pl.Series(DAYS).str.to_date(), "x": [1.0, 2, 3]}), False),
        (lambda: pd.DataFrame({"x": [1.0, 2, 3]}, index=pd.PeriodIndex(DAYS, freq="D")), False),
        (lambda: pd.DataFrame({"x": [1.0, 2, 3]}, index=pd.DatetimeIndex(DAYS)), True),
        (lambda: {"time": [int(one.replace("-", "")) for one in DAYS], "x": [1.0, 2, 3]}, False),
        (lambda: {"time": DAYS, "x": [1.0, 2, 3]}, False),
        (lambda: {"time": [*map(dt.date.fromisoformat, DAYS)], "x": [1.0, 2, 3]}, False),
        (lambda: {"time": np.array(DAYS, "M8[D]"), "x": [1.0, 2, 3]}, False),
        (lambda: {"time": [f"{day} 05:00" for day in DAYS], "x": [1.0, 2, 3]}, True),
    ],
    ids=["dates", "periods", "index", "numbers", "text", "objects", "days", "text with a clock"],
)
def test_a_known_step_is_one_that_the_column_can_say(make, says_hours):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = read_panel(make(), frequencies=[HOURLY], finer=100)
    assert str(panel.systems[0].frequency) == ("1 hour" if says_hours else "3 days")
    forecast = write_forecast(panel, {"": [np.zeros((1, 4))]})
    times = forecast.index if hasattr(forecast, "index") else forecast["time"]
    assert len(set(times)) == 4


KINDS = [
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=8),
    st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)),
    st.datetimes(
        dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.sampled_from([dt.UTC])
    ),
    st.dates(),
    st.timedeltas(),
    st.decimals(allow_nan=True, places=2),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.times(),
    st.complex_numbers(),
    st.fractions(),
    st.sampled_from([10**400, -(10**30), "\ud800", pd.NA, pd.Period("2026-01"), object()]),
    st.sampled_from(["007", "1,5", "", "nan", "24:00", "2024-13-45"]),
    st.sampled_from(
        ["2024-01-01", "01/02/2024", "2024-01-01T00:00Z", "31.12.2023 10:00", "20240101"]
    ),
]
LABELS = st.one_of(
    NAMES, st.sampled_from(["time", "ds", "unique_id", "y", "value", "variable", "date"])
)


@st.composite
def odd_columns(draw):
    rows = draw(st.integers(0, 5))
    labels = draw(st.lists(LABELS, max_size=4, unique=True))
    columns = {}
    for label in labels:
        cells = draw(st.sampled_from([*KINDS, st.one_of(KINDS)]))
        columns[label] = draw(st.lists(cells, min_size=rows, max_size=rows))
    return columns


ROLES = st.sets(st.sampled_from(["time", "variable", "value", "group"]), max_size=2)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "dict"])
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(columns=odd_columns(), roles=ROLES)
def test_anything_is_read_or_refused_in_words(library, columns, roles):
    try:
        if library == "polars":
            frame = pl.DataFrame(columns, strict=False)
        elif library == "pandas":
            frame = pd.DataFrame(columns)
        elif library == "arrow":
            frame = pa.table(columns)
        else:
            objects = {}
            for label, cells in columns.items():
                objects[label] = np.empty(len(cells), object)
                objects[label][:] = cells
            frame = objects
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError, pa.ArrowException):
        return
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return
    options = dict(zip(sorted(roles), columns, strict=False))
    try:
        panel = read_panel(frame, **options)
    except DataError:
        return
    assert isinstance(panel, Panel)
    for system in panel.systems:
        assert np.isfinite(system.values[system.observed]).all()
        assert np.isnan(system.values[~system.observed]).all()
        assert system.values.shape == (len(system.variables), len(system.times))
        assert (system.times[1:] > system.times[:-1]).all()
    scores = write_scores(panel, [system.values for system in panel.systems])
    assert len(next(iter(scores.values())) if isinstance(scores, dict) else scores) == rows_of(
        frame
    )
    with contextlib.suppress(DataError):
        write_forecast(panel, {"": [np.zeros((len(one.variables), 2)) for one in panel.systems]})


def rows_of(frame):
    return len(next(iter(frame.values()))) if isinstance(frame, dict) else len(frame)


NESTED = st.recursive(
    st.one_of([*KINDS, st.just(np.array([])), st.just(np.array(["a"])), st.just(np.float32(1))]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(st.floats(), max_size=4).map(np.array),
        st.lists(st.lists(st.floats(), min_size=2, max_size=2), max_size=3).map(np.array),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("read", [read_panel, read_cases])
@settings(max_examples=200)
@given(data=NESTED)
def test_any_nest_of_values_is_read_or_refused_in_words(read, data):
    with contextlib.suppress(DataError):
        panel = read(data)
        for system in panel.systems:
            assert system.values.size
            assert np.isfinite(system.values[system.observed]).all()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu"])
@pytest.mark.parametrize("library", ["pandas", "pandas index", "polars", "arrow"])
@pytest.mark.parametrize("step", ["15min", "1h", "1D", "MS"])
def test_time_zones_change_the_clock_and_not_the_data(zone, library, step):
    local = pd.date_range("2024-03-01", periods=300, freq=step, tz=zone)
    frame = pd.DataFrame({"time": local, "x": np.arange(300.0)}).drop(index=[7, 250])
    data = {
        "pandas": lambda: frame,
        "pandas index": lambda: frame.set_index("time"),
        "polars": lambda: pl.from_pandas(frame),
        "arrow": lambda: pa.Table.from_pandas(frame),
    }[library]()
    panel = read_panel(data)
    (system,) = panel.systems
    utc = local.tz_convert("UTC").tz_localize(None).to_numpy().astype("M8[ns]")
    assert np.array_equal(system.times, utc)
    assert np.flatnonzero(~system.observed[0]).tolist() == [7, 250]
    assert panel.form.time.time_zone == zone


def hours(count, **columns):
    return pd.DataFrame({"time": pd.date_range("2024-01-01", periods=count, freq="h"), **columns})


REFUSED = {
    "no rows": (hours(0, x=[]), "no rows"),
    "no variable": (hours(3), "no column with values"),
    "an infinity": (hours(3, x=[1, np.inf, 2]), r"infinity in row 1 of column 'x'.*missing value"),
    "text": (hours(2, x=["warm", "cold"], y=[1.0, 2.0], z=[1.0, 2.0]), r"'x' holds 'warm'.*group="),
    "a missing time stamp": (
        pd.DataFrame({"time": [pd.Timestamp("2024-01-01"), pd.NaT], "x": [1.0, 2.0]}),
        "row 1 of column 'time' is missing",
    ),
    "two values at one time": (
        pd.DataFrame({"time": [1, 1, 2], "x": [1.0, 2.0, 3.0]}),
        r"'x' has both 1 and 2 at time 1.*Aggregate",
    ),
    "two columns of one name": (
        pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]),
        "Two columns are called 'x'",
    ),
    "1 and '1' as names": (pd.DataFrame([[1.0, 2.0]], columns=[1, "1"]), "Two columns are called"),
    "levels of columns": (
        pd.DataFrame([[1.0]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
        "several levels of column names",
    ),
    "levels of index": (
        pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_tuples([("a", "b")])),
        "reset_index",
    ),
    "two columns of time stamps": (
        hours(2).assign(one=pd.Timestamp("2024"), x=1.0).rename(columns={"time": "two"}),
        "Several columns hold time stamps",
    ),
    "a lazy frame": (pl.LazyFrame({"x": [1.0]}), "collect"),
    "a word among numbers": (
        pl.DataFrame({"x": ["0.5", "oops", "2"]}),
        "'oops' in row 1 where numbers are needed",
    ),
    "nested values": (pl.DataFrame({"x": [[1.0], [2.0]]}), "where numbers are needed"),
    "ambiguous dates": (
        pl.DataFrame({"date": ["01/02/2024", "02/02/2024"], "x": [1.0, 2.0]}),
        "day first or month first",
    ),
    "a time stamp beyond nanoseconds": (
        pl.DataFrame({"time": [dt.datetime(1, 1, 1), dt.datetime(1, 1, 2)], "x": [1.0, 2.0]}),
        "outside the years 1678 to 2262",
    ),
    "columns of different length": ({"x": [1.0], "y": [1.0, 2.0]}, "differ in length"),
    "an empty list": ([], "empty"),
    "an empty array": (np.zeros((0, 3)), "at least one of each"),
    "an array without variables": (np.zeros((3, 0)), "at least one of each"),
    "too many dimensions": (np.zeros((2, 2, 2, 2)), "4 dimensions"),
    "complex numbers": (np.zeros(3, complex), "cannot be read"),
    "a ragged nested list": ([[1.0, 2.0], [3.0]], "cannot be read"),
    "an infinity in an array": (np.array([[1.0], [-np.inf]]), "time step 1 of variable 0"),
    "a path": ("data.csv", "read_table"),
    "nothing": (None, "0 dimensions"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_words(case):
    data, words = REFUSED[case]
    with pytest.raises(DataError, match=words):
        read_panel(data)


def test_an_array_has_no_columns_to_name():
    with pytest.raises(DataError, match="an array has none"):
        read_panel(np.zeros(3), time="time")


def test_rows_that_agree_or_complete_each_other_are_merged():
    frame = pd.DataFrame({"time": [1, 2, 2, 3], "a": [1, 2, np.nan, 3], "b": [1, np.nan, 5, 6]})
    (system,) = read_panel(frame).systems
    assert system.values.tolist() == [[1, 2, 3], [1, 5, 6]]
    assert system.rows.tolist() == [0, 1, 1, 2]


def test_an_error_in_a_group_says_which():
    frame = pd.DataFrame({"plant": ["a", "b", "b"], "time": [1, 1, 1], "x": [1.0, 1.0, 2.0]})
    with pytest.raises(DataError, match="In plant = 'b'"):
        read_panel(frame, group="plant")


def test_one_dimension_is_one_variable():
    panel = read_panel([1, 2, 3])
    assert panel.systems[0].values.tolist() == [[1, 2, 3]]
    panel = read_panel([np.arange(3), np.arange(5)])
    assert [system.values.shape for system in panel.systems] == [(1, 3), (1, 5)]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.float64])
def test_dates_written_as_numbers_are_dates(library, dtype):
    days = pd.date_range("2026-01-01", periods=59)
    numbers = days.strftime("%Y%m%d").to_numpy().astype(dtype)
    (system,) = read_panel(LIBRARIES[library]({"date": numbers, "x": np.arange(59.0)})).systems
    assert np.array_equal(system.times, days.to_numpy())
    assert str(system.frequency) == "1 day"


def test_a_range_of_rows_is_no_date():
    frame = pd.DataFrame({"x": np.ones(5)}, index=pd.RangeIndex(20260101, 20260106))
    assert read_panel(frame).systems[0].times.tolist() == list(range(20260101, 20260106))


def test_numbers_of_time_that_no_step_reaches_are_refused():
    with pytest.raises(DataError, match="beyond 2"):
        read_panel({"time": np.array([2**64 - 2, 2**64 - 1], np.uint64), "x": [1.0, 2.0]})


def test_a_single_row_has_no_step():
    panel = read_panel(hours(1, x=[1.0]))
    assert panel.frequency is None
    assert panel.systems[0].values.tolist() == [[1.0]]


def test_a_panel_passes_through():
    panel = read_panel(np.zeros(3))
    assert read_panel(panel) is panel


def test_cases_end_where_their_padding_begins():
    cases = np.full((2, 2, 4), np.nan)
    cases[0] = 1.0
    cases[1, 0, :2] = 2.0
    panel = read_cases(cases)
    assert [system.values.shape for system in panel.systems] == [(2, 4), (2, 2)]
    assert panel.systems[1].observed.tolist() == [[True, True], [False, False]]


def test_cases_come_as_lists_tables_and_frames():
    assert read_cases(np.zeros((3, 5))).systems[0].values.shape == (1, 5)
    assert read_cases([np.zeros((2, 5)), np.zeros((2, 3))]).systems[1].values.shape == (2, 3)
    frame = pl.DataFrame({"case": [7, 7, 3], "time": [1, 2, 1], "x": [1.0, 2.0, 3.0]})
    assert [one.name for one in read_cases(frame, group="case").systems] == [7, 3]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros(3), "holds no cases"),
        ([], "not a single case"),
        (np.zeros((2, 0)), "at least one of each"),
        (pl.DataFrame({"x": [1.0]}), "pass group="),
        ([np.zeros((1, 2, 3))], "Case 0 has 3 dimensions"),
    ],
)
def test_what_holds_no_cases_is_refused(data, words):
    with pytest.raises(DataError, match=words):
        read_cases(data)


@pytest.mark.parametrize(
    "labels", [["a", "b"], np.array([1, 2]), pd.Series(["a", "b"]), pl.Series(["a", "b"])]
)
def test_labels_come_in_any_form(labels):
    assert read_labels(labels, 2).shape == (2,)


@pytest.mark.parametrize(
    "labels",
    [
        ["a"],
        [["a"], ["b"]],
        ["a", None],
        [1.0, np.nan],
        np.ma.array(["a", "b"], mask=[False, True]),
        np.ma.array([1, 2], mask=[True, False]),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels):
    with pytest.raises(DataError, match="label"):
        read_labels(labels, 2)


def test_tensors_of_types_that_numpy_does_not_know_are_read():
    tensor = torch.tensor([[1.5], [2.5]], dtype=torch.bfloat16)
    np.testing.assert_array_equal(read_panel(tensor).systems[0].values, [[1.5, 2.5]])


@pytest.mark.parametrize("data", [[[1e305], [1.0]], {"a": [1.0, -1e305]}], ids=["array", "frame"])
def test_numbers_that_would_overflow_are_refused_and_not_forecast_as_nan(data):
    with pytest.raises(DataError, match="too large"):
        read_panel(data)


@pytest.mark.parametrize("read", [read_panel, read_cases])
@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_in_a_list_would_lose_their_names_and_are_refused(read, library):
    frame = LIBRARIES[library]({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    with pytest.raises(DataError, match="group="):
        read([frame, frame])
