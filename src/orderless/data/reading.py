"""Frames and arrays in, a `Panel` out. What cannot be read raises `DataError` in words.

Frames are pandas, polars or Arrow tables (any eager frame that narwhals knows), or a mapping from
column names to arrays.

What happens to
  missing values (NaN, None, null, NaT)   they become unobserved entries
  unsorted time stamps                    sorted; scores go back in the order of the input's rows
  gaps in time                            filled with unobserved entries at the inferred step, or at
                                          a known one that is finer and divides all gaps
  duplicate time stamps                   merged where they agree or complete each other, else error
  time zones                              counted in UTC, given back in their zone; text in its
                                          offset, or in UTC where rows have different ones
  time as numbers 20260131 or 202601      dates, given back as numbers, where all are days or all
                                          months of the years 1800 to 2200; with hours, minutes and
                                          seconds too (2026013123, 202601312359, 20260131235959)
  other numbers as time                   counted in 64 bits, given back in a wider type of integer
                                          where the column's own is too small for the future
  integers, booleans, decimals            become floating-point numbers
  constant or entirely missing columns    kept: the first is constant, the second never observed
  infinities, numbers beyond 1e300, text, nested values, duplicate names, empty input, missing or
  irregular time stamps
                                          `DataError`
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np

from orderless.data.frames import Column, Table, can_hold, open_table, unmask
from orderless.data.frequency import (
    Frequency,
    infer_frequency,
    on_step,
    places,
    regular_grid,
)
from orderless.data.panel import Form, Panel, System, TimeForm
from orderless.data.roles import assign_roles
from orderless.data.timestamps import is_missing, parse_numbers
from orderless.errors import DataError

# Differences and squares of larger numbers, in units of their spread, would overflow to NaN.
LARGEST = 1e300
# That all of a few rows are some steps of a coarser kind apart may be chance, less often than this
# it is not.
ONCE_IN = 100
# Then a known step may be so many times finer: the days of a month, the hours of a day. Beyond,
# nearly all of what is read would be gaps.
FINER = 31


def read_panel(
    data: Any,
    *,
    time: Hashable = None,
    variable: Hashable = None,
    value: Hashable = None,
    group: Hashable = None,
    frequencies: Sequence[Frequency] = (),
    finer: int = FINER,
) -> Panel:
    """Series for forecasting and detection.

    data    a wide frame (one column a variable), a long frame (one row a variable and time), an
            array [time] or [time, variable] or [system, time, variable], or a list of arrays
            [time] or [time, variable] of independent systems. Nested lists of numbers are one
            array. The variables of arrays are called v0, v1, ...
    time    the column of time stamps; found by type or by name where not given. Without one, rows
            are equally spaced and counted from 0. A pandas index of time stamps counts as one.
    variable, value     the columns of a long frame that name the variable and hold its value;
            found by name (`unique_id, ds, y`; `item_id, timestamp, target`; `variable, value`) or,
            in a frame of three columns, by type, where the text is neither a clock nor readings.
            Text that differs, but not at one time stamp, is refused: it may be a remark
    group   the column that tells independent systems apart; nothing couples them
    frequencies     known steps, such as those of `fit`, the likeliest first: time stamps that lie
            on one of them with gaps are read at the coarsest such, where their own rows would tell
            a coarser one by chance, or one up to `finer` times as long

    A panel is given back as it is.
    """
    if isinstance(data, Panel):
        return data
    table = open_table(data)
    if table is not None:
        return _read_table(table, time, variable, value, group, frequencies, finer)
    _no_columns(time=time, variable=variable, value=value, group=group)
    if _is_list_of_arrays(data):
        arrays = [
            _as_numbers(one, f"array {number} of the list") for number, one in enumerate(data)
        ]
        form = Form("arrays", dimensions=tuple(one.ndim for one in arrays))
    else:
        array = _as_numbers(data, "the array")
        form = Form("arrays" if array.ndim == 3 else "array", dimensions=array.ndim)
        arrays = list(array) if array.ndim == 3 else [array]
    if not arrays:
        raise DataError("The list is empty. Give at least one array.")
    systems = []
    for number, one in enumerate(arrays):
        if one.ndim not in (1, 2):
            raise DataError(
                f"An array of {one.ndim} dimensions cannot be read. Give [time], [time, variable] "
                "or [system, time, variable]."
            )
        columns = one.T if one.ndim == 2 else one[None]
        systems.append(_system_of_array(columns, number, f"array {number}"))
    return Panel(tuple(systems), form)


def read_cases(
    data: Any,
    *,
    time: Hashable = None,
    variable: Hashable = None,
    value: Hashable = None,
    group: Hashable = None,
) -> Panel:
    """Cases for classification, each a system of its own.

    data    an array [case, variable, time] or [case, time] (one variable), a list of arrays
            [variable, time] or [time] of different length, where steps at the end of a case at
            which nothing is observed are padding and are cut off; or a frame as in `read_panel`,
            with `group` naming the case. Cases of a frame come in order of first appearance.
    """
    if isinstance(data, Panel):
        return data
    table = open_table(data)
    if table is not None:
        if group is None:
            raise DataError(
                "A frame of cases needs the name of the column that tells the cases apart: pass "
                "group=."
            )
        return _read_table(table, time, variable, value, group)
    _no_columns(time=time, variable=variable, value=value, group=group)
    if _is_list_of_arrays(data):
        arrays = [_as_numbers(one, f"case {number}") for number, one in enumerate(data)]
    else:
        array = _as_numbers(data, "the array")
        if array.ndim not in (2, 3):
            raise DataError(
                f"An array of {array.ndim} dimensions holds no cases. Give [case, variable, time], "
                "or [case, time] for one variable."
            )
        arrays = list(array)
    if not arrays:
        raise DataError("There is not a single case. Give at least one.")
    systems = []
    for number, one in enumerate(arrays):
        if one.ndim not in (1, 2):
            raise DataError(
                f"Case {number} has {one.ndim} dimensions. Give [variable, time], or [time] for "
                "one variable."
            )
        rows = np.atleast_2d(one)
        seen = np.flatnonzero(~np.isnan(rows).all(0)) if rows.size else np.array([])
        length = int(seen[-1]) + 1 if len(seen) else min(1, rows.shape[1])
        systems.append(_system_of_array(rows[:, :length], number, f"case {number}"))
    return Panel(tuple(systems), Form("arrays", dimensions=tuple(one.ndim for one in arrays)))


def read_labels(labels: Any, cases: int) -> np.ndarray:
    """Class labels as a 1-D array without missing values, one for each of the `cases`."""
    if isinstance(labels, np.ma.MaskedArray):
        labels = unmask(labels)
    opened = nw.from_native(labels, pass_through=True, series_only=True)
    try:
        array = np.asarray(opened.to_numpy() if isinstance(opened, nw.Series) else labels)
    except ValueError as error:
        raise DataError(f"The labels are no list of one for each case ({error}).") from error
    if array.dtype.kind == "U" and not all(isinstance(one, str) for one in labels):
        array = np.array(labels, object)  # as they are: NumPy makes text of numbers among text
    if array.ndim != 1 or len(array) != cases:
        raise DataError(
            f"There are {cases} cases, but labels of shape {array.shape}. Give one label a case."
        )
    missing = np.array([is_missing(one) for one in array.tolist()], bool)
    if missing.any():
        raise DataError(
            f"The label of case {int(np.argmax(missing))} is missing. Leave such cases out."
        )
    return array


def _read_table(
    table: Table,
    time: Hashable,
    variable: Hashable,
    value: Hashable,
    group: Hashable,
    frequencies: Sequence[Frequency] = (),
    finer: int = FINER,
) -> Panel:
    roles = assign_roles(table, time, variable, value, group)
    if not table.rows:
        raise DataError("The frame has no rows. Give at least one.")
    times, time_form = _time_axis(roles.time)
    long = roles.value is not None
    form = Form(
        "long" if long else "wide",
        table.library,
        time_form,
        roles.variable.label if roles.variable else None,
        roles.value.label if roles.value else None,
        roles.group.label if roles.group else None,
        labels={str(one.label): one.label for one in roles.variables},
        row_labels=table.labels,
        dtypes={one.label: one.dtype for one in (roles.variable, roles.group) if one is not None},
    )
    groups = _members(roles.group, table.rows)
    if long:
        assert roles.variable is not None
        assert roles.value is not None
        codes, names = _codes(roles.variable)
        _unique_names([str(name) for name in names], roles.variable.where)
        form.labels.update({str(name): name for name in names})
        numbers = _finite([roles.value])
    else:
        codes, names = None, [one.label for one in roles.variables]
        numbers = _finite(roles.variables)
    known = () if time_form.only_counts else frequencies
    find = partial(_find_frequency, form=time_form, known=known, finer=finer)
    systems = []
    for name, rows in groups:
        where = "" if roles.group is None else f"In {roles.group.label} = {name!r}: "
        chosen, row_variables, counted = range(len(names)), None, np.arange(len(rows))
        if codes is not None:
            # np.unique sorts the codes, and codes count by first appearance.
            chosen, row_variables = np.unique(codes[rows], return_inverse=True)
            counted = _counted(row_variables)
        variables = tuple(str(names[code]) for code in chosen)
        stamps = counted if times is None else times[rows]
        try:
            system = _system(numbers[:, rows], variables, stamps, find, row_variables, rows, name)
            systems.append(system)
        except DataError as error:
            raise DataError(where + str(error)) from error
    return Panel(tuple(systems), form)


def _time_axis(column: Column | None) -> tuple[np.ndarray | None, TimeForm]:
    """Time stamps as numbers or nanoseconds; None where rows are only counted."""
    if column is None:
        return None, TimeForm()
    values = column.values
    if column.kind == "time":
        assert column.time is not None
        missing = np.isnat(values)
        form = column.time
    elif column.kind == "number":
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        form = column.time or TimeForm("number", column.label, dtype=column.dtype)
        if (np.abs(values[~missing].astype(np.float64)) >= 2.0**61).any():
            raise DataError(
                f"The {column.where} of time holds numbers beyond 2^61. Count from a later start."
            )
    else:
        raise DataError(
            f"The {column.where} cannot be read as time stamps. Convert it to time stamps or "
            "numbers first."
        )
    if missing.any():
        raise DataError(
            f"The time stamp in row {int(np.argmax(missing))} of {column.where} is missing. Fill "
            "it in, or drop the row."
        )
    if column.kind == "time":
        return values, form
    numbers = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    whole = numbers.astype(np.int64)
    # An index without a name only counts rows.
    if column.label is not None and np.array_equal(whole, numbers):
        dates = parse_numbers(whole, column.where)
        if dates is not None:
            return dates[0], replace(form, pattern=dates[1])
    return numbers, form


def _finite(columns: Sequence[Column]) -> np.ndarray:
    """The numbers of the columns, [column, row], none of them infinite."""
    values = np.stack([one.values for one in columns], dtype=np.float64, casting="unsafe")
    beyond = np.abs(values) > LARGEST
    if beyond.any():
        column, row = np.argwhere(beyond)[0]
        raise DataError(
            f"There is {_number(values[column, row])} in row {row} of {columns[column].where}. "
            "Replace it by a missing value (NaN) if it means that there was no reading."
        )
    return values


def _members(group: Column | None, rows: int) -> list[tuple[Any, np.ndarray]]:
    """Each group's value and its rows, in order of first appearance."""
    if group is None:
        return [(0, np.arange(rows))]
    codes, names = _codes(group)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return list(zip(names, parts, strict=True))


