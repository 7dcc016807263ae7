"""How far forecasts are off on held-out windows, after all of a context and after less of it."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch
from orderless.estimators.intervals import (
    ErrorTable,
    Held,
    PointAndWidth,
    choose_histories,
    fit_error_table,
    fit_factors,
)
from orderless.models.forecasting import ForecastingWindows, WindowEvaluator
from orderless.models.forecasting.naive import naive
from orderless.models.forecasting.quantiles import hide_earlier
from orderless.models.forecasting.windows import thin

MOST_CUT, MOST_ROWS_CUT = 256, 2**14
"""Windows, and contexts of one variable in them, that show how errors grow as history is hidden."""
Answer = Callable[[Batch], PointAndWidth[Tensor]]
"""The forecast, and the unit of its errors."""


@torch.inference_mode()
def calibrate(
    answer: Answer,
    evaluator: WindowEvaluator,
    windows: ForecastingWindows,
    *,
    stacklevel: int,
) -> ErrorTable:
    """The errors on the calibration windows, each in units of the width of its forecast."""
    errors, observed, moved, width = [], [], False, 1
    for batch in evaluator.batches(windows.calibration):
        stays = batch.targets == naive(batch.values, batch.observed, evaluator.horizon)
        moved = moved or bool((batch.target_observed & ~stays).any())
        forecast = answer(batch)
        errors.append(((batch.targets - forecast.point) / forecast.width).cpu().numpy())
        observed.append(batch.target_observed.cpu().numpy())
        width = batch.values.shape[1]
    table = fit_error_table(np.concatenate(errors), np.concatenate(observed))
    if table.count and not moved:
        warnings.warn(
            "No variable moves in the held-out windows, at the end of the data, so they show "
            "neither which forecast is good nor how wide an interval must be. Fit on data that "
            "moves to its end, or with a larger `validation_share`.",
            stacklevel=stacklevel + 1,
        )
    if not moved:
        return replace(table, count=0)
    some = thin(windows.calibration, min(MOST_CUT, MOST_ROWS_CUT // width))

    def after(history: int, known: bool) -> Held:
        batches = (hide_earlier(one, history, known=known) for one in evaluator.batches(some))
        return _errors(answer, batches)

    return fit_factors(table, choose_histories(evaluator.context), after)


def _errors(answer: Answer, batches: Iterable[Batch]) -> Held:
    """Errors where something is to be judged, and the mean of their units there."""
    errors, units = [], []
    for batch in batches:
        forecast = answer(batch)
        judged = batch.target_observed
        error = (batch.targets - forecast.point) / forecast.width
        errors.append(torch.where(judged, error, torch.nan).cpu().numpy())
        units.append(forecast.width.expand_as(error)[judged])
    unit = torch.cat(units)
    return Held(np.concatenate(errors), float(unit.mean()) if len(unit) else 1.0)
