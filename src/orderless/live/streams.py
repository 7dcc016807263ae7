"""One tick in, one answer out: what `predict` or `score` would say of the rows that are kept.

A stream keeps the latest rows, as many as an answer rests on, and reads nothing twice. For a
`Forecaster` they are `reach` rows. For a `Detector` they are those of the level (`adapt`) and of
the members: of the variables that `fit` saw, all but the end of them stays as it was, and only the
end is computed. Variables that `fit` did not see, or a group that it did not, have units that every
tick changes: then all rows that are kept are scaled anew.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from orderless.data import Form, Panel, System
from orderless.data.containers import LARGEST
from orderless.data.groups import match_groups
from orderless.data.transform import Scaled
from orderless.errors import DataError, ModelFileError, VariableMismatch
from orderless.live.rows import COUNTED, Clock, Rows, read_readings
from orderless.models.detection import around_levels, find_members, level_at, level_stride
from orderless.models.detection.network import Reconstruction
from orderless.models.fingerprint import fingerprint
from orderless.models.threads import threads_for

TAIL = 32
"""Rows that the last score rests on, the network apart: 16 of which scores are the mean, each by
windows of up to 16 rows before."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Forecast:
    """The answer to a tick.

    number      of the tick, from 1
    time        as the tick had it
    times       [horizon] that are forecast
    values      for each ending ("" and those of intervals) and variable, [horizon]; NaN where
                nothing was observed within the context
    """

    number: int
    time: Any
    times: np.ndarray
    values: Mapping[str, Mapping[str, np.ndarray]]

    def record(self) -> dict[str, Any]:
        """The same as JSON."""
        times = [_plain(one) for one in self.times]
        values = {
            f"{name}-{ending}" if ending else name: [_plain(one) for one in row]
            for ending, rows in self.values.items()
            for name, row in rows.items()
        }
        return {"number": self.number, "time": _plain(self.time), "times": times, "values": values}


@dataclass(frozen=True)
class Score:
    """The answer to a tick.

    number      of the tick, from 1
    time        as the tick had it
    score       how anomalous it is; NaN where nothing was observed
    alarm       whether it is above the threshold
    variables   the score of each variable that was observed, the highest first
    blame       those of them above their own thresholds
    """

    number: int
    time: Any
    score: float
    alarm: bool
    variables: Mapping[str, float]
    blame: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "number": self.number,
            "time": _plain(self.time),
            "score": _plain(self.score),
            "alarm": self.alarm,
            "blame": list(self.blame),
            "variables": {name: _plain(one) for name, one in self.variables.items()},
        }


