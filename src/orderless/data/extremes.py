"""Readings and sensors that must not decide for others: what `fit` does about them."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from orderless.data.scaling import plausible_limits
from orderless.data.transform import Scaled

RANGES = 5.0
"""Beyond so many ranges of the middle four fifths a reading teaches and selects no more than at
that limit: 18 standard deviations of a normal variable."""
ERRATIC_CHANGE = 3.0
"""Standard deviations that an erratic variable changes by in a time step, in the mean."""
ERRATIC_RATIO = 5.0
"""Times as much as before, and as the other variables: an erratic variable changes more."""
FEWEST_VARIABLES = 4
WORTH_SAYING = 100.0
"""Standard deviations from the center at which a reading is pointed out."""
MOST_NAMED = 5


def draw_in(systems: Sequence[Scaled], ends: Sequence[int], *, stacklevel: int) -> list[Scaled]:
    """The systems as they may teach and select; a warning names what is treated so.

    Readings beyond the limits of plausibility are drawn in to these. An erratic variable is missing
    from the end of the training part on.
    """
    erratic = [find_erratic(one, end) for one, end in zip(systems, ends, strict=True)]
    _warn(systems, erratic, stacklevel + 1)
    drawn = []
    for system, wild, end in zip(systems, erratic, ends, strict=True):
        low, high = plausible_limits(system.values, system.observed, RANGES)
        late = np.arange(system.values.shape[1]) >= end
        observed = system.observed & ~(wild[:, None] & late)
        drawn.append(replace(system, values=np.clip(system.values, low, high), observed=observed))
    return drawn


def find_erratic(system: Scaled, end: int) -> np.ndarray:
    """Which variables change wildly after `end`, and neither did before nor have company in it.

    Such a sensor is broken, or measures something else by now. Of fewer than four variables none
    is: nothing says what would be normal.
    """
    nothing = np.zeros(len(system.names), bool)
    if len(system.names) < FEWEST_VARIABLES:
        return nothing
    before = _mean_change(system.values[:, :end], system.observed[:, :end])
    after = _mean_change(system.values[:, end:], system.observed[:, end:])
    ratio = after / np.maximum(before, 1e-9)
    known = np.isfinite(ratio) & ~system.constant
    if not known.any():
        return nothing
    typical = max(1.0, float(np.median(ratio[known])))
    erratic = known & (after > ERRATIC_CHANGE) & (ratio > ERRATIC_RATIO * typical)
    return erratic if 2 * erratic.sum() <= len(erratic) else nothing


def _warn(systems: Sequence[Scaled], erratic: Sequence[np.ndarray], stacklevel: int) -> None:
    """Name the variables with extreme readings, with the time steps of these; and erratic ones."""
    said = []
    for system, wild in zip(systems, erratic, strict=True):
        far = system.observed & (np.abs(system.values) > WORTH_SAYING)
        # Many of them are no exception, but another level.
        rare = far.any(1) & (100 * far.sum(1) <= system.observed.sum(1))
        for row in np.flatnonzero(wild | rare).tolist():
            name = system.names[row]
            if wild[row]:
                said.append(f"{name} is erratic at the end of the data, which is left out")
                continue
            places = np.flatnonzero(far[row]).tolist()
            most = np.abs(system.values[row, places]).max()
            shown = ", ".join(map(str, places[:MOST_NAMED])) + (
                ", ..." if places[MOST_NAMED:] else ""
            )
            said.append(
                f"{name} has {len(places)} up to {most:.0e} standard deviations from its center, "
                f"at time steps {shown}, which teach no more than a limit"
            )
    if said:
        more = f"; and {len(said) - MOST_NAMED} more" if said[MOST_NAMED:] else ""
        warnings.warn(
            f"Extreme readings in `fit`: {'; '.join(said[:MOST_NAMED])}{more}. Check them.",
            stacklevel=stacklevel,
        )


def _mean_change(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """From one time step to the next [variable]; NaN where no two are observed."""
    both = observed[:, 1:] & observed[:, :-1]
    change = np.where(both, np.abs(np.diff(values, axis=1)), 0.0)
    # A few jumps of any size are no erratic behaviour.
    change = np.minimum(change, 10 * WORTH_SAYING)
    with np.errstate(invalid="ignore"):
        return change.sum(1) / np.where(both.any(1), both.sum(1), np.nan)
