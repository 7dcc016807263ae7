"""Benchmark sets in files that NumPy alone can read, for a machine that has nothing else.

A packed table holds named rows: the variables of a long series, or the series of a group of M4. It
remembers the file that it was made of, so that a figure keeps the checksum of its data.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orderless.bench.datasets.archives import open_arrays
from orderless.bench.datasets.download import digest
from orderless.io import whole_file


def write_rows(path: Path, names: Sequence[str], rows: Sequence[np.ndarray], source: Path) -> None:
    """Write named rows of any lengths; half the size where single precision holds the same."""
    values = np.concatenate(rows)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as draft:
        np.savez_compressed(
            draft,
            names=np.array(names, dtype=np.str_),
            lengths=np.array([len(row) for row in rows]),
            values=single if np.array_equal(single, values, equal_nan=True) else values,
            source=np.array([source.name, digest(source)]),
        )


def read_rows(path: Path) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """The names and the rows, in double precision."""
    with open_arrays(path) as file:
        values, ends = file["values"].astype(np.float64), np.cumsum(file["lengths"])
        return tuple(file["names"].tolist()), np.split(values, ends[:-1])


def origin(path: Path) -> tuple[str, str]:
    """Name and checksum of a file, or of the file that it was packed from."""
    if path.suffix == ".npz":
        with open_arrays(path) as file:
            if "source" in file:
                name, checksum = file["source"].tolist()
                return name, checksum
    return path.name, digest(path)
