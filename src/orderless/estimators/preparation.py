"""From a panel to what a network sees: variables in canonical order, in units of their spread.

Sorting by name inside and restoring outside makes results the same bit for bit for every order of
the columns. Scales come from the rows of `fit` for variables it saw, and from the history at hand
for others.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from orderless.data import Panel, Scaler, System, canonical_order, fit_scaler, mean_and_spread
from orderless.data.scaling import ROUNDING
from orderless.errors import DataError

Scales = Mapping[str, tuple[float, float]]
"""Mean and spread of each variable that `fit` saw; a spread of 0 where it never changed."""


FAR = 1e3
"""Spreads from the mean at which float32 begins to lose digits of what changes."""
FARTHEST = 1e8
"""Spreads from the mean beyond which all values are the same to a network: squares of larger ones
would soon leave float32."""
MOVED = 1e-6
"""Share of its constant that a variable which stood still must leave it by to have moved: more than
a reading is rounded by in float32 (6e-8), in any unit. What was 0 has moved where it is not."""
MOVE = 10.0
"""Spreads that such a move counts as, whatever its size: there is no spread to measure it in."""
WHOLE = re.compile(r"(-?)0*([0-9]+?)(?:\.0*)?")
"""A whole number; what it is without zeros that say nothing."""


@dataclass(frozen=True)
class Prepared:
    """One system, sorted by name and scaled; `restore` puts rows back in the caller's order.

    `still` [variable]: which changed neither in what `fit` saw nor in the look-back; of those that
    it did not see, which never changed.
    `moves` [variable, time]: of those that stood still in `fit`, how many spreads they are off: 0
    or `MOVE`. NaN for others, and where nothing was observed.
    `usual` [variable]: the usual spread of each in the units of `values`, for intervals; None where
    nobody asks for it.
    """

    names: tuple[str, ...]
    values: np.ndarray
    observed: np.ndarray
    scaler: Scaler
    still: np.ndarray
    restore: np.ndarray
    moves: np.ndarray
    usual: np.ndarray | None = None


def check_observed(panel: Panel) -> None:
    """Refuse data in which nothing was ever observed."""
    if not any(system.observed.any() for system in panel.systems):
        raise DataError("Not a single value is observed: there is nothing to learn from.")


def prepare(
    system: System,
    scales: Scales,
    *,
    last: int | None = None,
    end: int | None = None,
    levels: Mapping[str, float] | None = None,
    shared: bool = False,
    marked: bool = False,
) -> Prepared:
    """The first `end` time steps of a system, and of them the last `last`, ready for a network.

    Nothing after `end` has any influence, on the scales neither. A variable that `fit` saw keeps
    its scale, so that a fault stands out, and an old one does no harm. Only where most of a
    look-back, the last `last` steps, is far from the mean is it centred by itself, and where it is
    beyond all measure then, scaled like an unknown one: on another level or in other units it can
    still be forecast.

    One that stood still in `fit` has no scale: it is in its own unit. In a look-back in which it
    moves it is scaled by what it does there since it began to.

    levels: the means of this system, where systems have their own; others are those at hand.
    shared: all variables have the scale of the empty name, see `share_scale`.
    marked: where one that stood still in `fit` is off its constant is told by `moves`. To the
    network it stands still for ever: it has learned nothing else of it.
    """
    order, restore = canonical_order(system.variables)
    names = tuple(system.variables[i] for i in order)
    values, observed = system.values[order, :end], system.observed[order, :end]
    if shared:
        scales = dict.fromkeys(names, scales[""])
    elif levels is not None:
        scales = _on_levels(scales, levels, names, values, observed, marked)
    scaler = _scaler(names, values, observed, scales, last)
    still = _still(names, values, observed, scales, last)
    if last is not None:
        values, observed = values[:, -last:], observed[:, -last:]
    scaled = np.clip(scaler.apply(values), -FARTHEST, FARTHEST)
    moves = np.full(values.shape, np.nan)
    if marked:
        stood = stood_still(names, scales)
        moves[stood] = _moves(values[stood], observed[stood], scaler.mean[stood])
        # Also a new one that stands still: in large numbers its rounding is large.
        scaled[stood | still] = 0.0
    return Prepared(names, scaled, observed, scaler, still, restore, moves)


def stack(systems: Sequence[Prepared], context: int) -> tuple[Tensor, Tensor, bool]:
    """Values and observed [system, variable, context] as float32, and whether nothing is missing.

    Each system ends at the last position; what it lacks in front, and variables it does not have,
    are unobserved.
    """
    widest = max(len(one.names) for one in systems)
    values = np.zeros((len(systems), widest, context), np.float32)
    observed = np.zeros(values.shape, bool)
    for row, one in enumerate(systems):
        variables, steps = one.values.shape
        seen = one.observed
        observed[row, :variables, context - steps :] = seen
        values[row, :variables, context - steps :] = np.where(seen, one.values, 0.0)
    return torch.from_numpy(values), torch.from_numpy(observed), bool(observed.all())


def stack_facts(facts: Sequence[np.ndarray]) -> Tensor:
    """Facts [variable] of each system as [system, variable], 0 for variables it does not have."""
    widest = max(len(one) for one in facts)
    return torch.from_numpy(np.stack([np.pad(one, (0, widest - len(one))) for one in facts]))


def learn_scales(
    panel: Panel, ends: Sequence[int], *, across: bool = False
) -> dict[str, tuple[float, float]]:
    """Mean and spread of every variable over the first `ends` time steps of each system.

    The spread is that within a system: independent systems may live on different levels. If
    `across`, it is that from system to system where a variable stands still in each of them.
    """
    sums: dict[str, tuple[float, float, float, float]] = {}
    for system, end in zip(panel.systems, ends, strict=True):
        values, observed = system.values[:, :end], system.observed[:, :end]
        means, spreads = mean_and_spread(values, observed)
        counts = observed.sum(-1)
        for row, name in enumerate(system.variables):
            count = float(counts[row])
            mean, spread = float(means[row, 0]), float(spreads[row, 0])
            if count:
                before, center, within, between = sums.get(name, (0.0, mean, 0.0, 0.0))
                # Running weighted means: neither the values nor their squares can overflow.
                share = count / (before + count)
                old, new = np.sqrt(1 - share), np.sqrt(share)
                sums[name] = (
                    before + count,
                    center + share * (mean - center),
                    float(np.hypot(old * within, new * spread)),
                    float(np.hypot(old * between, old * new * (mean - center))),
                )
    scales = {}
    for name, (_, mean, within, between) in sorted(sums.items()):
        apart = between if across and between > ROUNDING * abs(mean) else 0.0
        scales[name] = (mean, within or apart)
    return scales


def scales_of_fit(panel: Panel, ends: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Of the training part, and of all there is for what stands still until that ends."""
    everything = learn_scales(panel, [len(system.times) for system in panel.systems])
    scales = learn_scales(panel, ends)
    return {name: pair if pair[1] > 0 else everything[name] for name, pair in scales.items()}


