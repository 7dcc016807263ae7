"""The steps of time that a model was fitted at."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from orderless.data import Panel
from orderless.data.frequency import UNITS, Frequency, is_exact


def find_frequencies(panel: Panel, windows: Tensor) -> tuple[Frequency, ...]:
    """Those of training windows [window, (system, start)], that of most of them first.

    Of rows that are only counted there is none. Systems too short for a window have no say: what
    their few rows show may be chance.
    """
    if panel.form.time.only_counts:
        return ()
    counts: Counter[Frequency] = Counter()
    for number, count in Counter(windows[:, 0].tolist()).items():
        system = panel.systems[number]
        step = system.frequency
        # That of jittered stamps is a mean, at which no others lie for long.
        if step is not None and is_exact(system.times, step):
            counts[step] += count
    distinct: list[Frequency] = []
    for step in sorted(counts, key=lambda one: (-counts[one], one.count)):
        if not any(step.is_like(one) for one in distinct):
            distinct.append(step)
    return tuple(distinct)


def restore_frequency(fact: Mapping[str, Any]) -> Frequency:
    """A step from the facts of a saved model; ValueError where they are of none."""
    step = Frequency(**fact)
    if step.unit not in UNITS or not step.count > 0:
        raise ValueError(f"{fact} is no step of time")
    return step
