"""Long-term forecasting: one long series, cut into windows one step apart.

Common to both protocols: the scale of each variable comes from the training rows, errors are in
units of it, and validation and test windows may look back over the border of their span, so that
the first target of a span is its first row.
"""

from collections.abc import Mapping

import numpy as np

from orderless.bench.datasets.readers import Borders
from orderless.bench.protocols import PAPER, check_protocol
from orderless.data import fit_scaler
from orderless.errors import DataError

PAPER_TEST_BATCH = 512


def scale_by_training_rows(values: np.ndarray, borders: Borders) -> np.ndarray:
    """Values [variable, time] in units of the mean and standard deviation of the training rows."""
    training = values[:, : borders.train]
    return fit_scaler(training, ~np.isnan(training)).apply(values)


def target_span(borders: Borders, part: str) -> tuple[int, int]:
    """The half-open span of rows in which the targets of train, validation or test lie."""
    return {
        "train": (0, borders.train),
        "validation": (borders.train, borders.validation),
        "test": (borders.validation, borders.test),
    }[part]


def every_window(span: tuple[int, int], context: int, horizon: int) -> np.ndarray:
    """The first row of the context of each window: one for every target that fits in the span.

    A context may begin before the span, never before the data.
    """
    first = max(span[0], context)
    count = span[1] - horizon - first + 1
    if count < 1:
        raise DataError(
            f"No window of {context} + {horizon} steps has its targets in rows {span[0]} to "
            f"{span[1]}. Choose a shorter context or horizon."
        )
    return np.arange(count) + first - context


def scored_windows(count: int, protocol: str) -> int:
    """How many of the test windows, from the first on, are scored.

    fair: all. paper: the last, partial batch of 512 is dropped, as a data loader with `drop_last`
    does; on these sets the windows that it drops are hard ones.
    """
    check_protocol(protocol)
    if protocol == PAPER and count >= PAPER_TEST_BATCH:
        return count - count % PAPER_TEST_BATCH
    return count


def choose_context(
    validation: Mapping[int, float], test: Mapping[int, float], protocol: str
) -> int:
    """The context with the least error: on validation (fair), or on the scored test windows.

    Published scripts fix a context for each set and horizon, and nothing in them chooses it but
    the test error that they print.
    """
    check_protocol(protocol)
    errors = test if protocol == PAPER else validation
    return min(errors, key=lambda context: errors[context])
