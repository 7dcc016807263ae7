"""What held-out data says of scores: units, thresholds, and how few variables lower a score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orderless.data.transform import DEPARTURE, Scaled, Transform, never_changes
from orderless.models.detection.inputs import FAR
from orderless.models.detection.scores import (
    Score,
    Units,
    learn_factors,
    learn_threshold,
    learn_thresholds,
    to_scores,
)


@dataclass(frozen=True)
class HeldOut:
    """The held-out part of each system, without readings that are too far off to be normal.

    errors  [member, variable, time] of each
    """

    systems: Sequence[Scaled]
    errors: Sequence[np.ndarray]

    @classmethod
    def cut(
        cls, systems: Sequence[Scaled], errors: Sequence[np.ndarray], begins: Sequence[int]
    ) -> "HeldOut":
        """From what begins at these time steps."""
        parts, kept = [], []
        for system, found, begin in zip(systems, errors, begins, strict=True):
            part = system.pick(np.arange(len(system.names)), begin)
            near = part.observed & (np.abs(part.values) <= FAR)
            parts.append(replace(part, observed=near))
            kept.append(np.where(near, found[..., begin:], np.nan))
        return cls(parts, kept)

    @property
    def constant(self) -> bool:
        """Whether no variable changes."""
        return all(never_changes(one.values, one.observed).all() for one in self.systems)

    def mean_square(self, member: int | None) -> float:
        """Of the errors of a member where it has an answer; of the values themselves if None."""
        each = [
            np.where(system.observed, system.values, np.nan) if member is None else found[member]
            for system, found in zip(self.systems, self.errors, strict=True)
        ]
        known = np.concatenate([one[np.isfinite(one)] for one in each])
        return float(np.square(known).mean()) if len(known) else 0.0


@dataclass(frozen=True)
class Calibration:
    """How errors become scores, and which score raises an alarm.

    factors     what lowers scores of so many variables
    threshold   of a time step; thresholds: of each variable
    too_few     how many held-out time steps there were, if too few for the share of alarms
    """

    units: Units
    factors: Sequence[tuple[int, float]]
    threshold: float
    thresholds: Mapping[str, float]
    too_few: int | None

    @classmethod
    def learn(
        cls,
        held_out: HeldOut,
        transform: Transform,
        weights: Sequence[float],
        errors_of: Any,
        share: float,
        seed: int,
    ) -> "Calibration":
        """For a share of alarms; `errors_of` gives the errors of any systems."""
        units = Units.learn(held_out.errors, held_out.systems, transform.moving)

        def scored(errors: Sequence[np.ndarray], systems: Sequence[Scaled]) -> list[np.ndarray]:
            pairs = zip(errors, systems, strict=True)
            return [to_scores(found, system, units, weights) for found, system in pairs]

        each, systems = scored(held_out.errors, held_out.systems), held_out.systems
        score: Score = lambda groups: scored(errors_of(groups), groups)  # noqa: E731
        factors = learn_factors(each, systems, transform, score, share=share, seed=seed)
        threshold, too_few = learn_threshold(each, systems, transform, factors, share)
        if not transform.moving:
            # It lies between 0 and the score of a departure.
            threshold, too_few = DEPARTURE, None
        thresholds = learn_thresholds(each, systems, transform.moving, share)
        return cls(units, factors, threshold, thresholds, too_few)

    def describe(self, share: float) -> str:
        """The threshold, and what it means."""
        meaning = f"at most {100 * share:g} % of the held-out time steps lie above it"
        if self.too_few is not None:
            meaning = f"the highest of {self.too_few} held-out time steps, too few for {share:.2%}"
        if not self.thresholds:
            meaning = "nothing changes, and any change lies above it"
        return f"{self.threshold:.3g}: {meaning}"

    def thresholds_of(self, names: Sequence[str], transform: Transform) -> np.ndarray:
        """Of variables that `fit` did not see, the middle one; any score of a constant is one."""
        middle = float(np.median(list(self.thresholds.values()))) if self.thresholds else 0.0
        own = [self.thresholds.get(name, middle) for name in names]
        return np.where(transform.is_constant(names), 0.0, own)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Calibration":
        """What `asdict` made of it."""
        factors = [(int(size), float(factor)) for size, factor in facts["factors"]]
        rest = (facts[name] for name in ("threshold", "thresholds", "too_few"))
        return cls(Units(**facts["units"]), factors, *rest)
