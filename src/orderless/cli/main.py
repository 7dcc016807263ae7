"""`orderless VERB`: reads the arguments and calls the verb.

A verb imports what it needs when it runs, so that `orderless --help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from orderless import __version__
from orderless.cli import certify, demo, doctor
from orderless.errors import OrderlessError

VERBS = (demo, doctor, certify)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; 0 when it worked, 2 with one line on stderr when the request cannot be met."""
    parsed = _parser().parse_args(arguments)
    try:
        parsed.run(parsed)
    except OrderlessError as error:
        print(f"orderless {parsed.verb}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="orderless",
        description="Multivariate time series without an order among the variables.",
    )
    parser.add_argument("--version", action="version", version=f"orderless {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        name = verb.__name__.rpartition(".")[2]
        summary = (verb.__doc__ or "").partition(":")[2].partition("\n")[0].strip()
        own = verbs.add_parser(name, help=summary, description=summary)
        verb.add_arguments(own)
        own.set_defaults(run=verb.run)
    return parser
