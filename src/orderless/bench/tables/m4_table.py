"""The table of short-term forecasting: the six groups of M4; SMAPE, MASE and OWA."""

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import M4_GROUPS
from orderless.bench.datasets.readers import m4_group
from orderless.bench.measuring import run_seeds
from orderless.bench.models.columns import column
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.short_term_rules import owa_from_means, score_group
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

NAME = "m4"
OURS = {
    "forecaster": {"preset": "tiny", "loss": "smape"},
    "context_in_horizons": 2,
    "budget": {"epochs": 8, "steps": 100},
}
METRICS = (Metric("smape", "SMAPE %", 3), Metric("mase", "MASE", 3), Metric("owa", "OWA", 3))


def run(config: CellConfig) -> Outcome:
    """Forecast every series once and score the group."""
    group = config.dataset.removeprefix("M4-")
    data = m4_group(group)

    def run_seed(seed: int) -> SeedResult:
        made = column(NAME, config.model)(data, config.protocol, seed, config.settings)
        scores = score_group(group, data.future, made.values, data.history)
        owa = owa_from_means({group: scores})
        figures = {"smape": scores.smape, "mase": scores.mase, "owa": owa}
        return SeedResult(seed, figures, made.validation, epochs=made.epochs)

    return Outcome(run_seeds(config.seeds, run_seed), data.checksum, data.note)


TABLE = Table(
    NAME,
    "Short-term forecasting on M4",
    run,
    tuple(f"M4-{group}" for group in M4_GROUPS),
    {"orderless": OURS, "naive": {}, "seasonal naive": {}, "naive2": {}},
    dict.fromkeys((FAIR, PAPER), METRICS),
    drawn=("orderless",),
    by_series=True,
)
