"""Archives read with limits: what is damaged, or far larger inside than outside, is refused."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from orderless.errors import DataError, OrderlessError

MOST_TIMES, AT_LEAST = 100, 64 << 20
"""A member may have so many times the bytes that it takes in the archive, or so many in any case.
Benchmark sets have up to 65 times; what a bomb has is a thousand times."""
DAMAGES = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile, zlib and NumPy make of a damaged or foreign file."""


@contextmanager
def in_words(path: Path, *more: type[Exception]) -> Iterator[None]:
    """What is raised in here is due to the file, and said so."""
    try:
        yield
    except OrderlessError:
        raise
    except (*DAMAGES, *more) as error:
        raise DataError(
            f"{path} is damaged or another file ({type(error).__name__}: {error}). Delete it and "
            "fetch it again: `orderless data get`."
        ) from error


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive, none of whose members is larger than a benchmark set may be."""
    with in_words(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > max(AT_LEAST, MOST_TIMES * member.compress_size):
                raise DataError(
                    f"{path}: {member.filename} would take {member.file_size:,} bytes, more than "
                    f"{MOST_TIMES} times what it takes in the archive. It is no benchmark set."
                )
        yield archive


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of an npz by name, without pickle."""
    with open_zip(path), np.load(path, allow_pickle=False) as file:
        yield file
