"""Time stamps out of columns of any type, and back into them."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from orderless.data.panel import TimeForm
from orderless.errors import DataError

TIME_NAMES = {"time", "timestamp", "time_stamp", "ds", "date", "datetime", "date_time"}

# How dates are written, after ISO 8601. A pattern is used only if it reads every time stamp.
PATTERNS = (
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y-%m",
    "%Y%m%d",
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:([T ])\d{2}:\d{2}(:\d{2}(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?)?"
)
ISO_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%3f", "%H:%M:%S.%6f", "%H:%M:%S.%9f")
# In the patterns of a `TimeForm`: so many digits of a second, where `strftime` knows six only.
FRACTION = re.compile(r"%(\d)f")
OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
# Numbers, and digits alone, are dates in these years only: others are more likely to count.
FIRST_YEAR, LAST_YEAR = 1800, 2200
# Clocks behind a day in one number, by how many digits they have.
CLOCKS_IN_NUMBERS = {0: "", 2: "%H", 4: "%H%M", 6: "%H%M%S"}
# What else is written behind a year in one number, where its digits begin, and the last of a year.
PARTS_OF_YEARS = (("quarter", 10, (4,)), ("week", 100, (52, 53)), ("day", 1000, (365, 366)))
LOOKS_LIKE_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([T ].*)?|\d{8}")


def is_missing(value: Any) -> bool:
    """Whether an object stands for no value: None, NaN, or the missing values of a library."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(value != value)


def is_time_name(label: object) -> bool:
    """Whether a column of this name is customarily one of time stamps."""
    return str(label).strip().lower().replace(" ", "_").replace("-", "_") in TIME_NAMES


