"""The first call of an operator: its kernels are compiled at the same time, by threads.

Triton compiles a kernel when it is first launched, and waits. So before a new kind of call an
operator is rehearsed: it runs, but its launches are only written down, and then compiled by a
thread each. Most of compiling happens outside of Python, where threads run side by side.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import triton
from triton.runtime import driver
from triton.runtime.cache import triton_key

LAUNCHERS_IN_C = triton.__version__.startswith("3.6.")  # one for every kernel, not yet compiled


class _Launch(NamedTuple):
    kernel: Any
    arguments: tuple
    options: dict[str, Any]


class _Rehearsal(threading.local):
    launches: list[_Launch] | None = None  # in a rehearsal, what was launched


_rehearsal = _Rehearsal()
_known: set[tuple] = set()
_one_at_a_time = threading.Lock()  # they change what all threads share, and restore it


class _OnDemand:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


def on_demand(name: str) -> Any:
    """A module that is imported when it is first used.

    To define a kernel takes Triton milliseconds, and few calls need them all.
    """
    return _OnDemand(name)


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable:
    """What runs a kernel, given its arguments; in a rehearsal, what writes them down."""
    launches = _rehearsal.launches
    if launches is None:
        return kernel[grid]
    return lambda *arguments, **options: launches.append(_Launch(kernel, arguments, options))


def rehearse(function: Callable, arguments: tuple) -> None:
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
    with _one_at_a_time, warnings.catch_warnings(), _quick_turns(), ThreadPoolExecutor() as pool:
        # The first key of a process takes long, and so does the C compiler for the driver. In the
        # meantime kernels are defined, by being used, and Triton walks over their sources: one at a
        # time, for that is Python.
        ready = pool.submit(triton_key), pool.submit(getattr, driver, "active")
        launches = _launches_of(function, arguments)
        device = torch.cuda.current_device()
        # The last to be launched is the one that takes longest, as a rule.
        for launched in reversed(launches):
            pool.submit(_compile, launched, _walk(launched, device), ready, device)
            if LAUNCHERS_IN_C:
                pool.submit(_compile_launcher, launched, ready, device)


def _kind(argument: Any) -> object:
    """What decides which kernels run: whether something is given, and with how many states."""
    return argument.shape[-1].bit_length() if torch.is_tensor(argument) else bool(argument)


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Python's threads wait less for each other.

    Triton's hash and compiler run outside of Python, but return to it hundreds of times.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, 5e-5))  # seconds
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _launches_of(function: Callable, arguments: tuple) -> list[_Launch]:
    _rehearsal.launches = launches = []
    try:
        function(*arguments)
    finally:
        _rehearsal.launches = None
    return launches


def _walk(launched: _Launch, device: int) -> tuple | None:
    """What `triton.compile` takes of a kernel, with its work in Python done; None if not needed.

    That is a third of all work. It needs neither the key nor the driver, and a launch does it after
    waiting for both. Other versions of Triton may walk otherwise: then the launch does it still.
    """
    with suppress(Exception):
        kernel = launched.kernel
        _ = kernel.cache_key
        if any(Path(triton.knobs.cache.dir).glob(f"*/{kernel.__name__}.json")):
            return None  # most likely it was compiled before
        if torch.version.hip is not None:
            return None  # another vendor's target is for its driver to say
        # Imported here, while Triton makes its key.
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, make_backend
        from triton.experimental.gluon._runtime import GluonASTSource
        from triton.runtime.jit import create_function_from_signature

        major, minor = torch.cuda.get_device_capability(device)
        target = GPUTarget("cuda", major * 10 + minor, 32)
        backend = make_backend(target)
        given = launched.options | {
            "debug": kernel.debug or triton.knobs.runtime.debug,
            "instrumentation_mode": triton.knobs.compilation.instrumentation_mode,
        }
        bind = create_function_from_signature(kernel.signature, kernel.params, backend)
        bound, kinds, options = bind(*launched.arguments, **given)
        options, *parts = kernel._pack_args(backend, given, bound, kinds, options)
        source = (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, *parts)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        functions = backend.get_codegen_implementation(options)
        module = source.make_ir(target, options, functions, backend.get_module_map(), context)
        source.make_ir = lambda *_: module
        backend.hash()  # asks a compiler for its version, once
        return source, target, options.__dict__
    return None


def _compile(
    launched: _Launch, walked: tuple | None, ready: tuple[Future, ...], device: int
) -> None:
    """Errors are lost: the launch will meet them again."""
    wait(ready)
    with torch.cuda.device(device):
        if walked is not None:
            triton.compile(*walked)
        launched.kernel.warmup(*launched.arguments, grid=(1,), **launched.options)


def _compile_launcher(launched: _Launch, ready: tuple[Future, ...], device: int) -> None:
    """Leave it on disk, where the launch finds it. The rest of a launcher is part of the kernel."""
    wait(ready)
    kernel = launched.kernel
    *_, bind = kernel.device_caches[device]
    _, kinds, _ = bind(*launched.arguments, **launched.options)
    signature = dict(zip(kernel.arg_names, (kind for kind, _ in kinds), strict=True))
    with suppress(AttributeError):
        driver.active.launcher_cls(SimpleNamespace(fn=kernel, signature=signature), None)
