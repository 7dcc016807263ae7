"""Which windows train, which select, which calibrate; and how forecasts are scored on them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from orderless.data import Batch, Panel, Series, choose_variables, split_in_time, window_starts
from orderless.errors import DataError
from orderless.ops.factors import Loadings

LONGEST_CONTEXT = 720
DEFAULT_CONTEXT = 336
MOST_HELD_OUT = 1024
"""Windows scored at each validation; more would cost time and change no decision."""
MOST_ROWS_HELD_OUT = 2**18
"""Contexts of one variable in them: of many variables fewer windows are scored."""
POOLED = 1024
"""Variables of a window that are pooled where there are more: their mean is hardly another. In
training there are fewer still, `orderless.data.MOST_VARIABLES`; a forecast pools all."""
ROWS_AT_ONCE = 4096
"""Contexts of one variable in a forward pass without gradients."""


@dataclass(frozen=True)
class ForecastingWindows:
    """Window indices [window, 2], and where the training part of each system ends.

    In time, training comes first, then selection, then calibration; no target is in two of them.
    Data too short for that selects and calibrates on the same windows, and data shorter still on
    the training windows: then `held_out` is False. The context of a window may begin before its
    system does; what lies there is unobserved.
    """

    context: int
    horizon: int
    train: Tensor
    selection: Tensor
    calibration: Tensor
    ends: list[int]
    held_out: bool

    def lengthen(self, context: int) -> "ForecastingWindows":
        """The same targets after a longer context."""
        earlier = self.train.new_tensor([0, self.context - context])
        return replace(
            self,
            context=context,
            train=self.train + earlier,
            selection=self.selection + earlier,
            calibration=self.calibration + earlier,
        )


def cut_forecasting_windows(
    panel: Panel, horizon: int, context: int | None, share: float
) -> ForecastingWindows:
    """All windows to train on, and windows of the last `share` of each system to validate.

    Where no context is given, it is the longest that a third of the training data can fill.
    """
    lengths = [len(system.times) for system in panel.systems]
    longest = max(lengths)
    if longest < horizon + 1:
        raise DataError(
            f"The longest system has {longest} time steps; to learn a forecast of {horizon} steps "
            f"it takes at least {horizon + 1}. Give more rows, or a shorter horizon."
        )
    if not any(system.observed.any() for system in panel.systems):
        raise DataError("Not a single value is observed: there is nothing to learn from.")
    if context is None:
        context = min(LONGEST_CONTEXT, max(1, round((1 - share) * longest) // 3))
    # What no system can fill teaches nothing, and a ridge takes the cube of it.
    context = min(context, longest)
    training, validation = split_in_time(lengths, horizon, share)
    room = max(end - horizon for _, end in training)
    shortest = max(1, min(context, DEFAULT_CONTEXT, room))

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
                f"No value is observed in the part of the data that is used to {purpose}. Cut off "
                "what comes before the first and after the last readings."
            )
    most = min(MOST_HELD_OUT, MOST_ROWS_HELD_OUT // min(panel.widest, POOLED))
    return ForecastingWindows(
        context=context,
        horizon=horizon,
        train=train,
        selection=thin(selection, most),
        calibration=thin(calibration, most),
        ends=[end for _, end in training],
        held_out=held_out,
    )


def choose_contexts(longest: int) -> tuple[int, ...]:
    """Contexts of the members where the user names none: 720, 336 and 96, or in proportion."""
    return tuple(sorted({max(1, round(longest * part)) for part in (2 / 15, 7 / 15, 1)}))


@dataclass(frozen=True)
class Errors:
    """Mean absolute and mean squared error, in units of each variable's scale."""

    mae: float
    mse: float


