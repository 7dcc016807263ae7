"""Results back in the form the input came in: same library, wide or long, frame or array."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from orderless.data.frames import Column, build_frame, pandas_index
from orderless.data.frequency import Frequency
from orderless.data.panel import Panel, System
from orderless.data.timestamps import round_as_written, write_numbers
from orderless.errors import DataError

SMALL_INTEGERS = (nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32)


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
    frequency   the step for systems with a single time stamp, which does not tell one; that of
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
    if panel.form.kind == "wide":
        return _wide(panel, blocks, times, cutoffs if backtest else None)
    return _long(panel, blocks, times, cutoffs if backtest else None)


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
    at_rows = [one[..., system.rows] for one, system in zip(scores, panel.systems, strict=True)]
    if form.kind in ("array", "arrays"):
        arrays = [
            one.T if each and dimensions > 1 else one.reshape(-1)
            for one, dimensions in zip(at_rows, _dimensions(panel), strict=True)
        ]
        if form.kind == "array":
            return arrays[0]
        return np.stack(arrays) if form.dimensions == 3 else arrays
    if form.kind == "long" and not each:
        seen = [np.unique(system.rows) for system in panel.systems]
        times = np.concatenate([one.times[at] for one, at in zip(panel.systems, seen, strict=True)])
        columns = [*_group(panel, [len(at) for at in seen]), *_time(panel, times)]
        joined = np.concatenate([one[at] for one, at in zip(scores, seen, strict=True)])
        return build_frame(form, [*columns, _values(name, joined)])
    # Back from systems one after the other to the rows as they came.
    back = np.argsort(np.concatenate([system.input_rows for system in panel.systems]))
    times = np.concatenate([system.times[system.rows] for system in panel.systems])[back]
    columns = [replace(one, values=one.values[back]) for one in _group(panel, None)]
    if form.kind == "long":
        columns += [replace(one, values=one.values[back]) for one in _names(panel)]
        joined = [
            one[system.row_variables, np.arange(one.shape[1])]
            for one, system in zip(at_rows, panel.systems, strict=True)
        ]
        results = [_values(name, np.concatenate(joined)[back])]
    elif each:
        joined = np.concatenate(at_rows, 1)[:, back]
        labels = [form.labels[variable] for variable in panel.variables]
        results = [_values(label, row) for label, row in zip(labels, joined, strict=True)]
    else:
        results = [_values(name, np.concatenate(at_rows)[back])]
    return build_frame(form, [*columns, *_time(panel, times), *results], form.row_labels)


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
            f"A single time stamp, {last}, does not tell the step to the next. Give at least two "
            "rows, or drop the time column."
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


def _wide(
    panel: Panel,
    blocks: dict[str, list[np.ndarray]],
    times: list[np.ndarray],
    cutoffs: list[np.ndarray] | None,
) -> Any:
    sizes = [one.size for one in times]
    joined = np.concatenate([one.ravel() for one in times])
    columns = [*_group(panel, sizes), *_time(panel, joined)]
    if cutoffs is not None:
        spread = [np.repeat(one, at.shape[1]) for one, at in zip(cutoffs, times, strict=True)]
        columns.append(_cutoff(panel, np.concatenate(spread)))
    for number, variable in enumerate(panel.variables):
        for ending, systems in blocks.items():
            # Systems of a wide frame have the same variables, in the order of its columns.
            values = np.concatenate([one[:, number].ravel() for one in systems])
            columns.append(_values(_label(panel.form.labels[variable], ending), values))
    return build_frame(panel.form, columns, _index(panel, joined))


def _long(
    panel: Panel,
    blocks: dict[str, list[np.ndarray]],
    times: list[np.ndarray],
    cutoffs: list[np.ndarray] | None,
) -> Any:
    form = panel.form
    # One row a variable, window and step, in this order.
    counts = [len(system.variables) for system in panel.systems]
    sizes = [one.size * count for one, count in zip(times, counts, strict=True)]
    names = [
        np.repeat(np.array([form.labels[name] for name in system.variables], object), one.size)
        for system, one in zip(panel.systems, times, strict=True)
    ]
    stamps = [np.tile(one.ravel(), count) for one, count in zip(times, counts, strict=True)]
    joined = np.concatenate(stamps)
    columns = [*_group(panel, sizes), _name(panel, np.concatenate(names)), *_time(panel, joined)]
    if cutoffs is not None:
        spread = [
            np.tile(np.repeat(one, at.shape[1]), count)
            for one, at, count in zip(cutoffs, times, counts, strict=True)
        ]
        columns.append(_cutoff(panel, np.concatenate(spread)))
    for ending, systems in blocks.items():
        values = np.concatenate([one.transpose(1, 0, 2).ravel() for one in systems])
        columns.append(_values(_label(form.value, ending), values))
    return build_frame(form, columns, _index(panel, joined))


def _label(label: Any, ending: str) -> Any:
    return f"{label}-{ending}" if ending else label


def _values(label: Any, values: np.ndarray) -> Column:
    return Column(label, "number", values)


def _index(panel: Panel, times: np.ndarray) -> Any:
    """The index of a pandas frame where it held the time stamps."""
    form = panel.form.time
    return pandas_index(_as_written(panel, times), form) if form.index else None


def _time(panel: Panel, times: np.ndarray) -> list[Column]:
    """The column of time stamps; none where rows were counted or the index holds them."""
    form = panel.form.time
    if form.index or form.kind == "none":
        return []
    return [_stamps(panel, form.name, times)]


def _cutoff(panel: Panel, times: np.ndarray) -> Column:
    return _stamps(panel, "cutoff", times)


def _stamps(panel: Panel, label: Any, times: np.ndarray) -> Column:
    form, times = panel.form.time, _as_written(panel, times)
    if times.dtype.kind in "mM":
        # The type of an index says nothing about a column.
        return Column(label, "time", times, replace(form, dtype=None) if form.index else form)
    dtype = None if form.index or form.dtype is None or form.dtype.is_float() else form.dtype
    if dtype in SMALL_INTEGERS and times.max() > np.iinfo(str(dtype).lower()).max:
        dtype = None
    return Column(label, "number", times, dtype=dtype)


def _as_written(panel: Panel, times: np.ndarray) -> np.ndarray:
    """Time stamps that the text of the input can say, or numbers where it had dates as numbers."""
    form = panel.form.time
    if form.pattern is None:
        return times
    # The mean of steps that jitter falls between what can be written, but rounding is harmless: a
    # jitter of 5 % shows in writing only where a step is 20 of the smallest difference or more.
    if any(one.frequency and isinstance(one.frequency.count, float) for one in panel.systems):
        times = round_as_written(times, form)
    if form.kind != "number":
        return times
    numbers = write_numbers(times, form)
    return numbers.astype(np.float64) if form.dtype in (nw.Float32, nw.Float64) else numbers


def _group(panel: Panel, sizes: Sequence[int] | None) -> list[Column]:
    """The group column, each system's value once for each of its rows."""
    label = panel.form.group
    if label is None:
        return []
    counts = sizes or [len(system.rows) for system in panel.systems]
    names = np.empty(len(panel.systems), object)
    names[:] = [system.name for system in panel.systems]
    dtype = panel.form.dtypes.get(label)
    return [Column(label, "text", np.repeat(names, counts), dtype=dtype)]


def _names(panel: Panel) -> list[Column]:
    labels = panel.form.labels
    entries = [
        np.array([labels[name] for name in system.variables], object)[system.row_variables]
        for system in panel.systems
    ]
    return [_name(panel, np.concatenate(entries))]


def _name(panel: Panel, names: np.ndarray) -> Column:
    label = panel.form.variable
    return Column(label, "text", names, dtype=panel.form.dtypes.get(label))