def learn_levels(panel: Panel, ends: Sequence[int]) -> dict[str, dict[str, float]]:
    """The mean of every variable over the first `ends` time steps, for each system by its name.

    Of what begins later, the mean of all there is.
    """
    return {
        key_of(system): _means(system, len(system.times)) | _means(system, end)
        for system, end in zip(panel.systems, ends, strict=True)
    }


def _means(system: System, end: int) -> dict[str, float]:
    """Of the variables that were observed in the first `end` time steps."""
    observed = system.observed[:, :end]
    means, _ = mean_and_spread(system.values[:, :end], observed)
    rows = np.flatnonzero(observed.any(-1)).tolist()
    return {system.variables[row]: float(means[row, 0]) for row in rows}


def key_of(system: System) -> str:
    """The name of a system as text; 1.0 is 1, for a gap in a column of groups makes it floating."""
    name = system.name
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def match_groups(systems: Iterable[System], known: Collection[str]) -> list[str | None]:
    """Which of the known names each system has; None where it has none of them.

    A name that is not known stands for the one known name that is the same whole number: a file
    says 001 where a frame that was read from it says 1. Where several are that number, of those
    known or of those here, nothing is guessed.
    """
    keys = [key_of(system) for system in systems]
    theirs, ours = _by_number(known), _by_number(keys)
    matches: list[str | None] = []
    for key in keys:
        number = _without_zeros(key)
        alike = theirs.get(number, set())
        only = len(alike) == 1 and len(ours[number]) == 1
        matches.append(key if key in known else next(iter(alike)) if only else None)
    return matches


def stood_still(names: Sequence[str], scales: Scales) -> np.ndarray:
    """Which of the variables `fit` saw, and saw no change of."""
    return np.array([scales.get(name, (0.0, 1.0))[1] == 0.0 for name in names], bool)


