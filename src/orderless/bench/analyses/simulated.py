"""The paper's simulation: a VAR(1) process on a small-world graph, forecast by one layer.

`ordering` trains each layer on rearranged variables: the seeds of its cells `permuted` are
permutations, weights and batches are the same for all, so what differs is due to the order alone.
`scaling` lets the number of variables grow.
"""

import hashlib
import statistics
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from orderless.bench.config import CellConfig
from orderless.bench.measuring import now, peak_bytes, start_measuring
from orderless.bench.models.layer_forecaster import LAYERS, build_forecaster
from orderless.bench.models.window_task import WindowTask
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table
from orderless.data import Series, fit_scaler, window_starts
from orderless.data.simulate import small_world_var
from orderless.errors import SettingError
from orderless.metrics import mae, mape
from orderless.training import TrainingConfig, train

TRAIN, VALIDATION = 0.7, 0.8
"""Where training and validation end, as shares of the time steps."""
WORLD = "VAR(1) on a small world"
AS_IT_COMES, PERMUTED = "as it comes", "permuted"
PERMUTATIONS = range(1, 11)
MOST_WITH_SEEDS = 256
"""Variables; the paper has no more, and beyond it one seed is run."""
OPTIONS = {
    "context": 32,
    "horizon": 1,
    "epochs": 10,
    "batch_size": 32,
    "steps": 1000,
    "sizes": {"channels": 16, "states": 8},
}
ORDERED_OPTIONS = {**OPTIONS, "variables": 64}
ERRORS = (
    Metric("mae", "MAE", 4),
    Metric("mape", "MAPE, as a share", 3),
    Metric("seconds_an_epoch", "seconds an epoch", 3),
)
DRIFT = Metric("drift", "largest change of a forecast", 1, scientific=True, rounding=True)


class TimedTask(WindowTask):
    """Knows how long the training of each epoch took, without its validation."""

    rows_at_once = 2**17

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seconds_of_epochs: list[float] = []
        self.begun: float | None = None

    def score(self, module: nn.Module) -> float:
        """The squared error of the validation windows; the loop asks for it after every epoch."""
        if self.begun is not None:
            self.seconds_of_epochs.append(now() - self.begun)
        score = super().score(module)
        self.begun = now()
        return score


def simulate(variables: int, steps: int, order: np.ndarray | None = None) -> np.ndarray:
    """Values [variable, time], scaled by their training part; `order` rearranges the variables."""
    values = small_world_var(0, variables=variables, steps=steps)[0].T
    training = values[:, : int(TRAIN * steps)]
    scaled = fit_scaler(training, np.isfinite(training)).apply(values)
    return scaled if order is None else scaled[order]


def run_ordering(config: CellConfig) -> Outcome:
    """Train once for each permutation, with one seed.

    `drift` is the largest difference between a forecast and that of the same entry when the
    variables are in the order as they come.
    """
    options = config.settings
    variables, steps = options["variables"], options["steps"]
    plain = simulate(variables, steps)
    first, expected = run_layer(config.model, plain, 0, options)
    results = []
    for permutation in config.seeds:
        result, forecast = first, expected
        order = np.arange(variables)
        if config.setting == PERMUTED:
            order = np.random.default_rng(permutation).permutation(variables)
            result, forecast = run_layer(
                config.model, simulate(variables, steps, order), 0, options
            )
        drift = float(np.abs(forecast - expected[:, order]).max())
        results.append(replace(result, seed=permutation, test={**result.test, "drift": drift}))
    return Outcome(tuple(results), _checksum(plain))


def run_scaling(config: CellConfig) -> Outcome:
    """Train once for each seed."""
    values = simulate(int(config.setting), config.option("steps"))
    results = (run_layer(config.model, values, seed, config.settings)[0] for seed in config.seeds)
    return Outcome(tuple(results), _checksum(values))


def run_layer(
    layer: str, values: np.ndarray, seed: int, options: Mapping[str, Any]
) -> tuple[SeedResult, np.ndarray]:
    """Train one layer on values [variable, time]; errors on the test part, and time an epoch.

    Beside it, the forecasts of the test part [window, variable, horizon].
    """
    context, horizon = options["context"], options["horizon"]
    budget = options.get("budget", {"epochs": options["epochs"], "steps": None})
    if budget["epochs"] < 1:
        raise SettingError("Epochs are timed here, so the budget needs at least one.")
    start_measuring()
    series, (*fitted, test) = _cut(values, context, horizon)
    module = build_forecaster(layer, context, horizon, seed, **options["sizes"])
    task = TimedTask(module, series, *fitted, context, horizon)
    config = TrainingConfig(
        epochs=budget["epochs"],
        steps_per_epoch=budget["steps"],
        batch_size=options["batch_size"],
        patience=budget["epochs"] + 1,
        seed=seed,
    )
    outcome = train(task, config, show_progress=0)
    if outcome.interrupted:
        raise KeyboardInterrupt
    batch = task.series.batch(test, context, horizon)
    with torch.inference_mode():
        forecast = torch.cat([module(part) for part in batch.values.split(options["batch_size"])])
    actual, forecast = batch.targets.cpu().numpy(), forecast.cpu().numpy()
    result = SeedResult(
        seed,
        {
            "mae": mae(actual, forecast),
            # As a share, which is how the paper prints it.
            "mape": mape(actual, forecast, mask=actual != 0) / 100,
            # The median: the first epoch compiles kernels and records steps.
            "seconds_an_epoch": statistics.median(task.seconds_of_epochs),
        },
        {"mse": outcome.best_score},
        epochs=len(outcome.history) - 1,
        seconds=round(outcome.seconds, 3),
        peak_memory_bytes=peak_bytes(),
    )
    return result, forecast


def _cut(values: np.ndarray, context: int, horizon: int) -> tuple[Series, list[torch.Tensor]]:
    """The series, and the windows of training, validation and test."""
    steps = values.shape[1]
    series = Series.from_arrays([values], [np.isfinite(values)])
    borders = (0, int(TRAIN * steps), int(VALIDATION * steps), steps)
    windows = [
        window_starts([steps], context, horizon, targets=[span]) for span in pairwise(borders)
    ]
    return series, windows


def _checksum(values: np.ndarray) -> str:
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()}"


ORDERING = Table(
    "ordering",
    "Order of the variables",
    run_ordering,
    (WORLD,),
    dict.fromkeys(LAYERS, ORDERED_OPTIONS),
    {FAIR: (*ERRORS, DRIFT)},
    (AS_IT_COMES, PERMUTED),
    # The number of permutations is the paper's, whatever the seeds.
    seeds_of=lambda setting, seeds: PERMUTATIONS if setting == PERMUTED else (0,),
    simulated=True,
    comparable=False,
)
SCALING = Table(
    "scaling",
    "Number of variables",
    run_scaling,
    (WORLD,),
    dict.fromkeys(LAYERS, OPTIONS),
    {FAIR: ERRORS},
    ("16", "32", "64", "128", "256", "1024", "4096"),
    seeds_of=lambda setting, seeds: seeds if int(setting) <= MOST_WITH_SEEDS else seeds[:1],
    simulated=True,
    comparable=False,
)
