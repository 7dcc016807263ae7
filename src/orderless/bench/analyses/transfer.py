"""Whether what was learned on some variables holds for others of the same system.

Every second variable, in the order of the file, is shown to `fit`; the others are never. The same
model then forecasts those it knows, those it does not, and all of them together. Beside it stands
one fitted on all variables.
"""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import LONG_TERM_SETS
from orderless.bench.datasets.readers import LongSeries, long_term
from orderless.bench.models.columns import column
from orderless.bench.models.forecasts import errors_of_windows, fit, pose
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table
from orderless.bench.tables import long_term_table
from orderless.errors import SettingError

HALF, ALL = "fitted on half", "fitted on all"


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
    (context,) = config.option("contexts")
    horizon = int(config.setting)
    results = []
    for seed in config.seeds:
        problem = pose(seen if config.model == HALF else data, context, horizon)
        fitted = fit(column("long-term", "orderless"), problem, seed, config.settings)
        chooser, _ = errors_of_windows(problem, "validation", fitted.forecast)
        figures = {}
        for name, part in (("seen", seen), ("unseen", unseen), ("all", data)):
            squared, _ = errors_of_windows(pose(part, context, horizon), "test", fitted.forecast)
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
    "transfer",
    "Transfer over variables",
    run,
    LONG_TERM_SETS,
    dict.fromkeys((HALF, ALL), long_term_table.OURS["orderless"]),
    {
        FAIR: (
            Metric("mse_seen", f"MSE of the half that `{HALF}` has seen", 3),
            Metric("mse_unseen", "MSE of the half that it has not seen", 3),
            Metric("mse_all", "MSE of all variables together", 3),
        )
    },
    ("96", "336"),
    reference=ALL,
    fit_of=fit_of,
)
