"""How data differs from that of `fit`, where false alarms may increase because of it, in words."""

from collections.abc import Sequence

import numpy as np

from orderless.data import Panel
from orderless.data.frequency import Frequency

MANY_GAPS = 0.02
"""Share of readings that may be missing beyond twice that of `fit` before a warning: where others
explain a sensor almost exactly, few gaps make false alarms several times as frequent."""


def describe_other_frequencies(panel: Panel, frequencies: Sequence[Frequency]) -> str | None:
    """Of time stamps at none of the frequencies of `fit`, where both are of time."""
    if panel.form.time.only_counts:
        return None
    found = {system.frequency for system in panel.systems if system.frequency is not None}
    known = {one.unit == "step" for one in frequencies}
    other = [
        one
        for one in found
        if (one.unit == "step") in known and not any(one.is_like(seen) for seen in frequencies)
    ]
    if not other:
        return None
    return (
        f"Time stamps are {', '.join(sorted({str(one) for one in other}))} apart, and the model "
        f"was fitted on data {', '.join(map(str, frequencies))} apart: false alarms may increase. "
        "Give rows at that frequency, or fit at this one."
    )


def describe_short_systems(panel: Panel, shortest: int) -> str | None:
    """Of systems shorter than the shortest of `fit`."""
    short = sum(len(system.times) < shortest for system in panel.systems)
    if not short:
        return None
    return (
        f"{short} of {len(panel.systems)} systems have fewer than {shortest} time steps, and none "
        "had in `fit`: false alarms may increase beyond `contamination`. Give earlier rows with "
        "them."
    )


def describe_more_gaps(panel: Panel, context: int, before: float | None) -> str | None:
    """Of a share of missing readings well above that of `fit`, where that is known."""
    if before is None:
        return None
    missing = missing_share(panel, context)
    if missing <= 2 * before + MANY_GAPS:
        return None
    return (
        f"{missing:.0%} of the readings are missing, and {before:.0%} were in `fit`: false alarms "
        "may increase beyond `contamination`. Fit on data with as many gaps."
    )


def missing_share(panel: Panel, context: int) -> float:
    """The share of readings that are missing where a variable has any within a context.

    One that is dead for as long is no gap: it changes nothing of the others.
    """
    seen = entries = 0
    for system in panel.systems:
        steps = len(system.times)
        starts = np.arange(0, steps, context)
        counts = np.add.reduceat(system.observed, starts, axis=1, dtype=np.int64)
        seen += int(counts.sum())
        entries += int(((counts > 0) * np.diff(starts, append=steps)).sum())
    return 1 - seen / max(entries, 1)
