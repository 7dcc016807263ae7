"""How errors become scores, and which score is too high.

The score of an entry is its squared error in units of what is usual for the variable; that of a
moment is the mean over the variables, lowered where few of them are observed. What is usual, how
much lower and the threshold are learned from held-out data. Errors and scores are [variable, time]
for each system, NaN where nothing was observed.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from orderless.data import Scaler
from orderless.estimators.preparation import Prepared, Scales, stood_still

MOST_GROUPS = 32
"""Groups of a system and a size that are scored by themselves; more would tell little more."""
Score = Callable[[Sequence[Prepared]], list[np.ndarray]]


def learn_usual(
    errors: Sequence[np.ndarray], systems: Sequence[Prepared], scales: Scales
) -> tuple[dict[str, float], float]:
    """The usual error of each variable that `fit` knows, and of one that it does not."""
    known: dict[str, list[np.ndarray]] = {}
    for one, system in zip(errors, systems, strict=True):
        for row, name in zip(one, system.names, strict=True):
            if name in scales:  # a single reading, told by itself, has next to no error
                known.setdefault(name, []).append(row[np.isfinite(row)])
    pooled = {name: np.concatenate(rows) for name, rows in sorted(known.items())}
    means = {name: float(rows.mean()) for name, rows in pooled.items() if len(rows)}
    names, usual = list(means), np.array(list(means.values()))
    moving = ~stood_still(names, scales)
    # Of those that move: what stands still has no error, which is not usual for a new one. Where
    # nothing does, all that there is to find are moves.
    overall = max(float(usual[moving].mean()) if moving.any() else 1.0, 1e-12)
    # A variable that can be told almost exactly would ring at every rounding error. And one that
    # stood still, once it has moved for good, must leave others a say.
    least = np.where(moving, max(1e-3 * overall, 1e-12), overall)
    return dict(zip(names, np.maximum(usual, least).tolist(), strict=True)), overall


def in_usual(
    errors: Sequence[np.ndarray],
    systems: Sequence[Prepared],
    usual: Mapping[str, float],
    overall: float,
) -> list[np.ndarray]:
    """Errors in units of what is usual for each variable: scores."""
    scores = []
    for one, system in zip(errors, systems, strict=True):
        units = np.array([usual.get(name, overall) for name in system.names])
        scores.append(one / units[:, None])
    return scores


def learn_factors(
    scores: Sequence[np.ndarray],
    systems: Sequence[Prepared],
    scales: Scales,
    score: Score,
    *,
    share: float,
    seed: int,
) -> list[tuple[int, float]]:
    """What brings scores of so many variables to the threshold of the usual number of them.

    From groups of 1, 2, 4, ... variables, given to `score` as if there were no others but those
    that stand still, which do not count. None where all do.
    """
    moving = [~stood_still(one.names, scales) for one in systems]
    counts = [np.isfinite(one[rows]).sum(0) for one, rows in zip(scores, moving, strict=True)]
    seen = np.concatenate(counts)
    if not seen.any():
        return []
    usual = int(np.median(seen[seen > 0]))
    means = _over_variables(scores, systems)
    whole = [one[n >= usual] for one, n in zip(means, counts, strict=True)]
    at_usual = _find_threshold(whole, share)
    random = np.random.default_rng(seed)
    orders = [random.permutation(np.flatnonzero(rows)) for rows in moving]
    factors = [(usual, 1.0)]
    for size in reversed([2**k for k in range(usual.bit_length()) if 2**k < usual]):
        groups = [
            pick(one, np.union1d(order[at : at + size], np.flatnonzero(~rows)))
            for one, order, rows in zip(systems, orders, moving, strict=True)
            for at in range(0, _most_groups(rows, size) * size, size)
        ]
        found = _find_threshold(_over_variables(score(groups), groups), share)
        # Fewer variables never make a moment odder: that would be chance.
        ratio = at_usual / found if min(at_usual, found) > 0 else 1.0
        factors.insert(0, (size, min(factors[0][1], ratio)))
    return factors


def combine(
    scores: Sequence[np.ndarray],
    systems: Sequence[Prepared],
    scales: Scales,
    factors: Sequence[tuple[int, float]],
) -> list[np.ndarray]:
    """Scores as one a moment [time] of each system, to be compared with the threshold."""
    means = _over_variables(scores, systems)
    if not factors:
        return means
    sizes, values = np.array(factors).T
    combined = []
    for one, system, mean in zip(scores, systems, means, strict=True):
        moving = ~stood_still(system.names, scales)
        count = np.maximum(np.isfinite(one[moving]).sum(0), 1)
        # In between, by logarithms; a factor of 1 stays 1, to the bit.
        factor = np.exp(np.interp(np.log(count), np.log(sizes), np.log(values)))
        combined.append(mean * factor)
    return combined


def learn_threshold(
    scores: Sequence[np.ndarray],
    systems: Sequence[Prepared],
    scales: Scales,
    factors: Sequence[tuple[int, float]],
    share: float,
) -> tuple[float, int | None]:
    """What the asked share of moments lies above; and how many there are, if too few to tell it."""
    moments = combine(scores, systems, scales, factors)
    # What stands still scores 0: where nothing else was read, that is no threshold.
    told = [
        moment[np.isfinite(one[~stood_still(system.names, scales)]).any(0)]
        for moment, one, system in zip(moments, scores, systems, strict=True)
    ]
    count = sum(int(np.isfinite(one).sum()) for one in told)
    return _find_threshold(told, share), count if share * count < 1 else None


def pick(one: Prepared, rows: np.ndarray, begin: int = 0) -> Prepared:
    """Some variables of a system, from some time on."""
    return Prepared(
        names=tuple(one.names[row] for row in rows),
        values=one.values[rows, begin:],
        observed=one.observed[rows, begin:],
        scaler=Scaler(one.scaler.mean[rows], one.scaler.scale[rows]),
        still=one.still[rows],
        restore=np.arange(len(rows)),
        moves=one.moves[rows, begin:],
    )


def _over_variables(scores: Sequence[np.ndarray], systems: Sequence[Prepared]) -> list[np.ndarray]:
    """The mean over the variables observed at each time of each system; NaN where none is.

    One that stood still in `fit` counts where it moved: elsewhere it would lower the mean, and
    whether it is observed would make a difference to the others.
    """
    means = []
    for one, system in zip(scores, systems, strict=True):
        known = np.isfinite(one)
        counted = known & (system.moves != 0)
        total = np.where(counted, one, 0.0).sum(0)
        mean = total / np.maximum(counted.sum(0), 1)
        means.append(np.where(known.any(0), mean, np.nan))
    return means


def _find_threshold(moments: Sequence[np.ndarray], share: float) -> float:
    """What the asked share of moments lies above; 0 if there are none."""
    known = np.concatenate([one[np.isfinite(one)] for one in moments])
    if len(known) == 0:
        return 0.0
    return float(np.quantile(known, 1 - share, method="higher"))


def _most_groups(moving: np.ndarray, size: int) -> int:
    """How many groups of a size are scored: together a few times what all variables are."""
    several = 4 * len(moving) // (size + int((~moving).sum()))
    return min(int(moving.sum()) // size, MOST_GROUPS, max(1, several))
