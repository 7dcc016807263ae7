import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import Frequency, read_panel, write_forecast, write_scores
from orderless.data.panel import TimeForm
from orderless.data.timestamps import parse_numbers, parse_text, write_text
from orderless.errors import DataError


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-01", "2024-01-02"],
        ["2024-01-01 10:00", "2024-01-01 10:15"],
        ["2024-01-01T10:00:00.5", "2024-01-01T10:00:01.0"],
        ["2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z"],
        ["2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"],
        ["2016/7/1 0:00", "2016/7/1 1:00"],
        ["01.01.2020 00:10:00", "01.01.2020 00:20:00"],
        ["13/01/2024", "14/01/2024"],
        ["01/13/2024", "01/14/2024"],
        ["2024-01", "2024-02"],
        ["20240101", "20240102"],
    ],
)
def test_time_stamps_written_as_text_are_read(texts):
    panel = read_panel(pl.DataFrame({"when": texts, "x": [1.0, 2.0]}))
    assert panel.form.time.kind == "text"
    expected = [
        pd.to_datetime(one, dayfirst=one.startswith("1") or "." in one, utc=True) for one in texts
    ]
    assert panel.systems[0].times.tolist() == [one.value for one in expected]


def test_a_clock_of_twelve_hours_is_read_and_written_back():
    texts = ["1/31/2026 11:00 AM", "1/31/2026 12:00 PM"]
    times, form = parse_text(pl.Series(texts), "here", TimeForm())
    assert times.astype("M8[m]").astype(str).tolist() == ["2026-01-31T11:00", "2026-01-31T12:00"]
    assert write_text(times, form).to_list() == ["01/31/2026 11:00 AM", "01/31/2026 12:00 PM"]


def forecast(texts, horizon=2, **options):
    """The time stamps that follow, as text."""
    panel = read_panel(pl.DataFrame({"time": texts, "x": np.ones(len(texts))}))
    return write_forecast(panel, {"": [np.zeros((1, horizon))]}, **options)["time"].to_list()


@pytest.mark.parametrize(
    ("texts", "future"),
    [
        (
            ["2026-01-01", "2026-01-01 12:00:00", "2026-01-02"],
            ["2026-01-02 12:00:00", "2026-01-03 00:00:00"],
        ),
        (
            ["2026-01-01T00:00:00", "2026-01-01T00:00:00.500000", "2026-01-01T00:00:01"],
            ["2026-01-01T00:00:01.500000", "2026-01-01T00:00:02.000000"],
        ),
        (
            ["2026-01-01 00:00", "2026-01-01 00:00:30", "2026-01-01 00:01"],
            ["2026-01-01 00:01:30", "2026-01-01 00:02:00"],
        ),
        (
            ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000001Z"],
            ["2026-01-01T00:00:00.000000002Z", "2026-01-01T00:00:00.000000003Z"],
        ),
        (
            ["2026-01-01T00:00:00.25", "2026-01-01T00:00:00.50"],
            ["2026-01-01T00:00:00.75", "2026-01-01T00:00:01.00"],
        ),
        (
            ["2026-01-01T00:00+05:30", "2026-02-01T00:00+05:30", "2026-03-01T00:00+05:30"],
            ["2026-04-01T00:00+05:30", "2026-05-01T00:00+05:30"],
        ),
        (["2026-01-01T10:00-0330", "2026-01-01T11:00-0330"], ["2026-01-01T12:00-0330"]),
        (
            ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"],
            ["2026-03-29T02:00+00:00", "2026-03-29T03:00+00:00"],
        ),
    ],
)
def test_text_is_written_as_finely_as_any_row_and_in_its_offset(texts, future):
    assert forecast(texts, len(future)) == future


