"""Forecasts of the many short series of M4: each takes a group, and gives [series, horizon]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from orderless.bench.config import training_of
from orderless.bench.datasets.readers import ShortSeries, naive2_forecasts
from orderless.bench.models.chosen_epoch import EndChoosesEpoch
from orderless.bench.protocols.short_term_rules import selection_data
from orderless.errors import DataError
from orderless.estimators.report import MODEL as OURS
from orderless.models.forecasting.naive import naive, seasonal_naive


@dataclass(frozen=True)
class Forecasts:
    """Values [series, horizon], and of a network how long it learned and what chose its epoch."""

    values: np.ndarray
    epochs: int | None = None
    validation: Mapping[str, float] = field(default_factory=dict)


def _naive(data: ShortSeries, protocol: str, seed: int, options: Mapping[str, Any]) -> Forecasts:
    return Forecasts(_last_season(data, 1))


def _seasonal_naive(
    data: ShortSeries, protocol: str, seed: int, options: Mapping[str, Any]
) -> Forecasts:
    return Forecasts(_last_season(data, data.period))


def _last_season(data: ShortSeries, season: int) -> np.ndarray:
    tails = torch.as_tensor(np.stack([one[-season:] for one in data.history])).unsqueeze(1)
    seen = torch.ones_like(tails, dtype=torch.bool)
    horizon = data.future.shape[1]
    forecast = (
        naive(tails, seen, horizon) if season == 1 else seasonal_naive(tails, seen, horizon, season)
    )
    return forecast.squeeze(1).numpy()


def _naive2(data: ShortSeries, protocol: str, seed: int, options: Mapping[str, Any]) -> Forecasts:
    forecast = naive2_forecasts(data.name.removeprefix("M4-"))
    if forecast is None:
        raise DataError(
            "The forecasts of Naive2 are not in the data folder (m4/naive2.parquet); its published "
            "figures are in the report without them."
        )
    return Forecasts(forecast)


def _orderless(
    data: ShortSeries, protocol: str, seed: int, options: Mapping[str, Any]
) -> Forecasts:
    """Each series is a system of one variable; it and its forecast are in units of its own mean."""
    past, chooser = selection_data(data.history, data.future, protocol)
    horizon = data.future.shape[1]
    model = EndChoosesEpoch(
        horizon,
        options["context_in_horizons"] * horizon,
        season=data.period,
        random_state=seed,
        verbose=False,
        **options["forecaster"],
        **training_of(options["budget"]),
    )
    sizes = [max(float(np.abs(one).mean()), 1e-9) for one in past]
    whole = [np.concatenate(pair) for pair in zip(past, chooser, strict=True)]
    model.fit([(one / size)[:, None] for one, size in zip(whole, sizes, strict=True)])
    rows = model.predict([(one / s)[:, None] for one, s in zip(data.history, sizes, strict=True)])
    forecast = np.stack([np.asarray(row)[:, 0] * s for row, s in zip(rows, sizes, strict=True)])
    return Forecasts(forecast, len(model.history_) - 1, model.errors_[OURS])


COLUMNS: dict[str, Callable[[ShortSeries, str, int, Mapping[str, Any]], Forecasts]] = {
    "orderless": _orderless,
    "naive": _naive,
    "seasonal naive": _seasonal_naive,
    "naive2": _naive2,
}
