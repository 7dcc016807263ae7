"""How many threads a piece of work is worth; a forked child has one (`orderless.forks`)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import orderless.forks  # noqa: F401  what it registers

ROWS_PER_THREAD = 128


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """At most one thread for each 128 contexts of one variable that are worked on together.

    After every operation the threads wait for the slowest. The operations of a small network are
    over before that pays; on a machine that others use too, it costs many times the work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, max(1, rows // ROWS_PER_THREAD)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
