"""Time stamps out of text and out of numbers that are dates, and back into them."""

import importlib
import re
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

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
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p")
ISO = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:([T ])([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
ISO_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%3f", "%H:%M:%S.%6f", "%H:%M:%S.%9f")
# In the patterns of a `TimeForm`: so many digits of a second, where `strftime` knows six only.
FRACTION = re.compile(r"%(\d)f")
OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
# Numbers, and digits alone, are dates in these years only: others are more likely to count.
FIRST_YEAR, LAST_YEAR = 1800, 2200
# Dates in one number, by how many digits they have.
NUMBERS = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
# What else is written behind a year in one number, where its digits begin, and the last of a year.
PARTS_OF_YEARS = (("quarter", 10, (4,)), ("week", 100, (52, 53)), ("day", 1000, (365, 366)))
LOOKS_LIKE_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([T ].*)?|\d{8}")


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


def parse_text(values: pl.Series, where: str, form: TimeForm) -> tuple[np.ndarray, TimeForm] | None:
    """Time stamps written as text, and their form; None where the text is something else."""
    texts = values.str.strip_chars()
    first = texts.drop_nulls().head(1)
    if first.is_empty() or not LOOKS_LIKE_DATE.fullmatch(first[0]):
        return None
    parse = _parse_iso if first.str.contains(ISO)[0] else _parse_patterns
    found = parse(texts, where)
    if found is None:
        return None
    times, pattern, zone = found
    return times, replace(form, kind="text", pattern=pattern, time_zone=zone)


def _parse_iso(texts: pl.Series, where: str) -> tuple[np.ndarray, str, str | None] | None:
    parts = texts.str.extract_groups(ISO).struct.unnest()
    day, separator, clock, second, fraction, zone = parts.get_columns()
    full = day + "T" + clock.fill_null("00:00") + second.str.head(3).fill_null(":00")
    local = full.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False)
    if local.null_count() > texts.null_count():
        return None
    zones = zone.drop_nulls().unique(maintain_order=True).to_list()
    if zones and zone.null_count() > texts.null_count():
        raise DataError(
            f"Some time stamps in {where} have an offset from UTC and some have none. Write "
            "all of them the same way."
        )
    # Many programs leave out what is zero, so every part is written back that any row has.
    pattern = "%Y-%m-%d"
    if separator.count():
        pattern += separator.drop_nulls()[0] + "%H:%M" + (":%S" if second.count() else "")
    if fraction.count():
        pattern += f".%{fraction.str.len_chars().max()}f"
    try:
        offsets = [int(_offset(one).astype(np.int64)) for one in zones]
    except ValueError:
        return None
    utc = local.to_numpy()
    if zones:
        ahead = zone.replace_strict(zones, offsets, default=0, return_dtype=pl.Int64)
        utc = utc - ahead.fill_null(0).to_numpy().astype("m8[s]")
    # Microseconds first, for the error: nanoseconds would wrap around without a word.
    times = to_nanoseconds(utc, where)
    parts_of_a_second = fraction.str.pad_end(9, "0").cast(pl.Int64).fill_null(0).to_numpy()
    times = times + parts_of_a_second.astype("m8[ns]")
    if not zones:
        return times, pattern, None
    if len(set(offsets)) > 1:
        zone_of_all = "Z" if zones[0] == "Z" else "+00:00"
        return times, pattern + zone_of_all, "UTC"
    return times, pattern + zones[0], str(datetime.strptime(zones[0], "%z").tzinfo)


def _parse_patterns(texts: pl.Series, where: str) -> tuple[np.ndarray, str, None] | None:
    found: list[tuple[pl.Series, str]] = []
    first = texts.drop_nulls().head(1)
    for pattern in (day + clock for day in PATTERNS for clock in CLOCKS):
        if first.str.to_datetime(pattern, time_unit="us", strict=False).null_count():
            continue
        times = texts.str.to_datetime(pattern, time_unit="us", strict=False)
        if times.null_count() > texts.null_count():
            continue
        years = times.dt.year()
        # Digits alone are more likely to count; two digits are no year.
        likely = (FIRST_YEAR, LAST_YEAR) if pattern == "%Y%m%d" else (1000, 9999)
        if years.is_between(*likely).all():
            found.append((times, pattern))
    if not found:
        return None
    times, pattern = found[0]
    if any(not other.equals(times) for other, _ in found):
        raise DataError(
            f"The dates in {where} can be read day first or month first, and nothing in them "
            "decides which. Convert the column to time stamps, or write them as 2024-12-31."
        )
    return to_nanoseconds(times.to_numpy(), where), pattern.replace("%.f", ".%6f"), None


def parse_numbers(numbers: np.ndarray, where: str) -> tuple[np.ndarray, str] | None:
    """Dates written as whole numbers, and their pattern; None where the numbers only count.

    202601              all are months, in the years 1800 to 2200: a counter would soon leave 01
                        to 12
    20260131            all are days of the calendar, in these years
    2026013123, 202601312359, 20260131235959
                        all are such days with hours, minutes and seconds: seconds since 1970
                        would soon leave the calendar, and have no other number of digits
    """
    texts = pl.Series(numbers).cast(pl.String)
    pattern = NUMBERS.get(len(texts[0]))
    if pattern is not None and (texts.str.len_chars() == len(texts[0])).all():
        filled = texts + "00000101000000"[len(texts[0]) :]
        # 24 o'clock, which some write, is read as 0 for now; a 60th second is for clocks alone.
        midnight = filled.str.ends_with("240000")
        clock = pl.select(pl.when(midnight).then(filled.str.head(8) + "000000").otherwise(filled))
        dates = clock.to_series().str.to_datetime("%Y%m%d%H%M%S", time_unit="ns", strict=False)
        likely = dates.dt.year().is_between(FIRST_YEAR, LAST_YEAR) & (filled.str.tail(2) < "60")
        if likely.fill_null(False).all():
            if midnight.any():
                raise DataError(
                    f"The time stamp {numbers[midnight.arg_max()]} in {where} is 24 o'clock. Write "
                    "the hours of a day as 00 to 23, and midnight as the first hour of the next "
                    "day."
                )
            return dates.to_numpy(), pattern
    _refuse_parts_of_years(numbers, where)
    return None


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


def write_text(times: np.ndarray, form: TimeForm) -> pl.Series:
    """Time stamps as text, written the way the input had them.

    Where that cannot say one of them exactly, all are written in ISO 8601 with enough digits.
    """
    assert form.pattern is not None
    pattern = form.pattern
    if not can_say(pattern, times):
        finer = (f"%Y-%m-%dT{clock}{_zone(pattern)}" for clock in ISO_CLOCKS)
        pattern = next(one for one in finer if can_say(one, times))
    local = pl.Series(times + _offset(pattern))
    fraction = FRACTION.search(pattern)
    if fraction is None:
        return local.dt.strftime(pattern)
    before, after = pattern.split(fraction[0])
    # Nine digits are written, of which those that the pattern has no place for are zero.
    digits = local.dt.strftime("%9f").str.head(int(fraction[1]))
    return local.dt.strftime(before) + digits + after


def write_numbers(times: np.ndarray, form: TimeForm) -> np.ndarray:
    """Dates as whole numbers, the way `parse_numbers` found them."""
    texts = write_text(times, form)
    numbers = texts.cast(pl.Int64, strict=False)
    if numbers.null_count():
        raise DataError(
            f"The time stamp {texts[0]} cannot be written as a date in one number, which the "
            f"column {form.name!r} holds. Convert the column to time stamps."
        )
    return numbers.cast(pl.Float64 if form.floats else pl.Int64).to_numpy()


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


def can_hold(form: TimeForm, times: np.ndarray) -> bool:
    """Whether a column of the input's type, or text as it is written, can say these time stamps."""
    if form.period is not None:
        index = importlib.import_module("pandas").PeriodIndex(times, freq=form.period)
        return np.array_equal(index.to_timestamp().to_numpy(), times)
    if form.pattern is not None:
        return can_say(form.pattern, times)
    if form.kind == "number":
        return True
    return np.array_equal(times.astype(f"{times.dtype.kind}8[{form.unit}]"), times)
