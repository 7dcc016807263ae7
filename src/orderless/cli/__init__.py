"""The command line: one file a verb."""

from orderless.cli.main import main

__all__ = ["main"]
