"""How time and memory grow with the number of variables, up to 10,000.

    python -m benchmarks.number_of_variables

For each number a process of its own forecasts once and takes one training step, context 96 and
horizon 24, with all of the network in use. CPU seconds, since the clock of a shared machine says
little; peak memory above that of a process with one variable. `exponent` is the slope of the
logarithms from 1,000 variables up, where fixed costs no longer matter: 1 is linear.
"""

import json
import resource
import sys
import time

import numpy as np
import torch

from benchmarks.records import measure_each, write_record
from orderless.nn import ForecastingNetwork, default

NUMBERS = (1, 100, 300, 1000, 3000, 10000)
CONTEXT, HORIZON = 96, 24


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    rows = measure_each("benchmarks.number_of_variables", NUMBERS)
    base = rows[0]["peak_mib"]
    large = [row for row in rows if row["variables"] >= 1000]
    exponents = {
        "forecast_time": slope(large, lambda row: row["forecast_cpu_seconds"]),
        "step_time": slope(large, lambda row: row["step_cpu_seconds"]),
        "memory": slope(large, lambda row: row["peak_mib"] - base),
    }
    print(exponents)
    print("wrote", write_record("number_of_variables", {"rows": rows, "exponents": exponents}))


def measure(variables: int) -> dict:
    torch.set_num_threads(1)
    network = ForecastingNetwork(default(CONTEXT), CONTEXT, HORIZON)
    x = torch.randn(1, variables, CONTEXT)
    with torch.inference_mode():
        network.eval()(x)
        begun = time.process_time()
        network(x)
        forecast = time.process_time() - begun
    network.train()
    begun = time.process_time()
    network(x).point.sum().backward()
    step = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "variables": variables,
        "forecast_cpu_seconds": round(forecast, 4),
        "step_cpu_seconds": round(step, 4),
        "peak_mib": round(peak, 1),
    }


def slope(rows: list[dict], value) -> float:
    logs = np.log([[row["variables"], value(row)] for row in rows])
    return round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 3)


if __name__ == "__main__":
    main()
