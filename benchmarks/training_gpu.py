"""Training on a GPU: seconds an epoch of ETTh1, how busy the card is, memory of a training step.

    ORDERLESS_DATA=folder python -m benchmarks.training_gpu
    python -m benchmarks.training_gpu memory

ETTh1 (folder/ltsf/ETTh1.parquet, or folder/ETTh1.npy with its values): look-back 336, horizon 96,
batch 128, default network; an epoch is one pass over the 8,209 training windows and a validation.
Memory: 321 variables, look-back 96, horizon 720, batch 16, on noise, which costs what data costs.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.records import write_record
from orderless import Forecaster

FEW, MANY = 2, 7


def main() -> None:
    # Profiles last, for reading one takes long; memory by itself, for what an earlier fit has left
    # behind would be counted.
    record, measures = "training_gpu", {"epoch": measure_epoch, "profile": measure_profile}
    if sys.argv[1:] == ["memory"]:
        record, measures = "training_gpu_memory", {"memory": measure_memory}
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


def measure_profile(precision: str) -> dict:
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        fit(FEW, precision)
    # The last third of the fit: steps that are replayed, and a validation.
    kernels = [e for e in seen.events() if e.device_type == DeviceType.CUDA]
    end = max(e.time_range.end for e in kernels)
    begin = end - (end - min(e.time_range.start for e in kernels)) / 3
    kernels = [e for e in kernels if e.time_range.start >= begin]
    busy = sum(e.time_range.elapsed_us() for e in kernels)
    by_name: dict[str, float] = {}
    for event in kernels:
        by_name[event.name] = by_name.get(event.name, 0.0) + event.time_range.elapsed_us()
    heaviest = sorted(by_name.items(), key=lambda item: -item[1])[:12]
    return {
        "part": "the last third of a fit of two epochs",
        "kernels": len(kernels),
        "share_of_time_in_kernels": busy / (end - begin),
        "kernel_microseconds": busy,
        "heaviest": {name[:80]: round(us) for name, us in heaviest},
    }


def measure_memory(precision: str) -> dict:
    values = np.random.default_rng(0).standard_normal((1600, 321)).astype(np.float32)
    settings = {"batch_size": 16, "steps_per_epoch": 10, "patience": 9}
    model = Forecaster(
        720,
        96,
        epochs=1,
        validation_share=0.45,
        training=settings,
        network={"skip": True},
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


def read_etth1() -> np.ndarray:
    folder = Path(os.environ["ORDERLESS_DATA"])
    if (folder / "ETTh1.npy").exists():
        return np.load(folder / "ETTh1.npy")
    import pandas as pd

    frame = pd.read_parquet(folder / "ltsf" / "ETTh1.parquet")
    return frame.iloc[:, 1:].to_numpy(np.float32)


if __name__ == "__main__":
    main()
