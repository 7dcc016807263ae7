"""`orderless stream`: answer ticks as they come, with forecasts or with scores."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from orderless.cli.arguments import add_model, numbers

EXAMPLES = """\
  orderless stream model/ < ticks.jsonl > answers.jsonl
  orderless stream watch/ --state state/ --input ticks.csv --output answers.jsonl
  tail -F -n +1 plant.csv | orderless stream watch/ --format csv --state state/"""
DELIMITERS = {"jsonl": None, "csv": ",", "tsv": "\t"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, where ticks come from, and where answers and the state go."""
    add_model(parser)
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="ticks: .jsonl, .csv or .tsv (default: stdin)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="answers, JSON lines (default: stdout)"
    )
    parser.add_argument(
        "--state", type=Path, metavar="FOLDER", help="go on from there, and save there"
    )
    parser.add_argument(
        "--format", choices=sorted(DELIMITERS), help="of ticks (default: by the file, or jsonl)"
    )
    parser.add_argument("--time", metavar="NAME", help="what holds the time of a tick")
    parser.add_argument("--group", metavar="NAME", help="the group of `fit` that the ticks are of")
    parser.add_argument(
        "--level", type=numbers, metavar="PERCENT,PERCENT", help="intervals of forecasts: 80,95"
    )


def run(arguments: argparse.Namespace) -> None:
    """Answer until the input ends."""
    from orderless.cli.models import open_model
    from orderless.errors import SettingError
    from orderless.live.runs import Answers, Lines, Stop, follow

    _check(arguments)
    delimiter = DELIMITERS[_format(arguments)]
    stop = Stop()
    with stop.listening(), ExitStack() as files:
        model = open_model(arguments.model)
        if not hasattr(model, "stream"):
            raise SettingError(
                f"{arguments.model} holds a {type(model).__name__}, which answers whole cases. Use "
                "`orderless classify` with it."
            )
        options = {} if arguments.level is None else {"level": arguments.level}
        if options and not hasattr(model, "horizon_"):
            raise SettingError("--level is for forecasts, and this model gives scores.")
        stream = model.stream(group=arguments.group, **options)
        source = _open_input(arguments.input, files)
        sink = _open_output(arguments.output, arguments.state, files)
        time = arguments.time or model.columns_.get("time")
        column = model.columns_.get("group")
        group = None if column is None else (str(column), arguments.group)
        lines = Lines(*source, delimiter, None if time is None else str(time), group)
        try:
            follow(stream, lines, Answers(*sink), arguments.state, stop)
        finally:
            if stream.dropped:
                print(
                    f"{stream.dropped} ticks were late or doubled and have no answer",
                    file=sys.stderr,
                )


def interrupted(arguments: argparse.Namespace) -> str:
    """What is there after Ctrl-C or SIGTERM."""
    if arguments.state is None:
        return "the answers until now are written"
    return f"the answers until now are written, and {arguments.state} goes on after them"


def _format(arguments: argparse.Namespace) -> str:
    if arguments.format is not None:
        return str(arguments.format)
    ending = "" if arguments.input is None else arguments.input.suffix.lower().removeprefix(".")
    return ending if ending in DELIMITERS else "jsonl"


def _check(arguments: argparse.Namespace) -> None:
    """Refuse places that cannot be read or written, before anything is."""
    from orderless.errors import DataError, SettingError
    from orderless.io import check_destination

    if arguments.input is not None and not arguments.input.exists():
        raise DataError(f"There is no file {arguments.input}.")
    if arguments.output is not None:
        check_destination(arguments.output)
        there = arguments.input is not None and arguments.output.exists()
        if there and arguments.input.samefile(arguments.output):
            raise SettingError("--input and --output are one file. Name another for the answers.")


def _open_input(path: Path | None, files: ExitStack) -> tuple[BinaryIO, bool]:
    """The input, and whether it is a file that can be read again."""
    if path is None:
        return sys.stdin.buffer, False
    source = files.enter_context(path.open("rb"))
    return source, source.seekable()


def _open_output(path: Path | None, state: Path | None, files: ExitStack) -> tuple[BinaryIO, bool]:
    """The output, and whether it is a file that a state can go with."""
    if path is None:
        return sys.stdout.buffer, False
    there = state is not None and path.exists()
    return files.enter_context(path.open("r+b" if there else "w+b")), True
