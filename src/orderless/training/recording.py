"""A step as a CUDA graph: recorded once for each set of shapes, then replayed without Python."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


class _Streams(threading.local):
    """A stream for each device: cuBLAS keeps 32 MB for every stream that a thread calls it on."""

    def __init__(self) -> None:
        self.of: dict[torch.device, torch.cuda.Stream] = {}


_streams = _Streams()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, work on a stream that can be recorded: the same for all that a thread trains."""
    if device.type != "cuda":
        yield
        return
    caller = torch.cuda.current_stream(device)
    stream = _streams.of.get(caller.device) or torch.cuda.Stream(device)
    _streams.of[caller.device] = stream
    stream.wait_stream(caller)
    torch.cuda.set_stream(stream)
    try:
        yield
    finally:
        # Of several processes each chooses a device of its own in between, which stays.
        chosen = torch.cuda.current_device()
        torch.cuda.set_stream(caller)
        torch.cuda.set_device(chosen)
        caller.wait_stream(stream)


class Recorder:
    """Runs a function of tensors, with effects but no result, from recordings.

    The first call with new shapes runs as it is: it compiles kernels and lets an optimizer create
    its state. The second is recorded. All further ones only copy their inputs and replay. Random
    numbers continue from the seed of the generator at the time of the replay, as in a plain call.

    For this it must always be the same function, launch the same kernels whenever the shapes are
    the same, and read nothing back from the device. And it must run within `own_stream`.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()  # one for all: no two of them run at a time
        self.recordings: dict[tuple, Recording | None] = {}

    def run(self, function: Callable[..., None], *inputs: Tensor | None) -> None:
        """Run the function on these inputs, from a recording if there is one."""
        key = tuple(None if one is None else (one.shape, one.dtype) for one in inputs)
        if key not in self.recordings:
            self.recordings[key] = None
            with _in_this_thread():
                function(*inputs)
            return
        recording = self.recordings[key]
        if recording is None:
            recording = self.recordings[key] = self._record(function, inputs)
        for mine, given in zip(recording.inputs, inputs, strict=True):
            if mine is not None and given is not None:
                mine.copy_(given)
        recording.graph.replay()

    def _record(
        self, function: Callable[..., None], inputs: tuple[Tensor | None, ...]
    ) -> "Recording":
        held = tuple(None if one is None else one.clone() for one in inputs)
        graph = torch.cuda.CUDAGraph()
        recorded = torch.cuda.graph(graph, pool=self.pool, stream=torch.cuda.current_stream())
        with _no_garbage_collection(), _in_this_thread(), recorded:
            function(*held)
        return Recording(graph, held)


class Recording(NamedTuple):
    """A graph, and where it reads its inputs."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor | None, ...]


def _in_this_thread():
    """Backward passes too: in a thread of their own they would have a cuBLAS of their own."""
    return torch.autograd.set_multithreading_enabled(False)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Freeing an older recording while a new one is made would spoil it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