@st.composite
def written(draw):
    """Time stamps as text, and the pattern; None for ISO 8601, cut where rows end in zeros."""
    unit = draw(st.sampled_from(["D", "h", "min", "s", "ms", "us", "ns"]))
    start = pd.Timestamp(draw(st.datetimes(pd.Timestamp(1900, 1, 1), pd.Timestamp(2100, 1, 1))))
    step, count = pd.Timedelta(draw(st.integers(1, 500)), unit), draw(st.integers(2, 30))
    stamps = [start.floor(unit) + place * step for place in range(count)]
    clocks = {"D": "", "h": " %I:%M %p", "min": " %H:%M", "s": " %H:%M:%S", "us": " %H:%M:%S.%f"}
    if unit in clocks and draw(st.booleans()):
        pattern = draw(st.sampled_from(["%d.%m.%Y", "%Y/%m/%d"])) + clocks[unit]
        return [one.strftime(pattern) for one in stamps], pattern
    zone = draw(st.sampled_from(["", "Z", "+05:30", "-0330", "+00:00"]))
    separator = draw(st.sampled_from("T "))
    texts = [one.isoformat(separator, "nanoseconds") for one in stamps]
    zeros = [".000000000", "000000", "000", ":00", *([] if zone else [f"{separator}00:00"])]
    for end in zeros if draw(st.booleans()) else []:
        texts = [one.removesuffix(end) for one in texts]
    return [one + zone for one in texts], None


@settings(max_examples=100)
@given(written=written())
def test_text_comes_back_as_the_same_moments_and_goes_on_as_distinct_ones(written):
    texts, pattern = written

    def moments(some):
        """In nanoseconds."""
        return [pd.to_datetime(one, format=pattern, utc=True).as_unit("ns").value for one in some]

    panel = read_panel(pl.DataFrame({"time": texts, "x": np.ones(len(texts))}))
    back = write_scores(panel, [np.zeros(len(texts))])["time"].to_list()
    before = moments(texts)
    assert moments(back) == before
    assert len(set(back)) == len(texts)
    step = before[1] - before[0]
    assert moments(forecast(texts, 3)) == [before[-1] + ahead * step for ahead in (1, 2, 3)]


def test_a_moment_that_the_input_had_no_way_to_write_is_written_in_iso():
    hourly = Frequency(3_600_000_000_000, "nanoseconds")
    assert forecast(["31.12.2026"], frequency=hourly) == ["2026-12-31T01:00", "2026-12-31T02:00"]
    finest = Frequency(1, "nanoseconds")
    assert forecast(["2026-12-31 00:00"], 1, frequency=finest) == ["2026-12-31T00:00:00.000000001"]


def test_a_mean_step_is_written_as_finely_as_the_input_and_no_finer():
    seconds = np.floor(60.33 * np.arange(50)).astype("m8[s]")
    texts = [str(one).replace("T", " ") for one in np.datetime64("2026-01-01T00:00:00") + seconds]
    assert texts[-1] == "2026-01-01 00:49:16"
    assert forecast(texts) == ["2026-01-01 00:50:16", "2026-01-01 00:51:17"]


def test_text_of_which_only_some_has_an_offset_is_refused():
    for texts in (["2026-01-01T00:00Z", "2026-01-01T01:00"], ["2026-01-01", "2026-01-02T00:00Z"]):
        with pytest.raises(DataError, match="some have none"):
            parse_text(pl.Series(texts), "here", TimeForm())


