"""Whether the order of the variables matters: the same training on rearranged variables.

The seeds of a cell are permutations, 0 being the order as it comes; weights and batches are the
same for all. What differs between them is due to the order alone.
"""

from collections.abc import Sequence

import numpy as np

from orderless.bench.analyses.simulated import DATA, checksum_of, run_layer, simulate
from orderless.bench.config import CellConfig, frozen
from orderless.bench.models.layer_forecaster import LAYERS
from orderless.bench.records import Outcome

NAME = "ordering"
VARIABLES, STEPS, PERMUTATIONS = 64, 1000, 10
TRAINING = {"context": 32, "horizon": 1, "epochs": 10, "batch_size": 32}


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """One cell a layer; the number of permutations is the paper's, whatever the seeds."""
    return [cell(layer, VARIABLES, STEPS, range(PERMUTATIONS + 1)) for layer in LAYERS]


def cell(layer: str, variables: int, steps: int, permutations: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    options = {**TRAINING, "steps": steps, "sizes": {"channels": 16, "states": 8}}
    return CellConfig(
        NAME, DATA, str(variables), layer, "fair", tuple(permutations), frozen(options)
    )


def run(config: CellConfig) -> Outcome:
    """Train once for each permutation, with one seed."""
    variables, options = int(config.setting), config.settings
    results = []
    for permutation in config.seeds:
        order = np.arange(variables)
        if permutation:
            order = np.random.default_rng(permutation).permutation(variables)
        values = simulate(variables, options["steps"], order)
        results.append(run_layer(config.model, values, permutation, 0, options))
    return Outcome(tuple(results), checksum_of(simulate(variables, options["steps"])))
