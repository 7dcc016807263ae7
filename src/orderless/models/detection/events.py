"""From scores to events: when each began, peaked and ended, and which variables were to blame."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from orderless.models.detection.scores import LENGTHS

MOST_BLAMED = 5
"""Variables that an event names."""


class Event(NamedTuple):
    """Time steps in a row that raised an alarm, and short breaks between them.

    system      the value of the group column, or the number of the system
    start, end, peak    time stamps of the first and the last alarm and of the highest score
    score       the highest score
    lead        time steps by which the first of the variables raised an alarm of its own earlier
    variables   those to blame, by the sum of their scores
    """

    system: Any
    start: Any
    end: Any
    peak: Any
    score: float
    lead: int
    variables: tuple[str, ...]


def find_events(
    system: Any,
    times: np.ndarray,
    names: Sequence[str],
    steps: np.ndarray,
    each: np.ndarray,
    alarm: np.ndarray,
    alarms: np.ndarray,
) -> list[Event]:
    """The events of one system.

    steps, alarm    [time] its scores, and which of them raise an alarm
    each, alarms    [variable, time] those of its variables
    """
    scores = np.where(np.isfinite(each), each, 0.0)
    events = []
    for begin, end in _runs(alarm):
        own = scores[:, begin:end].sum(1) * alarms[:, begin:end].any(1)
        order = np.argsort(-own, kind="stable")
        blamed = order[own[order] > 0][:MOST_BLAMED]
        if not len(blamed):
            blamed = scores[:, begin:end].sum(1).argmax(keepdims=True)
        peak = begin + int(np.nanargmax(steps[begin:end]))
        events.append(
            Event(
                system=system,
                start=times[begin],
                end=times[end - 1],
                peak=times[peak],
                score=float(steps[peak]),
                lead=max(_steps_before(alarms[row], begin) for row in blamed),
                variables=tuple(names[row] for row in blamed),
            )
        )
    return events


def _runs(alarm: np.ndarray) -> list[tuple[int, int]]:
    """Half-open spans; a break shorter than the longest average ends none."""
    at = np.flatnonzero(alarm)
    if not len(at):
        return []
    apart = np.flatnonzero(np.diff(at) > max(LENGTHS))
    begins, ends = at[np.append(0, apart + 1)], at[np.append(apart, len(at) - 1)] + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _steps_before(alarm: np.ndarray, begin: int) -> int:
    """For how many time steps in a row there was an alarm just before."""
    quiet = np.flatnonzero(~alarm[:begin])
    return begin - 1 - int(quiet[-1]) if len(quiet) else begin
