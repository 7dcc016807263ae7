"""The first call of an operator: its kernels are compiled at the same time, by threads.

Triton compiles a kernel when it is first launched, and waits. So before a new kind of call an
operator is rehearsed: it runs with a thread that compiles in place of every launch. Most of
compiling happens outside of Python, where threads run side by side.
"""

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.runtime import driver
from triton.runtime.cache import triton_key

LAUNCHERS_IN_C = triton.__version__.startswith("3.6.")  # one for every kernel, not yet compiled


class _Rehearsal(threading.local):
    pool: ThreadPoolExecutor | None = None  # in a rehearsal, what compiles


_rehearsal = _Rehearsal()
_known: set[tuple] = set()


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable:
    """What runs a kernel, given its arguments; in a rehearsal, what compiles it."""
    return kernel[grid] if _rehearsal.pool is None else partial(_submit, kernel)


def rehearse(function: Callable, arguments: tuple) -> None:
    """Compile the kernels of a call on a GPU, unless there was one much like it before.

    The call runs with its own tensors: it takes the memory that it takes anyway, a moment earlier.
    """
    first, *_ = arguments
    if not first.is_cuda or _rehearsal.pool is not None:
        return
    # Programs are cut by powers of two. What else needs another kernel is compiled at its launch.
    sizes = map(int.bit_length, first.shape)
    given = (argument is not None and argument is not False for argument in arguments)
    call = (function, first.device, first.dtype, *sizes, *given)
    if call in _known or triton.knobs.runtime.interpret:
        return
    # Whatever a rehearsal copies or adds up would become part of a CUDA graph.
    if torch.cuda.is_current_stream_capturing():
        return
    _known.add(call)
    # Triton changes the filters of warnings while it compiles, and threads restore those of others.
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        # The first key of a process takes long, and so does the C compiler for the driver.
        key = pool.submit(triton_key)
        _ = driver.active
        key.result()
        _rehearsal.pool = pool
        try:
            function(*arguments)
        finally:
            _rehearsal.pool = None


def _submit(kernel: Any, *arguments: Any, **options: Any) -> None:
    """Start to compile a kernel. Errors are lost: the launch will meet them again."""
    pool, device = _rehearsal.pool, torch.cuda.current_device()
    assert pool is not None
    if LAUNCHERS_IN_C:
        *_, bind = kernel.device_caches[device]
        _, kinds, _ = bind(*arguments, **options)
        signature = dict(zip(kernel.arg_names, (kind for kind, _ in kinds), strict=True))
        pool.submit(_compile_launcher, SimpleNamespace(fn=kernel, signature=signature))
    pool.submit(_compile, kernel, device, arguments, options)


def _compile(kernel: Any, device: int, arguments: tuple, options: dict[str, Any]) -> None:
    with torch.cuda.device(device):
        kernel.warmup(*arguments, grid=(1,), **options)


def _compile_launcher(source: Any) -> None:
    """Leave it on disk, where the launch finds it. The rest of a launcher is part of the kernel."""
    with suppress(AttributeError):
        driver.active.launcher_cls(source, None)
