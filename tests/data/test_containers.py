import contextlib
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orderless.data import read_cases, read_labels, read_panel
from orderless.errors import DataError, OrderlessError

READ = [
    lambda data: read_panel(data),
    lambda data: read_cases(data),
    lambda data: read_panel({"x": data, "y": [1.0] * 3}),
    lambda data: read_panel({"x": [1.0] * 3, "name": data}, group="name"),
    lambda data: read_panel({"time": data, "x": [1.0] * 3}, time="time"),
    lambda data: read_panel({"unique_id": ["a"] * 3, "time": [1, 2, 3], "y": data}),
    lambda data: read_labels(data, 3),
]

REFUSED = {
    "masked dates": np.ma.array(np.arange(3).astype("M8[D]"), mask=[0, 1, 0]),
    "masked durations": np.ma.array(np.arange(3).astype("m8[s]"), mask=[0, 1, 0]),
    "masked complex": np.ma.array([1 + 2j, 1, 1], mask=[0, 1, 0]),
    "masked text": np.ma.array(["a", "b", "c"], mask=[0, 1, 0]),
    "masked records": np.ma.array([(1, 2.0)] * 3, dtype=[("a", int), ("b", float)]),
    "a huge integer": [[10**400]] * 3,
    "a huge integer, negative": np.array([1, -(10**400), 2], object),
    "a huge fraction": np.array([Fraction(10**400, 3)] * 3, object),
    "a huge decimal": np.array([Decimal("1e400")] * 3, object),
    "a long double beyond doubles": np.full(3, np.finfo(np.longdouble).max),
    "complex objects": np.array([1j, 1, 2], object),
    "a complex tensor": torch.zeros(3, dtype=torch.complex64),
    "a tensor without values": torch.zeros(3, device="meta"),
    "text among numbers": np.array([1.0, "2", 3], object),
    "bytes": np.array([b"1", b"2", b"3"]),
    "arrays within objects": np.array([np.zeros(2), 1, 2], object),
    "dicts": [{"a": 1}, {"a": 2}],
    "frames in a nest": [[pd.DataFrame({"a": [1.0]})]],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_number_is_refused_whatever_holds_it(kind):
    for read in READ[:2]:
        with pytest.raises(DataError):
            read(REFUSED[kind])


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", REFUSED)
def test_no_container_raises_an_error_of_somebody_else(kind, read):
    with contextlib.suppress(OrderlessError):
        read(REFUSED[kind])


NUMBERS = hnp.arrays(
    st.sampled_from(["f2", "f4", "f8", ">f8", "i1", "u8", "?", ">i4", "longdouble"]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements={"min_value": 0, "max_value": 1},
)


@settings(max_examples=100)
@given(array=NUMBERS, data=st.data())
def test_every_container_of_the_same_numbers_says_the_same(array, data):
    mask = data.draw(hnp.arrays(bool, array.shape))
    plain = np.where(mask, np.nan, array.astype(np.float64))
    objects = np.where(mask, np.array(None), array.astype(np.float64).astype(object))
    masked = np.ma.array(array, mask=mask)
    rows = [np.ma.array(row, mask=gaps) for row, gaps in zip(array, mask, strict=True)]
    tensor = torch.tensor(plain)
    nests = [[plain], plain[None], [masked], [rows], [tensor]]
    for form in [plain, masked, objects, objects.tolist(), tensor, *nests]:
        (system,) = read_panel(form).systems
        assert np.array_equal(system.values, plain.T, equal_nan=True)
    # A list of arrays is one system each.
    alone = [one.values[0] for one in read_panel(rows).systems]
    assert np.array_equal(alone, plain, equal_nan=True)


@settings(max_examples=100)
@given(array=NUMBERS, data=st.data())
def test_the_columns_of_a_dict_pass_the_same_gate(array, data):
    mask = data.draw(hnp.arrays(bool, array.shape))
    plain = np.where(mask, np.nan, array.astype(np.float64))
    masked = np.ma.array(array, mask=mask)
    (system,) = read_panel({str(one): masked[:, one] for one in range(array.shape[1])}).systems
    assert np.array_equal(system.values, plain.T, equal_nan=True)


@pytest.mark.parametrize(
    "number", [2**70, -(2**64), Decimal("1.5"), Fraction(1, 2), np.bool_(True)]
)
def test_numbers_of_python_are_numbers(number):
    column = np.array([number, None, 3], object)
    expected = [float(number), np.nan, 3.0]
    for data in (column, column[:, None], column.tolist(), {"x": column}, pl.Series(expected)):
        (system,) = read_panel(data).systems
        assert np.array_equal(system.values[0], expected, equal_nan=True)


WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("polars", "narwhals", "pandas", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
import numpy as np, torch
from orderless.data import (
    read_cases, read_labels, read_panel, read_table, write_forecast, write_scores, write_table
)
from orderless.errors import DataError
for data in (np.ones((9, 2)), torch.ones(9, 2), [np.ones((9, 2)), torch.ones(5)], [[1.0, 2.0]] * 3):
    panel = read_panel(data)
    write_forecast(panel, {"": [np.zeros((len(one.variables), 2)) for one in panel.systems]})
    write_scores(panel, [one.values for one in panel.systems])
assert len(read_cases(np.ones((4, 2, 9))).systems) == 4
assert read_labels(["a", "b"], 2).tolist() == ["a", "b"]
open(sys.argv[1], "w").write("x\\n1\\n")
for ask in (
    lambda: read_panel({"x": [1.0, 2.0]}),
    lambda: read_table(sys.argv[1]),
    lambda: write_table({"x": [1.0]}, sys.argv[1]),
):
    try:
        ask()
    except DataError as error:
        assert "polars" in str(error), error
    else:
        raise AssertionError("not refused")
"""


def test_arrays_need_no_frame_library_and_frames_ask_for_it_in_words(tmp_path):
    arguments = [sys.executable, "-c", WITHOUT, str(tmp_path / "a.csv")]
    subprocess.run(arguments, check=True)


FORKED = """
import os, sys
import numpy as np
from orderless.data import read_panel
from orderless.errors import DataError
frame = {"time": ["2026-01-01", "2026-01-02"], "x": [1.0, 2.0]}
read_panel(np.ones(9))
assert not {"polars", "narwhals", "pandas", "pyarrow"} & set(sys.modules), "imported too soon"
for used in (False, True):
    if not os.fork():
        read_panel(np.ones(9))
        try:
            read_panel(frame)
        except DataError as error:
            assert used and "spawn" in str(error)
        else:
            assert not used
        os._exit(0)
    assert os.wait()[1] == 0
    read_panel(frame)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_reads_frames_or_says_why_not():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)
