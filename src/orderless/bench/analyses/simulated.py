"""The paper's simulation: a VAR(1) process on a small-world graph, forecast by one layer."""

import hashlib
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from orderless.bench.analyses.timing import now
from orderless.bench.memory import peak_bytes, start_measuring
from orderless.bench.models.layer_forecaster import build_forecaster
from orderless.bench.models.window_task import WindowTask
from orderless.bench.records import SeedResult
from orderless.bench.table import Metric
from orderless.data import Series, fit_scaler, window_starts
from orderless.data.simulate import small_world_var
from orderless.errors import SettingError
from orderless.metrics import mae, mape
from orderless.training import TrainingConfig, train

TRAIN, VALIDATION = 0.7, 0.8
"""Where training and validation end, as shares of the steps."""
DATA = "VAR(1) on a small world"
STEPS = 1000
ERRORS = (
    Metric("mae", "MAE", 4),
    Metric("mape", "MAPE, as a share", 3),
    Metric("seconds_an_epoch", "seconds an epoch", 3),
)


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


def checksum_of(values: np.ndarray) -> str:
    """The checksum of simulated values."""
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()}"


def run_layer(
    layer: str, values: np.ndarray, number: int, seed: int, options: Mapping[str, Any]
) -> tuple[SeedResult, np.ndarray]:
    """Train one layer on values [variable, time]; errors on the test part, and time an epoch.

    `number` is what the result is called: a seed, or a permutation. Beside it, the forecasts of the
    test part [window, variable, horizon].
    """
    context, horizon = options["context"], options["horizon"]
    steps = values.shape[1]
    series = Series.from_arrays([values], [np.isfinite(values)])
    first, second = int(TRAIN * steps), int(VALIDATION * steps)
    train_windows, validation, test = (
        window_starts([steps], context, horizon, targets=[span])
        for span in ((0, first), (first, second), (second, steps))
    )
    budget = options.get("budget", {"epochs": options["epochs"], "steps": None})
    if budget["epochs"] < 1:
        raise SettingError("Epochs are timed here, so the budget needs at least one.")
    start_measuring()
    module = build_forecaster(layer, context, horizon, seed, **options["sizes"])
    task = TimedTask(module, series, train_windows, validation, context, horizon)
    config = TrainingConfig(
        epochs=budget["epochs"],
        steps_per_epoch=budget["steps"],
        batch_size=options["batch_size"],
        patience=budget["epochs"] + 1,
        seed=seed,
    )
    outcome = train(task, config, show_progress=False)
    batch = task.series.batch(test, context, horizon)
    with torch.inference_mode():
        forecast = torch.cat([module(part) for part in batch.values.split(options["batch_size"])])
    actual, forecast = batch.targets.cpu().numpy(), forecast.cpu().numpy()
    result = SeedResult(
        seed=number,
        test={
            "mae": mae(actual, forecast),
            # As a share, which is how the paper prints it.
            "mape": mape(actual, forecast, mask=actual != 0) / 100,
            # The median: the first epoch compiles kernels and records steps.
            "seconds_an_epoch": statistics.median(task.seconds_of_epochs),
        },
        validation={"mse": outcome.best_score},
        epochs=len(outcome.history) - 1,
        seconds=round(outcome.seconds, 3),
        peak_memory_bytes=peak_bytes(),
    )
    return result, forecast
