"""Results back in the form the input came in: same library, wide or long, frame or array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orderless.data.engine import need
from orderless.data.frequency import Frequency
from orderless.data.panel import Panel, System, TimeForm
from orderless.errors import DataError


@dataclass(frozen=True)
class Names:
    """A column of names, `names[codes]`, of the type that the input's column had."""

    label: Any
    names: list[Any]
    codes: np.ndarray
    dtype: Any = None


@dataclass(frozen=True)
class Stamps:
    """A column of time stamps in nanoseconds, or of numbers that count time."""

    label: Any
    times: np.ndarray
    form: TimeForm


def write_forecast(
    panel: Panel,
    forecast: Mapping[str, Sequence[np.ndarray]],
    *,
    origins: Sequence[np.ndarray] | None = None,
    frequency: Frequency | None = None,
) -> Any:
    """A forecast in the form of the panel's input.

    forecast    for each column ending, the values of each system [variable, horizon], variables in
                the order of `system.variables`. The ending "" is the point forecast; others, such
                as "lo-80", follow the name with a hyphen.
    origins     for a backtest: for each system the positions in `times` [window] at which the
                forecast begins; the values are then [window, variable, horizon], and frames get a
                column "cutoff" with the last time stamp before each origin
    frequency   the step for systems with a single time stamp, which does not show one; that of
                the other systems where not given. Where none has one either, numbers count on by
                1, and dates and times raise DataError.

    wide    time stamps, then a column a variable and ending (`pressure`, `pressure-lo-80`)
    long    variable, time, then a column an ending (`y`, `y-lo-80`); the group column first
    arrays  [horizon, variable] ([window, horizon, variable] for a backtest) as the input's axes
            were; with other endings than "", a dict from ending to array
    """
    backtest = origins is not None
    blocks = {
        ending: [values if backtest else values[None] for values in systems]
        for ending, systems in forecast.items()
    }
    if panel.form.kind in ("array", "arrays"):
        return _arrays(panel, blocks, backtest)
    horizon = next(iter(blocks.values()))[0].shape[-1]
    starts = origins or [np.array([len(system.times)]) for system in panel.systems]
    cutoffs = [
        np.array([system.times[at - 1] for at in positions], system.times.dtype)
        for system, positions in zip(panel.systems, starts, strict=True)
    ]
    common = frequency or panel.frequency
    steps = [system.frequency or common for system in panel.systems]
    times = [
        np.array([_following(system, at, horizon, step) for at in positions], system.times.dtype)
        for system, positions, step in zip(panel.systems, starts, steps, strict=True)
    ]
    return _frame(panel, blocks, times, cutoffs if backtest else None)


def write_scores(panel: Panel, scores: Sequence[np.ndarray], *, name: str = "score") -> Any:
    """Scores or labels for the rows of the input, in the order of its rows.

    scores      for each system [time] or [variable, time]

    [time] gives a column `name` beside the time stamps (an array [time] for arrays). A long frame
    then has one row a system and time stamp, in order of time. [variable, time] gives a column
    for each variable (wide), a column `name` (long), or an array [time, variable]. Times that
    filled a gap of the input have no row.
    """
    form = panel.form
    each = scores[0].ndim == 2
    at_rows = [_take(one, at.rows) for one, at in zip(scores, panel.systems, strict=True)]
    if form.kind in ("array", "arrays"):
        arrays = [
            one.T if each and dimensions > 1 else one.reshape(-1)
            for one, dimensions in zip(at_rows, _dimensions(panel), strict=True)
        ]
        if form.kind == "array":
            return arrays[0]
        return np.stack(arrays) if form.dimensions == 3 else arrays
    build = need("orderless.data.frames_out").build_frame
    if form.kind == "long" and not each:
        seen = [np.unique(system.rows) for system in panel.systems]
        times = np.concatenate([one.times[at] for one, at in zip(panel.systems, seen, strict=True)])
        head = [*_group(panel, [len(at) for at in seen]), *_time(panel, times)]
        joined = np.concatenate([one[at] for one, at in zip(scores, seen, strict=True)])
        return build(form, head, [name], joined[None])
    labels = [name]
    if form.kind == "long":
        assert all(system.row_variables is not None for system in panel.systems)
        at_rows = [
            one[system.row_variables, np.arange(one.shape[1])]
            for one, system in zip(at_rows, panel.systems, strict=True)
        ]
    elif each:
        labels = [form.labels[variable] for variable in panel.variables]
    # Back from systems one after the other to the rows as they came.
    back = np.argsort(np.concatenate([system.input_rows for system in panel.systems]))
    times = np.concatenate([system.times[system.rows] for system in panel.systems])[back]
    head = _group(panel, [len(system.rows) for system in panel.systems], back)
    if form.kind == "long":
        head += _names(panel, [one.row_variables for one in panel.systems], back)
    values = np.atleast_2d(at_rows[0] if len(at_rows) == 1 else np.concatenate(at_rows, -1))
    head += _time(panel, times)
    return build(form, head, labels, _take(values, back), form.row_labels)


