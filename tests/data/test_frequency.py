from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from dateutil import tz
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import Frequency, infer_frequency, read_panel, regular_grid
from orderless.data.frequency import name_of_zone, on_step
from orderless.errors import DataError

STEPS = [
    "1ns",
    "250ms",
    "1s",
    "7min",
    "15min",
    "1h",
    "6h",
    "1D",
    "7D",
    "MS",
    "ME",
    "QS",
    "QE",
    "YS",
]


def stamps(index: pd.DatetimeIndex) -> np.ndarray:
    if index.tz is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return index.to_numpy().astype("datetime64[ns]")


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=25)
@given(data=st.data())
def test_the_grid_fills_the_gaps_and_goes_on_as_pandas_would(step, data):
    size = data.draw(st.integers(12, 40))
    times = stamps(pd.date_range("2023-01-31 00:00", periods=size + 5, freq=step))
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    # First, last and a pair of neighbours say what the step is.
    kept[[0, 1, 2, 3, 4, -1]] = True
    kept[5::3] = True
    kept[6::3] = True
    frequency = infer_frequency(times[:size][kept])
    grid, positions = regular_grid(times[:size][kept], frequency)
    assert np.array_equal(grid, times[:size])
    assert np.array_equal(positions, np.flatnonzero(kept))
    assert np.array_equal(frequency.future(grid[-1], 5), times[size:])


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC", "+05:30"]
)
@pytest.mark.parametrize("step", ["1h", "1D", "7D", "MS"])
def test_days_and_months_follow_the_calendar_of_the_zone(zone, step):
    local = pd.date_range("2024-01-01", periods=420, freq=step, tz=zone)
    times = stamps(local)
    frequency = infer_frequency(times[:400], zone)
    assert np.array_equal(frequency.future(times[399], 20), times[400:])
    kept = np.ones(400, bool)
    kept[100:150] = False
    grid, _ = regular_grid(times[:400][kept], infer_frequency(times[:400][kept], zone))
    assert np.array_equal(grid, times[:400])


def test_a_time_that_the_clock_skips_still_has_a_place_in_the_future():
    zone = ZoneInfo("Europe/Berlin")
    local = [datetime(2024, 3, 27, 2, 30, tzinfo=zone) + timedelta(days=day) for day in range(3)]
    utc = np.array(
        [pd.Timestamp(one).tz_convert("UTC").tz_localize(None) for one in local], "M8[ns]"
    )
    frequency = infer_frequency(utc, "Europe/Berlin")
    # 2024-03-31 02:30 does not exist in Berlin; the day after does.
    future = frequency.future(utc[-1], 3)
    assert (np.diff(future) > np.timedelta64(0)).all()
    assert future[-1] == np.datetime64("2024-04-01T00:30")


@settings(max_examples=50)
@given(
    start=st.integers(-(10**6), 10**6),
    step=st.integers(1, 10**6),
    size=st.integers(2, 30),
)
def test_whole_numbers_count_exactly(start, step, size):
    times = start + step * np.arange(size)
    frequency = infer_frequency(times)
    assert frequency == Frequency(step, "step")
    assert np.array_equal(frequency.future(times[-1], 3), times[-1] + step * np.arange(1, 4))


def test_fractions_that_were_rounded_do_not_drift():
    times = np.round(np.arange(5000) * 1e6 / 3).astype(np.int64)
    frequency = infer_frequency(times)
    grid, positions = regular_grid(times, frequency)
    assert np.array_equal(positions, np.arange(5000))
    assert np.array_equal(grid, times)
    assert np.allclose(frequency.future(times[-1], 300)[-1], 5299e6 / 3, atol=2)


@pytest.mark.parametrize(
    ("start", "days", "week"),
    [("2026-03-01", 51, 7), ("2025-01-01", 800, 5), ("2026-03-25", 12, 7)],
)
def test_midnights_held_in_utc_go_on_at_the_last_hour(start, days, week):
    local = pd.date_range(start, periods=days, freq="D", tz="Europe/Berlin")
    times = stamps(local[local.day_of_week < week])
    frequency = infer_frequency(times)
    assert frequency == Frequency(24 * 3600 * 10**9, "nanoseconds")
    grid, positions = regular_grid(times, frequency)
    assert len(grid) == positions[-1] + 1 == (local[-1] - local[0]).round("D").days + 1
    assert np.array_equal(grid[positions], times)
    ahead = np.arange(1, 4) * np.timedelta64(24, "h")
    assert np.array_equal(frequency.future(times[-1], 3), times[-1] + ahead)


