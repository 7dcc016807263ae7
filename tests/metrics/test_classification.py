import numpy as np
import pytest

from orderless.errors import DataError, ShapeError
from orderless.metrics import accuracy


def test_accuracy_is_the_share_of_right_classes():
    assert accuracy(["a", "b", "c", "a"], ["a", "b", "a", "a"]) == 0.75
    assert accuracy([1, 2], [2, 1]) == 0.0


def test_what_has_no_accuracy_is_refused():
    with pytest.raises(ShapeError, match="one class for each case"):
        accuracy(["a"], ["a", "b"])
    with pytest.raises(DataError, match="not a single case"):
        accuracy([], [])
    with pytest.raises(DataError, match="`predicted` is missing"):
        accuracy([1.0], [float("nan")])


def test_masked_cases_are_refused():
    masked = np.ma.masked_array([1, 2], mask=[False, True])
    for pair in ((masked, [1, 2]), ([1, 2], masked)):
        with pytest.raises(DataError, match="masked entries, which would count"):
            accuracy(*pair)
