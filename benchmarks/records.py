"""Results as JSON, with what is needed to believe them: versions, machine, commit, command."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def write_record(name: str, results: object) -> Path:
    """Write results/NAME.json; returns its path.

    A copy whose history lags behind, as on a lent machine, is told its commit: ORDERLESS_COMMIT.
    """
    told = os.environ.get("ORDERLESS_COMMIT")
    changes = "status", "--porcelain", "--", "src", "benchmarks/*.py"
    record = {
        "benchmark": name,
        "command": " ".join(sys.orig_argv[1:]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": told or _git("rev-parse", "HEAD"),
        "uncommitted_changes": told is None and bool(_git(*changes)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_at_the_end": os.getloadavg(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def measure_each(module: str, numbers: Iterable[int]) -> list[dict]:
    """What `python -m MODULE NUMBER` prints, for each number: a process has a peak of its own."""
    rows = []
    for number in numbers:
        command = [sys.executable, "-m", module, str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    return rows


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()
