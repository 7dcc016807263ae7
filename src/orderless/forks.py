"""Forked children: they have none of the threads of their parent, and would wait for them forever.

PyTorch goes on in a child with one thread. polars cannot: where it was at work before the fork, it
is refused. Locks that the parent held are free again where they are kept (`io`, `estimators.base`).
"""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from orderless.errors import DataError

THREADS = Path("/proc/self/task")
POOL = re.compile(r"polars-\d")
"""Names of threads that compute; others are there from the beginning and do no harm."""
_lost = {"before": False, "here": False}
"""Whether threads of polars were there before the last fork, and are missing here."""


def check_polars() -> None:
    """Refuse what would hang: polars in a child of a process in which it was at work."""
    if _lost["here"]:
        raise DataError(
            "This process was forked from one in which polars was at work, and would wait forever "
            "for threads that it does not have. Give arrays instead of frames, or start processes "
            "another way: multiprocessing.set_start_method('spawn')."
        )


def _before() -> None:
    found = False
    with suppress(OSError):  # only Linux says
        for thread in THREADS.iterdir():
            with suppress(OSError):
                found = found or POOL.match((thread / "comm").read_text()) is not None
    _lost["before"] = found


def _in_child() -> None:
    _lost["here"] = _lost["here"] or _lost["before"]
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
