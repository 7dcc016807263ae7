"""Which column of a frame is time, which names variables or systems, and which hold values.

This is the one place where the role of a column is decided; nothing before looks at names, and
nothing after asks again. In this order:

1. What the caller names has that role.
2. A first column without a name is a saved index: it goes where it only numbers the rows, and else
   counts as a column called "time".
3. Time is the index of a pandas frame where it holds time stamps; then the column that holds time
   stamps, as such or as text; then the column of numbers called as time is.
4. A frame is long where one column each has the customary name of variables and of values, or where
   one column of text and one of numbers are left and the text names several at one time.
5. All that is left are variables, and have to be numbers.

A role that does not exist yet, such as a covariate known in advance, is one more field of `Roles`,
taken out of what is left before rule 4.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from orderless.data.frames_in import Column, Table, first_no_number
from orderless.data.panel import TimeForm
from orderless.data.timestamps import is_time_name, parse_text
from orderless.errors import DataError

VARIABLE_NAMES = {"unique_id", "item_id", "series_id", "variable", "sensor", "series", "tag"}
VALUE_NAMES = {"y", "value", "target"}
CLOCK = r"(?i)^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s*[ap]m)?\s*$"


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
    columns = list(table.columns) if "" in given else _without_saved_index(table, time)
    by_label = {one.label: one for one in columns}
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
        found = by_label[label]
        if role in ("group", "variable") and (found.odd or found.times is not None):
            raise DataError(f"The {found.where} holds values that cannot name anything. Use text.")
        if role == "time" and found.odd:
            raise DataError(f"The {found.where} holds {found.odd}, which is no time. Convert it.")
        return found

    group_column = named(group, "group")
    id_column, value_column = named(variable, "variable"), named(value, "value")
    time_column = named(time, "time")
    left = [one for one in columns if one.label not in given]
    if time_column is None:
        time_column = _find_time(left, table.index)
        left = [one for one in left if one is not time_column]
    if id_column is None and value_column is None and time_column is not None:
        id_column, value_column = _find_long(left, time_column, group_column)
    elif id_column is None and value_column is not None:
        id_column = _only([one for one in left if one.kind == "text"], "variable", left)
    elif value_column is None and id_column is not None:
        value_column = _only([one for one in left if one.numbers is not None], "value", left)
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
            "is none of them. Drop it, or pass group= if it says which system a row is of."
        )
    _check_variables([value_column], table, time_column)
    return Roles(time_column, id_column, value_column, group_column, ())


def _without_saved_index(table: Table, time: Hashable) -> list[Column]:
    """Without a first column that only numbers the rows, or did before some were dropped."""
    columns = list(table.columns)
    if not columns or columns[0].label != "":
        return columns
    first, rest = columns[0], columns[1:]
    elsewhere = time is not None or any(is_time_name(one.label) for one in rest)
    numbers = first.values if first.text is None else None
    if numbers is not None and (elsewhere or (numbers.cast(pl.Float64).diff()[1:] == 1).all()):
        return rest
    named_so = any(one.label == "time" for one in rest)
    called = replace(first, label="time", form=replace(first.form, name="time"))
    return rest if named_so else [called, *rest]


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
    numbers = [one for one in left if one.numbers is not None and is_time_name(one.label)]
    if len(numbers) > 1:
        raise DataError(
            f"Several columns could be time: {[str(one.label) for one in numbers]}. Pass time=."
        )
    return numbers[0] if numbers else index


def _find_long(
    left: list[Column], time: Column, group: Column | None
) -> tuple[Column, Column] | tuple[None, None]:
    names = [one for one in left if str(one.label).lower() in VARIABLE_NAMES and _can_name(one)]
    values = [
        one for one in left if str(one.label).lower() in VALUE_NAMES and one.numbers is not None
    ]
    if len(names) == len(values) == 1:
        return names[0], values[0]
    if sorted(one.kind for one in left) == ["number", "text"]:
        text, number = sorted(left, key=lambda one: one.kind, reverse=True)
        if _names_variables(text, time):
            _check_long(text, time, group)
            return text, number
    return None, None


def _can_name(column: Column) -> bool:
    whole = column.values is not None and column.values.dtype.is_integer()
    return whole or column.kind == "text"


def _check_long(text: Column, time: Column, group: Column | None) -> None:
    """Refuse text that is one of several at each time: as a name, it would tear readings apart."""
    pairs = {"time": _distinct(time)} | ({} if group is None else {"group": _distinct(group)})
    alone = not pl.DataFrame(pairs).is_duplicated().any()
    if alone and _distinct(text).n_unique() > 1:
        raise DataError(
            f"The {text.where} may name the variables of a long frame, but no time stamp has two "
            "of them; it may as well be a remark beside each reading. Pass variable= if it names "
            "variables, group= if it says which system a row is of, or drop it."
        )


def _distinct(column: Column) -> pl.Series:
    """Something that differs where the entries of a column do."""
    if column.values is not None:
        return column.values
    assert column.times is not None
    return pl.Series(column.times.astype(np.int64))


def _names_variables(column: Column, time: Column) -> bool:
    """Whether text is names, and not the clock beside a date or readings with an error among them.

    Numbers are names where time stamps have several rows, each with another one, or where it is one
    whole number throughout: readings beside others have one row for each time stamp.
    """
    if is_time_name(column.label) or _holds_clocks(column):
        return False
    assert column.text is not None
    known = column.text.drop_nulls().str.strip_chars()
    plain = known.str.replace_all("[,_]", "").cast(pl.Float64, strict=False)
    if plain.null_count() * 2 > len(known):
        return True
    stamps = _distinct(time)
    pairs = pl.DataFrame({"time": stamps, "text": column.text}).n_unique()
    alone = known.n_unique() == 1 and known.str.contains(r"^\d+$")[0]
    return alone or stamps.n_unique() < pairs == len(stamps)


def _holds_clocks(column: Column) -> bool:
    """Whether all there is in a column of text is times of day."""
    return column.text is not None and column.text.str.contains(CLOCK).all()


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
        if one.numbers is not None:
            continue
        row = None if one.text is None else first_no_number(one.text)
        example = one.odd if one.text is None else _example(one.text, row)
        if one.text is not None and _holds_clocks(one):
            raise DataError(
                f"The {one.where} holds {example}, a time of day without its date. Join date and "
                f"clock into one column, as in 2026-12-31 23:59{_how_to_join(time, one)}."
            )
        if one.text is not None and is_time_name(one.label):
            raise DataError(
                f"The {one.where} holds {_example(one.text, _first_no_time(one.text))}, which "
                "cannot be read as a time stamp. Write all of them the same way, such as "
                "2026-12-31 23:59, or drop the column."
            )
        raise DataError(
            f"The {one.where} holds {example} where numbers are needed. Pass group= if it says "
            "independent systems apart, variable= if it names the variables of a long frame; "
            f"convert it, or drop it.{_decimal_comma(one.text, row)}"
        )
    return tuple(columns)


def _example(text: pl.Series, row: int | None) -> str:
    row = text.is_not_null().arg_max() if row is None else row
    assert row is not None
    return f"{repr(text[row])[:40]} in row {row}"


def _first_no_time(text: pl.Series) -> int:
    """The first row of text that does not read as a time stamp together with those before it."""
    known = text.is_not_null().arg_true().to_list()
    return known[bisect_left(known, True, key=lambda row: not _reads_as_times(text.head(row + 1)))]


def _reads_as_times(text: pl.Series) -> bool:
    try:
        return parse_text(text, "", TimeForm()) is not None
    except DataError:
        # Day or month first: they do read, and it is a later row that decides.
        return True


def _how_to_join(date: Column | None, clock: Column) -> str:
    if date is None or date.form.index:
        return ""
    return (
        f"; with pandas: frame[{date.label!r}] = frame[{date.label!r}].astype(str) + ' ' + "
        f"frame.pop({clock.label!r})"
    )


def _decimal_comma(text: pl.Series | None, row: int | None) -> str:
    """A hint where an entry is a number as written in half of the world."""
    if (
        text is None
        or row is None
        or first_no_number(text[[row]].str.replace(",", ".")) is not None
    ):
        return ""
    return " Decimals are written with a point here, not with a comma."
