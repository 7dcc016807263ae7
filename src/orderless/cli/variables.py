"""Variables of the data, compared with what was asked for and with those of `fit`."""

import argparse
import sys
from collections.abc import Sequence
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
    advice: str = "take columns that are no variables out of the file",
) -> None:
    """Say which variables are new to the model: a column of classes would pass for one."""
    if arguments.data.suffix.lower() == ".ts":
        return  # it holds variables alone, and the names are ours
    new = sorted(set(panel.variables) - set(model.variables_in_))
    if new:
        print(
            f"taken as variables, though `fit` did not see them: {shorten(new)} ({advice})",
            file=sys.stderr,
        )


def shorten(names: Sequence[str]) -> str:
    """The first few names, and how many there are besides."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
