"""Forecasting models under one call: fitted on the training windows, then asked for any window."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from orderless import Forecaster
from orderless.bench.config import frozen, training_of
from orderless.bench.datasets.readers import LongSeries
from orderless.bench.measuring import peak_bytes, start_measuring
from orderless.bench.models.dlinear import DLinear
from orderless.bench.models.peers import PEERS, peer_builder
from orderless.bench.models.window_task import fit_module
from orderless.bench.protocols.long_term_rules import (
    every_window,
    scale_by_training_rows,
    target_span,
)
from orderless.data import Batch, Series
from orderless.models.folds import one_fold
from orderless.models.forecasting.fit import CLOSED, NETWORKS
from orderless.models.forecasting.naive import naive, seasonal_naive
from orderless.models.forecasting.ridge import fit_ridges
from orderless.models.forecasting.windows import WindowEvaluator

ENTRIES_AT_ONCE = {"cuda": 2**22, "cpu": 2**19}
"""Of contexts and targets, in one forward pass: networks need a hundred times their input."""
Forecast = Callable[[Tensor], Tensor]
"""Contexts [window, variable, context] to forecasts [window, variable, horizon]."""


@dataclass(frozen=True)
class Problem:
    """One series in units of its training rows, and its windows of one context and horizon."""

    data: LongSeries
    series: Series
    scaled: np.ndarray
    context: int
    horizon: int

    def windows(self, part: str) -> Tensor:
        """The index [window, 2] of every window of train, validation or test."""
        span = target_span(self.data.borders, part)
        starts = torch.as_tensor(every_window(span, self.context, self.horizon))
        return torch.stack([torch.zeros_like(starts), starts], 1)


@dataclass(frozen=True)
class Fitted:
    """A forecast, what it took to fit, and what else is worth keeping."""

    forecast: Forecast
    epochs: int | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    peak_memory_bytes: int | None = None
    errors: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """What `errors_of_windows` found, by part: both protocols read them."""


Fit = Callable[[Problem, int, Mapping[str, Any]], Fitted]


def pose(data: LongSeries, context: int, horizon: int) -> Problem:
    """The problem in units of the training rows, on the GPU where there is one."""
    scaled = scale_by_training_rows(data.values, data.borders)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    series = Series.from_arrays([scaled], [np.isfinite(scaled)], device=device)
    return Problem(data, series, scaled, context, horizon)


def fit(fitter: Fit, problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    """A model, fitted on train windows and chosen on validation windows.

    The last few are remembered: both protocols need the same one, and so may other tables.
    """
    data = problem.data
    key = (fitter, data.checksum, problem.context, problem.horizon, seed, frozen(options))
    if key not in _KNOWN:
        start_measuring()
        begun = time.perf_counter()
        fitted = fitter(problem, seed, options)
        seconds = round(time.perf_counter() - begun, 3)
        while len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = replace(fitted, seconds=seconds, peak_memory_bytes=peak_bytes())
    return _KNOWN[key]


MOST_KNOWN = 12
"""Three seeds at four contexts."""
_KNOWN: dict[tuple[Any, ...], Fitted] = {}


@torch.inference_mode()
def errors_of_windows(problem: Problem, part: str, forecast: Forecast) -> tuple[Tensor, Tensor]:
    """Mean squared and mean absolute error of every window of a part, [window] each, in float64."""
    windows = problem.windows(part)
    entries = (problem.context + problem.horizon) * len(problem.data.variables)
    at_once = max(1, ENTRIES_AT_ONCE[problem.series.flat.device.type] // entries)
    squared, absolute = [], []
    for index in windows.split(at_once):
        batch = problem.series.batch(index, problem.context, problem.horizon)
        error = (forecast(batch.values) - batch.targets).double()
        squared.append(error.square().mean((1, 2)).cpu())
        absolute.append(error.abs().mean((1, 2)).cpu())
    return torch.cat(squared), torch.cat(absolute)


def _fit_naive(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    return Fitted(lambda x: naive(x, torch.ones_like(x, dtype=torch.bool), problem.horizon))


def _fit_seasonal_naive(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    season = problem.data.season
    return Fitted(
        lambda x: seasonal_naive(x, torch.ones_like(x, dtype=torch.bool), problem.horizon, season),
        chosen={"season": season},
    )


def _fit_ridge(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    return Fitted(_ridge(problem, pooled=False))


def _fit_coupled_ridge(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    return Fitted(_ridge(problem, pooled=True))


def _ridge(problem: Problem, *, pooled: bool) -> Forecast:
    """A ridge shared by the variables; without `pooled` it costs a quarter."""
    there = torch.ones_like(problem.series.members)
    evaluator = WindowEvaluator(
        problem.series, there, there.float(), problem.context, problem.horizon
    )
    folds = one_fold(problem.windows("train"), problem.windows("validation"))
    member = fit_ridges(evaluator, folds, problem.context, pooled=pooled)[-1].member
    return _on_complete(member)


def _on_complete(answer: Callable[[Batch], Tensor]) -> Forecast:
    """A member or a stack as a forecast of contexts of which nothing is missing."""

    def forecast(x: Tensor) -> Tensor:
        there = torch.ones_like(x, dtype=torch.bool)
        return answer(Batch(x, there, there[..., 0], complete=True))

    return forecast


def _fit_dlinear(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    return _train(problem, seed, options, lambda: DLinear(problem.context, problem.horizon))


def _train(
    problem: Problem, seed: int, options: Mapping[str, Any], build: Callable[[], nn.Module]
) -> Fitted:
    """A module trained by the loop that trains everything here; validation chooses the epoch."""
    network, outcome = fit_module(
        build,
        problem.series,
        problem.windows("train"),
        problem.windows("validation"),
        problem.context,
        problem.horizon,
        seed=seed,
        budget=options["budget"],
    )
    return Fitted(network, epochs=len(outcome.history) - 1)


def _fit_peer(name: str) -> Fit:
    def fit_one(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
        build = peer_builder(name, problem.context, problem.horizon, len(problem.data.variables))
        return _train(problem, seed, options, build)

    return fit_one


def _fit_orderless(problem: Problem, seed: int, options: Mapping[str, Any]) -> Fitted:
    """`Forecaster` with its own split of the rows before the test span: the same borders."""
    borders = problem.data.borders
    model = Forecaster(
        problem.horizon,
        problem.context,
        # The factors of a variable are known by its name, which windows alone do not carry.
        members=[name for name in (*CLOSED, *NETWORKS) if name != "factor ridge"],
        season=problem.data.season,
        refit=False,  # as the protocol rules: fitted on rows of training alone
        validation_share=1 - borders.train / borders.validation,
        random_state=seed,
        verbose=False,
        **options["forecaster"],
        **training_of(options["budget"]),
    ).fit(problem.scaled[:, : borders.validation].T)
    return Fitted(
        _on_complete(model.stack_),
        epochs=max((len(epochs) - 1 for epochs in model.history_.values()), default=0),
        chosen=model.weights_,
    )


COLUMNS: dict[str, Fit] = {
    "orderless": _fit_orderless,
    "orderless uncoupled": _fit_orderless,
    "naive": _fit_naive,
    "seasonal naive": _fit_seasonal_naive,
    "ridge": _fit_ridge,
    "coupled ridge": _fit_coupled_ridge,
    "DLinear": _fit_dlinear,
    **{name: _fit_peer(name) for name in PEERS},
}
