"""How often a class was named rightly."""

from typing import Any

import numpy as np

from orderless.errors import DataError, ShapeError
from orderless.metrics.arrays import check_unmasked


def accuracy(actual: Any, predicted: Any) -> float:
    """The share of cases whose predicted class is the actual one."""
    check_unmasked("actual", actual)
    check_unmasked("predicted", predicted)
    actual, predicted = np.asarray(actual), np.asarray(predicted)
    if actual.shape != predicted.shape or actual.ndim != 1:
        raise ShapeError(
            f"Give one class for each case; there are {actual.shape} actual and {predicted.shape} "
            "predicted ones."
        )
    if not len(actual):
        raise DataError("There is not a single case to score.")
    for name, labels in (("actual", actual), ("predicted", predicted)):
        if any(one is None or one != one for one in labels.tolist()):
            raise DataError(f"A class in `{name}` is missing. Leave such cases out.")
    return float(np.mean(actual == predicted))
