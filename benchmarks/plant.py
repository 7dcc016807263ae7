"""The simulated plant: what coupling earns, on held-out time and on held-out sensors.

    python -m benchmarks.plant [--seeds 0 1 2] [--device cpu] [--jobs 1]

64 sensors, 32 to fit and 32 held out; rows 0:2000 train, 2000:2400 select, 2400:3000 test;
context 96, horizon 24; MAE in the units of the sensors over every test window. Networks with and
without coupling have the same settings and the same number of steps. `alone` is the mean over
eight sensors, each given to the model by itself.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from benchmarks.records import write_record
from orderless import Forecaster
from orderless.data.simulate import plant

TRAIN, VALIDATION, TEST = 2000, 2400, 3000
CONTEXT, HORIZON, FITTED = 96, 24, 32
ALONE = range(0, 64, 8)
# Without a ridge below it the network starts from nothing, and needs more than the default's 500
# steps to learn what a ridge knows in closed form.
SETTINGS = {"preset": "tiny", "epochs": 10, "training": {"patience": 10}}
UNCOUPLED = {"network": {"coupling": "none"}}
MODELS = {
    "ridge": {"members": "ridge"},
    "coupled ridge": {"members": "coupled ridge"},
    "network, uncoupled": {"members": ["ridge", "network on ridge"], **UNCOUPLED},
    "network, coupled": {"members": ["coupled ridge", "network on ridge"]},
    "no skip, uncoupled": {"members": "network", **UNCOUPLED},
    "no skip, coupled": {"members": "network"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    options = parser.parse_args()
    rows = []
    cases = [(seed, name, options) for seed in options.seeds for name in options.models]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for row in pool.map(measure, cases):
            rows.append(row)
            print(row, flush=True)
    results = {"settings": SETTINGS, "rows": rows, "verdicts": judge(rows)}
    for line in results["verdicts"]:
        print(line)
    print("wrote", write_record("plant", results))


def measure(case: tuple[int, str, argparse.Namespace]) -> dict:
    seed, name, options = case
    values, _ = plant(seed)
    model = Forecaster(
        HORIZON,
        CONTEXT,
        validation_share=1 - TRAIN / VALIDATION,
        random_state=seed,
        device=options.device,
        verbose=False,
        **(SETTINGS | MODELS[name]),
    )
    begun = time.perf_counter()
    model.fit(values[:VALIDATION, :FITTED])
    seconds = time.perf_counter() - begun
    return {
        "seed": seed,
        "model": name,
        "time": error(model, values[:, :FITTED]),
        "sensors": error(model, values[:, FITTED:]),
        "alone": float(np.mean([error(model, values[:, [c]]) for c in ALONE])),
        "weights": model.weights_,
        "epochs": {name: len(history) - 1 for name, history in model.history_.items()},
        "fit_seconds": round(seconds, 1),
    }


def error(model: Forecaster, values: np.ndarray) -> float:
    test = values[VALIDATION - CONTEXT : TEST]
    windows = TEST - VALIDATION - HORIZON + 1
    forecast = model.backtest(test, windows=windows, stride=1).forecast
    starts = CONTEXT + np.arange(windows)
    actual = test[starts[:, None] + np.arange(HORIZON)]
    return float(np.abs(forecast - actual).mean())


def judge(rows: list[dict]) -> list[str]:
    """How each comparison of interest came out, for every seed and both kinds of test."""
    lines = []
    for seed in sorted({row["seed"] for row in rows}):
        of = {row["model"]: row for row in rows if row["seed"] == seed}
        pairs = [
            ("network, coupled", "network, uncoupled", ("time", "sensors", "alone")),
            ("network, coupled", "ridge", ("time", "sensors")),
            ("network, coupled", "coupled ridge", ("time", "sensors")),
            ("no skip, coupled", "no skip, uncoupled", ("time", "sensors", "alone")),
        ]
        for one, other, parts in pairs:
            if one in of and other in of:
                gaps = [
                    f"{part} {100 * (of[one][part] / of[other][part] - 1):+.2f} %" for part in parts
                ]
                lines.append(f"seed {seed}: {one} against {other}: {', '.join(gaps)}")
    return lines


if __name__ == "__main__":
    main()
