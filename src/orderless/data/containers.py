"""One gate for every container of numbers: arrays, tensors, masked arrays, nested lists.

What passes is an ordinary NumPy array. Masked entries, None, NaN and the missing values of other
libraries are missing; what is no number is refused in words. Nothing here needs a frame library.
"""

import warnings
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from orderless.errors import DataError

# Differences and squares of larger numbers, in units of their scale, would overflow to NaN.
LARGEST = 1e300


def is_missing(value: Any) -> bool:
    """Whether an object stands for no value: None, NaN, or the missing values of a library."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(value != value)


def to_array(data: Any, where: str) -> np.ndarray:
    """What a container holds, as an ordinary array in which masked entries are missing."""
    try:
        if hasattr(data, "detach"):
            data = data.detach().cpu()
            # NumPy does not know every type of PyTorch, such as bfloat16.
            data = data.double() if data.is_floating_point() else data
        if isinstance(data, np.ma.MaskedArray):
            return _unmask(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.asarray(_unmask_within(data))
    except Exception as error:  # containers of other libraries have errors of their own
        raise _refusal(where, error) from error


def to_numbers(data: Any, where: str) -> np.ndarray:
    """A float64 array with NaN where something is missing."""
    array = to_array(data, where)
    try:
        if array.dtype.kind == "O":
            numbers = np.array([to_number(one) for one in array.ravel().tolist()], np.float64)
            return numbers.reshape(array.shape)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"values of type {array.dtype}")
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(where, error) from error
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def to_number(entry: Any) -> float:
    """An entry of an object array as a number; NaN where it is missing, else an error of Python."""
    if is_missing(entry):
        return np.nan
    if isinstance(entry, Real | Decimal | np.bool_):
        return float(entry)
    if getattr(entry, "ndim", None) == 0 and hasattr(entry, "item"):
        return to_number(entry.item())
    raise TypeError(f"{repr(entry)[:40]} is no number")


def find_too_large(values: np.ndarray) -> tuple[tuple[int, ...], str] | None:
    """The place of a number that no computation survives, and how to call it; None without one."""
    if values.size and max(np.fmax.reduce(values, None), -np.fmin.reduce(values, None)) > LARGEST:
        place = tuple(np.argwhere(np.abs(values) > LARGEST)[0].tolist())
        value = values[place]
        name = f"the number {value:g}, which is too large,"
        return place, "an infinity" if np.isinf(value) else name
    return None


def _unmask(values: np.ma.MaskedArray) -> np.ndarray:
    """A plain array in which masked entries are missing: NaN, NaT or None."""
    array, mask = values.data, np.ma.getmaskarray(values)
    # Records have a mask of records, and nothing reads them anyway.
    if mask.dtype != bool or not mask.any():
        return array
    if array.dtype.kind in "biuf":
        return np.where(mask, np.nan, array)
    if array.dtype.kind in "mM":
        return np.where(mask, np.array("NaT", array.dtype), array)
    return np.where(mask, np.array(None), array.astype(object))


def _unmask_within(data: Any) -> Any:
    """Nested lists in which no masked array is left, whose mask NumPy would ignore."""
    if isinstance(data, np.ma.MaskedArray):
        return _unmask(data)
    if isinstance(data, list | tuple):
        nests = (list, tuple, np.ma.MaskedArray)
        return [_unmask_within(one) if isinstance(one, nests) else one for one in data]
    return data


def _refusal(where: str, error: Exception) -> DataError:
    return DataError(
        f"{where[0].upper()}{where[1:]} cannot be read ({str(error)[:200]}). Give a frame, an "
        "array of numbers, or a list of such arrays."
    )
