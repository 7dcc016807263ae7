"""What a stretch of work takes: time, and the most memory, on whatever device there is."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orderless.bench.records import SeedResult

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_THE_PEAK = "5"
OF_TENSORS = "tensors"
"""What `peak_of_tensors` measures, for the config of a cell."""


def run_seeds(seeds: Iterable[int], run: Callable[[int], SeedResult]) -> tuple[SeedResult, ...]:
    """What `run` makes of every seed, with the time and the memory of each."""
    results = []
    for seed in seeds:
        start_measuring()
        begun = time.perf_counter()
        result = run(seed)
        seconds = round(time.perf_counter() - begun, 3)
        results.append(replace(result, seconds=seconds, peak_memory_bytes=peak_bytes()))
    return tuple(results)


def now() -> float:
    """The clock in seconds, when all work that was begun is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def time_steps(step: Callable[[], object], count: int, *, uncounted: int) -> list[float]:
    """Seconds of each of `count` steps, after some that compile, allocate and warm up."""
    seconds = []
    for _ in range(uncounted + count):
        begun = now()
        step()
        seconds.append(now() - begun)
    return seconds[uncounted:]


def start_measuring() -> None:
    """Forget what came before, as far as the system can."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif RESET.exists():
        try:
            RESET.write_text(FORGET_THE_PEAK)
        except OSError:
            # Some containers forbid it; the peak is then that of the process so far.
            return


def peak_bytes() -> int | None:
    """The peak since `start_measuring`; None where the system does not report it."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def peak_of_tensors(work: Callable[[], object], before: Iterable[Tensor]) -> int:
    """Bytes of all tensors at the peak of some work; `before` are those of it that exist already.

    On a GPU it is what the allocator says, less what it holds for others: the work space of matrix
    products alone is tens of megabytes. A process on a CPU keeps what it once had, so there the
    tensors are counted after every operation.
    """
    if torch.cuda.is_available():
        storages = (tensor.untyped_storage() for tensor in before)
        own = sum({one.data_ptr(): one.nbytes() for one in storages}.values())
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        others = torch.cuda.memory_allocated() - own
        work()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated()) - others
    with _LiveTensors(before) as live:
        work()
    return live.peak


class _LiveTensors(TorchDispatchMode):
    """Sees every operation, and sums up the storages that are in use after it."""

    def __init__(self, before: Iterable[Tensor]) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.peak = 0
        self._note(before)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self._note(one for one in tree_leaves(result) if isinstance(one, Tensor))
        return result

    def _note(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self.sizes[StorageWeakRef(storage)] = storage.nbytes()
        self.sizes = {ref: size for ref, size in self.sizes.items() if not ref.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
