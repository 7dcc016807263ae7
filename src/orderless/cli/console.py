"""The console that tables are printed on."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def open_console() -> "Console":
    """A console on standard output; when nobody reads on, that is an error as for `print`."""
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the program with exit code 1, which says that a promise is broken.
            raise BrokenPipeError

    return OurConsole(file=sys.stdout)