class Stream(ABC, Generic[Answer]):
    """A fitted model and the latest rows.

    Variables join with their first reading, leave when none of theirs is left in what is kept, and
    return like new ones. Time lies on the step of `fit`; ticks that are missing are rows in which
    nothing was observed. A tick that is late, doubled or out of order is dropped and counted: the
    answer for its time was given.

    dropped     how many ticks were
    """

    def __init__(self, model: Any, group: Hashable, keep: int, stride: int = 1) -> None:
        self.model, self.group = model, group
        self.dropped = self.number = 0
        self.rows = Rows(keep, stride)
        self.clock = Clock(model.frequencies_[0] if model.frequencies_ else COUNTED)

    @cached_property
    def state_is_of(self) -> str:
        """A digest of the model and the group, which a state goes with."""
        model = self.model
        facts = [type(model).__name__, str(self.group), list(model.variables_in_)]
        facts += [model.transform_.facts(), model.weights_]
        return fingerprint(facts, *model.stack_.state()[1].values())

    def push(self, readings: Mapping[Any, Any] | Sequence[Any], time: Any = None) -> Answer | None:
        """Take a tick and answer it; None where it was dropped.

        readings: by name, or a row in the order of the variables of `fit`; None or NaN where
        nothing was read. time: the time stamp; None where `fit` saw rows that were counted.
        """
        found = read_readings(self._by_name(readings))
        kept, zoned = self.clock.read(time)
        steps = self.clock.steps_to(kept, zoned)
        if steps < 1:
            self.dropped += 1
            return None
        self.rows.append(found, steps)
        self.clock = replace(self.clock, last=kept, zoned=zoned)
        self.number += 1
        with threads_for(len(self.rows.names)):
            return self._answer(kept if time is None else time)

    def state(self) -> bytes:
        """All that a stream of the same model needs to go on."""
        last = self.clock.last
        facts = {
            "model": self.state_is_of,
            "names": self.rows.names,
            "count": self.rows.count,
            "number": self.number,
            "dropped": self.dropped,
            "last": None if last is None else [last.dtype.str, last.view(np.int64).item()],
            "zoned": self.clock.zoned,
        }
        rows = np.ascontiguousarray(self.rows.values)
        content = json.dumps(facts).encode()
        return len(content).to_bytes(8, "little") + content + rows.astype("<f8").tobytes()

    def restore(self, state: bytes) -> None:
        """Go on from a state; nothing changes where it is damaged or that of another model."""
        try:
            facts, values = _parse(state)
            names, count = [str(name) for name in facts["names"]], int(facts["count"])
            number, dropped = int(facts["number"]), int(facts["dropped"])
            last = None if facts["last"] is None else _time(*facts["last"])
            longest = self.rows.keep + self.rows.stride
            if len(set(names)) < len(names) or not values.shape[1] <= min(count, longest):
                raise ValueError
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise ModelFileError(
                "The state of the stream is damaged. Remove it to begin anew."
            ) from error
        if facts["model"] != self.state_is_of:
            raise ModelFileError(
                "The state is that of a stream of another model or group. Name the model that it "
                "began with, or begin a new stream in another folder."
            )
        self.rows.restore(names, values, count)
        self.clock = replace(self.clock, last=last, zoned=facts["zoned"])
        self.number, self.dropped = number, dropped

    @abstractmethod
    def _answer(self, time: Any) -> Answer:
        """What the model says of the rows that are kept."""

    def _by_name(self, readings: Mapping[Any, Any] | Sequence[Any]) -> Mapping[Any, Any]:
        names = self.model.variables_in_
        if not isinstance(readings, Mapping):
            if len(readings) != len(names):
                raise DataError(
                    f"The row has {len(readings)} readings; `fit` saw {len(names)} variables. Give "
                    "as many, None where nothing was read, or name them in a dict."
                )
            return dict(zip(names, readings, strict=True))
        if self.model.strict_variables and not set(map(str, readings)) <= set(names):
            new = sorted(set(map(str, readings)) - set(names))
            raise VariableMismatch(
                f"The tick has variables that `fit` did not see: {', '.join(new[:5])}. Use "
                "strict_variables=False to allow that."
            )
        return readings

    def _panel(self, begin: int = 0) -> Panel:
        """What is kept, or the end of it, as the model reads it."""
        values = self.rows.values[:, begin:]
        positions = np.arange(values.shape[1])
        system = System(
            values=values,
            observed=~np.isnan(values),
            variables=self.rows.names,
            times=positions,
            frequency=None,
            rows=positions,
            input_rows=positions,
            name=0 if self.group is None else self.group,
        )
        return Panel((system,), Form("wide", group=None if self.group is None else "group"))


class ForecastStream(Stream[Forecast]):
    """A `Forecaster` on a stream."""

    def __init__(self, model: Any, group: Hashable, endings: Mapping[str, float]) -> None:
        super().__init__(model, group, model.reach)
        self.endings = endings

    def _answer(self, time: Any) -> Forecast:
        names = self.rows.names
        found = self.model.forecast_systems(self._panel().systems, self.endings) if names else {}
        values = {ending: dict(zip(names, rows[0], strict=True)) for ending, rows in found.items()}
        return Forecast(self.number, time, self.clock.future(self.model.horizon_), values)


