"""The closed-form forecast, fitted on windows: of the own look-back, or the pooled one as well."""

import torch
from torch import Tensor

from orderless.data import Series
from orderless.estimators.baselines import ENTRIES_AT_ONCE, MOST_ROWS, thin
from orderless.nn import LinearForecast, RidgeStatistics


@torch.no_grad()
def fit_ridge(
    series: Series, train: Tensor, validation: Tensor, context: int, horizon: int, *, pooled: bool
) -> LinearForecast:
    """Ridge shared by the variables; its penalty does best on validation.

    Without `pooled` it costs a quarter. More than `MOST_ROWS` look-backs are thinned out evenly.
    """
    linear = LinearForecast(context, horizon, pooled=pooled).to(series.flat.device)
    variables = series.members.shape[1]

    def collect(index: Tensor) -> RidgeStatistics:
        statistics = RidgeStatistics(linear)
        index = thin(index, MOST_ROWS // variables)
        for part in index.split(max(1, ENTRIES_AT_ONCE // ((context + horizon) * variables))):
            batch = series.batch(part, context, horizon)
            statistics.update(batch.values, batch.targets)
        return statistics

    linear.fit(collect(train), collect(validation))
    return linear.requires_grad_(False)
