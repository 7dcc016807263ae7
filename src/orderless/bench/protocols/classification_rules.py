"""Classification on the UEA archive: cases [case, variable, time], NaN where a case has ended."""

import numpy as np

from orderless.bench.protocols import PAPER, check_protocol
from orderless.data.scaling import ROUNDING

VALIDATION_SHARE = 0.2
CASE_BY_CASE = ("EthanolConcentration",)
"""Sets whose cases the published code scales once more, each by itself."""


def scale_cases(
    train: np.ndarray, test: np.ndarray, protocol: str, dataset: str
) -> tuple[np.ndarray, np.ndarray]:
    """Both parts, every variable with mean 0 and standard deviation 1 over cases and time.

    fair: the statistics of the training cases for both, and what has ended stays NaN. paper: the
    test cases are scaled by their own statistics, one set is scaled within each case as well, and
    what has ended is 0 afterwards.
    """
    check_protocol(protocol)
    by_train = _statistics(train)
    by_test = _statistics(test) if protocol == PAPER else by_train
    scaled = tuple(
        (cases - mean) / scale for cases, (mean, scale) in ((train, by_train), (test, by_test))
    )
    if protocol == PAPER and dataset in CASE_BY_CASE:
        scaled = tuple(map(_scale_each_case, scaled))
    if protocol == PAPER:
        scaled = tuple(np.nan_to_num(cases, nan=0.0) for cases in scaled)
    return scaled[0], scaled[1]


def selection_cases(
    train_labels: np.ndarray, protocol: str, seed: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Indices of the cases to learn from, and of those that choose the epoch; None is the test set.

    fair: a fifth of the training cases of each class is held out; a class too small for that gives
    none. paper: all training cases teach, and the test set chooses.
    """
    check_protocol(protocol)
    everything = np.arange(len(train_labels))
    if protocol == PAPER:
        return everything, None
    generator = np.random.default_rng(seed)
    held_out: list[int] = []
    for label in np.unique(train_labels):
        mine = generator.permutation(everything[train_labels == label])
        held_out += mine[: int(VALIDATION_SHARE * len(mine))].tolist()
    chosen = np.isin(everything, held_out)
    return everything[~chosen], everything[chosen]


def _scale_each_case(cases: np.ndarray) -> np.ndarray:
    # The mean is that over time, the deviation that over the variables at each time.
    centered = cases - np.nanmean(cases, axis=2, keepdims=True)
    return centered / np.sqrt(centered.var(axis=1, keepdims=True) + 1e-5)


def _statistics(cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = cases.astype(np.float64)
    mean = np.asarray(np.nanmean(values, axis=(0, 2), keepdims=True))
    scale = np.asarray(np.nanstd(values, axis=(0, 2), keepdims=True))
    return mean, np.where(scale > ROUNDING * np.abs(mean), scale, 1.0)
