"""How far a reader has to walk: the files that a command runs through, and how often it changes.

    python -m benchmarks.trace

Each verb runs twice in this process, and the second time is traced: nothing is imported any more. A
call into another file is two switches, there and back; a module is a folder of `src/orderless`, or
a file in it. The figures give a direction, and no test holds them.
"""

import contextlib
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import orderless
from benchmarks.records import write_record
from orderless.cli import main as run
from orderless.data import write_table
from orderless.data.simulate import plant

SOURCE = str(Path(orderless.__file__).parent) + "/"
MOST_SHOWN = 8
SMALL = ["--preset", "tiny", "--epochs", "1", "--training", "steps_per_epoch=2"]


class Walk:
    """What was called, file by file."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Told by Python of every call."""
        if event != "call" or not (file := _file(frame)):
            return
        self.files[file] = None
        caller = frame.f_back
        while caller is not None and not _file(caller):
            caller = caller.f_back
        if caller is not None and _file(caller) != file:
            self.calls[_file(caller), file] += 1

    def summary(self) -> dict[str, Any]:
        """The counts, and the pairs of files between which most calls go."""
        return {
            "files": len(self.files),
            "switches_between_files": 2 * self.calls.total(),
            "switches_between_modules": 2 * sum(n for p, n in self.calls.items() if _differ(*p)),
            "most_calls": [f"{a} -> {b}: {n}" for (a, b), n in self.calls.most_common(MOST_SHOWN)],
        }


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        table, model, watch, out = (str(Path(folder) / name) for name in ("a.csv", "m", "w", "o"))
        values, names = plant(seed=0, sensors=8, steps=600)
        write_table(dict(zip(names, values.T, strict=True)), table)
        commands = {
            "fit": ["fit", table, "--horizon", "12", "--out", model, *SMALL],
            "predict": ["predict", model, table, "--level", "80", "--out", f"{out}.csv"],
            "fit --task detect": ["fit", table, "--task", "detect", "--out", watch, *SMALL],
            "detect": ["detect", watch, table, "--out", f"{out}.csv"],
        }
        for name, words in commands.items():
            results[name] = trace(words)
            print(f"{name:20}", *(f"{k} {v}" for k, v in results[name].items() if _count(v)))
            print(*(f"    {line}" for line in results[name]["most_calls"]), sep="\n")
    print("wrote", write_record("trace", results))


def trace(words: list[str]) -> dict[str, Any]:
    """The walk of one command, once everything is imported."""
    walk = Walk()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for profile in (None, walk):
            sys.setprofile(profile)
            try:
                code = run(words)
            finally:
                sys.setprofile(None)
            assert code == 0, words
    return walk.summary()


def _file(frame: FrameType) -> str:
    """Below the package; empty for others, and for what runs only when a file is imported."""
    name = frame.f_code.co_filename
    inside = name.startswith(SOURCE) and frame.f_code.co_name != "<module>"
    return name.removeprefix(SOURCE) if inside else ""


def _differ(one: str, other: str) -> bool:
    return one.partition("/")[0] != other.partition("/")[0]


def _count(value: Any) -> bool:
    return isinstance(value, int)


if __name__ == "__main__":
    main()
