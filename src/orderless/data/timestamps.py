"""Time stamps out of columns of any type, and back into them."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
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
    r"(\d{4}-\d{2}-\d{2})(?:([T ])\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?"
)
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
    iso = ISO.fullmatch(texts[next(i for i, one in enumerate(texts) if one is not None)] or "")
    try:
        return _parse_iso(texts, iso, where) if iso else _parse_patterns(texts, where)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        return None


def _parse_iso(
    texts: list[str | None], first: re.Match[str], where: str
) -> tuple[np.ndarray, TimeForm]:
    separator, seconds, fraction, zone = first.group(2, 3, 4, 5)
    pattern = "%Y-%m-%d"
    if separator:
        pattern += f"{separator}%H:%M" + (":%S" if seconds else "") + (".%f" if fraction else "")
    if zone:
        parsed = [None if one is None else datetime.fromisoformat(one) for one in texts]
        if any(one is not None and one.tzinfo is None for one in parsed):
            raise DataError(
                f"Some time stamps in {where} have an offset from UTC and some have none. Write "
                "all of them the same way."
            )
        naive = [
            None if one is None else one.astimezone(UTC).replace(tzinfo=None) for one in parsed
        ]
        pattern += "Z" if zone == "Z" else "+00:00"
        return to_nanoseconds(np.array(naive, "M8[us]"), where), TimeForm(
            "text", pattern=pattern, time_zone="UTC"
        )
    if not all(one is None or ((found := ISO.fullmatch(one)) and not found[5]) for one in texts):
        raise ValueError("not all of them are ISO 8601 without an offset")
    times = np.array(["NaT" if one is None else one for one in texts], "M8[ns]")
    to_nanoseconds(np.array(["NaT" if one is None else one for one in texts], "M8[us]"), where)
    return times, TimeForm("text", pattern=pattern)


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
            times = to_nanoseconds(np.array(parsed, "M8[us]"), where)
            found.append((times, TimeForm("text", pattern=day + clock)))
    if len(found) == 2 and not np.array_equal(found[0][0], found[1][0], equal_nan=True):
        raise DataError(
            f"The dates in {where} can be read day first or month first, and nothing in them "
            "decides which. Convert the column to time stamps, or write them as 2024-12-31."
        )
    return found[0] if found else None


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
    return to_nanoseconds(times, where), TimeForm("datetime", time_zone=zone)


def write_text(times: Iterable[np.datetime64], form: TimeForm) -> list[str]:
    """Time stamps as text, written the way the input had them."""
    assert form.pattern is not None
    return [one.astype("M8[us]").item().strftime(form.pattern) for one in times]
