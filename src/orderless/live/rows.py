"""The latest rows of a stream in constant memory, and the clock that says where a tick lies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from orderless.data.containers import LARGEST
from orderless.data.frequency import Frequency, on_step, places
from orderless.data.timestamps import to_nanoseconds
from orderless.errors import DataError

COUNTED = Frequency(1, "step")
"""The step of rows that are only counted."""


class Rows:
    """At least the `keep` latest rows, and fewer than `stride` more.

    Rows are dropped from the front, so many together that the first one kept is a multiple of
    `stride` from the beginning. A variable that has no reading in what is kept has left.

    first, count    the first row kept and the number of rows so far, both from the beginning
    """

    def __init__(self, keep: int, stride: int = 1) -> None:
        self.keep, self.stride = keep, stride
        self.first = self.count = 0
        self._place: dict[str, int] = {}
        self._offset = 0  # of the first column in memory
        self._values = np.full((0, 2 * (keep + stride)), np.nan)
        self._latest = np.zeros(0, np.int64)  # row of the latest reading of each variable

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in the order in which they joined."""
        return tuple(self._place)

    @property
    def values(self) -> np.ndarray:
        """Readings [variable, row] of what is kept, NaN where there is none."""
        return self._values[:, self.first - self._offset : self.count - self._offset]

    def append(self, readings: Mapping[str, float], steps: int = 1) -> None:
        """A row so many steps after the last one; what lies between was not observed."""
        before, self.count = self.count, self.count + steps
        self.first = max(0, (self.count - self.keep) // self.stride * self.stride)
        self._leave()
        if self.count - self._offset > self._values.shape[1]:
            kept = self._values[
                :, self.first - self._offset : max(self.first, before) - self._offset
            ]
            self._values = np.full_like(self._values, np.nan)
            self._values[:, : kept.shape[1]] = kept
            self._offset = self.first
        self._join([name for name in readings if name not in self._place])
        rows = [self._place[name] for name in readings]
        self._values[rows, self.count - 1 - self._offset] = list(readings.values())
        self._latest[rows] = self.count - 1

    def restore(self, names: Sequence[str], values: np.ndarray, count: int) -> None:
        """The rows that another has kept, the latest of so many."""
        self._place = {name: row for row, name in enumerate(names)}
        self.count, self.first = count, count - values.shape[1]
        self._offset = self.first
        self._values = np.full((len(names), self._values.shape[1]), np.nan)
        self._values[:, : values.shape[1]] = values
        rows = np.where(np.isnan(values), -1, np.arange(self.first, count))
        self._latest = rows.max(1, initial=-1)

    def _join(self, names: Sequence[str]) -> None:
        if names:
            self._place |= {name: len(self._place) + row for row, name in enumerate(names)}
            more = ((0, len(names)), (0, 0))
            self._values = np.pad(self._values, more, constant_values=np.nan)
            self._latest = np.pad(self._latest, more[:1])

    def _leave(self) -> None:
        stay = self._latest >= self.first
        if not stay.all():
            names = [name for name, stays in zip(self._place, stay, strict=True) if stays]
            self._place = {name: row for row, name in enumerate(names)}
            self._values, self._latest = self._values[stay], self._latest[stay]


@dataclass
class Clock:
    """Where the time of a tick lies: so many steps after the last one.

    step    from one time to the next, as `fit` had it
    last    the time of the last tick, None before the first
    zoned   whether times name their zone: all do, or none
    """

    step: Frequency
    last: Any = None
    zoned: bool | None = None

    def read(self, time: Any) -> tuple[Any, bool | None]:
        """A time as it is kept, and whether it names its zone."""
        if self.step.unit == "step":
            return self._number(time), None
        try:
            if isinstance(time, str):
                time = datetime.fromisoformat(time.strip())
            zoned = getattr(time, "tzinfo", None) is not None
            if zoned:
                time = (time - time.utcoffset()).replace(tzinfo=None)
            if isinstance(time, (datetime, date, np.datetime64)):
                kept = to_nanoseconds(np.asarray(np.datetime64(time)), "the ticks")[()]
            elif isinstance(time, (timedelta, np.timedelta64)):
                kept = to_nanoseconds(np.asarray(np.timedelta64(time)), "the ticks")[()]
            else:
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            raise DataError(
                f"The time of a tick is {time!r}; the model knows a step of {self.step}. Give a "
                "time stamp such as 2026-01-31T12:00."
            ) from None
        if np.isnat(kept):
            raise DataError("A tick has no time. Give every tick a time stamp.")
        if self.last is not None and (zoned != self.zoned or kept.dtype != self.last.dtype):
            raise DataError(
                f"The time {time} is of another kind than those before: some name their zone and "
                "some do not, or durations follow dates. Write all of them the same way."
            )
        return kept, zoned

    def _number(self, time: Any) -> Any:
        if time is None and self.step == COUNTED:
            return np.int64(0) if self.last is None else self.last + self.last.dtype.type(1)
        whole = isinstance(time, (int, np.integer))
        number = whole or isinstance(time, (float, np.floating))
        if isinstance(time, bool) or not number or not math.isfinite(time) or abs(time) > 2**62:
            raise DataError(
                f"The time of a tick is {time!r}, and `fit` saw numbers as time, or no exact step. "
                f"Give numbers with a step of {self.step}, or no time where rows are only counted."
            )
        return np.int64(time) if whole and isinstance(self.step.count, int) else np.float64(time)

    def steps_to(self, time: Any, zoned: bool | None) -> int:
        """How many steps after the last tick a time lies; 0 or less for one that is late."""
        if self.last is None:
            return 1
        if time <= self.last:
            return 0
        pair = np.array([self.last, time])
        zone = (self.step.time_zone or "UTC") if zoned else None
        step = on_step(pair, self.step, zone)
        if step is None:
            raise DataError(
                f"The time {time} does not lie on the step of `fit`, {self.step}, after "
                f"{self.last}, or far beyond it. Give ticks at whole steps, some of which may be "
                "missing; after 100,000 missing ones begin a new stream."
            )
        return int(places(pair, step)[1])

    def future(self, horizon: int) -> np.ndarray:
        """The times of the next steps."""
        step = self.step
        if step.unit == "months" and self.last is not None:
            zone = (step.time_zone or "UTC") if self.zoned else None
            step = on_step(np.array([self.last]), step, zone) or step
        return step.future(self.last, horizon)


def read_readings(readings: Mapping[Any, Any]) -> dict[str, float]:
    """The readings of a tick that are there, by name: neither None nor NaN."""
    found = {}
    for name, value in readings.items():
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"The reading of {name} is {value!r}, which is no number. Give a number, or none "
                "where nothing was read."
            ) from None
        if abs(number) > LARGEST:
            raise DataError(
                f"The reading of {name} is {number:g}. Leave it out where nothing was read."
            )
        if not math.isnan(number):
            found[str(name)] = number
    return found
