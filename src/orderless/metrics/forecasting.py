"""How far a forecast is from what happened. Arrays of one shape in, one number out.

Every function takes an optional boolean `mask` of that shape: True where the entry counts. NaN or
an infinity where the mask is True raises `DataError`, and so does a mask that leaves nothing.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from orderless.errors import DataError, ShapeError, ValueRangeError
from orderless.metrics.arrays import as_numbers, check_finite, counted


def mse(actual: Any, forecast: Any, *, mask: Any = None) -> float:
    """The mean of the squared error."""
    actual, forecast = counted(mask, actual=actual, forecast=forecast)
    return float(np.mean((actual - forecast) ** 2))


def mae(actual: Any, forecast: Any, *, mask: Any = None) -> float:
    """The mean of the absolute error."""
    actual, forecast = counted(mask, actual=actual, forecast=forecast)
    return float(np.mean(np.abs(actual - forecast)))


def mape(actual: Any, forecast: Any, *, mask: Any = None) -> float:
    """The mean of |error| / |actual|, in percent. An actual value of 0 raises DataError."""
    actual, forecast = counted(mask, actual=actual, forecast=forecast)
    if not actual.all():
        raise DataError(
            "MAPE divides by the actual value, which is 0 at least once. Mask such entries, or use "
            "another metric."
        )
    return float(100.0 * np.mean(np.abs((actual - forecast) / actual)))


def smape(actual: Any, forecast: Any, *, mask: Any = None) -> float:
    """The M4 definition: the mean of 200 |error| / (|actual| + |forecast|); 0 where both are 0."""
    actual, forecast = counted(mask, actual=actual, forecast=forecast)
    size = np.abs(actual) + np.abs(forecast)
    ratio = np.divide(np.abs(actual - forecast), size, out=np.zeros_like(size), where=size > 0)
    return float(200.0 * np.mean(ratio))


def mase(
    actual: Any,
    forecast: Any,
    history: np.ndarray | Sequence[np.ndarray],
    *,
    period: int = 1,
    mask: Any = None,
) -> float:
    """Mean absolute error over that of the seasonal naive forecast within the history.

    actual, forecast    [..., horizon]
    history             [..., time], or a list of 1-D arrays of different length, one a series
    The ratio is taken series by series, then averaged over the series that have an entry to
    count. `period` is the number of steps in a season (1 compares with the previous step). Missing
    values of the history are passed over. A history that repeats itself exactly, or is not longer
    than `period`, has no scale and raises DataError.
    """
    if not isinstance(period, int | np.integer) or period < 1:
        raise ValueRangeError(f"`period` is {period!r}; give a whole number of steps from 1 up.")
    actual, forecast = as_numbers("actual", actual), as_numbers("forecast", forecast)
    if actual.shape != forecast.shape or actual.ndim == 0:
        raise ShapeError(
            f"`actual` and `forecast` must have one shape [..., horizon]; they have {actual.shape} "
            f"and {forecast.shape}."
        )
    counted(mask, actual=actual, forecast=forecast)
    counts = np.ones(actual.shape, bool) if mask is None else np.asarray(mask)
    rows = (-1, actual.shape[-1])
    error = np.abs(np.where(counts, actual - forecast, 0.0)).reshape(rows)
    counts = counts.reshape(rows)
    if not isinstance(history, list | tuple) or (history and all(map(np.isscalar, history))):
        whole = np.atleast_1d(as_numbers("history", history))
        history = list(whole.reshape(math.prod(whole.shape[:-1]), whole.shape[-1]))
    if len(history) != len(error):
        raise ShapeError(
            f"There are {len(error)} series to score and {len(history)} histories. Give one for "
            "each series."
        )
    number = counts.sum(1)
    scored = np.flatnonzero(number).tolist()
    scales = np.array([_naive_error(history[one], one, period) for one in scored])
    return float(np.mean(error.sum(1)[scored] / number[scored] / scales))


def owa(smape_value: float, mase_value: float, smape_naive2: float, mase_naive2: float) -> float:
    """M4's overall weighted average: the mean of both ratios to the Naive2 forecast."""
    if not (smape_naive2 > 0 and mase_naive2 > 0):
        raise ValueRangeError("The errors of Naive2 must be above 0 to compare with them.")
    return float((smape_value / smape_naive2 + mase_value / mase_naive2) / 2)


def quantile_loss(actual: Any, forecast: Any, quantile: float, *, mask: Any = None) -> float:
    """The mean pinball loss: q (actual - forecast) above the forecast, (1 - q) the other below."""
    if not 0 < quantile < 1:
        raise ValueRangeError(f"A quantile lies between 0 and 1; {quantile} does not.")
    actual, forecast = counted(mask, actual=actual, forecast=forecast)
    error = actual - forecast
    return float(np.mean(np.maximum(quantile * error, (quantile - 1) * error)))


def interval_coverage(actual: Any, low: Any, high: Any, *, mask: Any = None) -> float:
    """The share of actual values in the closed interval [low, high]."""
    actual, low, high = counted(mask, actual=actual, low=low, high=high)
    if (low > high).any():
        raise DataError("The lower end of an interval lies above its upper end. Swap them.")
    return float(np.mean((low <= actual) & (actual <= high)))


def _naive_error(history: Any, number: int, period: int) -> float:
    series = as_numbers("history", history)
    if series.ndim != 1:
        raise ShapeError(
            f"The history of series {number} has {series.ndim} axes {series.shape}; it needs one, "
            "time."
        )
    if len(series) <= period:
        raise DataError(
            f"The history of series {number} has {len(series)} steps; a season of {period} needs "
            "at least one more."
        )
    error = np.abs(series[period:] - series[:-period])
    error = error[~np.isnan(error)]
    check_finite("history", error)
    if not error.any():
        raise DataError(
            f"The history of series {number} repeats itself exactly, so MASE has no scale for it. "
            "Leave it out."
        )
    return float(error.mean())
