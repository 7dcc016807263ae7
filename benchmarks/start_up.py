"""How long one waits before anything happens: the imports, and `--help`.

    python -m benchmarks.start_up

Fresh processes, taking turns; medians and all repeats in seconds of wall time. `import orderless`
loads what is used when it is used, so the estimators are what is compared with `import torch`.
"""

import statistics
import subprocess
import sys
import time

from benchmarks.records import write_record

TURNS = 15
PROGRAMS = {
    "python alone": "pass",
    "import torch": "import torch",
    "import orderless": "import orderless",
    "the estimators": "from orderless import Classifier, Detector, Forecaster, load",
    "orderless --help": "from orderless.cli import main; main(['--help'])",
    "orderless fit --help": "from orderless.cli import main; main(['fit', '--help'])",
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(TURNS):
        for name, program in PROGRAMS.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
            seconds[name].append(time.perf_counter() - begun)
    results = {
        name: {"median_s": statistics.median(times), "all_s": times}
        for name, times in seconds.items()
    }
    for name, row in results.items():
        print(f"{name:24} {row['median_s']:6.3f} s")
    added = results["the estimators"]["median_s"] - results["import torch"]["median_s"]
    print(f"the estimators add {added:.3f} s to torch")
    print("wrote", write_record("start_up", results))


if __name__ == "__main__":
    main()
