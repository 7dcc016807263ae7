"""First calls, with kernels that only write down what happens to them: no GPU is needed."""

import os
import subprocess
import sys
import threading
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch


class OnGPU(torch.Tensor):
    is_cuda = True


class Kernel:
    """Compiling waits until as many kernels as `together` counts are being compiled."""

    cache_key = "of its source"

    def __init__(self, together: threading.Barrier, events: list[str]) -> None:
        self.together = together
        self.events = events

    def warmup(self, *arguments, grid, **options):
        self.together.wait(timeout=30)
        self.events.append("compiled")

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.events.append("run")


@pytest.fixture
def rehearsal(monkeypatch):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.triton import rehearsal

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(rehearsal, "LAUNCHERS_IN_C", False)
    monkeypatch.setattr(rehearsal, "driver", SimpleNamespace(active=None))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    yield rehearsal
    rehearsal._known.clear()


def _operator(rehearsal, kernels):
    def body(x):
        for kernel in kernels:
            rehearsal.launch(kernel, (1,))(x)

    def run(x):
        rehearsal.rehearse(body, (x,))
        body(x)

    return run


def _tensor(*shape):
    return torch.empty(shape).as_subclass(OnGPU)


def test_kernels_of_a_first_call_are_compiled_at_the_same_time_before_one_runs(rehearsal):
    together, events = threading.Barrier(2), []
    run = _operator(rehearsal, [Kernel(together, events), Kernel(together, events)])
    run(_tensor(2))
    assert events == ["compiled", "compiled", "run", "run"]
    run(_tensor(3))  # as many bits as 2
    assert events[4:] == ["run", "run"]
    run(_tensor(4))
    assert events[6:] == ["compiled", "compiled", "run", "run"]


def test_kernels_are_defined_when_a_call_needs_them():
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    script = """
import sys
from orderless.ops.triton import operators, shared_operators
homes = [f"orderless.ops.triton.{name}" for name in ("tables", "kernels", "shared_kernels", "fast")]
assert not [home for home in homes if home in sys.modules]
operators.kernels.scan_forward
assert [home for home in homes if home in sys.modules] == [homes[1]]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_nothing_is_rehearsed_on_a_cpu_or_for_a_cuda_graph(rehearsal, monkeypatch):
    events = []
    run = _operator(rehearsal, [Kernel(threading.Barrier(1), events)])
    run(torch.empty(2))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    run(_tensor(2))
    assert events == ["run", "run"]


def test_an_error_of_compiling_is_left_to_the_launch(rehearsal):
    events = []
    kernel = Kernel(threading.Barrier(1), events)
    kernel.warmup = lambda *arguments, **options: 1 / 0
    _operator(rehearsal, [kernel])(_tensor(2))
    assert events == ["run"]


def test_filters_of_warnings_and_turns_of_threads_are_left_as_they_were(rehearsal):
    class Untidy(Kernel):
        def warmup(self, *arguments, **options):
            warnings.simplefilter("ignore")

    before = list(warnings.filters), sys.getswitchinterval()
    _operator(rehearsal, [Untidy(threading.Barrier(1), [])])(_tensor(2))
    assert (list(warnings.filters), sys.getswitchinterval()) == before


def test_first_calls_of_several_threads_all_run(rehearsal):
    usual, events = sys.getswitchinterval(), []
    kernel = Kernel(threading.Barrier(1), events)
    runs = [_operator(rehearsal, [kernel, kernel]) for _ in range(4)]
    threads = [threading.Thread(target=run, args=(_tensor(2),)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert events.count("run") == 8
    assert sys.getswitchinterval() == usual


def test_a_failure_ends_the_rehearsal(rehearsal):
    usual = sys.getswitchinterval()

    def body(x):
        assert sys.getswitchinterval() < usual
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rehearsal.rehearse(body, (_tensor(2),))
    assert sys.getswitchinterval() == usual
    events = []
    rehearsal.launch(Kernel(threading.Barrier(1), events), (1,))()
    assert events == ["run"]


# In a process of its own, for the interpreter would take the place of the compiler.
WALK = """
import os
import torch
import triton
from triton.compiler import ASTSource
from orderless.ops.triton import rehearsal, tables

torch.cuda.get_device_capability = lambda device: (9, 0)
many, few = torch.zeros(64, 16), torch.zeros(4, 16)
launched = rehearsal._Launch(
    tables.sum_parts, (many, few, 64, 16, many, few, 64, 16, 8, 8), {"num_warps": 8}
)
walked, target, options = rehearsal._walk(launched, 0)
first = triton.compile(walked, target, options)
folders = os.listdir(triton.knobs.cache.dir)
plain = ASTSource(walked.fn, walked.signature, walked.constants, walked.attrs)
assert triton.compile(plain, target, options).hash == first.hash
assert os.listdir(triton.knobs.cache.dir) == folders
assert rehearsal._walk(launched, 0) is None
"""


def test_what_was_walked_over_ahead_is_compiled_to_what_a_launch_looks_for(tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run(
        [sys.executable, "-c", WALK],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        check=True,
    )