@pytest.mark.parametrize(
    ("numbers", "pattern"),
    [
        ([20260131, 20260201], "%Y%m%d"),
        ([20240229], "%Y%m%d"),
        ([20260331, 20260630, 20260930], "%Y%m%d"),
        ([202511, 202512, 202601], "%Y%m"),
        ([202509, 202512, 202606], "%Y%m"),
        ([20260228, 20260229], None),
        ([20260100, 20260101], None),
        ([20261231, 20261301], None),
        ([17991231, 18000101], None),
        ([22001231, 22010101], None),
        ([202601, 202602, 202604], "%Y%m"),
        ([202512, 202601], "%Y%m"),
        ([202101, 202201, 202301], "%Y%m"),
        ([202511, 202512, 202513, 202601], None),
        ([1999, 2000, 2001], None),
        ([-20260131, 0], None),
        ([2026013122, 2026013123, 2026020100], "%Y%m%d%H"),
        ([2026013123, 2026013124, 2026013125], None),
        ([2026022900, 2026030100], None),
        ([202601312345, 202602010000], "%Y%m%d%H%M"),
        ([202601312359, 202601312360], None),
        ([20260131235959, 20260201000000], "%Y%m%d%H%M%S"),
        ([20260131235959, 20260131235960], None),
        ([1767225600, 1767225660], None),
        ([*range(1767225600, 1767225605)], None),
        # In 2027, seconds since 1970 are 1801 and so on; no day of it has an hour 36.
        ([*range(1801010000, 1801020000, 3600)], None),
        ([*range(1801010000, 1801010060)], None),
        ([1767225600000, 1767225660000], None),
        ([1801010000000, 1801013600000], None),
        ([1767225600_000_000_000, 1767225660_000_000_000], None),
        ([*range(2026010100, 2026010200)], None),
        ([*range(202601010000, 202601010100)], None),
    ],
)
def test_numbers_are_dates_only_where_all_of_them_are(numbers, pattern):
    found = parse_numbers(np.array(numbers), "a column")
    assert (found and found[1]) == pattern
    if found:
        read = pd.to_datetime([str(one) for one in numbers], format=pattern)
        assert np.array_equal(found[0], read.to_numpy())


@pytest.mark.parametrize(
    ("step", "pattern"), [("h", "%Y%m%d%H"), ("15min", "%Y%m%d%H%M"), ("s", "%Y%m%d%H%M%S")]
)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, dict])
def test_clocks_in_numbers_go_on_over_midnight_as_they_were_written(library, step, pattern):
    moments = pd.date_range("2026-01-31 22:00", periods=60, freq=step)
    numbers = moments.strftime(pattern).to_numpy().astype(np.int64)
    panel = read_panel(library({"time": numbers[:50], "x": np.ones(50)}))
    assert np.array_equal(panel.systems[0].times, moments[:50].to_numpy())
    result = write_forecast(panel, {"": [np.zeros((1, 10))]})
    assert np.array_equal(np.asarray(result["time"]), numbers[50:])


def test_a_time_between_what_a_number_can_say_is_refused():
    panel = read_panel({"time": [2026013122, 2026013123], "x": [1.0, 2.0]})
    minute = Frequency(60_000_000_000, "nanoseconds")
    single = read_panel({"time": [2026013122], "x": [1.0]})
    with pytest.raises(DataError, match="cannot be written as a date in one number"):
        write_forecast(single, {"": [np.zeros((1, 2))]}, frequency=minute)
    assert str(panel.frequency) == "1 hour"


def test_midnight_as_hour_24_is_refused():
    with pytest.raises(DataError, match="2026013124 in column 'time' is 24 o'clock"):
        read_panel({"time": [2026013123, 2026013124, 2026020101], "x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        ("quarter", [20253, 20254, 20261, 20262]),
        ("week", [*range(202530, 202553), *range(202601, 202620)]),
        ("week", [*range(202001, 202054), *range(202101, 202153), 202201]),
        ("day", [*range(2025001, 2025366), *range(2026001, 2026020)]),
    ],
)
def test_parts_of_years_are_refused_instead_of_counted(word, numbers):
    with pytest.raises(DataError, match=f"years and their {word}s"):
        read_panel({"time": numbers, "x": np.ones(len(numbers))})


@pytest.mark.parametrize(
    "numbers",
    [
        [*range(20241, 20271)],
        [*range(202501, 202701)],
        [*range(2025001, 2027001)],
        [202613, 202713, 202813],
        [20254, 20261, 20268],
        [202530, 202531, 202532],
        [365, 366, 1001],
    ],
)
def test_counters_that_begin_like_years_only_count(numbers):
    assert parse_numbers(np.array(numbers), "a column") is None


def test_digits_in_quotes_are_dates_in_likely_years_only():
    assert (
        parse_text(pl.Series(["20260131", "20260201"]), "a column", TimeForm())[1].pattern
        == "%Y%m%d"
    )
    assert parse_text(pl.Series(["00010101", "00010102"]), "a column", TimeForm()) is None
