"""The step of a time axis: found from time stamps, used to fill gaps and to name the future."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta, timezone, tzinfo
from typing import Any

import numpy as np

from orderless.data.engine import need
from orderless.errors import DataError

# Time stamps may miss their place on the grid by this share of a step (clocks, rounded fractions).
TOLERANCE = 0.05
# What misses it by less is rounded as floating-point numbers are; clocks miss it by more.
ROUNDED = 1e-3
# Where this share of steps is exact, the others are exceptions: clocks are put forward and back.
NEARLY_ALL = 0.9
# A grid this long, with fewer than one time stamp in a hundred places, is a wrong time stamp.
LONGEST_EMPTY_GRID = 100_000
HOUR = 3_600_000_000_000
# Only a step of about a day or more can follow the calendar of a zone instead of the clock.
SHORTEST_ON_CALENDAR = 20 * HOUR
# The units of a step, and of which kinds (as NumPy calls them) are the time stamps that have it.
UNITS = {"step": "if", "nanoseconds": "mM", "months": "M"}


@dataclass(frozen=True)
class Frequency:
    """The step from one time stamp to the next.

    unit        "step" (plain numbers), "nanoseconds" or "months"
    count       how many of them make one step; 3 months is a quarter, 12 a year
    anchor      for months: the day of the month, 31 standing for the last day
    time_zone   where given, steps are counted on the wall clock of this zone, so that a day may
                last 23 or 25 hours; time stamps themselves are always UTC
    """

    count: int | float
    unit: str
    anchor: int = 0
    time_zone: str | None = None

    def __str__(self) -> str:
        """For people: "15 minutes", "1 month"."""
        if self.unit == "step":
            return f"{self.count:g}"
        if self.unit == "months":
            years = self.count % 12 == 0
            return _counted(self.count // 12 if years else self.count, "year" if years else "month")
        for size, word in ((24, "day"), (1, "hour"), (1 / 60, "minute"), (1 / 3600, "second")):
            if self.count % round(size * HOUR) == 0:
                return _counted(self.count / (size * HOUR), word)
        return f"{self.count / 1e9:g} seconds"

    def is_like(self, other: "Frequency") -> bool:
        """Whether both are the same but for jitter, wherever they begin and in whichever zone."""
        alike = abs(self.count - other.count) <= TOLERANCE * other.count
        return self.unit == other.unit and alike

    def future(self, last: np.generic, horizon: int) -> np.ndarray:
        """The `horizon` time stamps that follow `last`."""
        return self._from(np.asarray(last), np.arange(1, horizon + 1))

    def _from(self, start: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The time stamps that lie so many steps after `start`."""
        ahead = steps * self.count
        if self.unit == "step":
            numbers = _wide(start)
            return numbers + (_whole(ahead) if numbers.dtype.kind == "i" else ahead)
        if start.dtype.kind == "m":
            return start + _whole(ahead).astype(start.dtype)
        local = _to_wall_clock(start.reshape(1), self.time_zone)[0]
        if self.unit == "nanoseconds":
            later = local + _whole(ahead).astype("timedelta64[ns]")
        else:
            month = local.astype("datetime64[M]") + steps * int(self.count)
            day = np.minimum(self.anchor, _days_in(month)) - 1
            clock = local - local.astype("datetime64[D]")
            later = month.astype("datetime64[D]").astype("datetime64[ns]")
            later = later + day.astype("timedelta64[D]") + clock
        return _from_wall_clock(later, self.time_zone).astype(start.dtype)


def infer_frequency(times: np.ndarray, time_zone: str | None = None) -> Frequency | None:
    """The regular step on which all of `times` (sorted, no duplicates) lie, gaps allowed.

    Months are tried first, then the most common step, in UTC and on the wall clock of the zone,
    then the largest step that divides all. None for fewer than two time stamps. Raises DataError
    where no regular step fits.
    """
    if len(times) < 2:
        return None
    if times.dtype.kind in "mM" and (np.diff(times).astype(np.int64) < 0).any():
        raise DataError(
            f"Two neighbouring time stamps between {times[0]} and {times[-1]} lie more than 292 "
            "years apart, which nanoseconds cannot count. Correct the one that is wrong."
        )
    if not np.issubdtype(times.dtype, np.datetime64):
        numbers = times.astype(np.int64) if times.dtype.kind == "m" else _wide(times)
        unit = "nanoseconds" if times.dtype.kind == "m" else "step"
        return Frequency(_regular_step(numbers, times), unit)
    numbers = times.astype(np.int64)
    short = np.median(np.diff(numbers)) < SHORTEST_ON_CALENDAR
    if short and (time_zone is None or _common_step(np.diff(numbers))[1]):
        return Frequency(_regular_step(numbers, times), "nanoseconds")
    local = _to_wall_clock(times, time_zone)
    # Readings at 0, 4 and 8 o'clock are 3 or 5 hours apart where clocks are changed. They are
    # regular on the wall clock, and are not to become an hourly grid with three gaps in four.
    if short and not _common_step(np.diff(local.astype(np.int64)))[1]:
        with suppress(DataError):
            return Frequency(_regular_step(numbers, times), "nanoseconds")
    months = _month_step(local)
    if months is not None:
        return Frequency(*months, time_zone)
    count = _regular_step(local.astype(np.int64), times)
    return Frequency(count, "nanoseconds", time_zone=time_zone)