def to_nanoseconds(times: np.ndarray, where: str) -> np.ndarray:
    """The same instants or durations in nanoseconds, the one unit used inside."""
    kind = times.dtype.kind
    seconds = times.astype(f"{kind}8[s]").astype(np.int64)
    beyond = ~np.isnat(times) & (np.abs(seconds) >= 2**63 // 10**9)
    if beyond.any():
        raise DataError(
            f"The time stamp {times[beyond][0]} in {where} lies outside the years 1678 to 2262, "
            "which nanoseconds can count. Correct it, or number the steps instead."
        )
    return times.astype(f"{kind}8[ns]")


def parse_text(values: Sequence[str | None], where: str) -> tuple[np.ndarray, TimeForm] | None:
    """Time stamps written as text; None where the text is something else."""
    first = next((one for one in values if one is not None), None)
    if first is None or not LOOKS_LIKE_DATE.fullmatch(first.strip()):
        return None
    texts = [None if one is None else one.strip() for one in values]
    parse = _parse_iso if ISO.fullmatch(first.strip()) else _parse_patterns
    try:
        return parse(texts, where)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        return None


def _parse_iso(texts: list[str | None], where: str) -> tuple[np.ndarray, TimeForm]:
    known = [one for one in texts if one is not None]
    found = [match for one in known if (match := ISO.fullmatch(one))]
    if len(found) < len(known):
        raise ValueError("not all of them are ISO 8601")
    separators, seconds, fractions, zones = zip(*(one.groups("") for one in found), strict=True)
    if any(zones) and not all(zones):
        raise DataError(
            f"Some time stamps in {where} have an offset from UTC and some have none. Write "
            "all of them the same way."
        )
    # Many programs leave out what is zero, so every part is written back that any row has.
    pattern = "%Y-%m-%d"
    if any(separators):
        pattern += next(filter(None, separators)) + "%H:%M" + (":%S" if any(seconds) else "")
    if any(fractions):
        pattern += f".%{max(map(len, fractions))}f"
    offset_of = {one: _offset(one) for one in set(zones)}
    offsets = np.array([offset_of[one] for one in zones], "m8[s]")
    local = [one.removesuffix(zone) for one, zone in zip(known, zones, strict=True)]
    # For its error: nanoseconds would wrap around without a word.
    to_nanoseconds(np.array(local, "M8[us]") - offsets, where)
    times = np.full(len(texts), "NaT", "M8[ns]")
    times[[one is not None for one in texts]] = np.array(local, "M8[ns]") - offsets
    if not zones[0]:
        return times, TimeForm("text", pattern=pattern)
    if len(set(offset_of.values())) > 1:
        zone = "Z" if zones[0] == "Z" else "+00:00"
        return times, TimeForm("text", pattern=pattern + zone, time_zone="UTC")
    time_zone = str(datetime.strptime(zones[0], "%z").tzinfo)
    return times, TimeForm("text", pattern=pattern + zones[0], time_zone=time_zone)


def _parse_patterns(texts: list[str | None], where: str) -> tuple[np.ndarray, TimeForm] | None:
    found: list[tuple[np.ndarray, TimeForm]] = []
    for day in PATTERNS:
        for clock in CLOCKS:
            try:
                parsed = [
                    None if one is None else datetime.strptime(one, day + clock) for one in texts
                ]
            except ValueError:
                continue
            if day == "%Y%m%d" and not all(map(_is_likely, parsed)):
                continue
            times = to_nanoseconds(np.array(parsed, "M8[us]"), where)
            pattern = (day + clock).replace("%f", "%6f")
            found.append((times, TimeForm("text", pattern=pattern)))
    if len(found) == 2 and not np.array_equal(found[0][0], found[1][0], equal_nan=True):
        raise DataError(
            f"The dates in {where} can be read day first or month first, and nothing in them "
            "decides which. Convert the column to time stamps, or write them as 2024-12-31."
        )
    return found[0] if found else None


def _is_likely(day: datetime | None) -> bool:
    return day is None or FIRST_YEAR <= day.year <= LAST_YEAR


def parse_objects(values: np.ndarray, where: str) -> tuple[np.ndarray, TimeForm] | None:
    """Time stamps from Python dates and datetimes (None and NaT among them)."""
    there = np.array([not is_missing(one) for one in values], bool)
    known = values[there].tolist()
    if not known or not all(isinstance(one, date) for one in known):
        return None
    stamps = [one if isinstance(one, datetime) else datetime(*one.timetuple()[:3]) for one in known]
    aware = {one.tzinfo is not None for one in stamps}
    if len(aware) > 1:
        raise DataError(
            f"Some time stamps in {where} have a time zone and some have none. Give all of them "
            "the same."
        )
    times = np.full(len(values), "NaT", "M8[us]")
    times[there] = [
        one.astimezone(UTC).replace(tzinfo=None) if one.tzinfo else one for one in stamps
    ]
    zone = "UTC" if aware == {True} else None
    kind = "datetime" if any(isinstance(one, datetime) for one in known) else "date"
    return to_nanoseconds(times, where), TimeForm(kind, time_zone=zone)


def parse_numbers(numbers: np.ndarray, where: str) -> tuple[np.ndarray, str] | None:
    """Dates written as whole numbers, and their pattern; None where the numbers only count.

    202601              all are months, in the years 1800 to 2200: a counter would soon leave 01
                        to 12
    20260131            all are days of the calendar, in these years
    2026013123, 202601312359, 20260131235959
                        all are such days with hours, minutes and seconds: seconds since 1970
                        would soon leave the calendar, and have no other number of digits
    """
    months = _calendar(numbers, np.ones_like(numbers))
    if months is not None:
        return months, "%Y%m"
    for digits, clock in CLOCKS_IN_NUMBERS.items():
        days, time = np.divmod(numbers, 10**digits)
        dates = _calendar(*np.divmod(days, 100))
        seconds = None if dates is None else _clock(time * 10 ** (6 - digits), numbers, where)
        if dates is not None and seconds is not None:
            return dates + seconds, f"%Y%m%d{clock}"
    _refuse_parts_of_years(numbers, where)
    return None


def _clock(times: np.ndarray, numbers: np.ndarray, where: str) -> np.ndarray | None:
    """The seconds since midnight at times such as 235959; None where one is not on the clock."""
    hour, minute, second = times // 10_000, times // 100 % 100, times % 100
    midnight = times == 240_000
    if ((hour > 23) & ~midnight | (minute > 59) | (second > 59)).any():
        return None
    if midnight.any():
        raise DataError(
            f"The time stamp {numbers[midnight][0]} in {where} is 24 o'clock. Write the hours of a "
            "day as 00 to 23, and midnight as the first hour of the next day."
        )
    return (3600 * hour + 60 * minute + second).astype("m8[s]")


def _refuse_parts_of_years(numbers: np.ndarray, where: str) -> None:
    """Refuse 202652 followed by 202701: read as a count, most of every year would be a gap."""
    for word, size, lasts in PARTS_OF_YEARS:
        if numbers.min() // size < FIRST_YEAR or numbers.max() // size > LAST_YEAR:
            continue
        ordered = np.unique(numbers)
        year, part = np.divmod(ordered, size)
        if part.min() < 1 or part.max() > lasts[-1]:
            continue
        turns = (np.diff(year) == 1) & np.isin(part[:-1], lasts) & (part[1:] == 1)
        if turns.any() and (np.diff(ordered) == 1).any():
            turn = int(np.argmax(turns))
            raise DataError(
                f"The time stamps in {where} look like years and their {word}s: {ordered[turn]} is "
                f"followed by {ordered[turn + 1]}. Convert them to dates, such as the first day of "
                f"each {word}, or number the steps."
            )


def _calendar(months: np.ndarray, days: np.ndarray) -> np.ndarray | None:
    """The days of months such as 202601; None where one is not in the calendar."""
    year, month = np.divmod(months, 100)
    if year.min() < FIRST_YEAR or year.max() > LAST_YEAR:
        return None
    first = (12 * (year - 1970)).astype("M8[M]") + (month - 1)
    dates = first.astype("M8[D]") + (days - 1)
    outside = (month < 1) | (month > 12) | (dates.astype("M8[M]") != first)
    return None if outside.any() else dates.astype("M8[ns]")


def write_text(times: np.ndarray, form: TimeForm) -> list[str]:
    """Time stamps as text, written the way the input had them.

    Where that cannot say one of them exactly, all are written in ISO 8601 with enough digits.
    """
    assert form.pattern is not None
    pattern, local = form.pattern, times + _offset(form.pattern)
    if not can_say(pattern, times):
        finer = (f"%Y-%m-%dT{clock}{_zone(pattern)}" for clock in ISO_CLOCKS)
        pattern = next(one for one in finer if can_say(one, times))
    seconds = local.astype("M8[s]")
    fraction = FRACTION.search(pattern)
    if fraction is None:
        return [one.strftime(pattern) for one in seconds.tolist()]
    before, after = pattern.split(fraction[0])
    digits = (local - seconds).astype(np.int64) // 10 ** (9 - int(fraction[1]))
    return [
        f"{one.strftime(before)}{digit:0{fraction[1]}d}{after}"
        for one, digit in zip(seconds.tolist(), digits.tolist(), strict=True)
    ]


def write_numbers(times: np.ndarray, form: TimeForm) -> np.ndarray:
    """Dates as whole numbers, the way `parse_numbers` found them."""
    texts = write_text(times, form)
    if not all(map(str.isdigit, texts)):
        raise DataError(
            f"The time stamp {texts[0]} cannot be written as a date in one number, which the "
            f"column {form.name!r} holds. Convert the column to time stamps."
        )
    return np.array(texts, np.int64)


def round_as_written(times: np.ndarray, form: TimeForm) -> np.ndarray:
    """The nearest time stamps that can be written the way the input had them."""
    assert form.pattern is not None
    unit, offset = _unit(form.pattern), _offset(form.pattern)
    half = np.array(1, f"m8[{unit}]").astype("m8[ns]") // 2
    return (times + offset + half).astype(f"M8[{unit}]").astype("M8[ns]") - offset


def can_say(pattern: str, times: np.ndarray) -> bool:
    """Whether a pattern writes these time stamps, on the clock of its offset, to the last digit."""
    local = times + _offset(pattern)
    return bool((local.astype(f"M8[{_unit(pattern)}]") == local).all())


def _unit(pattern: str) -> str:
    """The finest unit of time that a pattern writes, as NumPy calls it."""
    fraction = FRACTION.search(pattern)
    if fraction is not None:
        return f"{10 ** (9 - int(fraction[1]))}ns"
    units = {"%S": "s", "%M": "m", "%H": "h", "%d": "D"}
    return next((unit for sign, unit in units.items() if sign in pattern), "M")


def _zone(text: str) -> str:
    """The offset from UTC at the end of a pattern or a time stamp; "" where there is none."""
    found = OFFSET.search(text)
    return found[0] if found else ""


def _offset(text: str) -> np.timedelta64:
    """How far the clock of a pattern or a time stamp is ahead of UTC."""
    ahead = datetime.strptime(_zone(text) or "Z", "%z").utcoffset()
    return np.timedelta64(ahead or timedelta(0), "s")
