"""Frames and arrays in, a `Panel` out. What cannot be read raises `DataError` in words.

Arrays, tensors and lists of them need nothing but NumPy. Frames are pandas, polars or Arrow tables
(any eager frame that narwhals knows), or a mapping from column names to arrays; `ingest` says what
becomes of gaps, duplicates, time zones and the like.
"""

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from orderless.data.containers import find_too_large, is_missing, to_array, to_numbers
from orderless.data.engine import need
from orderless.data.frequency import Frequency, infer_frequency
from orderless.data.panel import Form, Panel, System
from orderless.errors import DataError

# A known step may be so many times finer than that of the rows: the days of a month, the hours of a
# day. Beyond, nearly all of what is read would be gaps.
FINER = 31
# What frames and series have, lazy ones too, and arrays have not.
OF_FRAMES = ("collect", "columns", "to_frame", "to_pandas")


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
    group   the column that says which independent system a row is of
    frequencies     known steps, such as those of `fit`, the likeliest first: time stamps that lie
            on one of them with gaps are read at the coarsest such, where their own rows would give
            a coarser one by chance, or one up to `finer` times as long

    A panel is given back as it is.
    """
    if isinstance(data, Panel):
        return data
    table = _open_table(data)
    if table is not None:
        ingest = need("orderless.data.ingest").ingest
        return ingest(table, time, variable, value, group, frequencies, finer)
    _no_columns(time=time, variable=variable, value=value, group=group)
    if _is_list_of_arrays(data):
        arrays = [to_numbers(one, f"array {number} of the list") for number, one in enumerate(data)]
        form = Form("arrays", dimensions=tuple(one.ndim for one in arrays))
    else:
        array = to_numbers(data, "the array")
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
    table = _open_table(data)
    if table is not None:
        if group is None:
            raise DataError(
                "A frame of cases needs the column that says which case a row is of: pass group=."
            )
        return need("orderless.data.ingest").ingest(table, time, variable, value, group, (), FINER)
    _no_columns(time=time, variable=variable, value=value, group=group)
    if _is_list_of_arrays(data):
        arrays = [to_numbers(one, f"case {number}") for number, one in enumerate(data)]
    else:
        array = to_numbers(data, "the array")
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
    array = to_array(labels, "the list of labels")
    if array.dtype.kind == "U" and not all(isinstance(one, str) for one in labels):
        array = np.array(labels, object)  # as they are: NumPy makes text of numbers among text
    if array.ndim != 1 or len(array) != cases:
        raise DataError(
            f"There are {cases} cases, but labels of shape {array.shape}. Give one label for each "
            "case."
        )
    missing = np.array([is_missing(one) for one in array.tolist()], bool)
    if missing.any():
        raise DataError(
            f"The label of case {int(np.argmax(missing))} is missing. Leave such cases out."
        )
    return array


def _system_of_array(values: np.ndarray, number: int, where: str) -> System:
    """A system from values [variable, time]."""
    variables, steps = values.shape
    if not values.size:
        raise DataError(
            f"The {where} has {variables} variables and {steps} time steps. Give at least one of "
            "each."
        )
    found = find_too_large(values)
    if found is not None:
        (variable, step), name = found
        raise DataError(
            f"There is {name} at time step {step} of variable {variable} of {where}. Replace it by "
            "NaN if it means that there was no reading."
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


def _no_columns(**labels: Hashable) -> None:
    for role, label in labels.items():
        if label is not None:
            raise DataError(
                f"{role}={label!r} names a column, but an array has none. Leave it out, or give a "
                "frame."
            )


def _open_table(data: Any) -> Any:
    """The columns of a frame or a mapping; None for arrays, which need no library."""
    if isinstance(data, str | PathLike):
        raise DataError(
            f"{str(data)!r} is the path of a file. Read it first: orderless.data.read_table(path)."
        )
    if isinstance(data, Mapping) or any(hasattr(data, one) for one in OF_FRAMES):
        return need("orderless.data.frames_in").open_table(data)
    return None


def _is_frame(data: Any) -> bool:
    return isinstance(data, Mapping) or hasattr(data, "collect") or hasattr(data, "columns")


def _is_list_of_arrays(data: Any) -> bool:
    """Arrays, or things that become arrays by themselves; nested lists of numbers are one array."""
    if not isinstance(data, list | tuple):
        return False
    if any(map(_is_frame, data)):
        # As arrays they would lose their names, and with them what tells variables apart.
        raise DataError(
            "A list of frames cannot be read. Join them to one frame with a column that says which "
            "of them a row is from, and pass group=."
        )
    return all(hasattr(one, "__array__") and np.ndim(one) > 0 for one in data)
