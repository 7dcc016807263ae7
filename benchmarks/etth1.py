"""ETTh1, horizon 96, default settings: every test window, against ridge alone.

    ORDERLESS_DATA=folder python -m benchmarks.etth1 [--seeds 0 1 2]

The folder holds ltsf/ETTh1.parquet. Rows 0:8640 train, 8640:11520 select, 11520:14400 test; the
scale of each variable comes from the training rows, and errors are in its units. Nothing is
chosen on test rows.
"""

import argparse
import json
import os
import time
from pathlib import Path

from benchmarks.records import write_record
from orderless import Forecaster

TRAIN, VALIDATION, TEST, HORIZON = 8640, 11520, 14400, 96


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON for Forecaster")
    parser.add_argument("--name", default="etth1")
    options = parser.parse_args()
    import pandas as pd

    path = Path(os.environ["ORDERLESS_DATA"]) / "ltsf" / "ETTh1.parquet"
    frame = pd.read_parquet(path)
    rows = [
        measure(frame, "ridge", members="ridge"),
        measure(frame, "coupled ridge", members="coupled ridge"),
    ]
    for seed in options.seeds:
        rows.append(measure(frame, "orderless", random_state=seed, **options.settings))
        ratio = rows[-1]["mse"] / rows[0]["mse"]
        print(f"seed {seed}: MSE {100 * (ratio - 1):+.2f} % of ridge")
    print("wrote", write_record(options.name, rows))


def measure(frame, name: str, **settings) -> dict:
    model = Forecaster(HORIZON, validation_share=1 - TRAIN / VALIDATION, **settings)
    begun, cpu = time.perf_counter(), time.process_time()
    model.fit(frame[:VALIDATION])
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    test = frame[VALIDATION - model.reach : TEST]
    scores = model.backtest(test, windows=TEST - VALIDATION - HORIZON + 1, stride=1).scores
    row = {
        "model": name,
        "settings": settings,
        "context": model.context_,
        "fit_seconds": round(seconds, 1),
        "fit_cpu_seconds": round(cpu, 1),
        "weights": model.weights_,
        "epochs": {name: len(history) - 1 for name, history in model.history_.items()},
        **scores["this model"],
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
