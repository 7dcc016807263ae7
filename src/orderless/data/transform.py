"""From the caller's order and units to those of the models, and back.

A `Transform` is what `fit` learned about the units of each variable; it never changes. `apply`
sorts the variables of a system by name and scales them; `Scaled.undo` puts results back. Sorting
makes results the same bit for bit for every order of the columns. Variables that `fit` did not see
are scaled by the history at hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orderless.data.groups import match_groups
from orderless.data.panel import Panel, System, canonical_order
from orderless.data.scaling import (
    ROUNDING,
    Scales,
    baseline_scales,
    fit_scaler,
    mean_and_scale,
)
from orderless.ops.factors import Loadings

FAR = 1e3
"""Standard deviations from the mean at which float32 begins to lose digits of what changes."""
FARTHEST = 1e8
"""Standard deviations from the mean beyond which all values are the same to a network: squares of
larger ones would soon leave float32."""
DEPARTED = 1e-6
"""Share of its value by which a constant of `fit` must change to have departed from it: more than
the rounding of a reading in float32 (6e-8), in any unit. A constant 0 departs by any change."""
DEPARTURE = 10.0
"""Standard deviations that such a change counts as, whatever its size: a constant has none."""
CALM = 0.1
"""Share of the baseline variance of a variable that is added to that of a context."""


@dataclass(frozen=True)
class Scaled:
    """One system, sorted by name and in the units of the models.

    values, observed    [variable, time]; center and scale are [variable, 1]. The scale is NaN where
                        a single reading of an unknown variable says nothing of it
    constant    [variable]: changed neither in what `fit` saw nor in the context; of variables that
                `fit` did not see: never changed
    departures  [variable, time]: for constants of `fit`, 0 or `DEPARTURE`; NaN for other variables
                and where nothing was observed
    baseline    [variable]: baseline scale in the units of `values`, for intervals
    known       [variable]: whether `fit` saw it
    restore     puts rows back in the caller's order
    loadings    how variables answer to factors; None where nobody asks
    """

    names: tuple[str, ...]
    values: np.ndarray
    observed: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    constant: np.ndarray
    departures: np.ndarray
    baseline: np.ndarray
    known: np.ndarray
    restore: np.ndarray
    loadings: Loadings | None = None

    @property
    def history(self) -> np.ndarray:
        """Time steps since the first reading of each variable [variable], 0 without any."""
        steps = self.observed.shape[1]
        return np.where(self.observed.any(1), steps - self.observed.argmax(1), 0)

    def undo(self, values: np.ndarray) -> np.ndarray:
        """Values [variable, ...] in the units of the caller; the order stays.

        A variable of unknown scale stays at its only reading.
        """
        unknown = np.isnan(self.scale) & ~np.isnan(values)
        return np.where(unknown, self.center, values * self.scale + self.center)

    def pick(self, rows: np.ndarray, begin: int = 0, end: int | None = None) -> "Scaled":
        """Some variables, within a span of time."""
        span = slice(begin, end)
        return Scaled(
            names=tuple(self.names[row] for row in rows),
            values=self.values[rows, span],
            observed=self.observed[rows, span],
            center=self.center[rows],
            scale=self.scale[rows],
            constant=self.constant[rows],
            departures=self.departures[rows, span],
            baseline=self.baseline[rows],
            known=self.known[rows],
            restore=np.arange(len(rows)),
            loadings=None if self.loadings is None else self.loadings.of(rows),
        )


@dataclass(frozen=True)
class Transform:
    """What `fit` learned about the units of each variable.

    scales      center and scale of each variable that `fit` saw; a scale of 0 where it never
                changed
    baselines   the baseline scale of each variable that changed in `fit`, robust to rare extremes;
                None where nobody asks for it
    centers     for each group of `fit`, the center of each variable: groups may live on different
                levels. None where there was one system
    shared      all variables have one center and scale, whatever their names: they are exchangeable
    watch_constants     a constant of `fit` is 0 in `values`, and `departures` holds its changes
    limit       standard deviations from the center beyond which values are drawn in
    """

    scales: Scales
    baselines: Mapping[str, float] | None = None
    centers: Mapping[str, Mapping[str, float]] | None = None
    shared: bool = False
    watch_constants: bool = False
    limit: float = FARTHEST

    def apply(self, system: System, *, last: int | None = None, end: int | None = None) -> Scaled:
        """The first `end` time steps of a system, and of them the last `last`.

        Nothing after `end` has any influence, on the units neither. A variable of `fit` keeps its
        scale, so that a fault stands out, and an old fault does no harm. Only where most of a
        context (the last `last` steps) is far from the center, the context has its own center, and
        where it is beyond `FARTHEST`, its own scale: on another level or in other units it can
        still be forecast. A constant of `fit` has no scale; in a context in which it moves, it is
        scaled by what it does there since it began to.
        """
        return self._apply(system, self.scales, last, end)

    def apply_all(self, panel: Panel) -> list[Scaled]:
        """Every system as a whole, each around the center of its own group.

        A group that `fit` did not see is centered by itself.
        """
        if self.centers is None:
            return [self.apply(system) for system in panel.systems]
        if panel.form.group is not None:
            names = match_groups(panel.systems, self.centers)
            centers = [{} if name is None else self.centers[name] for name in names]
        else:
            # Where there was one group, data without a group is of that.
            only = next(iter(self.centers.values())) if len(self.centers) == 1 else {}
            centers = [only] * len(panel.systems)
        return [
            self._apply(one, self._centered(one, own), None, None)
            for one, own in zip(panel.systems, centers, strict=True)
        ]

    def is_constant(self, names: Sequence[str]) -> np.ndarray:
        """Which of these variables `fit` saw, and saw no change of."""
        return np.array([self.scales.get(name, (0.0, 1.0))[1] == 0.0 for name in names], bool)

    @property
    def moving(self) -> set[str]:
        """Variables that `fit` saw a change of."""
        return {name for name, (_, scale) in self.scales.items() if scale > 0}

    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        scales = {name: list(pair) for name, pair in self.scales.items()}
        return asdict(replace(self, scales={})) | {"scales": scales}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Transform":
        """What `facts` gave."""
        pairs = {
            name: (float(mean), float(scale)) for name, (mean, scale) in facts["scales"].items()
        }
        return replace(cls({}), **{**facts, "scales": pairs})

    def _apply(self, system: System, scales: Scales, last: int | None, end: int | None) -> Scaled:
        order, restore = canonical_order(system.variables)
        names = tuple(system.variables[i] for i in order)
        values, observed = system.values[order, :end], system.observed[order, :end]
        if self.shared:
            scales = dict.fromkeys(names, scales[""])
        center, scale = _units(names, values, observed, scales, last)
        constant = _constant(names, values, observed, scales, last)
        baseline = self._baseline(names, values, observed, scales, scale)
        known = np.array([name in scales for name in names], bool)
        once = ~known & (observed.sum(-1) == 1) & (not self.watch_constants)
        if last is not None:
            values, observed = values[:, -last:], observed[:, -last:]
        scaled = np.clip((values - center) / scale, -self.limit, self.limit)
        departures = np.full(values.shape, np.nan)
        if self.watch_constants:
            held = self.is_constant(names)
            departures[held] = _departures(values[held], observed[held], center[held])
            # Also of an unknown constant: in large numbers its rounding is large.
            scaled[held | constant] = 0.0
        return Scaled(
            names=names,
            values=scaled,
            observed=observed,
            center=center,
            scale=np.where(once[:, None], np.nan, scale),
            constant=constant,
            departures=departures,
            baseline=baseline,
            known=known,
            restore=restore,
        )

    def _baseline(
        self,
        names: Sequence[str],
        values: np.ndarray,
        observed: np.ndarray,
        scales: Scales,
        scale: np.ndarray,
    ) -> np.ndarray:
        """`Scaled.baseline`, by the history at hand where the scale is not that of `fit`."""
        unit = scale[:, 0]
        if self.baselines is None:
            return np.ones_like(unit)
        baseline = np.array([self.baselines.get(name, 0.0) for name in names])
        fresh = np.array([scales.get(name, (0.0, 0.0))[1] for name in names]) != unit
        baseline[fresh] = baseline_scales(values[fresh], observed[fresh])
        baseline /= unit
        baseline[baseline == 0.0] = 1.0  # all changes are among the extremes
        # A constant that moves for the first time has the scale since then as its unit. That of the
        # context is less where most of it did not move.
        baseline[self.is_constant(names)] = CALM**-0.5
        return baseline

    def _centered(self, system: System, centers: Mapping[str, float]) -> Scales:
        """The scales around the centers of one group, or around the history at hand.

        For a constant of `fit` that is the middle reading: once it moves, its mean is a value that
        it never had.
        """
        at_hand = mean_and_scale(system.values, system.observed)[0][:, 0].tolist()
        held = self.is_constant(system.variables) & system.observed.any(-1) & self.watch_constants
        for row in np.flatnonzero(held).tolist():
            readings = np.sort(system.values[row, system.observed[row]])
            at_hand[row] = float(readings[(len(readings) - 1) // 2])
        return {
            name: (centers.get(name, mean), self.scales[name][1])
            for name, mean in zip(system.variables, at_hand, strict=True)
            if name in self.scales
        }


def stack_systems(systems: Sequence[Scaled], context: int) -> tuple[Tensor, Tensor]:
    """Values and observed [system, variable, context]; each system ends at the last position.

    What a system lacks in front, and variables it does not have, are unobserved.
    """
    widest = max(len(one.names) for one in systems)
    values = np.zeros((len(systems), widest, context), np.float32)
    observed = np.zeros(values.shape, bool)
    for row, one in enumerate(systems):
        variables, steps = one.values.shape
        seen = one.observed
        observed[row, :variables, context - steps :] = seen
        values[row, :variables, context - steps :] = np.where(seen, one.values, 0.0)
    return torch.from_numpy(values), torch.from_numpy(observed)


def stack_facts(facts: Sequence[np.ndarray]) -> Tensor:
    """Facts [variable] of each system as [system, variable], 0 for variables it does not have."""
    widest = max(len(one) for one in facts)
    return torch.from_numpy(np.stack([np.pad(one, (0, widest - len(one))) for one in facts]))


def never_changes(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Which variables have no two readings that differ: values [variable, time]."""
    return mean_and_scale(values, observed)[1][:, 0] == 0.0


