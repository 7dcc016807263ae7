"""Training on a GPU: seconds an epoch of ETTh1, what a step does, memory of a training step.

    ORDERLESS_DATA=folder python -m benchmarks.training_gpu
    python -m benchmarks.training_gpu memory
    python -m benchmarks.training_gpu first

ETTh1 (folder/ltsf/ETTh1.parquet, or folder/ETTh1.npy with its values): context 336, horizon 96,
batch 128, default network; an epoch is one pass over the 8,209 training windows and a validation.
Memory: 321 variables, context 96, horizon 720, batch 16, on noise, which costs what data costs.
First: seconds of the first fit to ETTh1 of a process, an epoch, with nothing compiled before.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.records import write_record
from orderless import Forecaster

FEW, MANY = 2, 7  # epochs
FIRST = """
import sys
from benchmarks.training_gpu import fit
print(fit(1, sys.argv[1]), fit(1, sys.argv[1]))
"""
WATCHED = 70  # a step of the second epoch


def main() -> None:
    # Memory by itself: what an earlier fit has left behind would be counted.
    record, measures = "training_gpu", {"epoch": measure_epoch, "step": measure_step}
    if sys.argv[1:] == ["memory"]:
        record, measures = "training_gpu_memory", {"memory": measure_memory}
    if sys.argv[1:] == ["first"]:
        record, measures = "training_gpu_first", {"first": measure_first}
    results = {name: [] for name in measures}
    for name, measure in measures.items():
        for precision in ("no", "bf16"):
            results[name].append({"precision": precision, **measure(precision)})
            print(name, results[name][-1], flush=True)
            path = write_record(record, results)  # what is done is kept
    print("wrote", path)


def fit(epochs: int, precision: str) -> float:
    """Seconds of a fit to ETTh1."""
    values = read_etth1()[:11520]
    training = {"batch_size": 128, "steps_per_epoch": None, "patience": MANY}
    model = Forecaster(
        96,
        336,
        members="network on ridge",
        epochs=epochs,
        validation_share=0.25,
        training=training,
        device="cuda",
        precision=precision,
        verbose=False,
    )
    torch.cuda.synchronize()
    begun = time.perf_counter()
    model.fit(values)
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def measure_epoch(precision: str) -> dict:
    fit(1, precision)  # compiles
    repeats = [(fit(MANY, precision) - fit(FEW, precision)) / (MANY - FEW) for _ in range(3)]
    return {"seconds_per_epoch": statistics.median(repeats), "repeats": repeats}


def measure_step(precision: str) -> dict:
    """How long the card is busy with a step and idle until the next, and the kernels of one.

    Of the steps of a second epoch one is watched, and the others are timed: watched, kernels are
    launched one by one.
    """
    replay = torch.cuda.CUDAGraph.replay
    steps: list[tuple[torch.cuda.CUDAGraph, torch.cuda.Event, torch.cuda.Event]] = []
    seen = profile(activities=[ProfilerActivity.CUDA])

    def timed_replay(graph: torch.cuda.CUDAGraph) -> None:
        if len(steps) == WATCHED:
            torch.cuda.synchronize()
            with seen:
                replay(graph)
                torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay(graph)
        end.record()
        steps.append((graph, begin, end))

    torch.cuda.CUDAGraph.replay = timed_replay
    try:
        fit(FEW, precision)
    finally:
        torch.cuda.CUDAGraph.replay = replay
    # The last batch of an epoch is smaller and has a recording of its own, which does not count.
    graph = steps[WATCHED][0]
    after = steps[WATCHED + 1 :]
    busy = [begin.elapsed_time(end) * 1e3 for one, begin, end in after if one is graph]
    idle = [
        end.elapsed_time(begin) * 1e3
        for (one, _, end), (other, begin, _) in pairwise(after)
        if one is graph and other is graph
    ]
    kernels = [event for event in seen.events() if event.device_type == DeviceType.CUDA]
    by_name: dict[str, float] = {}
    for event in kernels:
        by_name[event.name] = by_name.get(event.name, 0.0) + event.time_range.elapsed_us()
    heaviest = sorted(by_name.items(), key=lambda item: -item[1])[:12]
    in_kernels, of_step = sum(by_name.values()), statistics.median(busy)
    return {
        "microseconds_of_a_step": of_step,
        "microseconds_to_the_next": statistics.median(idle),
        "kernels": len(kernels),
        "microseconds_in_kernels": in_kernels,
        "share_of_a_step_in_kernels": in_kernels / of_step,
        "heaviest": {name[:80]: round(us, 1) for name, us in heaviest},
        "all_steps": [round(us, 1) for us in busy],
        "all_to_the_next": [round(us, 1) for us in idle],
    }


def measure_memory(precision: str) -> dict:
    values = np.random.default_rng(0).standard_normal((1600, 321)).astype(np.float32)
    settings = {"batch_size": 16, "steps_per_epoch": 10, "patience": 9}
    model = Forecaster(
        720,
        96,
        members="network on ridge",
        epochs=1,
        validation_share=0.45,
        training=settings,
        device="cuda",
        precision=precision,
        verbose=False,
    )
    peaks = []
    original = torch.optim.AdamW.step

    def step(self, *args, **kwargs):
        done = original(self, *args, **kwargs)
        peaks.append(torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        return done

    torch.optim.AdamW.step = step
    try:
        model.fit(values)
    finally:
        torch.optim.AdamW.step = original
    # The first step also holds what fitting the ridge has left behind.
    megabytes = [peak / 1e6 for peak in peaks[1:]]
    return {
        "peak_megabytes_of_a_step": max(megabytes),
        "all_peaks_megabytes": megabytes,
    }


def measure_first(precision: str, repeats: int = 3) -> dict:
    """The first process of a machine also reads CUDA and the compilers from a disk."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", FIRST, precision],
                env=os.environ | {"TRITON_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            first, second = map(float, done.stdout.split())
            kernels = sorted(path.stem for path in Path(cache).glob("*/*.cubin"))
        found.append({"first_fit_s": first, "second_fit_s": second, "kernels": len(kernels)})
    median = statistics.median(one["first_fit_s"] for one in found)
    return {"first_fit_s": median, "compiled": kernels, "repeats": found}


def read_etth1() -> np.ndarray:
    folder = Path(os.environ["ORDERLESS_DATA"])
    if (folder / "ETTh1.npy").exists():
        return np.load(folder / "ETTh1.npy")
    import pandas as pd

    frame = pd.read_parquet(folder / "ltsf" / "ETTh1.parquet")
    return frame.iloc[:, 1:].to_numpy(np.float32)


if __name__ == "__main__":
    main()
