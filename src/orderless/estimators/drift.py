"""How data differs from that of `fit`, in words: alarms may be false, and forecasts far off."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from orderless.data import Panel
from orderless.data.frequency import Frequency
from orderless.data.transform import Scaled
from orderless.estimators.frequencies import find_frequencies, restore_frequency

MANY_GAPS = 0.02
"""Share of readings that may be missing beyond twice that of `fit` before a warning: where others
explain a sensor almost exactly, few gaps make false alarms several times as frequent."""
EXTREME, MARGIN, ROUNDING = 0.001, 0.1, 1e-6
"""Of the range of `fit`: the share of readings left out at either end, what is added to its width,
and to that."""
MANY_BEYOND = 0.1
"""Share of the readings of a variable beyond its range that is said."""
FEWEST, FEWEST_ALARMS = 20, 10
"""Readings that make a share, and alarms."""
ALARMS = 5.0
"""Times `contamination` that the share of alarms may be before it is said."""
MOST_NAMED = 3


def describe_other_frequencies(
    panel: Panel,
    frequencies: Sequence[Frequency],
    harm: str = "false alarms may increase",
) -> str | None:
    """Of time stamps at none of the frequencies of `fit`, where both are of time; and its harm."""
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
        f"was fitted on data {', '.join(map(str, frequencies))} apart: {harm}. "
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


def describe_more_gaps(panel: Panel, context: int, before: float) -> str | None:
    """Of a share of missing readings well above that of `fit`."""
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


@dataclass(frozen=True)
class Origin:
    """What the data of `fit` were like.

    frequencies     the commonest first
    shortest        time steps of the shortest system, or a context
    missing         share of missing readings
    ranges          of scaled values, see `learn_ranges`
    """

    frequencies: Sequence[Frequency]
    context: int
    shortest: int
    missing: float
    ranges: Mapping[str, Sequence[float]]

    @classmethod
    def learn(
        cls,
        panel: Panel,
        windows: Tensor,
        context: int,
        systems: Sequence[Scaled],
        moving: Collection[str],
    ) -> "Origin":
        """From the data of `fit`, its training windows and its scaled systems."""
        return cls(
            find_frequencies(panel, windows),
            context,
            min(context, *(len(system.times) for system in panel.systems)),
            missing_share(panel, context),
            learn_ranges(systems, moving),
        )

    def describe_differences(self, panel: Panel) -> list[str]:
        """Where data is of another kind, so that false alarms may increase."""
        found = (
            describe_other_frequencies(panel, self.frequencies),
            describe_short_systems(panel, self.shortest),
            describe_more_gaps(panel, self.context, self.missing),
        )
        return [words for words in found if words]

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Origin":
        """What `asdict` made of it."""
        frequencies = tuple(restore_frequency(one) for one in facts["frequencies"])
        rest = (facts[name] for name in ("context", "shortest", "missing", "ranges"))
        return cls(frequencies, *rest)


@dataclass(frozen=True)
class Drift:
    """How data that was scored differs from that of `fit`.

    alarms      the share of time steps with an alarm
    beyond      the share of readings outside of the range of `fit`, of variables with many
    shifted     variables whose median is outside of that range, and how many standard deviations it
                is from the center
    """

    alarms: float
    beyond: dict[str, float]
    shifted: dict[str, float]


def learn_ranges(systems: Sequence[Scaled], moving: Collection[str]) -> dict[str, list[float]]:
    """Between which scaled values nearly all readings of each variable lie, and a little more."""
    found: dict[str, list[np.ndarray]] = {}
    for system in systems:
        for name, values, observed in zip(
            system.names, system.values, system.observed, strict=True
        ):
            if name in moving and observed.any():
                found.setdefault(name, []).append(values[observed])
    ranges = {}
    for name, parts in sorted(found.items()):
        low, high = np.quantile(np.concatenate(parts), (EXTREME, 1 - EXTREME)).tolist()
        margin = MARGIN * (high - low) + ROUNDING
        ranges[name] = [low - margin, high + margin]
    return ranges


def find_drift(
    systems: Sequence[Scaled],
    ranges: Mapping[str, Sequence[float]],
    alarms: Sequence[np.ndarray] = (),
) -> Drift:
    """From scaled systems and, where there are any, alarms [time] of each."""
    found: dict[str, list[np.ndarray]] = {}
    for system in systems:
        for name, values, observed in zip(
            system.names, system.values, system.observed, strict=True
        ):
            if name in ranges and observed.any():
                found.setdefault(name, []).append(values[observed])
    beyond, shifted = {}, {}
    for name, parts in sorted(found.items()):
        values, (low, high) = np.concatenate(parts), ranges[name]
        share = float(((values < low) | (values > high)).mean())
        if len(values) >= FEWEST and share > MANY_BEYOND:
            beyond[name] = share
            median = float(np.median(values))
            if not low <= median <= high:
                shifted[name] = median
    steps = np.concatenate([*alarms, np.zeros(0, bool)])
    return Drift(float(steps.mean()) if len(steps) else 0.0, beyond, shifted)


def describe_drift(drift: Drift, contamination: float = 1.0, steps: int = 0) -> str | None:
    """That these data are not what was fitted, and which variables differ most.

    contamination, steps: the share of alarms that is normal, and of how many time steps.
    """
    parts = []
    if drift.alarms > ALARMS * contamination and drift.alarms * steps >= FEWEST_ALARMS:
        parts.append(
            f"{drift.alarms:.0%} of the time steps raise an alarm, and "
            f"{100 * contamination:.2g}% of normal ones should"
        )
    if drift.shifted:
        worst = sorted(drift.shifted, key=lambda name: -abs(drift.shifted[name]))
        each = [f"{name} ({drift.shifted[name]:+.1f} standard deviations)" for name in worst]
        parts.append(f"the level has shifted of {_some(each)}")
    others = [name for name in drift.beyond if name not in drift.shifted]
    if others:
        worst = sorted(others, key=lambda name: -drift.beyond[name])
        each = [f"{name} ({drift.beyond[name]:.0%} of its readings)" for name in worst]
        parts.append(f"beyond their range in `fit` are {_some(each)}")
    if not parts:
        return None
    return (
        f"These data are not what was fitted: {'; '.join(parts)}. If this is normal now, fit again "
        "on newer data."
    )


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more
