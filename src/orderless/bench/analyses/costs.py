"""What a layer and its pool cost in training, as variables grow: time and memory of a step."""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from orderless.bench.config import CellConfig
from orderless.bench.measuring import (
    OF_TENSORS,
    peak_bytes,
    peak_of_tensors,
    start_measuring,
    time_steps,
)
from orderless.bench.models.layer_forecaster import LAYERS, OURS, build_forecaster, build_layer
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

STEPS_AN_EPOCH = 100
LAYER = {
    "length": 256,
    "horizon": 96,
    "batch": 16,
    "steps": 10,
    "sizes": {"channels": 32, "states": 16},
}
POOL = {"batch": 1, "time": 64, "channels": 32, "states": 8, "steps": 5, "memory": OF_TENSORS}
POOLS = ("mean", "sum", "attention")


def run_efficiency(config: CellConfig) -> Outcome:
    """Time training steps of a layer on random series; the first two are not counted."""
    return _each_seed(config, _train_layer)


def run_pools(config: CellConfig) -> Outcome:
    """Time forward and backward passes on random features; the first one is not counted."""
    return _each_seed(config, _train_pool)


def _each_seed(config: CellConfig, run: Callable[..., SeedResult]) -> Outcome:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options, variables = config.settings, int(config.setting)
    results = (run(config.model, variables, options, seed, device) for seed in config.seeds)
    return Outcome(tuple(results), "none: simulated")


def _train_layer(
    layer: str, variables: int, options: dict[str, Any], seed: int, device: str
) -> SeedResult:
    length, batch = options["length"], options["batch"]
    module = build_forecaster(layer, length, options["horizon"], seed, **options["sizes"])
    module = module.to(device)
    optimizer = torch.optim.AdamW(module.parameters())
    x = _draw((batch, variables, length), seed).to(device)

    def train() -> None:
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()

    start_measuring()
    times = time_steps(train, options["steps"], uncounted=2)
    step = statistics.median(times)
    figures = {"seconds_an_epoch": STEPS_AN_EPOCH * step, "windows_a_second": batch / step}
    return SeedResult(seed, figures, seconds=round(sum(times), 3), peak_memory_bytes=peak_bytes())


def _train_pool(
    pool: str, variables: int, options: dict[str, Any], seed: int, device: str
) -> SeedResult:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = build_layer(OURS, options["channels"], options["states"], pool).to(device)
    shape = (options["batch"], variables, options["time"], options["channels"])
    features = _draw(shape, seed).to(device)

    def train() -> None:
        layer.zero_grad()
        layer(features)[0].square().mean().backward()

    times = time_steps(train, options["steps"], uncounted=1)
    layer.zero_grad()
    peak = peak_of_tensors(train, [features, *layer.parameters()])
    figures = {"milliseconds_a_step": 1000 * statistics.median(times), "megabytes": peak / 1e6}
    return SeedResult(seed, figures, seconds=round(sum(times), 3), peak_memory_bytes=peak)


def _draw(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


EFFICIENCY = Table(
    "efficiency",
    "Efficiency",
    run_efficiency,
    ("random series",),
    dict.fromkeys(LAYERS, LAYER),
    {
        FAIR: (
            Metric("seconds_an_epoch", "seconds an epoch", 2),
            Metric("windows_a_second", "windows a second", 0, higher_is_better=True),
        )
    },
    ("8", "16", "32", "64", "128", "256", "512"),
    simulated=True,
    comparable=False,
)
POOLS_TABLE = Table(
    "pools",
    "Cost of a pool",
    run_pools,
    ("random features",),
    dict.fromkeys(POOLS, POOL),
    {
        FAIR: (
            Metric("milliseconds_a_step", "ms a training step", 1),
            Metric("megabytes", "peak MB of a training step", 1),
        )
    },
    ("16", "64", "256", "1024", "4096"),
    simulated=True,
    comparable=False,
)
