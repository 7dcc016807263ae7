"""Which windows train, which validate, and which part of the data is held out for the units."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from orderless.data import Panel, covering_starts, split_in_time, window_starts
from orderless.errors import DataError
from orderless.models.forecasting.windows import thin

LONGEST_CONTEXT = 96
MOST_HELD_OUT = 512
"""Windows scored at each validation; more would cost time and change no decision."""


@dataclass(frozen=True)
class DetectionWindows:
    """Window indices [window, 2], where training ends and the span held out, of each system.

    In time, training comes first. A system too short to be split is held out as a whole, and
    trained on as well; data without a window after the training part validates on the training
    windows.
    """

    context: int
    train: Tensor
    validation: Tensor
    ends: list[int]
    held_out: list[tuple[int, int]]


def cut_detection_windows(panel: Panel, context: int | None, share: float) -> DetectionWindows:
    """All windows to train on, and overlapping ones of the last `share` of each system."""
    lengths = [len(system.times) for system in panel.systems]
    context = int(context or min(LONGEST_CONTEXT, max(1, max(lengths) // 4)))
    training, validation = split_in_time(lengths, context, share)
    check_part(panel, training, "train", set(panel.variables))
    train = window_starts(lengths, context, 0, targets=training)
    if len(train) == 0:
        train = covering_starts(lengths, context)
    held_out = window_starts(
        lengths,
        context,
        0,
        targets=[(begin + context, end) for begin, end in validation],
        stride=max(1, context // 2),
    )
    if len(held_out) == 0:
        held_out = train
    return DetectionWindows(
        context=context,
        train=train,
        validation=thin(held_out, MOST_HELD_OUT),
        ends=[end for _, end in training],
        held_out=[(0 if begin == end else begin, end) for begin, end in validation],
    )


def check_part(
    panel: Panel, spans: Sequence[tuple[int, int]], purpose: str, names: Collection[str]
) -> None:
    """Refuse data of which nothing is observed, of these variables, within spans of its systems."""
    for system, (begin, end) in zip(panel.systems, spans, strict=True):
        rows = [name in names for name in system.variables]
        if system.observed[rows, begin:end].any():
            return
    what = "" if len(names) == len(panel.variables) else " of what moves"
    raise DataError(
        f"Not a single value{what} is observed in the part of the data that is there to {purpose}. "
        "Cut off what comes before the first and after the last readings."
    )
