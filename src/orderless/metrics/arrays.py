"""What every metric asks of its arrays, and the words it uses when they do not comply."""

from typing import Any

import numpy as np

from orderless.errors import DataError, ShapeError


def counted(mask: Any, **arrays: Any) -> list[np.ndarray]:
    """The entries of float arrays of one shape that the mask lets count, as 1-D arrays."""
    numbers = {name: as_numbers(name, array) for name, array in arrays.items()}
    shapes = {name: array.shape for name, array in numbers.items()}
    if len(set(shapes.values())) > 1:
        raise ShapeError(f"The arrays must have one shape, but there are {shapes}.")
    shape = next(iter(shapes.values()))
    check_unmasked("mask", mask)
    counts = np.ones(shape, bool) if mask is None else np.asarray(mask)
    if counts.dtype != bool or counts.shape != shape:
        raise ShapeError(
            f"The mask must be boolean and of shape {shape}; it is {counts.dtype} of shape "
            f"{counts.shape}."
        )
    if not counts.any():
        raise DataError("Not a single entry counts, so there is nothing to average.")
    for name, array in numbers.items():
        check_finite(name, array[counts])
    return [array[counts] for array in numbers.values()]


def as_numbers(name: str, array: Any) -> np.ndarray:
    """A float64 array, or an error that names it."""
    check_unmasked(name, array)
    try:
        return np.asarray(array, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{name}` cannot be read as numbers: {error}.") from error


def check_unmasked(name: str, array: Any) -> None:
    """Refuse masked entries of NumPy, alone or in a list: as plain arrays they would all count."""
    parts = array if isinstance(array, list | tuple) else [array]
    if any(np.ma.is_masked(part) for part in parts):
        raise DataError(
            f"`{name}` has masked entries, which would count. Give plain arrays with `mask=`, True "
            "where an entry counts, or NaN in a history; where a metric has neither, leave such "
            "entries out."
        )


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinity, which would make any average meaningless."""
    if not np.isfinite(array).all():
        raise DataError(
            f"`{name}` holds NaN or an infinity among the entries that count. Leave them out with "
            "a mask, or find out where they come from."
        )


def as_flags(name: str, array: Any) -> np.ndarray:
    """A 1-D boolean array from booleans or from zeros and ones."""
    check_unmasked(name, array)
    flags = np.asarray(array)
    if flags.ndim != 1:
        raise ShapeError(f"`{name}` must have one dimension, time; its shape is {flags.shape}.")
    if flags.dtype != bool and not np.isin(flags, (0, 1)).all():
        raise DataError(f"`{name}` must hold only True and False, or 1 and 0.")
    return flags.astype(bool)