class ScoreStream(Stream[Score]):
    """A `Detector` on a stream."""

    def __init__(self, model: Any, group: Hashable) -> None:
        network = any(isinstance(one, Reconstruction) for one in model.stack_.members)
        # Windows of the network are counted from the front, and so are times of one level.
        self.window_stride = max(1, model.context_ // 2) if network else 1
        self.tail = TAIL + (2 * model.context_ if network else 0)
        self.level_stride = 1 if model.adapt_ is None else level_stride(model.adapt_)
        keep = self.tail + self.window_stride + self.level_stride + (model.adapt_ or 0)
        super().__init__(model, group, keep, math.lcm(self.window_stride, self.level_stride))
        self._levels: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._names: tuple[str, ...] = ()

    def restore(self, state: bytes) -> None:
        """The same; levels are found anew."""
        super().restore(state)
        self._levels = {}

    def _answer(self, time: Any) -> Score:
        names = self.rows.names
        if not names:
            return Score(self.number, time, math.nan, False, {}, ())
        recent, members = self._recent()
        steps, each = self.model.score_scaled([recent], [members])
        score, last = float(steps[0][-1]), each[0][:, -1]
        seen = sorted(np.flatnonzero(~np.isnan(last)), key=lambda row: -last[row])
        own = self.model.calibration_.thresholds_of(names, self.model.transform_)
        above = last > own
        return Score(
            self.number,
            time,
            score,
            score > self.model.threshold_,
            {names[row]: float(last[row]) for row in seen},
            tuple(names[row] for row in seen if above[row]),
        )

    def _recent(self) -> tuple[Scaled, np.ndarray]:
        """The end of what is kept, in the units of the members; and which variables are some."""
        length = self.rows.count - self.rows.first
        begin = max(0, (length - self.tail) // self.window_stride * self.window_stride)
        if not self._is_familiar():
            whole = self.model.apply_all(self._panel())[0]
            part = whole.pick(np.arange(len(whole.names)), begin)
            return replace(part, restore=whole.restore), find_members(whole)
        recent = self.model.transform_.apply_all(self._panel(begin))[0]
        if self.model.adapt_ is not None:
            levels = self._levels_from(begin, length)
            recent = around_levels(recent, *levels, self.model.origin_.ranges)
        return recent, ~self.model.transform_.is_constant(recent.names)

    def _is_familiar(self) -> bool:
        """Whether `fit` has the center and the scale of every variable."""
        transform, names = self.model.transform_, self.rows.names
        if transform.centers is None:
            return all(name in transform.scales for name in names)
        centers = transform.centers
        (key,) = match_groups(self._panel().systems, centers)
        if self.group is None:
            key = next(iter(centers)) if len(centers) == 1 else None
        return key is not None and all(name in centers[key] for name in names)

    def _levels_from(self, begin: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Levels [variable, time] of values and departures, each found once."""
        first, stride = self.rows.first, self.level_stride
        blocks = np.arange(begin, length) // stride
        wanted = [first + stride * int(block) for block in np.unique(blocks)]
        if self._names != self.rows.names:
            self._levels, self._names = {}, self.rows.names
        missing = [one for one in wanted if one not in self._levels]
        if missing:
            whole = self.model.transform_.apply_all(self._panel())[0]
            whole = replace(whole, values=np.where(whole.observed, whole.values, np.nan))
            for one in missing:
                self._levels[one] = (
                    level_at(whole.values, one - first, self.model.adapt_),
                    level_at(whole.departures, one - first, self.model.adapt_),
                )
        self._levels = {one: self._levels[one] for one in wanted}
        values, departures = (
            np.stack([self._levels[one][kind] for one in wanted], 1)[:, blocks - blocks[0]]
            for kind in (0, 1)
        )
        return values, departures


def _parse(state: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """The facts of a state, and its rows [variable, row]; ValueError where it is damaged."""
    begin = 8 + int.from_bytes(state[:8], "little")
    facts = json.loads(state[8:begin])
    rows = np.frombuffer(state[begin:], "<f8").astype(np.float64)
    if abs(rows[~np.isnan(rows)]).max(initial=0.0) > LARGEST:
        raise ValueError("infinite readings")
    return facts, rows.reshape(len(facts["names"]), -1 if facts["names"] else 0)


def _time(kind: str, bits: int) -> Any:
    """A time of one of the kinds that a clock keeps."""
    if kind not in ("<i8", "<f8", "<M8[ns]", "<m8[ns]"):
        raise ValueError(f"{kind} is no kind of time")
    return np.int64(bits).view(kind)


def _plain(value: Any) -> Any:
    """A number or a time as JSON has it; null for NaN."""
    if isinstance(value, (float, np.floating)):
        return None if math.isnan(value) else float(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.datetime64):
        whole = value == value.astype("datetime64[s]")
        return str(np.datetime_as_string(value, unit="s" if whole else "ns"))
    return value if isinstance(value, (int, str, type(None))) else str(value)
