"""Whether what was learned on some variables holds for others of the same system.

Every second variable, in the order of the file, is shown to `fit`; the others are never. The same
model then forecasts those it knows, those it does not, and all of them together. Beside it stands
one fitted on all variables.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from orderless.bench.config import CellConfig, frozen
from orderless.bench.datasets.catalogue import LONG_TERM_SETS
from orderless.bench.datasets.readers import LongSeries, long_term
from orderless.bench.models.forecasts import errors_of_windows, fit, pose
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table
from orderless.bench.tables import long_term_table
from orderless.errors import SettingError

NAME = "transfer"
HORIZONS = (96, 336)
HALF, ALL = "fitted on half", "fitted on all"


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Both ways to fit, on every set."""
    return [
        cell(dataset, horizon, model, seeds)
        for dataset in LONG_TERM_SETS
        for horizon in HORIZONS
        for model in (HALF, ALL)
    ]


def cell(dataset: str, horizon: int, model: str, seeds: Sequence[int]) -> CellConfig:
    """The cell of the long-term table, fitted on some or all variables."""
    whole = long_term_table.cell(dataset, horizon, "orderless", "fair", seeds)
    return replace(whole, table=NAME, model=model, options=frozen(whole.settings))


def fit_of(config: CellConfig) -> Hashable:
    """One fitted on all variables is that of the long-term table."""
    if config.model == HALF:
        return config
    return long_term_table.fit_of(replace(config, model="orderless"))


def run(config: CellConfig) -> Outcome:
    """Fit on the variables that the model may see, and score three sets of variables."""
    if config.model not in (HALF, ALL):
        raise SettingError(f"There is no model {config.model!r}; choose {HALF!r} or {ALL!r}.")
    data = long_term(config.dataset, keep_missing_readings=True)
    seen, unseen = take(data, 0), take(data, 1)
    (look_back,) = config.option("look_backs")
    horizon = int(config.setting)
    results = []
    for seed in config.seeds:
        problem = pose(seen if config.model == HALF else data, look_back, horizon)
        fitted = fit("orderless", problem, seed, config.settings)
        chooser, _ = errors_of_windows(problem, "validation", fitted.forecast)
        figures = {}
        for name, part in (("seen", seen), ("unseen", unseen), ("all", data)):
            squared, _ = errors_of_windows(pose(part, look_back, horizon), "test", fitted.forecast)
            figures[f"mse_{name}"] = float(squared.mean())
        results.append(
            SeedResult(
                seed=seed,
                test=figures,
                validation={"mse": float(chooser.mean())},
                chosen=fitted.chosen,
                epochs=fitted.epochs,
                seconds=fitted.seconds,
                peak_memory_bytes=fitted.peak_memory_bytes,
            )
        )
    return Outcome(tuple(results), data.checksum, data.note)


def take(data: LongSeries, first: int) -> LongSeries:
    """Every second variable, from the first or the second on."""
    index = np.arange(first, len(data.variables), 2)
    return replace(
        data,
        values=data.values[index],
        variables=tuple(data.variables[i] for i in index),
        checksum=f"{data.checksum}, every second variable from {first}",
    )


TABLE = Table(
    NAME,
    "Transfer over variables",
    cells,
    run,
    (HALF, ALL),
    {
        FAIR: (
            Metric("mse_seen", f"MSE of the half that `{HALF}` has seen", 3),
            Metric("mse_unseen", "MSE of the half that it has not seen", 3),
            Metric("mse_all", "MSE of all variables together", 3),
        )
    },
    setting="horizon",
    reference=ALL,
    fit_of=fit_of,
)
