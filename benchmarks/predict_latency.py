"""How long `predict` of a loaded model takes: 50 variables, context 336, horizon 24, one frame.

    python -m benchmarks.predict_latency

Two models: a ridge, and a network on one. Median, and the 10 % and 90 % quantiles; beside them the
CPU time, which is what remains comparable on a machine that others use too. Where neuralforecast is
installed, its PatchTST of a like size answers the same question in the same run, the three taking
turns so that whatever else the machine does falls on all of them.
"""

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pandas as pd
import torch

from benchmarks.records import write_record
from orderless import Forecaster, load
from orderless.data.simulate import plant

VARIABLES, CONTEXT, HORIZON = 50, 336, 24
WARM_UP, CALLS = 3, 100


def main() -> None:
    values, names = plant(0, sensors=VARIABLES, steps=1000)
    stamps = pd.date_range("2026-01-01", periods=len(values), freq="h")
    frame = pd.DataFrame(values, columns=names).assign(time=stamps)
    linear, network = fitted(frame, "coupled ridge"), fitted(frame, "network on ridge")
    module = network.stack_.members[0].module
    context = torch.zeros(1, VARIABLES, CONTEXT)
    calls = {
        "linear": loaded(linear, frame),
        "network": loaded(network, frame),
        "network alone": torch.inference_mode()(lambda: module(context)),
    }
    if find_spec("neuralforecast") is not None:
        calls["neuralforecast PatchTST"] = patch_transformer(frame)
    results = take_turns(calls)
    for name, row in results.items():
        span = f"{row['p10_ms']:.2f} to {row['p90_ms']:.2f}"
        cpu = f"CPU {row['median_cpu_ms']:.2f} ms"
        print(f"{name:24} {row['median_ms']:7.2f} ms ({span}), least {row['least_ms']:.2f}, {cpu}")
    print("wrote", write_record("predict_latency", results))


def fitted(frame: pd.DataFrame, member: str) -> Forecaster:
    """A model of a single member; one step of training is enough to answer."""
    settings = {"epochs": 1, "training": {"steps_per_epoch": 1}}
    model = Forecaster(HORIZON, CONTEXT, members=member, verbose=False, device="cpu", **settings)
    return model.fit(frame)


def loaded(model: Forecaster, frame: pd.DataFrame) -> Callable[[], object]:
    """`predict` of the model after it was saved and loaded, on the last context of the frame."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        again = load(folder)
    recent = frame[-CONTEXT:]
    return lambda: again.predict(recent)


def patch_transformer(frame: pd.DataFrame) -> Callable[[], object]:
    """`predict` of a PatchTST of neuralforecast on the same context, in its long form."""
    from neuralforecast import NeuralForecast
    from neuralforecast.models import PatchTST

    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    long = frame.rename(columns={"time": "ds"}).melt("ds", var_name="unique_id", value_name="y")
    model = PatchTST(
        h=HORIZON,
        input_size=CONTEXT,
        hidden_size=64,
        linear_hidden_size=128,
        encoder_layers=2,
        patch_len=16,
        stride=8,
        max_steps=1,
        accelerator="cpu",
        enable_progress_bar=False,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    forecaster = NeuralForecast([model], freq="h")
    forecaster.fit(long)
    recent = long.groupby("unique_id").tail(CONTEXT)
    return lambda: forecaster.predict(recent)


def take_turns(calls: dict[str, Callable[[], object]]) -> dict[str, dict[str, float]]:
    """Each call `CALLS` times, ten of one, then ten of the next, and round again.

    As in a service, where one model answers many times; switching at every call would time each
    with the caches and the waiting threads of another.
    """
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(CALLS // 10):
        for name, call in calls.items():
            for turn in range(WARM_UP + 10):
                begun, used = time.perf_counter(), time.process_time()
                call()
                if turn >= WARM_UP:
                    wall[name].append(1000 * (time.perf_counter() - begun))
                    cpu[name].append(1000 * (time.process_time() - used))
    results = {}
    for name in calls:
        low, middle, high = np.quantile(wall[name], [0.1, 0.5, 0.9])
        results[name] = {
            "median_ms": middle,
            "least_ms": min(wall[name]),
            "p10_ms": low,
            "p90_ms": high,
            "median_cpu_ms": float(np.median(cpu[name])),
            "calls": CALLS,
        }
    return results


if __name__ == "__main__":
    main()