def _codes(column: Column) -> tuple[np.ndarray, list[Any]]:
    """A number for each row, counting distinct values by first appearance, and those values."""
    if column.kind == "other" or (column.kind == "time" and column.texts is None):
        raise DataError(f"The {column.where} holds values that cannot name anything. Use text.")
    values = column.values if column.texts is None else column.texts
    missing = np.isnan(values) if values.dtype.kind == "f" else np.equal(values, np.array(None))
    if missing.any():
        raise DataError(
            f"Row {int(np.argmax(missing))} of {column.where} names nothing: the value is missing. "
            "Fill it in, or drop the row."
        )
    numbers: dict[Any, int] = {}
    codes = [numbers.setdefault(one, len(numbers)) for one in values.tolist()]
    return np.array(codes, np.int64), list(numbers)


def _unique_names(names: list[str], where: str) -> None:
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"Two variables in {where} are called {twice!r}. Rename one of them.")


def _counted(codes: np.ndarray) -> np.ndarray:
    """The number of each row among the rows of its variable, where there are no time stamps."""
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[order])
    counted = np.empty(len(codes), np.int64)
    counted[order] = np.arange(len(codes)) - first
    return counted


def _find_frequency(
    times: np.ndarray, form: TimeForm, known: Sequence[Frequency], finer: int
) -> Frequency | None:
    """The step that the time stamps tell, or the coarsest known one on which they lie with gaps.

    A step of their own that is known too stays: a model may have been fitted at several. Nothing
    else is asked, so that a series has the same step alone and beside others.
    """
    own, error = None, None
    try:
        own = infer_frequency(times, form.time_zone)
    except DataError as irregular:
        error = irregular
    if own is not None and any(own.is_like(one) for one in known):
        return own
    steps = (on_step(times, one, form.time_zone) for one in known)
    fitting = [one for one in steps if one and can_hold(form, one.future(times[-1], 12))]
    if error is not None and not fitting:
        raise error
    if len(times) == 1:
        return next(iter(fitting), None)

    def last_place(step: Frequency) -> int:
        return int(places(times, step)[-1])

    fitting.sort(key=last_place)
    if own is None:
        return fitting[0]
    for step in fitting:
        times_finer = last_place(step) / last_place(own)
        is_chance = (len(times) - 1) * math.log(times_finer) < math.log(ONCE_IN)
        if times_finer > 1 and (is_chance or times_finer <= finer):
            if not is_chance:
                warnings.warn(
                    f"Time stamps {own} apart are read, and forecast, at a step of {step}: the "
                    "model was fitted at that, and they lie on it.",
                    stacklevel=8,  # whoever called `predict`
                )
            return step
    return own


