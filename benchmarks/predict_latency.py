"""How long `predict` of a loaded model takes: 50 variables, context 336, horizon 24, one frame.

    python -m benchmarks.predict_latency

Two models: one whose blend keeps only the linear forecast, which runs without the network, and one
that uses all of the network. Median, and the 10 % and 90 % quantiles; beside them the CPU time,
which is what remains comparable on a machine that others use too.
"""

import tempfile
import time

import numpy as np
import pandas as pd
import torch

from benchmarks.records import write_record
from orderless import Forecaster, load
from orderless.data.simulate import plant

VARIABLES, CONTEXT, HORIZON, CALLS = 50, 336, 24, 100


def main() -> None:
    values, names = plant(0, sensors=VARIABLES, steps=1000)
    stamps = pd.date_range("2026-01-01", periods=len(values), freq="h")
    frame = pd.DataFrame(values, columns=names).assign(time=stamps)
    model = Forecaster(HORIZON, CONTEXT, epochs=0, verbose=False, device="cpu").fit(frame)
    results = {"linear": timed(model, frame)}
    model.blend_ = 1.0
    model.network_.set_blend(1.0)
    results["network"] = timed(model, frame)
    results["network alone"] = quantiles(lambda: model._run(torch.zeros(1, VARIABLES, CONTEXT)))
    for name, row in results.items():
        span = f"{row['p10_ms']:.2f} to {row['p90_ms']:.2f}"
        cpu = f"CPU {row['median_cpu_ms']:.2f} ms"
        print(f"{name:14} {row['median_ms']:6.2f} ms ({span}), {cpu}")
    print("wrote", write_record("predict_latency", results))


def timed(model: Forecaster, frame: pd.DataFrame) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        loaded = load(folder)
    recent = frame[-CONTEXT:]
    return quantiles(lambda: loaded.predict(recent))


def quantiles(call) -> dict[str, float]:
    for _ in range(10):
        call()
    wall, cpu = [], []
    for _ in range(CALLS):
        begun, used = time.perf_counter(), time.process_time()
        call()
        wall.append(1000 * (time.perf_counter() - begun))
        cpu.append(1000 * (time.process_time() - used))
    low, middle, high = np.quantile(wall, [0.1, 0.5, 0.9])
    return {
        "median_ms": middle,
        "p10_ms": low,
        "p90_ms": high,
        "median_cpu_ms": float(np.median(cpu)),
        "calls": CALLS,
    }


if __name__ == "__main__":
    main()
