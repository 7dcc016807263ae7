"""Intervals from errors on windows that neither training nor selection has seen.

Split-conformal: the error quantiles of held-out windows, one table for each step ahead, shared by
the variables so that it serves unseen ones too. If future errors are exchangeable with the held-out
ones, an 80 % interval holds 80 % of the values on average over variables; those that never change
do not count. Errors are in units of the standard deviation of their context (`width_of` in
`models/forecasting/quantiles.py`): of systems that differ in size each has its own, and so has a
variable whose size is another now than in `fit`.
Where quantiles were trained they are in units of the distance between the outer ones, so that
intervals widen where the network is less certain, and still cover.

From n errors no quantile is known beyond the n / (n + 1)-th. A step with too few of its own
borrows those of the steps around it, which are related, so that its coverage is approximate.

After a short history, and of variables that `fit` did not see, intervals are wider by a factor:
that which makes the middle four fifths hold four fifths of the same held-out targets when all but
the last readings of each context are hidden. For new variables the table is made without the
variable in turn, and the unit is that of its last readings.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from orderless.data.transform import Scaled
from orderless.errors import ModelFileError, SettingError
from orderless.models.forecasting.quantiles import NARROWEST

LEVELS = np.linspace(0.0, 1.0, 401)
FEWEST_STEPS = 6
"""Of history that give a variable that `fit` did not see an interval; its unit is from these."""
HISTORIES = (1, 3, 6, 12, 24, 48, 96, 192, 336)
"""Time steps of history after which errors are looked at, beside all of a context."""
SHARE = 0.8
"""Of errors that lie in the interval which factors are made for."""
INNER = ((1 - SHARE) / 2, 0.5, (1 + SHARE) / 2)
MOST_FOLDS = 5
ENOUGH = 100
"""Errors that a factor is made of; a step with fewer borrows."""
Array = TypeVar("Array")


class PointAndWidth(NamedTuple, Generic[Array]):
    """Points [..., variable, horizon], and in which unit the error of each is counted."""

    point: Array
    width: Array


@dataclass(frozen=True)
class ErrorTable:
    """Quantiles of the error (actual - forecast): [horizon, level] at `LEVELS`.

    count       errors it was made of, of all steps together, 0 where nothing moved
    histories   time steps of history, rising; the last is the whole context
    factors     [known, history, horizon] how many times as wide intervals are, of variables that
                `fit` did not see (0) and of those it saw (1)
    """

    quantiles: np.ndarray
    count: int
    histories: tuple[int, ...] = (1,)
    factors: np.ndarray = field(default_factory=lambda: np.ones((2, 1, 1)))

    def check(self, horizon: int) -> "ErrorTable":
        """The table itself; an error if its parts do not fit each other, as a file may have it."""
        histories = np.array(self.histories)
        fits = len(histories) > 0 and bool((np.diff(histories) > 0).all())
        fits &= self.quantiles.shape == (horizon, len(LEVELS))
        if not fits or self.factors.shape != (2, len(histories), horizon):
            raise ModelFileError("The table of errors does not fit the horizon or the histories.")
        return self

    def at(self, level: float) -> np.ndarray:
        """What to add to a forecast after a whole context to reach this quantile: [horizon]."""
        return np.stack([np.interp(level, LEVELS, row) for row in self.quantiles])

    def shifts(self, endings: Mapping[str, float], past: Scaled) -> dict[str, np.ndarray]:
        """What to add for each of the quantiles asked for, by the ending: [variable, horizon].

        NaN where a variable is new and its history too short.
        """
        if not endings:
            return {}
        middle, factors = self.at(0.5), self._factors(past)
        return {
            ending: middle + factors * (self.at(quantile) - middle)
            for ending, quantile in endings.items()
        }

    def too_short(self, past: Scaled) -> np.ndarray:
        """Which variables [variable] are new, with a history too short for a unit."""
        return ~past.known & (past.history < min(FEWEST_STEPS, self.histories[-1]))

    def _factors(self, past: Scaled) -> np.ndarray:
        """[variable, horizon], by the logarithm of the history between those of the table."""
        known, places = np.log(self.histories), np.arange(len(self.histories))
        place = np.interp(np.log(np.maximum(past.history, 1)), known, places)
        below = np.floor(place).astype(int)
        above = np.ceil(place).astype(int)
        kind, share = past.known.astype(int), (place - below)[:, None]
        factors = (1 - share) * self.factors[kind, below] + share * self.factors[kind, above]
        return np.where(self.too_short(past)[:, None], np.nan, factors)

    def warn_beyond(self, endings: Mapping[str, float], *, moving: bool) -> None:
        """Say which of the quantiles asked for are beyond what so few errors can show.

        moving: whether any variable moves in what is forecast. Where none does, errors are 0.
        """
        if not endings:
            return
        if self.count == 0:
            if moving:
                warnings.warn(
                    "Intervals mean nothing, and values will lie outside: nothing moved in the "
                    "held-out windows of `fit`. Fit on data that moves to its end.",
                    stacklevel=3,
                )
            return
        levels = np.array(list(endings.values()))
        known = _inside(_ranks(self.count, levels), self.count)
        if known.all():
            return
        beyond = ", ".join(name for name, inside in zip(endings, known, strict=True) if not inside)
        warnings.warn(
            f"{self.count} held-out errors, of all steps ahead together, are too few for {beyond}: "
            "these are a guess from the widest error. Fit on more data, or with a larger "
            "`validation_share`.",
            stacklevel=3,
        )


class Held(NamedTuple):
    """Errors [window, variable, horizon] after some history, and the mean of their units.

    NaN where nothing is judged.
    """

    errors: np.ndarray
    unit: float


def choose_histories(reach: int) -> tuple[int, ...]:
    """Those after which errors are looked at, the whole context the last."""
    return (*(one for one in HISTORIES if one < reach), reach)


def fit_factors(
    table: ErrorTable, histories: Sequence[int], after: Callable[[int, bool], Held]
) -> ErrorTable:
    """The table with factors for histories; `after` gives the errors of a history.

    They are asked for as those of variables that `fit` saw (True), or as if it had not. Neither
    kind has narrower intervals, in the mean, after less history.
    """
    inner = np.stack([table.at(level) for level in INNER])
    whole = after(histories[-1], True).errors
    folds = np.array_split(np.arange(whole.shape[1]), min(whole.shape[1], MOST_FOLDS))
    bases = [_inner(np.delete(whole, fold, 1), inner) for fold in folds]
    least = min(FEWEST_STEPS, histories[-1])
    factors = np.ones((2, len(histories), len(inner[0])))
    for known in (False, True):
        widest = 0.0
        for place in reversed(range(len(histories))):
            if not known and histories[place] < least:
                factors[0, place] = factors[0, place + 1]  # no interval asks for it
                continue
            held = after(histories[place], known)
            if not (known and place == len(histories) - 1):
                parts = [
                    _half_widths(held.errors[:, fold], inner if known else base)
                    for fold, base in zip(folds, bases, strict=True)
                ]
                factors[int(known), place] = _share_of_each_step(np.concatenate(parts, 1))
            width = float((factors[int(known), place] * (inner[2] - inner[0])).mean()) * held.unit
            widest = max(widest, width)
            factors[int(known), place] *= widest / width if width > 0 else 1.0
    return replace(table, histories=tuple(histories), factors=factors)


def hold_constants(past: Scaled, point: np.ndarray, width: np.ndarray) -> PointAndWidth[np.ndarray]:
    """The forecast, in which a variable that never changed stays what it is, without doubt."""
    constant = (past.constant & past.observed.any(-1))[:, None]
    level = np.where(past.observed, past.values, -np.inf).max(-1, initial=-np.inf)[:, None]
    return PointAndWidth(np.where(constant, level, point), np.where(constant, 0.0, width))


def fit_error_table(errors: np.ndarray, observed: np.ndarray) -> ErrorTable:
    """The table of errors [window, variable, horizon], entries that were not observed left out.

    With n errors, the quantile q is the ceil((n + 1) q)-th smallest for q above one half and its
    mirror image below: the correction that makes the coverage hold for a finite n. Where there is
    none so small or so large among the errors of a step, those of the steps around it count too,
    of one on either side, of two, of four and so on; such an interval holds the point forecast.
    """
    horizon = errors.shape[-1]
    flat, seen = errors.reshape(-1, horizon), observed.reshape(-1, horizon)
    steps = [flat[seen[:, step], step] for step in range(horizon)]
    table = np.stack([_quantiles(steps, step) for step in range(horizon)])
    return ErrorTable(table, sum(map(len, steps)))


def _quantiles(steps: Sequence[np.ndarray], step: int) -> np.ndarray:
    """The quantiles of one step at `LEVELS`."""
    row = np.full(len(LEVELS), np.nan)
    known = np.empty(0)
    for radius, known in _neighbourhoods(steps, step):
        rank = _ranks(len(known), LEVELS)
        # The ends of the table are there to interpolate: nobody can ask for them.
        rank[0], rank[-1] = 0, len(known) - 1
        found = np.isnan(row) & _inside(rank, len(known))
        row[found] = known[rank[found]]
        if radius > 0:
            row[found] = _around_zero(row[found], LEVELS[found])
        if not np.isnan(row).any():
            break
    beyond = np.isnan(row)
    row[beyond] = _guess(known, LEVELS[beyond])
    # What was borrowed may be narrower than the step's own: outwards, intervals only widen.
    middle = len(LEVELS) // 2
    row[middle:] = np.maximum.accumulate(row[middle:])
    row[: middle + 1] = np.minimum.accumulate(row[middle::-1])[::-1]
    return row


def _neighbourhoods(steps: Sequence[np.ndarray], step: int) -> Iterator[tuple[int, np.ndarray]]:
    """The errors of a step in rising order, and with ever more steps around it, up to all."""
    radius = 0
    while True:
        around = steps[max(0, step - radius) : step + radius + 1]
        yield radius, np.sort(np.concatenate(around))
        if len(around) == len(steps):
            return
        radius = max(1, 2 * radius)


def _ranks(count: int, levels: np.ndarray) -> np.ndarray:
    """Which of so many errors in rising order is the quantile; there may be none of that rank."""
    # Rounding first: (n + 1) q may exceed a whole number by an ulp.
    position = np.round((count + 1) * levels, 9)
    return (np.where(levels > 0.5, np.ceil(position), np.floor(position)) - 1).astype(int)


def _inside(ranks: np.ndarray, count: int) -> np.ndarray:
    return (ranks >= 0) & (ranks < count)


def _guess(known: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Beyond all that is known: the widest error and a margin, to either side.

    The widest of n lies where 1 / (n + 1) is left outside. The margin is that of errors whose tails
    fall slowly: half as much outside is twice as far away.
    """
    if len(known) == 0:
        return np.zeros(len(levels))
    widest = np.abs(known).max()
    outside = 1 - np.abs(2 * levels - 1)
    return np.sign(levels - 0.5) * widest * np.maximum(1.0, 1 / ((len(known) + 1) * outside))


