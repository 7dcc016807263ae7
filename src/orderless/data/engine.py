"""polars and narwhals, on which frames and files stand, imported when the first one comes."""

import os
from importlib import import_module
from typing import Any

from orderless.errors import DataError

_processes: set[int] = set()


def need(module: str) -> Any:
    """A module that is polars or stands on it; arrays, tensors and lists of them do without."""
    _processes.add(os.getpid())
    if len(_processes) > 1:
        raise DataError(
            "This process was forked from one that had read a frame, and polars would wait forever "
            "for threads that were not forked with it. Start processes afresh, as "
            'multiprocessing.get_context("spawn") and joblib do, or give arrays.'
        )
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(
            f"Frames and files need polars and narwhals ({error}). Install them: pip install "
            "polars narwhals. Arrays, tensors and lists of them need neither."
        ) from error
