"""Which column of a frame is time, which names variables or systems, and which hold values."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from orderless.data.frames import Column, Table
from orderless.data.timestamps import is_time_name
from orderless.errors import DataError

VARIABLE_NAMES = {"unique_id", "item_id", "series_id", "variable", "sensor", "series", "tag"}
VALUE_NAMES = {"y", "value", "target"}


@dataclass(frozen=True)
class Roles:
    """What each column of a frame is there for."""

    time: Column | None
    variable: Column | None
    value: Column | None
    group: Column | None
    variables: tuple[Column, ...]


def assign_roles(
    table: Table, time: Hashable, variable: Hashable, value: Hashable, group: Hashable
) -> Roles:
    """The role of every column, as named by the caller or as found; an error if one has none."""
    given = [label for label in (time, variable, value, group) if label is not None]
    if len(set(given)) < len(given):
        raise DataError(f"A column can have one role only; you gave {given}.")
    by_label = {one.label: one for one in table.columns}
    if table.index is not None and table.index.label is not None:
        by_label.setdefault(table.index.label, table.index)

    def named(label: Hashable, role: str) -> Column | None:
        if label is None:
            return None
        if label not in by_label:
            raise DataError(
                f"There is no column {label!r} to take as {role}; the frame has "
                f"{[str(one) for one in by_label]}. Name one of these, or pass {role}=None."
            )
        return by_label[label]

    group_column = named(group, "group")
    id_column, value_column = named(variable, "variable"), named(value, "value")
    time_column = named(time, "time")
    left = [one for one in table.columns if one.label not in given]
    if time_column is None:
        time_column = _find_time(left, table.index)
        left = [one for one in left if one is not time_column]
    if id_column is None and value_column is None and time_column is not None:
        id_column, value_column = _find_long(left)
    elif id_column is None and value_column is not None:
        id_column = _only([one for one in left if one.kind == "text"], "variable", left)
    elif value_column is None and id_column is not None:
        value_column = _only([one for one in left if one.kind == "number"], "value", left)
    left = [one for one in left if one is not id_column and one is not value_column]
    if value_column is None:
        # A plain range counts the rows of one system; over several it would tear them apart.
        if time_column is None and group_column is None:
            time_column = table.counted
        return Roles(time_column, None, None, group_column, _check_variables(left, table))
    if left:
        raise DataError(
            f"A long frame has one column each for time, variable and value, but {left[0].where} "
            "is none of them. Drop it, or pass group= if it tells independent systems apart."
        )
    _check_variables([value_column], table)
    return Roles(time_column, id_column, value_column, group_column, ())


def _find_time(left: list[Column], index: Column | None) -> Column | None:
    stamps = [one for one in left if one.kind == "time"]
    if index is not None and index.kind == "time":
        return index
    if len(stamps) > 1:
        known = [one for one in stamps if is_time_name(one.label)]
        if len(known) != 1:
            raise DataError(
                f"Several columns hold time stamps: {[str(one.label) for one in stamps]}. Pass "
                "time= to say which one counts, and drop the others."
            )
        stamps = known
    if stamps:
        return stamps[0]
    numbers = [one for one in left if one.kind == "number" and is_time_name(one.label)]
    if len(numbers) > 1:
        raise DataError(
            f"Several columns could be time: {[str(one.label) for one in numbers]}. Pass time=."
        )
    return numbers[0] if numbers else index


def _find_long(left: list[Column]) -> tuple[Column | None, Column | None]:
    ids = [
        one
        for one in left
        if str(one.label).lower() in VARIABLE_NAMES
        and (one.kind == "text" or one.values.dtype.kind in "iu")
    ]
    values = [one for one in left if str(one.label).lower() in VALUE_NAMES and one.kind == "number"]
    if len(ids) == 1 and len(values) == 1:
        return ids[0], values[0]
    if sorted(one.kind for one in left) == ["number", "text"]:
        text, number = sorted(left, key=lambda one: one.kind, reverse=True)
        return text, number
    return None, None


def _only(candidates: list[Column], role: str, left: list[Column]) -> Column:
    if len(candidates) != 1:
        raise DataError(
            f"Which column is the {role} of the long frame? Pass {role}=; the columns left are "
            f"{[str(one.label) for one in left]}."
        )
    return candidates[0]


def _check_variables(columns: Sequence[Column], table: Table) -> tuple[Column, ...]:
    if not columns:
        raise DataError(
            "The frame has no column with values of a variable; it has "
            f"{[str(one.label) for one in table.columns]}."
        )
    for one in columns:
        if one.kind == "time":
            raise DataError(
                f"The {one.where} holds time stamps where numbers are needed. Pass time= if it is "
                "the time column, or drop it."
            )
        if one.kind == "text" and is_time_name(one.label):
            raise DataError(
                f"The {one.where} holds {_example(one)}, which cannot be read as a time stamp. "
                "Write time stamps as 2026-12-31 23:59, or drop the column."
            )
        if one.kind != "number":
            raise DataError(
                f"The {one.where} holds {_example(one)} where numbers are needed. Pass group= if "
                "it tells independent systems apart, variable= if it names the variables of a long "
                f"frame; convert it, or drop it.{_decimal_comma(one)}"
            )
    return tuple(columns)


def _example(column: Column) -> str:
    """An entry that is no number, and its row: in a column of text, one that does not read so."""
    for row, entry in enumerate(column.values):
        if entry is not None and not _reads_as_number(entry):
            return f"{repr(entry)[:40]} in row {row}"
    return f"values of type {column.dtype}"


def _decimal_comma(column: Column) -> str:
    """A hint where the first entry is a number as written in half of the world."""
    first = next((one for one in column.values if one is not None), None)
    if isinstance(first, str) and "," in first and _reads_as_number(first.replace(",", ".")):
        return " Decimals are written with a point here, not with a comma."
    return ""


def _reads_as_number(entry: Any) -> bool:
    try:
        float(entry)
    except (TypeError, ValueError):
        return False
    return True
