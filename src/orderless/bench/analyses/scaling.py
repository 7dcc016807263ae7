"""What more variables cost: time of an epoch and errors as their number grows."""

from collections.abc import Sequence

from orderless.bench.analyses.ordering import TRAINING
from orderless.bench.analyses.simulated import (
    DATA,
    ERRORS,
    STEPS,
    checksum_of,
    run_layer,
    simulate,
)
from orderless.bench.config import CellConfig, frozen
from orderless.bench.models.layer_forecaster import LAYERS
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome
from orderless.bench.table import Table

NAME = "scaling"
PAPER_VARIABLES, MORE_VARIABLES = (16, 32, 64, 128, 256), (1024, 4096)


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every number of variables with every layer; beyond the paper's numbers, one seed."""
    few = [cell(layer, count, STEPS, seeds) for count in PAPER_VARIABLES for layer in LAYERS]
    many = [cell(layer, count, STEPS, seeds[:1]) for count in MORE_VARIABLES for layer in LAYERS]
    return few + many


def cell(layer: str, variables: int, steps: int, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    options = {**TRAINING, "steps": steps, "sizes": {"channels": 16, "states": 8}}
    return CellConfig(NAME, DATA, str(variables), layer, "fair", tuple(seeds), frozen(options))


def run(config: CellConfig) -> Outcome:
    """Train once for each seed."""
    values = simulate(int(config.setting), config.option("steps"))
    results = (
        run_layer(config.model, values, seed, seed, config.settings)[0] for seed in config.seeds
    )
    return Outcome(tuple(results), checksum_of(values))


TABLE = Table(
    NAME,
    "Number of variables",
    cells,
    run,
    LAYERS,
    {FAIR: ERRORS},
    setting="variables",
    simulated=True,
    comparable=False,
)
