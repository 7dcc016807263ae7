"""First calls, with kernels that only write down what happens to them: no GPU is needed."""

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
        return SimpleNamespace(run=None)

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.events.append("run")


@pytest.fixture
def home(monkeypatch):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.gpu import launch as home

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(home, "driver", SimpleNamespace(active=None))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    yield home
    home._known.clear()


def _operator(home, kernels):
    def body(x):
        for kernel in kernels:
            home.launch(kernel, (1,))(x)

    def run(x):
        home.compile_ahead(body, (x,))
        body(x)

    return run


def _tensor(*shape):
    return torch.empty(shape).as_subclass(OnGPU)


def test_kernels_of_a_first_call_are_compiled_at_the_same_time_before_one_runs(home):
    together, events = threading.Barrier(2), []
    run = _operator(home, [Kernel(together, events), Kernel(together, events)])
    run(_tensor(2))
    assert events == ["compiled", "compiled", "run", "run"]
    run(_tensor(3))  # as many bits as 2
    assert events[4:] == ["run", "run"]
    run(_tensor(4))
    assert events[6:] == ["compiled", "compiled", "run", "run"]


def test_nothing_is_rehearsed_on_a_cpu_or_for_a_cuda_graph(home, monkeypatch):
    events = []
    run = _operator(home, [Kernel(threading.Barrier(1), events)])
    run(torch.empty(2))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    run(_tensor(2))
    assert events == ["run", "run"]


def test_an_error_of_compiling_is_left_to_the_launch(home):
    events = []
    kernel = Kernel(threading.Barrier(1), events)
    kernel.warmup = lambda *arguments, **options: 1 / 0
    _operator(home, [kernel])(_tensor(2))
    assert events == ["run"]


def test_filters_of_warnings_and_turns_of_threads_are_left_as_they_were(home):
    class Untidy(Kernel):
        def warmup(self, *arguments, **options):
            warnings.simplefilter("ignore")

    before = list(warnings.filters), sys.getswitchinterval()
    _operator(home, [Untidy(threading.Barrier(1), [])])(_tensor(2))
    assert (list(warnings.filters), sys.getswitchinterval()) == before


def test_first_calls_of_several_threads_all_run(home):
    usual, events = sys.getswitchinterval(), []
    kernel = Kernel(threading.Barrier(1), events)
    runs = [_operator(home, [kernel, kernel]) for _ in range(4)]
    threads = [threading.Thread(target=run, args=(_tensor(2),)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert events.count("run") == 8
    assert sys.getswitchinterval() == usual


def test_a_failure_ends_the_rehearsal(home):
    usual = sys.getswitchinterval()

    def body(x):
        assert sys.getswitchinterval() < usual
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        home.compile_ahead(body, (_tensor(2),))
    assert sys.getswitchinterval() == usual
    events = []
    home.launch(Kernel(threading.Barrier(1), events), (1,))()
    assert events == ["run"]
