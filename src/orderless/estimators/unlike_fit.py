"""How data differs from that of `fit` where ordinary moments may ring because of it, in words."""

from collections.abc import Sequence

import numpy as np

from orderless.data import Panel
from orderless.data.frequency import Frequency

MANY_GAPS = 0.02
"""Share of readings that may be missing beyond twice that of `fit` before a warning: where others
tell a sensor almost exactly, few gaps make ordinary moments ring several times as often."""


def tell_other_steps(panel: Panel, frequencies: Sequence[Frequency]) -> str | None:
    """Of time stamps at none of the steps of `fit`, where both are of time."""
    if panel.form.time.only_counts:
        return None
    steps = {system.frequency for system in panel.systems if system.frequency is not None}
    known = {one.unit == "step" for one in frequencies}
    other = [
        step
        for step in steps
        if (step.unit == "step") in known and not any(step.is_like(one) for one in frequencies)
    ]
    if not other:
        return None
    return (
        f"Time stamps are {', '.join(sorted({str(step) for step in other}))} apart, and the model "
        f"was fitted at a step of {', '.join(map(str, frequencies))}: to it, ordinary moments may "
        "look odd. Give rows at that step, or fit at this one."
    )


def tell_short_systems(panel: Panel, shortest: int) -> str | None:
    """Of systems shorter than the shortest of `fit`."""
    short = sum(len(system.times) < shortest for system in panel.systems)
    if not short:
        return None
    return (
        f"{short} of {len(panel.systems)} systems have fewer than {shortest} time steps, and none "
        "had in `fit`: ordinary moments may ring more often than `contamination` says. Give "
        "earlier rows with them."
    )


def tell_more_gaps(panel: Panel, context: int, usual: float | None) -> str | None:
    """Of a share of missing readings well above that of `fit`, where that is known."""
    if usual is None:
        return None
    missing = missing_share(panel, context)
    if missing <= 2 * usual + MANY_GAPS:
        return None
    return (
        f"{missing:.0%} of the readings are missing, and {usual:.0%} were in `fit`: ordinary "
        "moments may ring more often than `contamination` says. Fit on data with as many gaps."
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