def on_step(times: np.ndarray, step: Frequency, time_zone: str | None = None) -> Frequency | None:
    """A known step for other time stamps, where all gaps of `times` are multiples of it; else None.

    It begins where they begin, on the calendar of their own zone. None also where it would leave
    next to nothing but gaps. A single time stamp lies on every step of its kind.
    """
    if times.dtype.kind not in UNITS[step.unit]:
        return None
    length = step.count * (27 * 24 * HOUR if step.unit == "months" else 0.9)  # on any calendar
    if step.unit != "step" and (np.diff(times).astype(np.int64) < length).any():
        return None  # before it is asked for the calendar, which takes long
    on_calendar = step.unit == "months" or step.time_zone or step.count >= SHORTEST_ON_CALENDAR
    zone = time_zone if on_calendar else None
    local = _to_wall_clock(times, zone)
    if step.unit == "months":
        found = _month_step(local, step.anchor) or _month_step(local)
        if found is None or found[0] % step.count:
            return None
        return replace(step, anchor=found[2], time_zone=zone)
    if times.dtype.kind != "f" and abs(step.count - round(step.count)) > TOLERANCE * step.count:
        return None
    numbers = local if step.unit == "step" else local.astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        passed = (numbers - numbers[0]) / step.count
        nearest = np.rint(passed)
        # Also NaN, where numbers are too large to subtract.
        fits = np.abs(passed - nearest).max() <= TOLERANCE and (np.diff(nearest) >= 1).all()
    if not fits or _mostly_empty(nearest[-1] + 1, len(times)):
        return None
    return replace(step, time_zone=zone)


def regular_grid(times: np.ndarray, frequency: Frequency) -> tuple[np.ndarray, np.ndarray]:
    """All time stamps from first to last without gaps, and where each of `times` lies in them."""
    positions = places(times, frequency)
    if positions[-1] == len(times) - 1:
        return times, positions
    size = int(positions[-1]) + 1
    if _mostly_empty(size, len(times)):
        gap = int(np.argmax(np.diff(positions)))
        raise DataError(
            f"A step of {frequency} from {times[0]} to {times[-1]} makes {size:,} time stamps, of "
            f"which only {len(times):,} are there; the longest gap follows {times[gap]}. Correct "
            "the time stamp that is wrong, or make what lies before and after the gap two systems "
            "with a group column."
        )
    grid = frequency._from(np.asarray(times[0]), np.arange(size))
    # A time stamp that is slightly off the grid stays what it was.
    grid[positions] = times
    return grid, positions


def places(times: np.ndarray, frequency: Frequency) -> np.ndarray:
    """How many steps after the first each time stamp lies."""
    if frequency.unit == "months":
        month = _to_wall_clock(times, frequency.time_zone).astype("datetime64[M]").astype(np.int64)
        return (month - month[0]) // int(frequency.count)
    local = _to_wall_clock(times, frequency.time_zone) if times.dtype.kind == "M" else times
    numbers = _wide(local) if frequency.unit == "step" else local.astype(np.int64)
    # No memory holds a grid of 2^40 steps, and larger numbers would wrap around in the sum.
    steps = np.minimum(np.rint(np.diff(numbers) / frequency.count), 2.0**40).astype(np.int64)
    return np.concatenate([[0], np.cumsum(steps)])


def is_exact(times: np.ndarray, frequency: Frequency) -> bool:
    """Whether a step is one of the time stamps themselves, not the mean of some that jitter."""
    if times.dtype.kind != "f":
        return isinstance(frequency.count, int)
    steps = np.diff(times) / frequency.count
    return bool((np.abs(steps - np.rint(steps)) < ROUNDED).mean() >= NEARLY_ALL)


def _mostly_empty(size: float, filled: int) -> bool:
    return size > max(LONGEST_EMPTY_GRID, 100 * filled)


def _regular_step(numbers: np.ndarray, times: np.ndarray) -> int | float:
    """The step of an increasing axis of numbers; `times` are their names in an error."""
    gaps = np.diff(numbers)
    step, divides_all = _common_step(gaps)
    whole = np.issubdtype(numbers.dtype, np.integer)
    if divides_all:
        return int(step)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = gaps / step
        number = np.rint(ratio)
        miss = np.abs(ratio - np.maximum(number, 1))
    if miss.max() <= TOLERANCE:
        # Local midnights held in UTC are a day apart but for two days a year, which make up for
        # each other. Fractions that were rounded miss ever more, the longer the series.
        off = gaps - number.astype(gaps.dtype) * step
        if (off == 0).mean() >= NEARLY_ALL and np.abs(off.cumsum()).max() <= TOLERANCE * step:
            return step.item()
        # The mean over all steps does not drift, which the most common one would.
        return float(gaps.astype(np.float64).sum() / number.sum())
    common = int(np.gcd.reduce(gaps)) if whole else 0
    if common and step <= 4 * common:
        return common
    worst = int(np.argmax(miss))
    shown = Frequency(step.item(), "nanoseconds" if times.dtype.kind in "mM" else "step")
    raise DataError(
        f"The time stamps are not equally spaced: the most common step is {shown}, but "
        f"{times[worst]} is followed by {times[worst + 1]}. Resample the data to a regular step, "
        "or drop the time column to take the rows as equally spaced."
    )


