"""What follows from scores: alarms, events, and a flat column."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from orderless.data import Panel
from orderless.models.detection import Event, find_events


class Scores(NamedTuple):
    """Of each system: its time steps [time], and each of its variables [variable, time]."""

    steps: list[np.ndarray]
    each: list[np.ndarray]


class Alarms(NamedTuple):
    """Which of `Scores` are above their thresholds."""

    steps: list[np.ndarray]
    each: list[np.ndarray]


def find_alarms(scores: Scores, threshold: float, thresholds: Sequence[np.ndarray]) -> Alarms:
    """thresholds: [variable] of each system."""
    each = zip(scores.each, thresholds, strict=True)
    return Alarms(
        [one > threshold for one in scores.steps], [one > own[:, None] for one, own in each]
    )


def list_events(panel: Panel, scores: Scores, alarms: Alarms) -> list[Event]:
    """The events of every system."""
    return [
        event
        for system, *rest in zip(panel.systems, *scores, *alarms, strict=True)
        for event in find_events(system.name, system.times, system.variables, *rest)
    ]


def flatten(panel: Panel, table: Any, name: str) -> Any:
    """One column of a result: a series of pandas with its index, an array of what else it is."""
    if panel.form.kind in ("array", "arrays"):
        return table
    if isinstance(table, Mapping):
        return np.asarray(table[name])
    column = nw.from_native(table, eager_only=True)[name]
    return column.to_native() if column.implementation.is_pandas() else column.to_numpy()