class WindowEvaluator:
    """Scores forecasts on windows by index, over every target that says how good they are.

    changes     [system, variable], False for variables that never change. To forecast them is no
                merit, and with their errors, which are 0, those of the others would seem small
    baselines   [system, variable], baseline scales for intervals
    loadings    [system, variable, ...], how variables answer to factors, if anybody asks
    """

    def __init__(
        self,
        series: Series,
        changes: Tensor,
        baselines: Tensor,
        context: int,
        horizon: int,
        loadings: Loadings | None = None,
    ) -> None:
        self.series, self.changes, self.baselines = series, changes, baselines
        self.loadings = loadings
        self.context, self.horizon = context, horizon
        self.complete = bool(series.flat_observed.all() and series.members.all())

    def to(self, device: torch.device) -> None:
        """Move the series."""
        self.series, self.changes = self.series.to(device), self.changes.to(device)
        self.baselines = self.baselines.to(device)
        if self.loadings is not None:
            self.loadings = Loadings(*(one.to(device) for one in self.loadings))

    @torch.no_grad()
    def errors(
        self,
        windows: Tensor,
        forecast: Callable[[Batch], Tensor],
        context: int | None = None,
    ) -> Errors:
        """Errors of any forecast on these windows.

        context: how many steps of the past it is given; if None those of the evaluator.
        """
        absolute = squared = count = torch.zeros((), dtype=torch.float64)
        for batch in self.batches(windows, context):
            error = torch.where(batch.target_observed, forecast(batch) - batch.targets, 0.0)
            absolute = absolute + error.abs().sum().double().cpu()
            squared = squared + error.square().sum().double().cpu()
            count = count + batch.target_observed.sum().cpu()
        count = count.clamp(min=1)
        return Errors(float(absolute / count), float(squared / count))

    def batches(self, windows: Tensor, context: int | None = None) -> Iterator[Batch]:
        """The windows in order, in blocks of a size that fits.

        Of very many variables each window has some, always the same. Targets that do not count, of
        what never changes or has an empty context, are not observed.
        """
        complete = self.complete and all_exist(windows)
        generator = torch.Generator().manual_seed(0)
        width = min(self.series.members.shape[1], POOLED)
        for part in windows.split(max(1, ROWS_AT_ONCE // width)):
            some = choose_variables(self.series.members[part[:, 0]], POOLED, generator)
            batch = self.gather(part, some, context)
            counts = rows_of(self.changes, part, some)
            counts = counts & batch.observed[..., -self.context :].any(-1)
            targets = batch.target_observed & counts.unsqueeze(-1)
            baseline = rows_of(self.baselines, part, some)
            yield replace(batch, target_observed=targets, complete=complete, baseline=baseline)

    def gather(
        self, windows: Tensor, variables: Tensor | None = None, context: int | None = None
    ) -> Batch:
        """These windows, on all variables or those given."""
        context = self.context if context is None else context
        windows = windows - windows.new_tensor([0, context - self.context])  # to end where they end
        batch = self.series.batch(windows, context, self.horizon, variables)
        if self.loadings is None:
            return batch
        found = Loadings(*(rows_of(one, windows, variables) for one in self.loadings))
        return replace(batch, loadings=found)


def rows_of(facts: Tensor, windows: Tensor, variables: Tensor | None) -> Tensor:
    """Facts [system, variable, ...] of windows [window, 2], of all variables or those given."""
    each = facts[windows[:, 0].to(facts.device)]
    if variables is None:
        return each
    return each.take_along_dim(variables.view(*variables.shape, *(1,) * (each.dim() - 2)), 1)


def all_exist(windows: Tensor) -> bool:
    """Whether no context begins before its system does."""
    return bool((windows[:, 1] >= 0).all())


def thin(index: Tensor, most: int) -> Tensor:
    """Every k-th window, so that at most `most` (and at least one) are left."""
    return index[:: max(1, -(-len(index) // max(1, most)))]


def _any_target(panel: Panel, windows: Tensor, context: int, horizon: int) -> bool:
    """Whether anything is observed that one of the windows is to forecast."""
    origins = (
        (panel.systems[system].observed, start + context) for system, start in windows.tolist()
    )
    return any(observed[:, at : at + horizon].any() for observed, at in origins)
