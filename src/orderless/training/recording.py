"""A step as a CUDA graph: recorded once for each set of shapes, then replayed without Python."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


class Recorder:
    """Runs a function of tensors, with effects but no result, from recordings.

    The first call with new shapes runs as it is: it compiles kernels and lets an optimizer create
    its state. The second is recorded. All further ones only copy their inputs and replay. Random
    numbers continue from the seed of the generator at the time of the replay, as in a plain call.

    For this it must always be the same function, launch the same kernels whenever the shapes are
    the same, and read nothing back from the device.
    """

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()  # one for all: no two of them run at a time
        self.recordings: dict[tuple, Recording | None] = {}

    def run(self, function: Callable[..., None], *inputs: Tensor | None) -> None:
        """Run the function on these inputs, from a recording if there is one."""
        key = tuple(None if one is None else (one.shape, one.dtype) for one in inputs)
        if key not in self.recordings:
            self.recordings[key] = None
            # On the stream of the recordings: backward passes remember the stream they began on.
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                function(*inputs)
            torch.cuda.current_stream().wait_stream(self.stream)
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
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            function(*held)
        return Recording(graph, held)


class Recording(NamedTuple):
    """A graph, and where it reads its inputs."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor | None, ...]


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