def _system(
    numbers: np.ndarray,
    variables: tuple[str, ...],
    stamps: np.ndarray,
    find_frequency: Callable[[np.ndarray], Frequency | None],
    row_variables: np.ndarray | None,
    input_rows: np.ndarray,
    name: Any,
) -> System:
    """A system from numbers [variable, row], or [1, row] of the variables `row_variables`."""
    unique, place = np.unique(stamps, return_inverse=True)
    frequency = find_frequency(unique)
    times, positions = (
        (unique, np.array([0])) if frequency is None else regular_grid(unique, frequency)
    )
    rows = positions[place]
    values = np.full((len(variables), len(times)), np.nan)
    if len(unique) == len(stamps) and row_variables is None:
        values[:, rows] = numbers
    else:
        highest = values.copy()
        lines = np.arange(len(variables))[:, None] if row_variables is None else row_variables[None]
        at = (lines * len(times) + rows).ravel()
        # fmin and fmax prefer a number to NaN, so entries that complete each other merge.
        np.fmin.at(values.reshape(-1), at, numbers.ravel())
        np.fmax.at(highest.reshape(-1), at, numbers.ravel())
        conflict = values < highest
        if conflict.any():
            variable, time = np.argwhere(conflict)[0]
            raise DataError(
                f"The variable {variables[variable]!r} has both {values[variable, time]:g} and "
                f"{highest[variable, time]:g} at time {times[time]}. Aggregate the rows with the "
                "same time stamp, pass group= if they belong to different systems, or give local "
                "times their zone if clocks were turned back."
            )
    observed = ~np.isnan(values)
    return System(
        values, observed, variables, times, frequency, rows, input_rows, row_variables, name
    )


