"""Which column of a frame is time, which names variables or systems, and which hold values."""

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from orderless.data.frames import Column, Table, is_number
from orderless.data.timestamps import is_time_name, parse_text
from orderless.errors import DataError

VARIABLE_NAMES = {"unique_id", "item_id", "series_id", "variable", "sensor", "series", "tag"}
VALUE_NAMES = {"y", "value", "target"}
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s*[ap]m)?", re.IGNORECASE)


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
        id_column, value_column = _find_long(left, time_column, group_column)
    elif id_column is None and value_column is not None:
        id_column = _only([one for one in left if one.kind == "text"], "variable", left)
    elif value_column is None and id_column is not None:
        value_column = _only([one for one in left if one.kind == "number"], "value", left)
    left = [one for one in left if one is not id_column and one is not value_column]
    if value_column is None:
        # A plain range counts the rows of one system; over several it would tear them apart.
        if time_column is None and group_column is None:
            time_column = table.counted
        variables = _check_variables(left, table, time_column)
        return Roles(time_column, None, None, group_column, variables)
    if left:
        raise DataError(
            f"A long frame has one column each for time, variable and value, but {left[0].where} "
            "is none of them. Drop it, or pass group= if it tells independent systems apart."
        )
    _check_variables([value_column], table, time_column)
    return Roles(time_column, id_column, value_column, group_column, ())


def find_long_names(
    names: Iterable[Hashable], numbers: Iterable[Hashable]
) -> tuple[Hashable, Hashable] | None:
    """The columns of variables and of values by their customary names, if there is one of each.

    names: columns that could name variables; numbers: columns that could hold values.
    """
    variables = [one for one in names if str(one).lower() in VARIABLE_NAMES]
    values = [one for one in numbers if str(one).lower() in VALUE_NAMES]
    return (variables[0], values[0]) if len(variables) == len(values) == 1 else None


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


def _find_long(
    left: list[Column], time: Column, group: Column | None
) -> tuple[Column | None, Column | None]:
    by_label = {one.label: one for one in left}
    found = find_long_names(
        [one.label for one in left if one.kind == "text" or one.values.dtype.kind in "iu"],
        [one.label for one in left if one.kind == "number"],
    )
    if found is not None:
        return by_label[found[0]], by_label[found[1]]
    if sorted(one.kind for one in left) == ["number", "text"]:
        text, number = sorted(left, key=lambda one: one.kind, reverse=True)
        if _names_variables(text, time):
            _check_long(text, time, group)
            return text, number
    return None, None


def _check_long(text: Column, time: Column, group: Column | None) -> None:
    """Refuse text that is one of several at each time: as a name, it would tear readings apart."""
    stamps = time.values.tolist()
    # As text: whether a value can name a system is asked later.
    systems = [""] * len(stamps) if group is None else map(str, group.values)
    moments = set(zip(systems, stamps, strict=True))
    if len(moments) == len(stamps) and len({one for one in text.values if one}) > 1:
        raise DataError(
            f"The {text.where} may name the variables of a long frame, but no time stamp has two "
            "of them; it may as well be a remark beside each reading. Pass variable= if it names "
            "variables, group= if it tells independent systems apart, or drop it."
        )


def _names_variables(column: Column, time: Column) -> bool:
    """Whether text is names, and not the clock beside a date or readings with an error among them.

    Numbers are names where time stamps have several rows, each with another one, or where it is one
    whole number throughout: readings beside others have one row for each time stamp.
    """
    if is_time_name(column.label) or _holds_clocks(column):
        return False
    known = [one for one in column.values if one is not None]
    numbers = [one for one in known if is_number(one.replace(",", "").replace("_", ""))]
    if 2 * len(numbers) < len(known):
        return True
    times = time.values.tolist()
    pairs = set(zip(times, column.values.tolist(), strict=True))
    alone = len(set(known)) == 1 and known[0].strip().isdigit()
    return alone or len(set(times)) < len(pairs) == len(times)


def _holds_clocks(column: Column) -> bool:
    """Whether all there is in a column of text is times of day."""
    return all(one is None or CLOCK.fullmatch(one.strip()) for one in column.values)


def _only(candidates: list[Column], role: str, left: list[Column]) -> Column:
    if len(candidates) != 1:
        raise DataError(
            f"Which column is the {role} of the long frame? Pass {role}=; the columns left are "
            f"{[str(one.label) for one in left]}."
        )
    return candidates[0]


def _check_variables(
    columns: Sequence[Column], table: Table, time: Column | None
) -> tuple[Column, ...]:
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
        if one.kind == "text" and _holds_clocks(one):
            raise DataError(
                f"The {one.where} holds {_example(one, _first_no_number(one))}, a time of day "
                "without its date. Join date and clock into one column, as in 2026-12-31 23:59"
                f"{_how_to_join(time, one)}."
            )
        if one.kind == "text" and is_time_name(one.label):
            raise DataError(
                f"The {one.where} holds {_example(one, _first_no_time(one))}, which cannot be read "
                "as a time stamp. Write all of them the same way, such as 2026-12-31 23:59, or "
                "drop the column."
            )
        if one.kind != "number":
            row = _first_no_number(one)
            raise DataError(
                f"The {one.where} holds {_example(one, row)} where numbers are needed. Pass group= "
                "if it tells independent systems apart, variable= if it names the variables of a "
                f"long frame; convert it, or drop it.{_decimal_comma(one, row)}"
            )
    return tuple(columns)


def _example(column: Column, row: int | None) -> str:
    if row is None and column.kind == "text":
        row = next(row for row, one in enumerate(column.values) if one is not None)
    if row is None:
        return f"values of type {column.dtype}"
    return f"{repr(column.values[row])[:40]} in row {row}"


def _first_no_number(column: Column) -> int | None:
    rows = enumerate(column.values)
    return next((row for row, one in rows if one is not None and not is_number(one)), None)


def _first_no_time(column: Column) -> int:
    """The first row of text that does not read as a time stamp together with those before it."""
    known = [row for row, one in enumerate(column.values) if one is not None]
    return known[bisect_left(known, True, key=lambda row: not _read_as_times(column, row))]


def _read_as_times(column: Column, last: int) -> bool:
    try:
        return parse_text(column.values[: last + 1].tolist(), column.where) is not None
    except DataError:
        # Day or month first: they do read, and it is a later row that decides.
        return True


def _how_to_join(date: Column | None, clock: Column) -> str:
    if date is None or (date.time is not None and date.time.index):
        return ""
    return (
        f"; with pandas: frame[{date.label!r}] = frame[{date.label!r}].astype(str) + ' ' + "
        f"frame.pop({clock.label!r})"
    )


def _decimal_comma(column: Column, row: int | None) -> str:
    """A hint where an entry is a number as written in half of the world."""
    entry = None if row is None else column.values[row]
    if isinstance(entry, str) and is_number(entry.replace(",", ".")):
        return " Decimals are written with a point here, not with a comma."
    return ""
