"""How long a tick of a stream takes: 50 variables, one thread, beside `predict` or `score`.

    python -m benchmarks.live

Three models: a `Forecaster` of closed forms (context 336, horizon 24), the same with a network
of the default preset in its stack, and a `Detector` of closed forms as it is by default. After as
many ticks as a stream keeps, each tick is timed, and every tenth one the same question is put to
`predict` (`score`) with the rows kept as a pandas frame, in turns, so that whatever else the
machine does falls on both. CPU time is what remains comparable on a machine that others use too.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from benchmarks.records import write_record
from orderless import Detector, Forecaster
from orderless.data.simulate import plant

VARIABLES, CONTEXT, HORIZON = 50, 336, 24
TICKS, EVERY, WARM_UP = 200, 10, 20
CLOSED = ("naive", "seasonal naive", "ridge", "coupled ridge", "factor ridge")


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    values, names = plant(0, sensors=VARIABLES, steps=4000)
    stamps = pd.date_range("2026-01-01", periods=len(values), freq="h")
    frame = pd.DataFrame(values, columns=names).assign(time=stamps)
    train, rest = frame[:1500], frame[1500:]
    forecasting = {"horizon": HORIZON, "context": CONTEXT, "verbose": False, "device": "cpu"}
    closed = Forecaster(**forecasting, members=CLOSED).fit(train)
    short = {"epochs": 1, "training": {"steps_per_epoch": 2}}
    network = Forecaster(**forecasting, members="network", **short).fit(train)
    detector = Detector(members=("ridge", "PCA", "regression"), verbose=False).fit(train)
    results = {
        "forecaster, closed forms": measure(closed, rest, closed.predict),
        "forecaster, network": measure(network, rest, network.predict),
        "detector, closed forms": measure(detector, rest, detector.score),
    }
    for name, row in results.items():
        print(name, {key: round(value, 2) for key, value in row.items()})
    print("wrote", write_record("live", results))


def measure(
    model: Forecaster | Detector, frame: pd.DataFrame, batch: Callable[[pd.DataFrame], object]
) -> dict[str, float]:
    """Milliseconds of ticks, and of the batch on the same rows."""
    stream = model.stream()
    rows, moments = frame.drop(columns="time").to_dict("records"), frame["time"].tolist()
    fill = stream.rows.keep
    for readings, moment in zip(rows[:fill], moments[:fill], strict=True):
        stream.push(readings, moment)
    ticks, batches = [], []
    for number in range(fill, fill + WARM_UP + TICKS):
        ticks.append(timed(lambda at=number: stream.push(rows[at], moments[at])))
        if number % EVERY == 0:
            kept = frame.iloc[number + 1 - (stream.rows.count - stream.rows.first) : number + 1]
            batches.append(timed(lambda kept=kept: batch(kept)))
    wall, cpu = np.array(ticks[WARM_UP:]).T
    batch_wall, batch_cpu = np.array(batches[1:]).T
    return {
        "tick_p50_ms": float(np.median(wall)),
        "tick_p99_ms": float(np.quantile(wall, 0.99)),
        "tick_cpu_p50_ms": float(np.median(cpu)),
        "tick_cpu_p99_ms": float(np.quantile(cpu, 0.99)),
        "batch_p50_ms": float(np.median(batch_wall)),
        "batch_cpu_p50_ms": float(np.median(batch_cpu)),
        "times_faster": float(np.median(batch_wall) / np.median(wall)),
        "times_faster_cpu": float(np.median(batch_cpu) / np.median(cpu)),
        "rows_kept": stream.rows.count - stream.rows.first,
    }


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds on the wall clock and of the CPU."""
    begun, used = time.perf_counter(), time.process_time()
    call()
    return 1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - used)


if __name__ == "__main__":
    main()