def _units(
    names: Sequence[str],
    values: np.ndarray,
    observed: np.ndarray,
    scales: Scales,
    last: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale [variable, 1] of each."""
    pairs = np.array([scales.get(name, (0.0, np.nan)) for name in names])[:, :, None]
    center, learned = pairs[:, 0], pairs[:, 1]
    scale = np.where(learned == 0.0, 1.0, learned)
    known = np.isfinite(scale)
    chosen = observed
    if last is not None:
        seen, recent = observed[:, -last:], values[:, -last:]

        def mostly_beyond(deviations: float) -> np.ndarray:
            beyond = seen & (np.abs(recent - center) > deviations * scale)
            return 2 * beyond.sum(-1, keepdims=True) > seen.sum(-1, keepdims=True)

        moved = seen & (np.abs(recent - center) > ROUNDING * np.abs(center)) & (learned == 0.0)
        moves = moved.any(-1, keepdims=True)
        chosen = np.where(moves, False, observed)
        chosen[:, -last:] |= seen & moves & _mask_from_first_change(moved, seen)
        for row in np.flatnonzero(mostly_beyond(FAR) & ~moves):
            center[row] = np.median(recent[row, seen[row]])
        known &= ~mostly_beyond(FARTHEST) & ~moves
    if known.all():
        return center, scale
    fresh = fit_scaler(values, chosen)
    return np.where(known, center, fresh.mean), np.where(known, scale, fresh.scale)


def _mask_from_first_change(moved: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[variable, time] from the last reading before the first that moved."""
    later = np.maximum.accumulate(moved, axis=1)
    position = np.arange(moved.shape[1])
    return position >= np.where(seen & ~later, position, -1).max(-1, keepdims=True, initial=-1)


def _constant(
    names: Sequence[str],
    values: np.ndarray,
    observed: np.ndarray,
    scales: Scales,
    last: int | None,
) -> np.ndarray:
    """`Scaled.constant`."""
    constant = np.array([scales.get(name, (0.0, 0.0))[1] == 0.0 for name in names])
    if not constant.any():
        return constant
    recent = slice(None) if last is None else slice(-last, None)
    seen_in_fit = np.array([name in scales for name in names])
    # Of a variable that `fit` did not see a single reading says nothing.
    never = never_changes(values, observed) & (observed.sum(-1) > 1)
    now = never_changes(values[:, recent], observed[:, recent])
    return constant & np.where(seen_in_fit, now, never)


def _departures(values: np.ndarray, observed: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """`Scaled.departures` of constants of `fit`, by their values [variable, 1]."""
    departed = np.abs(values - constant) > DEPARTED * np.abs(constant)
    return np.where(observed, np.where(departed, DEPARTURE, 0.0), np.nan)
