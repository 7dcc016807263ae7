"""`orderless VERB`: reads the arguments and calls the verb.

A verb imports what it needs when it runs, so that `orderless --help` answers at once.
"""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence

from orderless import __version__
from orderless.cli import (
    backtest,
    bench,
    certify,
    classify,
    data,
    demo,
    detect,
    doctor,
    fit,
    predict,
    stream,
    verify,
)
from orderless.cli.arguments import add_config
from orderless.cli.config import apply_config, find_config
from orderless.errors import OrderlessError

VERBS = (
    demo,
    fit,
    predict,
    backtest,
    classify,
    detect,
    stream,
    verify,
    certify,
    data,
    bench,
    doctor,
)
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    0 when it worked, 1 when `verify` found a broken promise, 2 with one line on stderr when the
    request cannot be met, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    name, parsed, code = "", None, 0
    try:
        names = [_name(verb) for verb in VERBS]
        name = next((word for word in words if word in names), "")
        parser, own = _parser(name)
        config = find_config(words)
        if config is not None and own is not None:
            apply_config(own, config)
        parsed = parser.parse_args(words)
        with warnings.catch_warnings():
            warnings.showwarning = _once_a_line()
            code = parsed.run(parsed) or 0
        print(end="", flush=True)  # here, and not when Python ends: nobody may read it
        return code
    except OrderlessError as error:
        print(f"orderless {name}: {_as_flags(_one_line(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        explain = getattr(_module(name), "interrupted", None)
        kept = explain(parsed) if explain and parsed else "nothing was written"
        print(f"\norderless {name}: stopped; {kept}.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"orderless {name}: {where}{error.strerror or _one_line(error)}.", file=sys.stderr)
        return 2


def _once_a_line() -> Callable[..., None]:
    """A warning as a line, without the place in the source that a programmer would want."""
    said = set()

    def show(message: Warning | str, *_: object) -> None:
        if str(message) not in said:  # a picture asks for the forecast again
            print(message, file=sys.stderr)
        said.add(str(message))

    return show


def _parser(
    chosen: str,
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """The parser, and that of the chosen verb; others have a name and a summary alone."""
    parser = argparse.ArgumentParser(
        prog="orderless",
        description="Multivariate time series without an order among the variables.",
        epilog="`orderless VERB --help` shows examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"orderless {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    found = None
    for verb in VERBS:
        name = _name(verb)
        summary = (verb.__doc__ or "").partition(":")[2].partition("\n")[0].strip()
        own = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"examples:\n{verb.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # `find_config` takes no abbreviations: the file of `--conf` would not be read.
            allow_abbrev=False,
        )
        if name == chosen:
            verb.add_arguments(own)
            add_config(own)
            own.set_defaults(run=verb.run)
            found = own
    return parser, found


def _module(name: str) -> object:
    return next((verb for verb in VERBS if _name(verb) == name), None)


def _name(verb: object) -> str:
    return str(getattr(verb, "__name__", "")).rpartition(".")[2]


def _as_flags(text: str) -> str:
    """An error names arguments as Python does, `group=`; here they are flags, `--group`."""
    text = re.sub(r"\b(time|variable|value|group)=None\b", r'--\1 ""', text)
    return re.sub(r"\b(time|variable|value|group)=(?=[ ,.;:])", r"--\1", text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