def _system_of_array(values: np.ndarray, number: int, where: str) -> System:
    """A system from values [variable, time]."""
    variables, steps = values.shape
    if not values.size:
        raise DataError(
            f"The {where} has {variables} variables and {steps} time steps. Give at least one of "
            "each."
        )
    beyond = np.abs(values) > LARGEST
    if beyond.any():
        variable, step = np.argwhere(beyond)[0]
        raise DataError(
            f"There is {_number(values[variable, step])} at time step {step} of variable "
            f"{variable} of {where}. Replace it by NaN if it means that there was no reading."
        )
    times = np.arange(steps)
    return System(
        np.array(values),
        ~np.isnan(values),
        tuple(f"v{variable}" for variable in range(variables)),
        times,
        infer_frequency(times),
        times,
        times,
        name=number,
    )


def _number(value: float) -> str:
    return "an infinity" if np.isinf(value) else f"the number {value:g}, which is too large,"


def _no_columns(**labels: Hashable) -> None:
    for role, label in labels.items():
        if label is not None:
            raise DataError(
                f"{role}={label!r} names a column, but an array has none. Leave it out, or give a "
                "frame."
            )


def _is_list_of_arrays(data: Any) -> bool:
    """Arrays, or things that become arrays by themselves; nested lists of numbers are one array."""
    if not isinstance(data, list | tuple):
        return False
    if any(isinstance(one, Mapping) or nw.dependencies.is_into_dataframe(one) for one in data):
        # As arrays they would lose their names, and with them what tells variables apart.
        raise DataError(
            "A list of frames cannot be read. Join them to one frame with a column that tells "
            "them apart, and pass group=."
        )
    return all(hasattr(one, "__array__") and np.ndim(one) > 0 for one in data)


def _as_numbers(data: Any, where: str) -> np.ndarray:
    """A float64 array with NaN where something is missing."""
    if isinstance(data, str | PathLike):
        raise DataError(
            f"{str(data)!r} is the path of a file. Read it first: orderless.data.read_table(path)."
        )
    if hasattr(data, "detach"):
        # NumPy does not know every type of PyTorch, such as bfloat16.
        data = data.detach().cpu().double()
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        array = np.asarray(data)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"values of type {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where[0].upper()}{where[1:]} cannot be read as numbers ({error}). Give a frame, an "
            "array of numbers, or a list of such arrays."
        ) from error
