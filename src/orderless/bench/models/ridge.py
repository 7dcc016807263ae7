"""The closed-form forecast, fitted on windows: of the own look-back, or the pooled one as well."""

from torch import Tensor

from orderless.data import Series
from orderless.estimators.baselines import fit_linear
from orderless.nn import LinearForecast


def fit_ridge(
    series: Series, train: Tensor, validation: Tensor, context: int, horizon: int, *, pooled: bool
) -> LinearForecast:
    """Ridge shared by the variables; without `pooled` it costs a quarter."""
    linear = LinearForecast(context, horizon, pooled=pooled).to(series.flat.device)
    fit_linear(linear, series, train, validation)
    return linear
