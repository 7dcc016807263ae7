"""Whether the order of the variables matters: the same training on rearranged variables.

The seeds of the cell `permuted` are permutations; weights and batches are the same for all. What
differs between them is due to the order alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from orderless.bench.analyses.simulated import (
    DATA,
    ERRORS,
    STEPS,
    checksum_of,
    run_layer,
    simulate,
)
from orderless.bench.config import DETERMINISTIC_SEEDS, CellConfig, frozen
from orderless.bench.models.layer_forecaster import LAYERS
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome
from orderless.bench.table import Metric, Table

NAME = "ordering"
VARIABLES, PERMUTATIONS = 64, 10
AS_IT_COMES, PERMUTED = "as it comes", "permuted"
TRAINING = {"context": 32, "horizon": 1, "epochs": 10, "batch_size": 32}
SIZES = {"channels": 16, "states": 8}


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Two cells a layer; the number of permutations is the paper's, whatever the seeds."""
    return [
        cell(layer, setting, VARIABLES, STEPS, range(1, PERMUTATIONS + 1))
        for setting in (AS_IT_COMES, PERMUTED)
        for layer in LAYERS
    ]


def cell(
    layer: str, setting: str, variables: int, steps: int, permutations: Sequence[int]
) -> CellConfig:
    """The complete setting of one cell."""
    options = {**TRAINING, "variables": variables, "steps": steps, "sizes": SIZES}
    seeds = tuple(permutations) if setting == PERMUTED else DETERMINISTIC_SEEDS
    return CellConfig(NAME, DATA, setting, layer, "fair", seeds, frozen(options))


def run(config: CellConfig) -> Outcome:
    """Train once for each permutation, with one seed.

    `drift` is the largest difference between a forecast and that of the same entry when the
    variables are in the order as they come.
    """
    options = config.settings
    variables, steps = options["variables"], options["steps"]
    plain = simulate(variables, steps)
    first, expected = run_layer(config.model, plain, 0, 0, options)
    results = []
    for permutation in config.seeds:
        result, forecast = first, expected
        order = np.arange(variables)
        if config.setting == PERMUTED:
            order = np.random.default_rng(permutation).permutation(variables)
            values = simulate(variables, steps, order)
            result, forecast = run_layer(config.model, values, permutation, 0, options)
        drift = float(np.abs(forecast - expected[:, order]).max())
        results.append(replace(result, test={**result.test, "drift": drift}))
    return Outcome(tuple(results), checksum_of(plain))


TABLE = Table(
    NAME,
    "Order of the variables",
    cells,
    run,
    LAYERS,
    {FAIR: (*ERRORS, Metric("drift", "largest change of a forecast", 1, False, True, True))},
    setting="variables",
    simulated=True,
    comparable=False,
)
