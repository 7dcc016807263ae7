"""What a pool costs: time and memory of a training step of the layer as variables grow."""

import statistics
from collections.abc import Sequence

import torch

from orderless.bench.analyses.timing import time_steps
from orderless.bench.config import CellConfig, frozen
from orderless.bench.memory import OF_TENSORS, peak_of_tensors
from orderless.bench.models.layer_forecaster import OURS, build_layer
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

NAME = "pools"
POOLS = ("mean", "sum", "attention")
VARIABLES = (16, 64, 256, 1024, 4096)
DATA = "random features"


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every number of variables with every pool."""
    return [cell(pool, count, seeds) for count in VARIABLES for pool in POOLS]


def cell(pool: str, variables: int, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    sizes = {"batch": 1, "time": 64, "channels": 32, "states": 8}
    options = {**sizes, "steps": 5, "memory": OF_TENSORS}
    return CellConfig(NAME, DATA, str(variables), pool, "fair", tuple(seeds), frozen(options))


def run(config: CellConfig) -> Outcome:
    """Time forward and backward passes; the first one is not counted."""
    return Outcome(tuple(_run_seed(config, seed) for seed in config.seeds), "none: simulated")


def _run_seed(config: CellConfig, seed: int) -> SeedResult:
    options = config.settings
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = build_layer(OURS, options["channels"], options["states"], config.model).to(device)
        shape = (options["batch"], int(config.setting), options["time"], options["channels"])
        features = torch.randn(shape).to(device)

    def train() -> None:
        layer.zero_grad()
        layer(features)[0].square().mean().backward()

    times = time_steps(train, options["steps"], uncounted=1)
    layer.zero_grad()
    peak = peak_of_tensors(train, [features, *layer.parameters()])
    figures = {
        "milliseconds_a_step": 1000 * statistics.median(times),
        "megabytes": peak / 1e6,
    }
    return SeedResult(seed, figures, seconds=round(sum(times), 3), peak_memory_bytes=peak)


TABLE = Table(
    NAME,
    "Cost of a pool",
    cells,
    run,
    POOLS,
    {
        FAIR: (
            Metric("milliseconds_a_step", "ms a training step", 1),
            Metric("megabytes", "peak MB of a training step", 1),
        )
    },
    setting="variables",
    simulated=True,
    comparable=False,
)
