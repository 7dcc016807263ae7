"""Variables and groups of the data, compared with what was asked for and with those of `fit`."""

import argparse
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderless.data import Panel

MOST = 5


def check_drawn(arguments: argparse.Namespace, panel: "Panel") -> None:
    """Refuse a picture of variables that are not there, before anything is written."""
    from orderless.errors import DataError

    if arguments.plot is None:
        return
    for name in arguments.plot_variables or ():
        if name not in panel.variables:
            raise DataError(
                f"There is no variable {name!r} to draw; {arguments.data.name} has "
                f"{shorten(panel.variables)}. Check --plot-variables."
            )


def name_unseen(
    arguments: argparse.Namespace,
    panel: "Panel",
    model: Any,
    advice: str = "as they should be, if they are new; leave out columns that are no variables",
) -> None:
    """Say which variables are new to the model: a column of classes would pass for one.

    advice: for a wide table, in which each column is a variable.
    """
    if panel.form.kind == "long":
        advice = f"if they are known, compare the names in column {panel.form.variable}"
    new = set(panel.variables) - set(model.variables_in_)
    _name("variables", new, advice, arguments)


def name_unseen_groups(arguments: argparse.Namespace, panel: "Panel", model: Any) -> None:
    """Say which groups are new to a detector: whether all of one has moved is unknown."""
    from orderless.data.groups import key_of, match_groups

    if model.transform_.centers is None or panel.form.group is None:
        return
    matches = match_groups(panel.systems, model.transform_.centers)
    new = {key_of(one) for one, match in zip(panel.systems, matches, strict=True) if match is None}
    advice = "each is scored around its own level; if they are known, compare the names in column "
    _name("groups", new, f"{advice}{panel.form.group}", arguments)


def _name(what: str, new: Collection[str], advice: str, arguments: argparse.Namespace) -> None:
    # A .ts file holds variables alone, and the names are ours.
    if new and arguments.data.suffix.lower() != ".ts":
        print(f"{what} that `fit` did not see: {shorten(sorted(new))} ({advice})", file=sys.stderr)


def shorten(names: Sequence[str]) -> str:
    """The first few names, and how many there are besides."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
