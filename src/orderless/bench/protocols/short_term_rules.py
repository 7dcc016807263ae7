"""Short-term forecasting on M4: one forecast for each of 100,000 series."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from orderless.bench.datasets.catalogue import M4_GROUPS
from orderless.bench.protocols import PAPER, check_protocol
from orderless.metrics import mase, owa, smape

OTHERS = ("Weekly", "Daily", "Hourly")


@dataclass(frozen=True)
class Scores:
    """SMAPE and MASE, each the mean over the series of a group."""

    smape: float
    mase: float


NAIVE2 = {
    "Yearly": Scores(16.342, 3.974),
    "Quarterly": Scores(11.012, 1.371),
    "Monthly": Scores(14.427, 1.063),
    "Weekly": Scores(9.161, 2.777),
    "Daily": Scores(3.045, 3.278),
    "Hourly": Scores(18.383, 2.395),
}
"""The competition's own figures for its benchmark forecast."""


def selection_data(
    history: list[np.ndarray], future: np.ndarray, protocol: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """What a model may see while it is chosen, and the targets on which it is chosen.

    fair: the last steps of each history are held out, and the test file is not touched. paper: the
    test file itself chooses the epoch, as in the code that the published tables share.
    """
    check_protocol(protocol)
    if protocol == PAPER:
        return history, future
    horizon = future.shape[1]
    return [one[:-horizon] for one in history], np.stack([one[-horizon:] for one in history])


def score_group(
    group: str, future: np.ndarray, forecast: np.ndarray, history: list[np.ndarray]
) -> Scores:
    """SMAPE and MASE of one forecast [series, horizon]; both protocols agree on these."""
    facts = M4_GROUPS[group]
    assert future.shape[1] == facts.horizon
    return Scores(smape(future, forecast), mase(future, forecast, history, period=facts.period))


def weighted_mean(scores: Mapping[str, Scores]) -> Scores:
    """The mean over all series of the groups, each group weighted by how many it has."""
    weights = np.array([M4_GROUPS[group].count for group in scores], float)
    weights /= weights.sum()
    return Scores(
        float(weights @ [one.smape for one in scores.values()]),
        float(weights @ [one.mase for one in scores.values()]),
    )


def owa_from_means(scores: Mapping[str, Scores]) -> float:
    """OWA of some groups together, from the means over their series, not the mean of their OWA."""
    mean = weighted_mean(scores)
    naive2 = weighted_mean({group: NAIVE2[group] for group in scores})
    return owa(mean.smape, mean.mase, naive2.smape, naive2.mase)


def combined(scores: Mapping[str, Scores], metric: str) -> float:
    """A metric of some groups together, in which every series counts once."""
    return owa_from_means(scores) if metric == "owa" else getattr(weighted_mean(scores), metric)
