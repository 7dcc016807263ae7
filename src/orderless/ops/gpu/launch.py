"""Launches; before a new kind of call all of its kernels are compiled at the same time, by threads.

Triton compiles a kernel when it is first launched, and waits. So an operator is first rehearsed: it
runs, but its launches are only written down, and then compiled by a thread each. Most of compiling
happens outside of Python, where threads run side by side.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import triton
from triton.runtime import driver
from triton.runtime.cache import triton_key


class _Launch(NamedTuple):
    kernel: Any
    arguments: tuple
    options: dict[str, Any]


class _Rehearsal(threading.local):
    launches: list[_Launch] | None = None  # in a rehearsal, what was launched


_rehearsal = _Rehearsal()
_known: set[tuple] = set()
_one_at_a_time = threading.Lock()  # they change what all threads share, and restore it


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable:
    """What runs a kernel, given its arguments; in a rehearsal, what writes them down."""
    launches = _rehearsal.launches
    if launches is None:
        return kernel[grid]
    return lambda *arguments, **options: launches.append(_Launch(kernel, arguments, options))


def compile_ahead(function: Callable, arguments: tuple) -> None:
    """Compile the kernels of a call on a GPU, unless there was one much like it before.

    The call runs with its own tensors: it takes the memory that it takes anyway, a moment earlier.
    """
    first, *_ = arguments
    if not first.is_cuda or _rehearsal.launches is not None:
        return
    # Programs are cut by powers of two. What else needs another kernel is compiled at its launch.
    sizes = map(int.bit_length, first.shape)
    call = (function, first.device, first.dtype, *sizes, *map(_kind, arguments))
    if call in _known or triton.knobs.runtime.interpret:
        return
    # Whatever a rehearsal copies or adds up would become part of a CUDA graph.
    if torch.cuda.is_current_stream_capturing():
        return
    _known.add(call)
    # Triton changes the filters of warnings while it compiles, and threads restore those of others.
    with (
        _one_at_a_time,
        warnings.catch_warnings(),
        _short_thread_switches(),
        ThreadPoolExecutor() as pool,
    ):
        # The first key of a process takes long, and so does the C compiler for the driver. In the
        # meantime kernels are defined, by being used.
        ready = pool.submit(triton_key), pool.submit(getattr, driver, "active")
        launches = _launches_of(function, arguments)
        device = torch.cuda.current_device()
        # The last to be launched is the one that takes longest, as a rule.
        for launched in reversed(launches):
            pool.submit(_compile, launched, ready, device)


def _kind(argument: Any) -> object:
    """What decides which kernels run: whether something is given, and with how many states."""
    return argument.shape[-1].bit_length() if torch.is_tensor(argument) else bool(argument)


@contextmanager
def _short_thread_switches() -> Iterator[None]:
    """Python's threads wait less for each other.

    Triton's hash and compiler run outside of Python, but return to it hundreds of times.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(min(interval, 5e-5))  # seconds
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _launches_of(function: Callable, arguments: tuple) -> list[_Launch]:
    _rehearsal.launches = launches = []
    try:
        function(*arguments)
    finally:
        _rehearsal.launches = None
    return launches


def _compile(launched: _Launch, ready: tuple[Future, ...], device: int) -> None:
    """Compile and load a kernel. Errors are lost: the launch will meet them again."""
    wait(ready)
    with torch.cuda.device(device):
        compiled = launched.kernel.warmup(*launched.arguments, grid=(1,), **launched.options)
        _ = compiled.run  # makes its launcher, with a C compiler, and loads it
