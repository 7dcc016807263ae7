"""The seeds of a cell, one after the other, each with the time and the memory that it took."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from orderless.bench.memory import peak_bytes, start_measuring
from orderless.bench.records import SeedResult


def run_seeds(seeds: Iterable[int], run: Callable[[int], SeedResult]) -> tuple[SeedResult, ...]:
    """What `run` makes of every seed, timed as a whole."""
    results = []
    for seed in seeds:
        start_measuring()
        begun = time.perf_counter()
        result = run(seed)
        seconds = round(time.perf_counter() - begun, 3)
        results.append(replace(result, seconds=seconds, peak_memory_bytes=peak_bytes()))
    return tuple(results)
