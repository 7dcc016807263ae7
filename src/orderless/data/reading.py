"""Frames and arrays in, a `Panel` out. What cannot be read raises `DataError` in words.

Frames are pandas, polars or Arrow tables (any eager frame that narwhals knows), or a mapping from
column names to arrays.

What happens to
  missing values (NaN, None, null, NaT)   they become unobserved entries
  unsorted time stamps                    sorted; scores go back in the order of the input's rows
  gaps in time                            filled with unobserved entries at the inferred step
  duplicate time stamps                   merged where they agree or complete each other, else error
  time zones                              counted in UTC, given back in their zone
  integers, booleans, decimals            become floating-point numbers
  constant or entirely missing columns    kept: the first is constant, the second never observed
  infinities, text, nested values, duplicate names, empty input, missing or irregular time stamps
                                          `DataError`
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from orderless.data.panel import Panel


def read_panel(
    data: Any,
    *,
    time: Hashable = None,
    variable: Hashable = None,
    value: Hashable = None,
    group: Hashable = None,
) -> Panel:
    """Series for forecasting and detection.

    data    a wide frame (one column a variable), a long frame (one row a variable and time), an
            array [time] or [time, variable] or [system, time, variable], or a list of arrays
            [time] or [time, variable] of independent systems
    time    the column of time stamps; found by type or by name where not given. Without one, rows
            are equally spaced and counted from 0. A pandas index of time stamps counts as one.
    variable, value     the columns of a long frame that name the variable and hold its value;
            found by name (`unique_id, ds, y`; `item_id, timestamp, target`; `variable, value`) or,
            in a frame of three columns, by type
    group   the column that tells independent systems apart; nothing couples them
    """
    raise NotImplementedError


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
            [variable, time] or [time] of different length, where NaN at the end of a case pads it
            and is cut off; or a frame as in `read_panel`, with `group` naming the case
    """
    raise NotImplementedError


def read_labels(labels: Sequence | np.ndarray, cases: int) -> np.ndarray:
    """Class labels as a 1-D array without missing values, one for each of the `cases`."""
    raise NotImplementedError