def _around_zero(quantiles: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Errors of other steps may all lie on one side; that is no reason to leave out the point."""
    wider = np.where(levels > 0.5, np.maximum(quantiles, 0.0), np.minimum(quantiles, 0.0))
    return np.where(levels == 0.5, quantiles, wider)


def _inner(errors: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The ends and the middle [3, horizon] of what holds `SHARE` of these errors."""
    flat = errors.reshape(-1, errors.shape[-1])
    seen = np.isfinite(flat)
    return np.stack(
        [
            np.quantile(flat[seen[:, step], step], INNER) if seen[:, step].any() else one
            for step, one in enumerate(otherwise.T)
        ],
        1,
    )


def _half_widths(errors: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """How many times as far as the end of the inner interval [3, horizon] each error lies."""
    low, middle, high = inner
    half = np.where(errors > middle, high - middle, middle - low)
    return np.abs(errors - middle) / np.maximum(half, NARROWEST)


def _share_of_each_step(ratios: np.ndarray) -> np.ndarray:
    """Below which `SHARE` of the ratios [..., horizon] of each step lie; 1 without any."""
    flat = ratios.reshape(-1, ratios.shape[-1])
    steps = [one[np.isfinite(one)] for one in flat.T]
    found = np.ones(len(steps))
    for step in range(len(steps)):
        for _, known in _neighbourhoods(steps, step):
            if len(known):
                found[step] = known[min(_ranks(len(known), np.array(SHARE)), len(known) - 1)]
            if len(known) >= ENOUGH:
                break
    return found


def column_endings(
    level: Sequence[float] | float | None, quantiles: Sequence[float] | float | None
) -> dict[str, float]:
    """Endings of the columns asked for, and the quantile each holds.

    level=[80] gives {"lo-80": .1, "hi-80": .9}; quantiles=[.05] gives {"q0.05": .05}.
    """
    endings: dict[str, float] = {}
    percents = _numbers("level", level, 100)
    if any(one < 1 for one in percents):
        raise SettingError(f"`level` is {level!r}, in percent: give 80 for an interval of 80 %.")
    for percent in percents:
        endings[f"lo-{percent:g}"] = (1 - percent / 100) / 2
        endings[f"hi-{percent:g}"] = (1 + percent / 100) / 2
    for quantile in _numbers("quantiles", quantiles, 1):
        endings[f"q{quantile:g}"] = quantile
    return endings


def in_units(
    systems: Sequence[Scaled],
    forecasts: Sequence[PointAndWidth[np.ndarray]],
    shifts: Sequence[Mapping[str, np.ndarray]],
) -> dict[str, list[np.ndarray]]:
    """Point forecast and quantiles in the units and the variable order of the caller.

    shifts: of each system, for each quantile by the ending of its columns, how many widths
    [variable, horizon] it is off the point; the ending of the point itself is empty.
    """
    pairs = list(zip(systems, forecasts, strict=True))
    blocks = {"": [past.undo(forecast.point)[past.restore] for past, forecast in pairs]}
    for ending in shifts[0]:
        blocks[ending] = [
            (past.center + past.scale * (point + shift[ending] * width))[past.restore]
            for (past, (point, width)), shift in zip(pairs, shifts, strict=True)
        ]
    return blocks


def _numbers(name: str, given: Sequence[float] | float | None, highest: int) -> list[float]:
    numbers = np.atleast_1d([] if given is None else given)
    legal = numbers.ndim == 1 and numbers.dtype.kind in "iuf"
    if not legal or not ((numbers > 0) & (numbers < highest)).all():
        raise SettingError(f"`{name}` is {given!r}; give numbers between 0 and {highest}.")
    return numbers.tolist()
