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
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from orderless.data.transform import Scaled
from orderless.errors import SettingError

LEVELS = np.linspace(0.0, 1.0, 401)
Array = TypeVar("Array")


class PointAndWidth(NamedTuple, Generic[Array]):
    """Points [..., variable, horizon], and in which unit the error of each is counted."""

    point: Array
    width: Array


@dataclass(frozen=True)
class ErrorTable:
    """Quantiles of the error (actual - forecast): [horizon, level] at `LEVELS`.

    count: errors it was made of, of all steps together, 0 where nothing moved.
    """

    quantiles: np.ndarray
    count: int

    def at(self, level: float) -> np.ndarray:
        """What to add to a forecast to reach this quantile: [horizon]."""
        return np.stack([np.interp(level, LEVELS, row) for row in self.quantiles])

    def shifts(self, endings: Mapping[str, float]) -> dict[str, np.ndarray]:
        """What to add for each of the quantiles asked for, by the ending of its columns."""
        return {ending: self.at(quantile) for ending, quantile in endings.items()}

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
    shifts: Mapping[str, np.ndarray],
) -> dict[str, list[np.ndarray]]:
    """Point forecast and quantiles in the units and the variable order of the caller.

    shifts: for each quantile, by the ending of its columns, how many widths [horizon] it is off the
    point; the ending of the point itself is empty.
    """
    pairs = list(zip(systems, forecasts, strict=True))
    blocks = {"": [past.undo(forecast.point)[past.restore] for past, forecast in pairs]}
    for ending, shift in shifts.items():
        blocks[ending] = [
            (past.center + past.scale * (point + shift * width))[past.restore]
            for past, (point, width) in pairs
        ]
    return blocks


def _numbers(name: str, given: Sequence[float] | float | None, highest: int) -> list[float]:
    numbers = np.atleast_1d([] if given is None else given)
    legal = numbers.ndim == 1 and numbers.dtype.kind in "iuf"
    if not legal or not ((numbers > 0) & (numbers < highest)).all():
        raise SettingError(f"`{name}` is {given!r}; give numbers between 0 and {highest}.")
    return numbers.tolist()
