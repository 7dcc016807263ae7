"""How errors become scores, and which score is too high.

The score of an entry is its squared error in the baseline unit of its variable, no longer squared
beyond `HUBER` units; the weighted mean over the members; and of that the mean over some lengths of
recent past. The score of a time step is the mean over the variables, lowered where few of them are
observed. Units, how much lower, and the threshold are learned from held-out data.

Errors are [member, variable, time] of each system and scores [variable, time]; NaN where nothing
was observed, and errors also where a member has no answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orderless.data.transform import DEPARTURE, Scaled, Transform

MOST_GROUPS = 32
"""Groups of a system and a size that are scored by themselves; more would change little."""
HUBER = 10.0
"""Baseline units beyond which an error counts by its size and not by its square."""
LENGTHS = (1, 4, 16)
"""Time steps over which scores are averaged, back from each: short and long events weigh alike."""
WINSOR = 0.99
"""Quantile of the errors of a variable, at which larger ones are held for its unit."""
LARGEST, LEAST = 100.0, 1e-4
"""Limits of the baseline error of a variable, in units of its variance."""
Score = Callable[[Sequence[Scaled]], list[np.ndarray]]


@dataclass(frozen=True)
class Units:
    """The unit of squared errors, by member: of each variable, and of one that `fit` did not see.

    It is the geometric mean of baseline error and variance: by the error alone, a variable that is
    almost always expected to the digit would raise alarms at next to nothing; by the variance, it
    would never raise one.
    """

    variables: Sequence[Mapping[str, float]]
    overall: Sequence[float]

    @classmethod
    def learn(
        cls, errors: Sequence[np.ndarray], systems: Sequence[Scaled], moving: set[str]
    ) -> "Units":
        """From held-out errors, so that the mean score of the variables that move is 1."""
        variables, overall = [], []
        for member in range(len(errors[0])):
            found: dict[str, list[np.ndarray]] = {}
            for each, system in zip(errors, systems, strict=True):
                for row, name in zip(each[member], system.names, strict=True):
                    if name in moving and np.isfinite(row).any():
                        found.setdefault(name, []).append(np.square(row[np.isfinite(row)]))
            baseline = {name: _winsorised(np.concatenate(found[name])) for name in sorted(found)}
            norm = float(np.mean([one**0.5 for one in baseline.values()])) if baseline else 1.0
            typical = float(np.mean(list(baseline.values()))) if baseline else 1.0
            variables.append({name: one**0.5 * norm for name, one in baseline.items()})
            overall.append(typical**0.5 * norm)
        return cls(variables, overall)

    def of(self, names: Sequence[str]) -> np.ndarray:
        """Of these variables, [member, variable]."""
        pairs = zip(self.variables, self.overall, strict=True)
        return np.array([[own.get(name, rest) for name in names] for own, rest in pairs])


def _winsorised(squares: np.ndarray) -> float:
    held = np.minimum(squares, np.quantile(squares, WINSOR, method="lower"))
    return float(np.clip(held.mean(), LEAST, LARGEST))


def to_scores(
    errors: np.ndarray, system: Scaled, units: Units, weights: Sequence[float]
) -> np.ndarray:
    """Scores [variable, time] of a system.

    A constant of `fit` scores where it departed, and only then; a new one scores nothing.
    """
    scores, total = np.zeros(errors.shape[1:]), np.zeros(errors.shape[1:])
    for own, unit, weight in zip(errors, np.sqrt(units.of(system.names)), weights, strict=True):
        answered = np.isfinite(own)
        scores += weight * _huber(np.where(answered, own, 0.0) / unit[:, None])
        total += weight * answered
    scores = smooth(np.where(system.observed, scores / np.where(total > 0, total, 1.0), np.nan))
    departed = _huber(DEPARTURE / np.sqrt(np.array(units.overall))) @ np.array(weights)
    known = ~np.isnan(system.departures)
    return np.where(known, np.where(system.departures != 0, departed, 0.0), scores)


def _huber(errors: np.ndarray) -> np.ndarray:
    size = np.abs(errors)
    near = np.minimum(size, HUBER)
    return near * (2 * size - near)


def smooth(scores: np.ndarray) -> np.ndarray:
    """The mean over `LENGTHS` of the means of so many latest scores, where there is one."""
    observed = np.isfinite(scores)
    sums, counts = np.where(observed, scores, 0.0), observed.astype(np.float64)
    means, length = np.zeros_like(sums), 1
    while True:
        if length in LENGTHS:
            means += sums / np.maximum(counts, 1)
        if length >= max(LENGTHS):
            return np.where(observed, means / len(LENGTHS), np.nan)
        sums, counts = _with_shifted(sums, length), _with_shifted(counts, length)
        length *= 2


def _with_shifted(values: np.ndarray, steps: int) -> np.ndarray:
    """Values and those of so many steps before; twice the length of a running sum."""
    both = values.copy()
    both[:, steps:] += values[:, :-steps]
    return both


def learn_factors(
    scores: Sequence[np.ndarray],
    systems: Sequence[Scaled],
    transform: Transform,
    score: Score,
    *,
    share: float,
    seed: int,
) -> list[tuple[int, float]]:
    """What brings scores of so many variables to the threshold of the typical number of them.

    From groups of 1, 2, 4, ... variables, given to `score` as if there were no others but
    constants, which do not count. None where all are constant.
    """
    moving = [~transform.is_constant(one.names) for one in systems]
    counts = [np.isfinite(one[rows]).sum(0) for one, rows in zip(scores, moving, strict=True)]
    seen = np.concatenate(counts)
    if not seen.any():
        return []
    typical = int(np.median(seen[seen > 0]))
    means = _over_variables(scores, systems)
    whole = [one[n >= typical] for one, n in zip(means, counts, strict=True)]
    at_typical = _quantile(whole, 1 - share)
    random = np.random.default_rng(seed)
    orders = [random.permutation(np.flatnonzero(rows)) for rows in moving]
    factors = [(typical, 1.0)]
    for size in reversed([2**k for k in range(typical.bit_length()) if 2**k < typical]):
        groups = [
            one.pick(np.union1d(order[at : at + size], np.flatnonzero(~rows)))
            for one, order, rows in zip(systems, orders, moving, strict=True)
            for at in range(0, _most_groups(rows, size) * size, size)
        ]
        found = _quantile(_over_variables(score(groups), groups), 1 - share)
        # Fewer variables never make a time step more anomalous: that would be chance.
        ratio = at_typical / found if min(at_typical, found) > 0 else 1.0
        factors.insert(0, (size, min(factors[0][1], ratio)))
    return factors


def combine(
    scores: Sequence[np.ndarray],
    systems: Sequence[Scaled],
    transform: Transform,
    factors: Sequence[tuple[int, float]],
) -> list[np.ndarray]:
    """Scores as one a time step [time] of each system, to be compared with the threshold."""
    means = _over_variables(scores, systems)
    if not factors:
        return means
    sizes, values = np.array(factors).T
    combined = []
    for one, system, mean in zip(scores, systems, means, strict=True):
        moving = ~transform.is_constant(system.names)
        count = np.maximum(np.isfinite(one[moving]).sum(0), 1)
        # In between, by logarithms; a factor of 1 stays 1, to the bit.
        factor = np.exp(np.interp(np.log(count), np.log(sizes), np.log(values)))
        combined.append(mean * factor)
    return combined


def learn_threshold(
    scores: Sequence[np.ndarray],
    systems: Sequence[Scaled],
    transform: Transform,
    factors: Sequence[tuple[int, float]],
    share: float,
) -> tuple[float, int | None]:
    """The (1 - share) quantile; and the number of time steps, if they are too few for it."""
    steps = combine(scores, systems, transform, factors)
    # Constants score 0: where nothing else was read, that is no threshold.
    counted = [
        step[np.isfinite(one[~transform.is_constant(system.names)]).any(0)]
        for step, one, system in zip(steps, scores, systems, strict=True)
    ]
    count = sum(int(np.isfinite(one).sum()) for one in counted)
    return _quantile(counted, 1 - share), count if share * count < 1 else None


def learn_thresholds(
    scores: Sequence[np.ndarray], systems: Sequence[Scaled], moving: set[str], share: float
) -> dict[str, float]:
    """The (1 - share) quantile of the scores of each variable that moves."""
    found: dict[str, list[np.ndarray]] = {}
    for one, system in zip(scores, systems, strict=True):
        for row, name in zip(one, system.names, strict=True):
            if name in moving:
                found.setdefault(name, []).append(row)
    return {name: _quantile(rows, 1 - share) for name, rows in sorted(found.items())}


def _over_variables(scores: Sequence[np.ndarray], systems: Sequence[Scaled]) -> list[np.ndarray]:
    """The mean over the variables observed at each time of each system; NaN where none is.

    A constant of `fit` counts where it departed: elsewhere it would lower the mean, and whether it
    is observed would make a difference to the others.
    """
    means = []
    for one, system in zip(scores, systems, strict=True):
        known = np.isfinite(one)
        counted = known & (system.departures != 0)
        total = np.where(counted, one, 0.0).sum(0)
        mean = total / np.maximum(counted.sum(0), 1)
        means.append(np.where(known.any(0), mean, np.nan))
    return means


def _quantile(steps: Sequence[np.ndarray], quantile: float) -> float:
    """Of all time steps with a score; 0 if there are none."""
    known = np.concatenate([one[np.isfinite(one)] for one in steps])
    if len(known) == 0:
        return 0.0
    return float(np.quantile(known, quantile, method="higher"))


def _most_groups(moving: np.ndarray, size: int) -> int:
    """How many groups of a size are scored: together a few times what all variables are."""
    several = 4 * len(moving) // (size + int((~moving).sum()))
    return min(int(moving.sum()) // size, MOST_GROUPS, max(1, several))