def test_a_step_that_is_rarely_rounded_up_is_still_the_mean():
    times = np.floor(60.05 * np.arange(1000)).astype(np.int64)
    assert infer_frequency(times).count == pytest.approx(60.05, abs=1e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32])
def test_small_integers_do_not_wrap_around(dtype):
    limits = np.iinfo(dtype)
    low, high = np.arange(limits.min, limits.min + 9), np.arange(limits.max - 8, limits.max + 1)
    times = np.concatenate([low, high]).astype(dtype)
    frequency = infer_frequency(high.astype(dtype))
    assert frequency == Frequency(1, "step")
    assert frequency.future(times[-1], 2).tolist() == [limits.max + 1, limits.max + 2]
    if limits.max < 2**15:
        assert infer_frequency(times) == frequency
        _, positions = regular_grid(times, frequency)
        assert positions[-1] == int(limits.max) - int(limits.min)


def test_numbers_beyond_the_digits_of_floats_count_exactly():
    times = 2**60 + 1 + 7 * np.arange(10)
    frequency = infer_frequency(times)
    assert frequency.future(times[-1], 2).tolist() == [2**60 + 71, 2**60 + 78]


def test_a_finer_common_step_is_found_where_it_is_near():
    assert infer_frequency(np.array([0, 2, 4, 5, 7, 9])).count == 1


@pytest.mark.parametrize(
    ("frequency", "words"),
    [
        (Frequency(15 * 60 * 10**9, "nanoseconds"), "15 minutes"),
        (Frequency(24 * 3600 * 10**9, "nanoseconds"), "1 day"),
        (Frequency(250 * 10**6, "nanoseconds"), "0.25 seconds"),
        (Frequency(3, "months", 1), "3 months"),
        (Frequency(12, "months", 1), "1 year"),
        (Frequency(0.5, "step"), "0.5"),
    ],
)
def test_a_frequency_reads_as_words(frequency, words):
    assert str(frequency) == words


def test_irregular_time_stamps_are_refused_with_the_place():
    times = np.array(
        ["2024-01-01T00:00", "2024-01-01T01:00", "2024-01-01T02:00", "2024-01-01T02:07:11"],
        "M8[ns]",
    )
    with pytest.raises(DataError, match=r"most common step is 1 hour.*02:07:11.*Resample"):
        infer_frequency(times)


def test_a_wrong_time_stamp_far_away_does_not_fill_the_memory():
    times = np.concatenate(
        [
            [np.datetime64("1970-01-01", "ns")],
            stamps(pd.date_range("2024-01-01", periods=100, freq="1min")),
        ]
    )
    with pytest.raises(DataError, match="longest gap follows 1970-01-01"):
        regular_grid(times, infer_frequency(times))


def test_one_time_stamp_tells_no_step():
    assert infer_frequency(np.array([3])) is None


def test_two_hundred_years_of_yearly_data_are_no_trouble():
    times = stamps(pd.date_range("1700-01-01", periods=309, freq="YS"))
    assert str(infer_frequency(times)) == "1 year"
    assert np.array_equal(infer_frequency(times[:300]).future(times[299], 9), times[300:])


def test_time_stamps_too_far_apart_to_subtract_are_refused():
    with pytest.raises(DataError, match="more than 292 years apart"):
        infer_frequency(np.array(["1700-01-01", "2200-01-01"], "M8[ns]"))


