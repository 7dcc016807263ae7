"""What `Forecaster.fit` takes of wide frames, and how well it does, up to 10,000 sensors.

    python -m benchmarks.wide_frames

For each number a process of its own fits the sensors of a simulated plant (seed 0) at 2,000 times,
context 168, horizon 24, one epoch, everything else as it is by default, on a CPU with one thread.
CPU seconds, since the clock of a shared machine says little, peak memory, and the errors on
held-out windows that `fit` reports.
"""

import json
import resource
import sys
import time

import torch

from benchmarks.records import measure_each, write_record
from orderless import Forecaster
from orderless.data.simulate import plant

NUMBERS = (100, 1000, 10000)


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    rows = measure_each("benchmarks.wide_frames", NUMBERS)
    print("wrote", write_record("wide_frames", {"rows": rows}))


def measure(sensors: int) -> dict:
    torch.set_num_threads(1)
    values, _ = plant(0, sensors=sensors, steps=2000)
    begun = time.process_time()
    model = Forecaster(24, 168, epochs=1, device="cpu", verbose=False).fit(values)
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "sensors": sensors,
        "fit_cpu_seconds": round(seconds, 1),
        "peak_mib": round(peak),
        "mae": {name: round(error["mae"], 4) for name, error in model.errors_.items()},
    }


if __name__ == "__main__":
    main()
