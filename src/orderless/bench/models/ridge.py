"""A ridge fitted on given windows, the penalty chosen on others."""

import torch
from torch import Tensor

from orderless.data import Series
from orderless.models.folds import one_fold
from orderless.models.forecasting.ridge import fit_ridges
from orderless.models.forecasting.windows import WindowEvaluator
from orderless.nn import LinearForecast


def fit_ridge(
    series: Series, train: Tensor, validation: Tensor, context: int, horizon: int, *, pooled: bool
) -> LinearForecast:
    """Ridge on the own context, or on the own and the pooled one, shared by the variables."""
    there = torch.ones_like(series.members)
    evaluator = WindowEvaluator(series, there, there.float(), context, horizon)
    fitted = fit_ridges(evaluator, one_fold(train, validation), context, pooled=pooled)
    linear = fitted[-1].member.module
    assert isinstance(linear, LinearForecast)
    return linear