def test_a_grid_too_long_for_any_number_is_refused():
    times = np.array([0.0, 0.001953125, 1.8014398509481984e16])
    with pytest.raises(DataError, match="longest gap"):
        regular_grid(times, infer_frequency(times))


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe"]


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=40)
@given(minutes=st.sampled_from([90, 120, 180, 240, 360, 720]), first=st.booleans(), data=st.data())
def test_readings_at_fixed_times_of_day_keep_their_step_across_a_change_of_clocks(
    zone, minutes, first, data
):
    step = pd.Timedelta(minutes=minutes)
    begin, end = data.draw(st.integers(0, 59)), data.draw(st.integers(320, 366))
    wall = pd.date_range("2024-01-01", periods=366 * 1440 // minutes, freq=step)
    wall = wall[begin * 1440 // minutes : end * 1440 // minutes]
    # A reading that the clock skips is not there; of an hour that comes twice it is one of both.
    local = wall.tz_localize(zone, nonexistent="NaT", ambiguous=np.full(len(wall), first))
    kept = local.notna()
    gap = data.draw(st.integers(0, len(wall) - 40))
    kept[gap + 1 : gap + data.draw(st.integers(1, 30))] = False
    times = stamps(local[kept])
    frequency = infer_frequency(times, zone)
    assert frequency == Frequency(step.value, "nanoseconds", time_zone=zone)
    grid, positions = regular_grid(times, frequency)
    assert np.array_equal(positions, np.flatnonzero(kept))
    assert np.array_equal(grid[positions], times)
    assert (np.diff(grid) > np.timedelta64(0)).all()
    ahead = pd.DatetimeIndex(frequency.future(times[-1], 9), tz="UTC").tz_convert(zone)
    assert np.array_equal(np.diff(ahead.tz_localize(None)), np.full(8, step.to_numpy(), "m8[ns]"))


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=20)
@given(hours=st.sampled_from([1, 2, 3, 4]), data=st.data())
def test_readings_that_are_equally_far_apart_stay_so_across_a_change_of_clocks(zone, hours, data):
    whole = stamps(pd.date_range("2024-01-01", "2024-12-31", freq=f"{hours}h", tz=zone))
    gap = data.draw(st.integers(10, len(whole) - 60))
    times = np.delete(whole, slice(gap, gap + data.draw(st.integers(0, 50))))
    frequency = infer_frequency(times, zone)
    assert frequency == Frequency(hours * 3600 * 10**9, "nanoseconds")
    assert np.array_equal(regular_grid(times, frequency)[0], whole)


def test_two_readings_of_an_hour_that_comes_twice_have_places_of_their_own():
    """They are one and the same on the wall clock, on which all others are two hours apart."""
    clock = pd.date_range("2024-10-26", "2024-10-29", freq="2h")
    local = clock.tz_localize("Europe/Berlin", ambiguous=np.ones(len(clock), bool))
    times = stamps(local.append(local[local.hour == 2][[1]] + pd.Timedelta("1h")).sort_values())
    frequency = infer_frequency(times, "Europe/Berlin")
    assert frequency == Frequency(3600 * 10**9, "nanoseconds")
    _, positions = regular_grid(times, frequency)
    assert len(set(positions)) == len(times)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("step", ["15min", "1h", "1D", "7D", "MS", "ME", "QE"])
@settings(max_examples=15)
@given(data=st.data())
def test_a_few_time_stamps_lie_on_the_step_of_many(zone, step, data):
    times = stamps(pd.date_range("2023-01-01", periods=300, freq=step, tz=zone))
    known = infer_frequency(times, zone)
    kept = sorted(data.draw(st.sets(st.integers(0, 299), min_size=1, max_size=5)))
    found = on_step(times[kept], known, zone)
    assert found is not None
    assert (found.count, found.unit) == (known.count, known.unit)
    grid, positions = regular_grid(times[kept], found)
    assert np.array_equal(positions, np.array(kept) - kept[0])
    assert np.array_equal(grid, times[kept[0] : kept[-1] + 1])
    if kept[-1] < 298:
        assert found.future(times[kept[-1]], 1)[0] == times[kept[-1] + 1]


DAY, MONTH = Frequency(24 * 3600 * 10**9, "nanoseconds"), Frequency(1, "months", 31)


@pytest.mark.parametrize(
    ("times", "known"),
    [
        (["2026-01-01", "2026-01-01T06:00"], DAY),
        (["2026-01-01", "2026-01-02T22:00"], DAY),
        (["2026-01-01", "2026-01-02"], MONTH),
        (["2026-01-31", "2026-02-28"], Frequency(3, "months", 31)),
        (["2026-01-01", "2026-01-02"], Frequency(1, "step")),
        # One in 24 million places would be filled; nobody reads such a grid.
        (["1970-01-01", "2030-01-01"], Frequency(10**9, "nanoseconds")),
        (["1700-01-01", "2200-01-01"], DAY),
    ],
)
def test_time_stamps_between_the_steps_do_not_lie_on_them(times, known):
    assert on_step(np.array(times, "M8[ns]"), known) is None


def test_a_step_that_is_coarser_than_the_gaps_asks_for_no_calendar():
    hours = np.array(["2026-01-01T00", "2026-01-01T01"], "M8[ns]")
    assert on_step(hours, DAY, "nobody/knows") is None
    assert on_step(hours, MONTH, "nobody/knows") is None
    with pytest.raises(DataError, match="nobody/knows"):
        on_step(hours[:1], DAY, "nobody/knows")


def test_numbers_lie_on_steps_of_numbers_that_they_can_say():
    assert on_step(np.array([3, 18, 33]), Frequency(5, "step")) == Frequency(5, "step")
    assert on_step(np.array([0.0, 1.5, 4.5]), Frequency(0.5, "step")) == Frequency(0.5, "step")
    assert on_step(np.array([0, 3, 9]), Frequency(0.5, "step")) is None
    assert on_step(np.array([0, 3, 9]), DAY) is None
    # The mean of a step that jitters.
    rounded = np.floor(60.05 * np.array([5, 9, 30, 31])).astype(np.int64)
    assert on_step(rounded, Frequency(60.05, "step")) == Frequency(60.05, "step")
    # Every time stamp is two steps after the one before but for a little, which adds up.
    assert on_step(118 * np.arange(20), Frequency(60, "step")) is None
    assert on_step(np.array([-1.7e308, 1.7e308]), Frequency(0.5, "step")) is None


def test_months_begin_on_a_day_of_their_own():
    middle = np.array(["2026-01-15", "2026-04-15"], "M8[ns]")
    assert on_step(middle, MONTH) == Frequency(1, "months", 15)
    # Both are the last of their month, and both are a 30th.
    thirtieth = np.array(["2026-04-30", "2026-06-30"], "M8[ns]")
    assert on_step(thirtieth, MONTH) == MONTH
    assert on_step(thirtieth, Frequency(1, "months", 30)) == Frequency(1, "months", 30)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (ZoneInfo("America/New_York"), "America/New_York"),
        (tz.gettz("Europe/Berlin"), "Europe/Berlin"),
        (tz.tzutc(), "UTC"),
        (UTC, "UTC"),
        (tz.tzoffset("IST", 19800), "UTC+05:30"),
        (timezone(timedelta(hours=5.5), "IST"), "UTC+05:30"),
        (timezone(timedelta(hours=-1)), "UTC-01:00"),
    ],
)
def test_a_zone_of_any_library_has_a_name_that_is_known(zone, name):
    assert name_of_zone(zone) == name
    days = [datetime(2026, 7, day, tzinfo=zone).timestamp() for day in (1, 2)]
    times = (np.array(days) * 1e9).astype("M8[ns]")
    # Midnight in that zone is the beginning of a month there.
    months = np.array([datetime(2026, 7, 1, tzinfo=zone).timestamp() * 1e9]).astype("M8[ns]")
    future = Frequency(1, "months", 1, name).future(months[0], 1)[0]
    assert future == np.datetime64(int(datetime(2026, 8, 1, tzinfo=zone).timestamp()), "s")
    assert infer_frequency(times, name).future(times[-1], 1)[0] - times[-1] == np.timedelta64(
        24, "h"
    )


ODD = timezone(timedelta(hours=5, seconds=30))


@pytest.mark.parametrize("zone", [ODD, tz.tzrange("EST", -18000, "EDT")])
def test_a_zone_without_a_name_is_refused(zone):
    with pytest.raises(DataError, match="Convert the time stamps to UTC first"):
        name_of_zone(zone)


@pytest.mark.parametrize("step", ["h", "D"])
def test_a_zone_without_a_name_is_refused_when_it_is_read(step):
    frame = pd.DataFrame({"x": 1.0}, pd.date_range("2026-01-01", periods=4, freq=step, tz=ODD))
    for one in (frame, frame.reset_index()):
        with pytest.raises(DataError, match="has no name that is known here"):
            read_panel(one)
