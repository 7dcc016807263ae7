"""The table of short-term forecasting: the six groups of M4; SMAPE, MASE and OWA."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from orderless.bench.config import DETERMINISTIC_SEEDS, CellConfig, frozen, training_of
from orderless.bench.datasets.catalogue import M4_GROUPS
from orderless.bench.datasets.readers import ShortSeries, m4_group, naive2_forecasts
from orderless.bench.models.chosen_epoch import EndChoosesEpoch
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.short_term_rules import (
    Scores,
    owa_from_means,
    score_group,
    selection_data,
)
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.seeds import run_seeds
from orderless.bench.table import Metric, Table
from orderless.errors import DataError, SettingError
from orderless.estimators.baselines import naive, seasonal_naive
from orderless.estimators.report import MODEL as OURS

NAME = "m4"
MODELS = ("orderless", "naive", "seasonal naive", "naive2")
BUDGET = {"epochs": 8, "steps": 100}
METRICS = (Metric("smape", "SMAPE %", 3), Metric("mase", "MASE", 3), Metric("owa", "OWA", 3))


@dataclass(frozen=True)
class Forecasts:
    """Values [series, horizon], and of a network how long it learned and what chose its epoch."""

    values: np.ndarray
    epochs: int | None = None
    validation: Mapping[str, float] = field(default_factory=dict)


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every cell, those of one group together."""
    return [cell(group, model, protocol, seeds) for group in M4_GROUPS for model in MODELS]


def cell(group: str, model: str, protocol: str, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    ours = model == "orderless"
    options = {
        "forecaster": {"preset": "tiny", "loss": "smape"},
        "context_in_horizons": 2,
        "budget": BUDGET,
    }
    return CellConfig(
        table=NAME,
        dataset=f"M4-{group}",
        setting="all",
        model=model,
        protocol=protocol,
        seeds=tuple(seeds) if ours else DETERMINISTIC_SEEDS,
        options=frozen(options) if ours else (),
    )


def run(config: CellConfig) -> Outcome:
    """Forecast every series once and score the group."""
    group = config.dataset.removeprefix("M4-")
    data = m4_group(group)
    if config.model not in FORECASTS:
        raise SettingError(f"There is no model {config.model!r} in the table {NAME}.")

    def run_seed(seed: int) -> SeedResult:
        made = FORECASTS[config.model](group, data, config, seed)
        scores = score_group(group, data.future, made.values, data.history)
        return SeedResult(
            seed, _with_owa(group, scores), validation=made.validation, epochs=made.epochs
        )

    return Outcome(run_seeds(config.seeds, run_seed), data.checksum, data.note)


def _with_owa(group: str, scores: Scores) -> dict[str, float]:
    owa = owa_from_means({group: scores})
    return {"smape": scores.smape, "mase": scores.mase, "owa": owa}


def _naive(group: str, data: ShortSeries, config: CellConfig, seed: int) -> Forecasts:
    return Forecasts(_last_season(data, 1))


def _seasonal_naive(group: str, data: ShortSeries, config: CellConfig, seed: int) -> Forecasts:
    return Forecasts(_last_season(data, data.period))


def _last_season(data: ShortSeries, season: int) -> np.ndarray:
    tails = torch.as_tensor(np.stack([one[-season:] for one in data.history])).unsqueeze(1)
    seen = torch.ones_like(tails, dtype=torch.bool)
    horizon = data.future.shape[1]
    forecast = (
        naive(tails, seen, horizon) if season == 1 else seasonal_naive(tails, seen, horizon, season)
    )
    return forecast.squeeze(1).numpy()


def _naive2(group: str, data: ShortSeries, config: CellConfig, seed: int) -> Forecasts:
    forecast = naive2_forecasts(group)
    if forecast is None:
        raise DataError(
            "The forecasts of Naive2 are not in the data folder (m4/naive2.parquet); its published "
            "figures are in the report without them."
        )
    return Forecasts(forecast)


def _orderless(group: str, data: ShortSeries, config: CellConfig, seed: int) -> Forecasts:
    """Each series is a system of one variable; it and its forecast are in units of its own mean."""
    past, chooser = selection_data(data.history, data.future, config.protocol)
    horizon = data.future.shape[1]
    model = EndChoosesEpoch(
        horizon,
        config.option("context_in_horizons") * horizon,
        season=data.period,
        random_state=seed,
        verbose=False,
        **config.option("forecaster"),
        **training_of(config.option("budget")),
    )
    sizes = [max(float(np.abs(one).mean()), 1e-9) for one in past]
    whole = [np.concatenate(pair) for pair in zip(past, chooser, strict=True)]
    model.fit([(one / size)[:, None] for one, size in zip(whole, sizes, strict=True)])
    rows = model.predict([(one / s)[:, None] for one, s in zip(data.history, sizes, strict=True)])
    forecast = np.stack([np.asarray(row)[:, 0] * s for row, s in zip(rows, sizes, strict=True)])
    return Forecasts(forecast, len(model.history_) - 1, model.errors_[OURS])


FORECASTS: dict[str, Callable[[str, ShortSeries, CellConfig, int], Forecasts]] = {
    "orderless": _orderless,
    "naive": _naive,
    "seasonal naive": _seasonal_naive,
    "naive2": _naive2,
}


TABLE = Table(
    NAME,
    "Short-term forecasting on M4",
    cells,
    run,
    MODELS,
    dict.fromkeys((FAIR, PAPER), METRICS),
    by_series=True,
)
