"""Series, evaluators and stacks that the tests of this folder share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from orderless.data import Panel, Series, read_panel
from orderless.models import Run
from orderless.models.forecasting import (
    Choices,
    FittedStack,
    ForecastingWindows,
    WindowEvaluator,
    cut_forecasting_windows,
    fit_stack,
)
from orderless.models.forecasting.fit import CLOSED
from orderless.models.settings import build_network_config

SMALL = {"channels": 8, "states": 2, "patch": 8, "stride": 4, "branches": ["long"]}
BRIEF = {"steps_per_epoch": 4, "learning_rate": 0.01}


def evaluator_of(
    values: np.ndarray, context: int, horizon: int
) -> tuple[WindowEvaluator, ForecastingWindows]:
    """Of one system [time, variable], taken as scaled already."""
    panel: Panel = read_panel(values)
    windows = cut_forecasting_windows(panel, horizon, context, 0.2)
    (system,) = panel.systems
    series = Series.from_arrays([system.values], [system.observed])
    changes = torch.from_numpy(np.ptp(system.values, 1) > 0).unsqueeze(0)
    baselines = torch.ones(changes.shape)
    return WindowEvaluator(series, changes, baselines, context, horizon), windows


def stack_of(
    values: np.ndarray,
    members: Sequence[str] = CLOSED,
    *,
    horizon: int = 6,
    context: int = 24,
    season: int = 1,
    loss: str = "l1",
    quantiles: tuple[float, ...] = (),
    refit: bool = True,
    network: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> FittedStack:
    """Members for one system [time, variable], and their stack."""
    changes = SMALL | dict(network or {})
    evaluator, windows = evaluator_of(values, max(context, season), horizon)
    choices = Choices(
        members=members,
        contexts=(context,),
        config=lambda context: build_network_config("tiny", context, changes),
        center=changes.get("center"),
        loss=loss,
        quantiles=quantiles,
        refit=refit,
    )
    run = Run(seed=0, epochs=1, device="cpu", training=BRIEF | dict(training or {}))
    return fit_stack(evaluator, windows, season, choices, run)
