"""Which windows train, which select, which calibrate."""

from dataclasses import dataclass

from torch import Tensor

from orderless.data import Panel, split_in_time, window_starts
from orderless.errors import DataError
from orderless.estimators.baselines import POOLED, thin
from orderless.estimators.preparation import check_observed

LONGEST_CONTEXT = 336
MOST_HELD_OUT = 1024
"""Windows scored at each validation; more would cost time and change no decision."""
MOST_ROWS_HELD_OUT = 2**18
"""Look-backs of one variable in them: of many variables fewer windows are scored."""


@dataclass(frozen=True)
class ForecastingWindows:
    """Window indices [window, 2], and where the training part of each system ends.

    In time, training comes first, then selection, then calibration; no target is in two of them.
    Data too short for that selects and calibrates on the same windows, and data shorter still on
    the training windows: then `held_out` is False.
    """

    context: int
    train: Tensor
    selection: Tensor
    calibration: Tensor
    ends: list[int]
    held_out: bool


def cut_forecasting_windows(
    panel: Panel, horizon: int, context: int | None, share: float
) -> ForecastingWindows:
    """All windows to train on, and windows of the last `share` of each system to validate."""
    lengths = [len(system.times) for system in panel.systems]
    longest = max(lengths)
    if longest < horizon + 1:
        raise DataError(
            f"The longest system has {longest} time steps; to learn a forecast of {horizon} steps "
            f"it takes at least {horizon + 1}. Give more rows, or a shorter horizon."
        )
    check_observed(panel)
    if context is None:
        context = min(LONGEST_CONTEXT, max(1, round((1 - share) * longest) // 3))
    # What no system can fill teaches nothing, and the linear start takes the cube of it.
    context = min(context, longest)
    training, validation = split_in_time(lengths, horizon, share)
    room = max(end - horizon for _, end in training)
    shortest = max(1, min(context, room))

    def cut(spans: list[tuple[int, int]]) -> Tensor:
        return window_starts(lengths, context, horizon, targets=spans, shortest_context=shortest)

    train = cut(training)
    selection = cut([(begin, (begin + end) // 2) for begin, end in validation])
    calibration = cut([((begin + end) // 2, end) for begin, end in validation])
    if min(len(selection), len(calibration)) == 0:
        selection = calibration = cut(validation)
    held_out = len(selection) > 0
    if not held_out:
        selection = calibration = train
    parts = {"train": train, "select": selection, "calibrate": calibration}
    for purpose, windows in parts.items():
        if not _any_target(panel, windows, context, horizon):
            raise DataError(
                f"Not a single value is observed in the part of the data that is there to "
                f"{purpose}. Cut off what comes before the first and after the last readings."
            )
    most = min(MOST_HELD_OUT, MOST_ROWS_HELD_OUT // min(panel.widest, POOLED))
    return ForecastingWindows(
        context=context,
        train=train,
        selection=thin(selection, most),
        calibration=thin(calibration, most),
        ends=[end for _, end in training],
        held_out=held_out,
    )


def _any_target(panel: Panel, windows: Tensor, context: int, horizon: int) -> bool:
    """Whether anything is observed that one of the windows is to forecast."""
    origins = (
        (panel.systems[system].observed, start + context) for system, start in windows.tolist()
    )
    return any(observed[:, at : at + horizon].any() for observed, at in origins)
