"""The result of a cell as a file, with what is needed to believe it; never half a file."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orderless import __version__
from orderless.bench.config import CellConfig
from orderless.errors import DataError
from orderless.io import write_file

PACKAGES = ("torch", "numpy", "triton", "aeon", "neuralforecast")


@dataclass(frozen=True)
class SeedResult:
    """What one seed came to.

    test, validation    metric to value; validation is what selection looked at, empty if nothing
    chosen              what selection chose: a context, a penalty
    epochs              epochs trained, None for a model without training
    """

    seed: int
    test: Mapping[str, float]
    validation: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    epochs: int | None = None
    seconds: float = 0.0
    peak_memory_bytes: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What running a cell gives: every seed, and which data it was."""

    seeds: tuple[SeedResult, ...]
    data_checksum: str
    note: str = ""


@dataclass(frozen=True)
class CellResult:
    """A cell read back from its file."""

    config: Mapping[str, Any]
    seeds: tuple[SeedResult, ...]
    data_checksum: str
    note: str
    machine: Mapping[str, Any]

    def mean(self, metric: str) -> float:
        """The mean over the seeds of a test metric."""
        return statistics.fmean(seed.test[metric] for seed in self.seeds)

    def deviation(self, metric: str) -> float | None:
        """The standard deviation over the seeds; None with fewer than two."""
        values = [seed.test[metric] for seed in self.seeds]
        return statistics.stdev(values) if len(values) > 1 else None


def path_of(config: CellConfig, folder: Path) -> Path:
    """Where the result of a cell lies."""
    return folder / "cells" / config.table / config.file_name


def write_result(config: CellConfig, outcome: Outcome, folder: Path) -> Path:
    """Write the result of a cell; a reader sees the old file or the new one, never a part."""
    record = {
        "config": config.to_json(),
        "seeds": [asdict(seed) for seed in outcome.seeds],
        "data_checksum": outcome.data_checksum,
        "note": outcome.note,
        "machine": describe_machine(),
    }
    path = path_of(config, folder)
    write_file(path, (json.dumps(record, indent=1) + "\n").encode())
    return path


def read_result(path: Path) -> CellResult:
    """The result in a file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return CellResult(
            config=record["config"],
            seeds=tuple(SeedResult(**seed) for seed in record["seeds"]),
            data_checksum=record["data_checksum"],
            note=record["note"],
            machine=record["machine"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not the result of a cell ({error!r}). Delete it and run the cell again."
        ) from error


def find_result(config: CellConfig, folder: Path) -> CellResult | None:
    """The result of this config; None where there is none, or one of another config.

    More seeds than asked for are no harm: fewer would take their place.
    """
    result = find_any_result(config, folder)
    if result is None:
        return None
    asked = config.to_json()
    same = {**result.config, "seeds": asked["seeds"]} == asked
    return result if same and set(asked["seeds"]) <= set(result.config["seeds"]) else None


def find_any_result(config: CellConfig, folder: Path) -> CellResult | None:
    """The result of this cell, in whatever setting and with whatever seeds it was run."""
    path = path_of(config, folder)
    return read_result(path) if path.is_file() else None


def describe_machine() -> dict[str, Any]:
    """Date, commit, versions and device; None where nobody knows whether the code was changed."""
    import torch

    cuda = torch.cuda.is_available()
    # A copy whose history is missing or lags behind, as on a lent machine, is given its commit.
    given = os.environ.get("ORDERLESS_COMMIT")
    commit = given or _git("rev-parse", "HEAD")
    changes = None if given or not commit else bool(_git("status", "--porcelain", "--", ":/src"))
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "uncommitted_changes": changes,
        "python": platform.python_version(),
        "packages": {"orderless": __version__}
        | {name: known for name in PACKAGES if (known := _version(name))},
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