def _take(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The entries along the last axis; all of them in order without a copy."""
    return values if np.array_equal(places, np.arange(values.shape[-1])) else values[..., places]


def _following(system: System, at: int, horizon: int, step: Frequency | None) -> np.ndarray:
    """The time stamps from a position on: those of the data, and where they end, further steps.

    Clocks jitter, so that steps from a cutoff in the past would miss the data's own time stamps.
    """
    known = system.times[at : at + horizon]
    if len(known) == horizon:
        return known
    return np.concatenate([known, _future(step, system.times[-1], horizon - len(known))])


def _future(frequency: Frequency | None, last: np.generic, horizon: int) -> np.ndarray:
    if frequency is None and last.dtype.kind in "mM":
        raise DataError(
            f"A single time stamp, {last}, does not show how far it is to the next. Give at least "
            "two rows, or drop the time column."
        )
    return (frequency or Frequency(1, "step")).future(last, horizon)


def _dimensions(panel: Panel) -> list[int]:
    """How many dimensions the array of each system had."""
    return np.broadcast_to(panel.form.dimensions, len(panel.systems)).tolist()


def _arrays(panel: Panel, blocks: dict[str, list[np.ndarray]], backtest: bool) -> Any:
    form = panel.form
    results = {}
    for ending, systems in blocks.items():
        arrays = [
            one.transpose(0, 2, 1) if dimensions > 1 else one[:, 0]
            for one, dimensions in zip(systems, _dimensions(panel), strict=True)
        ]
        arrays = [one if backtest else one[0] for one in arrays]
        if form.kind == "array":
            results[ending] = arrays[0]
        else:
            results[ending] = np.stack(arrays) if form.dimensions == 3 else arrays
    return results[""] if set(results) == {""} else results


def _frame(
    panel: Panel,
    blocks: dict[str, list[np.ndarray]],
    times: list[np.ndarray],
    cutoffs: list[np.ndarray] | None,
) -> Any:
    """A frame out of values [window, variable, step] and times [window, step] of each system.

    One row a system, variable (long), window and step, in this order.
    """
    form = panel.form
    lines = [len(system.variables) if form.kind == "long" else 1 for system in panel.systems]
    names = form.labels.values() if form.kind == "wide" else [form.value]
    sizes = [one.size for one in times]

    def in_rows(each: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.tile(one.ravel(), n) for one, n in zip(each, lines, strict=True)])

    rows = [n * size for n, size in zip(lines, sizes, strict=True)]
    stamps = in_rows(times)
    head = _group(panel, rows)
    if form.kind == "long":
        head += _names(
            panel, [np.repeat(np.arange(n), size) for n, size in zip(lines, sizes, strict=True)]
        )
    head += _time(panel, stamps)
    if cutoffs is not None:
        repeated = [np.repeat(one, at.shape[1]) for one, at in zip(cutoffs, times, strict=True)]
        head.append(_stamps(panel, "cutoff", in_rows(repeated)))
    # Systems of a wide frame have the same variables, in the order of its columns.
    values = [
        np.concatenate([one.swapaxes(0, 1).reshape(len(names), -1) for one in systems], 1)
        for systems in blocks.values()
    ]
    labels = [f"{name}-{ending}" if ending else name for name in names for ending in blocks]
    columns = np.stack(values, 1).reshape(len(labels), -1)
    # The index of the frame, where time stamps were the index of the input.
    index = _stamps(panel, form.time.name, stamps) if form.time.index else None
    return need("orderless.data.frames_out").build_frame(form, head, labels, columns, index)


def _time(panel: Panel, times: np.ndarray) -> list[Names | Stamps]:
    """The column of time stamps; none where rows were counted or the index holds them."""
    form = panel.form.time
    return [] if form.index or form.kind == "none" else [_stamps(panel, form.name, times)]


def _stamps(panel: Panel, label: Any, times: np.ndarray) -> Stamps:
    """A column of time stamps as the input wrote them: text, or dates as numbers, no finer."""
    form = panel.form.time
    if form.pattern is None:
        return Stamps(label, times, form)
    timestamps = need("orderless.data.timestamps")
    # The mean of steps that jitter falls between what can be written, but rounding is harmless: a
    # jitter of 5 % shows in writing only where a step is 20 of the smallest difference or more.
    if any(one.frequency and isinstance(one.frequency.count, float) for one in panel.systems):
        times = timestamps.round_as_written(times, form)
    if form.kind == "number":
        times = timestamps.write_numbers(times, form)
    return Stamps(label, times, form)


def _group(
    panel: Panel, sizes: Sequence[int], order: np.ndarray | None = None
) -> list[Names | Stamps]:
    """The group column, each system's value so many times, and then in another order."""
    label = panel.form.group
    if label is None:
        return []
    codes = np.repeat(np.arange(len(sizes)), sizes)
    names = [system.name for system in panel.systems]
    dtype = panel.form.dtypes.get(label)
    codes = codes if order is None else codes[order]
    return [Names(label, names, codes, dtype)]


def _names(
    panel: Panel, lines: Sequence[np.ndarray | None], order: np.ndarray | None = None
) -> list[Names | Stamps]:
    """The column of variables: for each system, which of its variables is in each row."""
    label, labels = panel.form.variable, panel.form.labels
    place = {name: number for number, name in enumerate(labels)}
    codes = np.concatenate(
        [
            np.array([place[name] for name in system.variables])[line]
            for system, line in zip(panel.systems, lines, strict=True)
        ]
    )
    dtype = panel.form.dtypes.get(label)
    codes = codes if order is None else codes[order]
    return [Names(label, list(labels.values()), codes, dtype)]
