import numpy as np
import pytest

from orderless.data import read_ts
from orderless.errors import DataError

TS = """# a comment
@problemName Tiny
@timeStamps false
@univariate false
@dimensions 2
@equalLength false
@classLabel true up down
@data
1,2,3:4,5,6:up
1,?:7,NaN:down
"""


def test_ts_files_are_read(tmp_path):
    (tmp_path / "a.ts").write_text(TS)
    cases, labels = read_ts(tmp_path / "a.ts")
    assert labels.tolist() == ["up", "down"]
    assert cases[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.array_equal(cases[1], [[1, np.nan], [7, np.nan]], equal_nan=True)


def test_a_ts_file_without_classes_has_no_labels(tmp_path):
    (tmp_path / "a.ts").write_text("@classLabel false\n@data\n1,2:3\n")
    cases, labels = read_ts(tmp_path / "a.ts")
    assert labels is None
    assert np.array_equal(cases[0], [[1, 2], [3, np.nan]], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2:a\n", "before @data"),
        ("@data\n1:a\n", "no line @classLabel"),
        ("@timestamps true\n@classLabel true\n@data\n(0,1):a\n", "time stamps inside"),
        ("@classLabel true a\n@data\n", "holds no case"),
        ("@classLabel true a\n@data\nx,y:a\n", "Line 3 .* does not hold numbers"),
        ("@classLabel true a\n@data\n1:2:a\n1:a\n", "Line 4 .* has 1 variables"),
        ("@classLabel true a\n@data\na\n", "has 0 variables"),
    ],
)
def test_a_damaged_ts_file_is_refused_with_the_line(text, words, tmp_path):
    (tmp_path / "a.ts").write_text(text)
    with pytest.raises(DataError, match=words):
        read_ts(tmp_path / "a.ts")


def test_a_case_without_its_class_is_named(tmp_path):
    (tmp_path / "cases.ts").write_text("@classLabel true a b\n@data\n1,2:a\n3,4:\n")
    with pytest.raises(DataError, match=r"Line 4 .* has no class"):
        read_ts(tmp_path / "cases.ts")
