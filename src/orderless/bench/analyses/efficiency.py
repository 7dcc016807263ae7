"""What a layer costs in training: time of an epoch and throughput as variables grow.

An epoch is a fixed number of steps, each with the same number of windows of length 256.
"""

import statistics
from collections.abc import Sequence

import torch

from orderless.bench.analyses.timing import time_steps
from orderless.bench.config import CellConfig, frozen
from orderless.bench.memory import peak_bytes, start_measuring
from orderless.bench.models.layer_forecaster import LAYERS, build_forecaster
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

NAME = "efficiency"
VARIABLES = (8, 16, 32, 64, 128, 256, 512)
DATA = "random series"
STEPS_AN_EPOCH = 100


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every number of variables with every layer."""
    return [cell(layer, count, seeds) for count in VARIABLES for layer in LAYERS]


def cell(layer: str, variables: int, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    sizes = {"channels": 32, "states": 16}
    options = {"length": 256, "horizon": 96, "batch": 16, "steps": 10, "sizes": sizes}
    return CellConfig(NAME, DATA, str(variables), layer, "fair", tuple(seeds), frozen(options))


def run(config: CellConfig) -> Outcome:
    """Time training steps; the first two are not counted."""
    return Outcome(tuple(_run_seed(config, seed) for seed in config.seeds), "none: simulated")


def _run_seed(config: CellConfig, seed: int) -> SeedResult:
    options = config.settings
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = build_forecaster(
        config.model, options["length"], options["horizon"], seed, **options["sizes"]
    ).to(device)
    optimizer = torch.optim.AdamW(module.parameters())
    generator = torch.Generator().manual_seed(seed)
    shape = (options["batch"], int(config.setting), options["length"])
    x = torch.randn(shape, generator=generator).to(device)

    def train() -> None:
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()

    start_measuring()
    times = time_steps(train, options["steps"], uncounted=2)
    step = statistics.median(times)
    return SeedResult(
        seed,
        {
            "seconds_an_epoch": STEPS_AN_EPOCH * step,
            "windows_a_second": options["batch"] / step,
        },
        seconds=round(sum(times), 3),
        peak_memory_bytes=peak_bytes(),
    )


TABLE = Table(
    NAME,
    "Efficiency",
    cells,
    run,
    LAYERS,
    {
        FAIR: (
            Metric("seconds_an_epoch", "seconds an epoch", 2),
            Metric("windows_a_second", "windows a second", 0, higher_is_better=True),
        )
    },
    setting="variables",
    simulated=True,
    comparable=False,
)
