"""Arguments that several verbs share, and the types of what they hold."""

import argparse
from pathlib import Path
from typing import Any

COLUMNS = ("time", "variable", "value", "group")


class Several(argparse.Action):
    """An option that may be given several times; unlike `append`, it does not add to a default."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Take one more value; the first takes the place of what a file says."""
        given = getattr(namespace, self.dest)
        before = [] if given is self.default else given
        setattr(namespace, self.dest, [*before, values])


def add_config(parser: argparse.ArgumentParser) -> None:
    """Every verb takes its arguments from a file, too."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="RUN.toml",
        help="a file of arguments, named as here; what is given here wins",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """The folder of a saved model."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder that `fit` wrote")


def add_data(parser: argparse.ArgumentParser) -> None:
    """The file of series, and which columns mean what."""
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="series: .csv, .tsv, .parquet, .pq or .ts"
    )
    add_columns(parser)


def add_columns(parser: argparse.ArgumentParser) -> None:
    """The columns of a table; most are found."""
    columns = parser.add_argument_group(
        'columns of the table, recognised if not named ("" forgets the name that `fit` was given)'
    )
    columns.add_argument("--time", metavar="COLUMN", help="time stamps")
    columns.add_argument(
        "--variable", metavar="COLUMN", help="of a long table: which variable a row is of"
    )
    columns.add_argument("--value", metavar="COLUMN", help="of a long table: its value")
    columns.add_argument("--group", metavar="COLUMN", help="which independent system a row is of")


def add_out(
    parser: argparse.ArgumentParser, what: str, *, default: str = "CSV on standard output"
) -> None:
    """Where the resulting table goes."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"{what}: .csv, .tsv, .parquet or .pq (default: {default})",
    )


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Where a picture goes, and of what."""
    parser.add_argument("--plot", type=Path, metavar="PICTURE.png", help="draw it as well")
    parser.add_argument(
        "--plot-variables", type=names, metavar="NAME,NAME", help="the variables to draw"
    )


def given_columns(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The columns that were named; None for "", since another file may lack a column of `fit`."""
    named = {role: getattr(arguments, role, None) for role in COLUMNS}
    return {role: label or None for role, label in named.items() if label is not None}


def numbers(text: str) -> list[float]:
    """Numbers with commas between them: 80,95."""
    return [float(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return [part.strip() for part in text.split(",")]


def setting(text: str) -> tuple[str, Any]:
    """KEY=VALUE with a value as in TOML; a bare word is text."""
    import tomllib

    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
