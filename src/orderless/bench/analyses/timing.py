"""How long work takes, on whatever device there is."""

import time
from collections.abc import Callable

import torch


def now() -> float:
    """The clock in seconds, when all work that was begun is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def time_steps(step: Callable[[], None], count: int, *, uncounted: int) -> list[float]:
    """Seconds of each of `count` steps, after some that compile, allocate and warm up."""
    seconds = []
    for _ in range(uncounted + count):
        begun = now()
        step()
        seconds.append(now() - begun)
    return seconds[uncounted:]