def _common_step(gaps: np.ndarray) -> tuple[Any, bool]:
    """The most common of the gaps, and whether all of them are whole multiples of it."""
    sizes, counts = np.unique(gaps, return_counts=True)
    step = sizes[np.argmax(counts)]
    # On the wall clock a gap may be none, or negative: two readings of an hour that comes twice.
    whole = np.issubdtype(gaps.dtype, np.integer)
    return step, bool(whole and sizes[0] > 0 and not (sizes % step).any())


def _month_step(local: np.ndarray, anchor: int | None = None) -> tuple[int, str, int] | None:
    """Count, unit and day of the month where all time stamps lie a number of months apart."""
    month = local.astype("datetime64[M]")
    day = (local.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64) + 1
    clock = local - local.astype("datetime64[D]")
    last = _days_in(month)
    if anchor is None:
        anchor = 31 if (day == last).all() else int(day.max())
    gaps = np.diff(month.astype(np.int64))
    if (day != np.minimum(anchor, last)).any() or (clock != clock[0]).any() or (gaps < 1).any():
        return None
    return int(np.gcd.reduce(gaps)), "months", anchor


def _wide(numbers: np.ndarray) -> np.ndarray:
    """Integers in 64 bits: differences and sums of smaller ones would wrap around."""
    return numbers.astype(np.int64) if numbers.dtype.kind in "iu" else numbers


def _whole(numbers: np.ndarray) -> np.ndarray:
    """The nearest integers; integers as they are, since float64 would round large ones."""
    return numbers if numbers.dtype.kind == "i" else np.rint(numbers).astype(np.int64)


def _days_in(month: np.ndarray) -> np.ndarray:
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)


def name_of_zone(zone: tzinfo) -> str:
    """The name by which polars knows a zone of any library; "UTC+05:30" for a fixed offset.

    Its own name may mean nothing elsewhere: "IST", "tzutc()".
    """
    read_from = str(getattr(zone, "_filename", ""))  # by dateutil
    names = (getattr(zone, "key", ""), getattr(zone, "zone", ""), read_from.split("zoneinfo/")[-1])
    for name in filter(None, names):
        with suppress(DataError):
            _to_wall_clock(np.zeros(1, "M8[ns]"), name)
            return name
    offset = zone.utcoffset(None)
    if offset is None or offset % timedelta(minutes=1):
        raise DataError(
            f"The time zone {zone} has no name that is known here, and no offset in whole minutes. "
            "Convert the time stamps to UTC first."
        )
    return str(timezone(offset))


def _fixed_offset(time_zone: str) -> np.timedelta64 | None:
    """How far a zone such as "+01:00" or "UTC-03:30" is ahead of UTC; None for one with a name."""
    found = re.fullmatch(r"(?:UTC)?([+-])(\d\d):(\d\d)", time_zone)
    if found is None:
        return None
    minutes = 60 * int(found[2]) + int(found[3])
    return np.timedelta64(-minutes if found[1] == "-" else minutes, "m")


def _to_wall_clock(times: np.ndarray, time_zone: str | None) -> np.ndarray:
    offset = None if time_zone is None else _fixed_offset(time_zone)
    if time_zone is None or offset is not None:
        return times if offset is None else times + offset
    pl = need("polars")

    try:
        zoned = pl.Series(times).dt.replace_time_zone("UTC").dt.convert_time_zone(time_zone)
    except pl.exceptions.ComputeError as error:
        raise DataError(
            f"The time zone {time_zone!r} is not known here. Convert the time stamps to UTC first."
        ) from error
    return zoned.dt.replace_time_zone(None).to_numpy()


def _from_wall_clock(local: np.ndarray, time_zone: str | None) -> np.ndarray:
    """UTC. The first of two equal readings; one the clock skips is read with the earlier offset."""
    offset = None if time_zone is None else _fixed_offset(time_zone)
    if time_zone is None or offset is not None:
        return local if offset is None else local - offset
    pl = need("polars")

    def in_utc(clock: np.ndarray) -> np.ndarray:
        zoned = pl.Series(clock).dt.replace_time_zone(
            time_zone, ambiguous="earliest", non_existent="null"
        )
        return zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()

    times, day = in_utc(local), np.timedelta64(1, "D")
    skipped = np.isnat(times)
    return np.where(skipped, in_utc(local - day) + day, times) if skipped.any() else times


def _counted(number: int | float, word: str) -> str:
    return f"{number:g} {word}" + ("" if number == 1 else "s")
