"""How far a forecast is from what happened. Arrays of one shape in, one number out.

Every function takes an optional `mask` of that shape: True where the entry counts. NaN or an
infinity where the mask is True raises `DataError`, and so does a mask that leaves nothing.
"""


def mse(actual, forecast, *, mask=None) -> float:
    """The mean of the squared error."""
    raise NotImplementedError


def mae(actual, forecast, *, mask=None) -> float:
    """The mean of the absolute error."""
    raise NotImplementedError


def mape(actual, forecast, *, mask=None) -> float:
    """The mean of |error| / |actual|, in percent. An actual value of 0 raises DataError."""
    raise NotImplementedError


def smape(actual, forecast, *, mask=None) -> float:
    """The M4 definition: the mean of 200 |error| / (|actual| + |forecast|); 0 where both are 0."""
    raise NotImplementedError


def mase(actual, forecast, history, *, period: int = 1, mask=None) -> float:
    """Mean absolute error over that of the seasonal naive forecast within the history.

    actual, forecast    [..., horizon]
    history             [..., time], or a list of 1-D arrays of different length, one a series
    The ratio is taken series by series, then averaged over the series. `period` is the number of
    steps in a season (1 compares with the previous step). A history that repeats itself exactly,
    or is not longer than `period`, has no scale and raises DataError.
    """
    raise NotImplementedError


def owa(smape_value: float, mase_value: float, smape_naive2: float, mase_naive2: float) -> float:
    """M4's overall weighted average: the mean of both ratios to the Naive2 forecast."""
    raise NotImplementedError


def quantile_loss(actual, forecast, quantile: float, *, mask=None) -> float:
    """The mean pinball loss: q (actual - forecast) above the forecast, (1 - q) the other below."""
    raise NotImplementedError


def interval_coverage(actual, low, high, *, mask=None) -> float:
    """The share of actual values in the closed interval [low, high]."""
    raise NotImplementedError