def share_scale(scales: Scales) -> dict[str, tuple[float, float]]:
    """One mean and one spread for every variable, known or not: the entry of the empty name.

    For exchangeable variables: a scale of its own would tell a variable from the others.
    """
    pairs = np.array(list(scales.values())) if scales else np.array([[0.0, 1.0]])
    mean = float(pairs[:, 0].mean())
    spread = np.hypot(pairs[:, 1], pairs[:, 0] - mean)
    # By the largest, so that no square overflows.
    largest = float(spread.max())
    common = largest * float(np.sqrt(((spread / largest) ** 2).mean())) if largest else 1.0
    return {"": (mean, common)}


def _by_number(names: Iterable[str]) -> dict[str, set[str]]:
    """Names that are one number, however written."""
    alike: dict[str, set[str]] = {}
    for name in names:
        alike.setdefault(_without_zeros(name), set()).add(name)
    return alike


def _without_zeros(name: str) -> str:
    """1 for 001 and 1.0; anything but whole numbers as it is."""
    number = WHOLE.fullmatch(name)
    return name if number is None else number[1] + number[2]


def _on_levels(
    scales: Scales,
    levels: Mapping[str, float],
    names: Sequence[str],
    values: np.ndarray,
    observed: np.ndarray,
    marked: bool,
) -> Scales:
    """The scales around the levels of one system, or around what is at hand.

    If `marked`, that is the middle reading of those that stood still: once they move, their mean
    is where they never were.
    """
    at_hand = mean_and_spread(values, observed)[0][:, 0].tolist()
    for row in np.flatnonzero(marked & observed.any(-1) & stood_still(names, scales)).tolist():
        readings = np.sort(values[row, observed[row]])
        at_hand[row] = float(readings[(len(readings) - 1) // 2])
    return {
        name: (levels.get(name, mean), scales[name][1])
        for name, mean in zip(names, at_hand, strict=True)
        if name in scales
    }


def _scaler(
    names: Sequence[str],
    values: np.ndarray,
    observed: np.ndarray,
    scales: Scales,
    last: int | None,
) -> Scaler:
    pairs = np.array([scales.get(name, (0.0, np.nan)) for name in names])[:, :, None]
    mean, spread = pairs[:, 0], pairs[:, 1]
    scale = np.where(spread == 0.0, 1.0, spread)
    known = np.isfinite(scale)
    chosen = observed
    if last is not None:
        seen, recent = observed[:, -last:], values[:, -last:]

        def mostly_beyond(spreads: float) -> np.ndarray:
            beyond = seen & (np.abs(recent - mean) > spreads * scale)
            return 2 * beyond.sum(-1, keepdims=True) > seen.sum(-1, keepdims=True)

        moved = seen & (np.abs(recent - mean) > ROUNDING * np.abs(mean)) & (spread == 0.0)
        moves = moved.any(-1, keepdims=True)
        chosen = np.where(moves, False, observed)
        chosen[:, -last:] |= seen & moves & _since_the_first(moved, seen)
        for row in np.flatnonzero(mostly_beyond(FAR) & ~moves):
            mean[row] = np.median(recent[row, seen[row]])
        known &= ~mostly_beyond(FARTHEST) & ~moves
    if known.all():
        return Scaler(mean, scale)
    fresh = fit_scaler(values, chosen)
    return Scaler(np.where(known, mean, fresh.mean), np.where(known, scale, fresh.scale))


def _since_the_first(moved: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[variable, time] from the last reading before the first that moved."""
    later = np.maximum.accumulate(moved, axis=1)
    position = np.arange(moved.shape[1])
    return position >= np.where(seen & ~later, position, -1).max(-1, keepdims=True, initial=-1)


def _still(
    names: Sequence[str],
    values: np.ndarray,
    observed: np.ndarray,
    scales: Scales,
    last: int | None,
) -> np.ndarray:
    """`Prepared.still`."""
    still = np.array([scales.get(name, (0.0, 0.0))[1] == 0.0 for name in names])
    if not still.any():
        return still
    recent = slice(None) if last is None else slice(-last, None)
    seen_in_fit = np.array([name in scales for name in names])
    # Of a variable that `fit` did not see a single reading says nothing.
    never_moved = unchanged(values, observed) & (observed.sum(-1) > 1)
    now = unchanged(values[:, recent], observed[:, recent])
    return still & np.where(seen_in_fit, now, never_moved)


def _moves(values: np.ndarray, observed: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """`Prepared.moves` of variables that stood still, by their constants [variable, 1]."""
    moved = np.abs(values - constant) > MOVED * np.abs(constant)
    return np.where(observed, np.where(moved, MOVE, 0.0), np.nan)


def unchanged(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Which variables have no two readings that differ: values [variable, time]."""
    return mean_and_spread(values, observed)[1][:, 0] == 0.0
