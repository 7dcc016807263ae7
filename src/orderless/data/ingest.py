"""A panel out of the columns of a frame: roles, a regular grid of time, one system a group.

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
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from orderless.data.frames_in import Column, Table, to_matrix
from orderless.data.frequency import Frequency, infer_frequency, on_step, places, regular_grid
from orderless.data.panel import Form, Panel, System, TimeForm
from orderless.data.roles import assign_roles
from orderless.data.timestamps import can_hold, parse_numbers
from orderless.errors import DataError

# That all of a few rows are some steps of a coarser kind apart may be chance, less often than this
# it is not.
ONCE_IN = 100


def ingest(
    table: Table,
    time: Hashable,
    variable: Hashable,
    value: Hashable,
    group: Hashable,
    frequencies: Sequence[Frequency],
    finer: int,
) -> Panel:
    """The panel of a frame; the arguments are those of `read_panel`."""
    roles = assign_roles(table, time, variable, value, group)
    if not table.rows:
        raise DataError("The frame has no rows. Give at least one.")
    times, time_form = _time_axis(roles.time)
    codes, names = None, [one.label for one in roles.variables]
    if roles.variable is not None:
        codes, names = _codes(roles.variable)
        twice, count = Counter(map(str, names)).most_common(1)[0]
        if count > 1:
            raise DataError(
                f"Two variables in {roles.variable.where} are called {twice!r}. Rename one of them."
            )
    named = [one for one in (roles.variable, roles.group) if one is not None]
    form = Form(
        "wide" if roles.value is None else "long",
        table.library,
        time_form,
        roles.variable.label if roles.variable else None,
        roles.value.label if roles.value else None,
        roles.group.label if roles.group else None,
        labels={str(name): name for name in names},
        row_labels=table.labels,
        dtypes={one.label: one.form.dtype for one in named},
    )
    numbers = to_matrix([roles.value] if roles.value else roles.variables)
    known = () if time_form.only_counts else frequencies
    find = partial(_find_frequency, form=time_form, known=known, finer=finer)
    systems = []
    for name, rows in _members(roles.group, table.rows):
        chosen, row_variables, counted = range(len(names)), None, np.arange(len(rows))
        if codes is not None:
            # np.unique sorts the codes, and codes count by first appearance.
            chosen, row_variables = np.unique(codes[rows], return_inverse=True)
            counted = _counted(row_variables)
        variables = tuple(str(names[code]) for code in chosen)
        own = numbers if roles.group is None else numbers[:, rows]
        stamps = counted if times is None else times[rows]
        try:
            systems.append(_system(own, variables, stamps, find, row_variables, rows, name))
        except DataError as error:
            where = "" if roles.group is None else f"In {roles.group.label} = {name!r}: "
            raise DataError(where + str(error)) from error
    return Panel(tuple(systems), form)


def _time_axis(column: Column | None) -> tuple[np.ndarray | None, TimeForm]:
    """Time stamps as numbers or nanoseconds; None where rows are only counted."""
    if column is None:
        return None, TimeForm()
    if column.kind == "time":
        assert column.stamps is not None
        times, form = column.stamps
        missing = np.isnat(times)
    elif column.numbers is not None:
        numbers, form = column.numbers, column.form
        numbers = numbers.fill_nan(None) if form.floats else numbers
        missing = numbers.is_null().to_numpy()
        if (numbers.cast(pl.Float64).abs() >= 2.0**61).any():
            raise DataError(
                f"The {column.where} of time holds numbers beyond 2^61. Count from a later start."
            )
        times = numbers.fill_null(0).cast(pl.Float64 if form.floats else pl.Int64).to_numpy()
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
    # An index without a name only counts rows.
    if form.kind == "number" and column.label is not None:
        whole = times.astype(np.int64)
        dates = parse_numbers(whole, column.where) if np.array_equal(whole, times) else None
        if dates is not None:
            return dates[0], replace(form, pattern=dates[1])
    return times, form


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
    assert column.values is not None
    values = column.values.fill_nan(None) if column.values.dtype.is_float() else column.values
    if values.null_count():
        raise DataError(
            f"Row {values.is_null().arg_max()} of {column.where} is empty, so it is not known what "
            "the row belongs to. Fill it in, or drop the row."
        )
    names = values.unique(maintain_order=True)
    numbers = pl.int_range(len(names), eager=True)
    codes = values.replace_strict(names, numbers, return_dtype=pl.Int64)
    return codes.to_numpy(), names.to_list()


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
    """The step that the time stamps show, or the coarsest known one on which they lie with gaps.

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
                    f"The time stamps are {own} apart, and those of `fit` were {step} apart. They "
                    f"are read and forecast at {step}, with gaps between them.",
                    stacklevel=_depth(),
                )
            return step
    return own


def _depth() -> int:
    """Where the caller of this package is, as `warnings.warn` counts, whichever way led here."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("orderless."):
        frame, depth = frame.f_back, depth + 1
    return depth


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
    unique, place = stamps, np.arange(len(stamps))
    if not (stamps[1:] > stamps[:-1]).all():
        unique, place = np.unique(stamps, return_inverse=True)
    frequency = find_frequency(unique)
    times, positions = (
        (unique, np.array([0])) if frequency is None else regular_grid(unique, frequency)
    )
    rows = positions[place]
    if row_variables is None and unique is stamps and len(times) == len(stamps):
        values = numbers
    elif row_variables is None and len(unique) == len(stamps):
        values = np.full((len(variables), len(times)), np.nan)
        values[:, rows] = numbers
    else:
        lines = np.arange(len(variables))[:, None] if row_variables is None else row_variables
        places = (lines * len(times) + rows).ravel()
        values = _merge(numbers.ravel(), places, variables, times)
    observed = ~np.isnan(values)
    return System(
        values, observed, variables, times, frequency, rows, input_rows, row_variables, name
    )


def _merge(
    numbers: np.ndarray, places: np.ndarray, variables: tuple[str, ...], times: np.ndarray
) -> np.ndarray:
    """Values [variable, time] from numbers and their places; two at one place have to agree."""
    values = np.full((len(variables), len(times)), np.nan)
    known = ~np.isnan(numbers)
    numbers, places = numbers[known], places[known]
    values.reshape(-1)[places] = numbers
    other = values.reshape(-1)[places] != numbers
    if other.any():
        place = places[other].min()
        variable, time = divmod(int(place), len(times))
        low, high = np.sort(numbers[places == place])[[0, -1]]
        raise DataError(
            f"The variable {variables[variable]!r} has both {low:g} and {high:g} at time "
            f"{times[time]}. Aggregate the rows with the same time stamp, pass group= if they "
            "belong to different systems, or give local times their zone if clocks were turned "
            "back."
        )
    return values
