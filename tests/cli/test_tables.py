import io

import numpy as np
import polars as pl
import pytest

from orderless.cli.tables import add_column, get_column, open_series, put_table, take_labels
from orderless.errors import DataError

TABLE = pl.DataFrame({"case": ["b", "b", "a"], "class": ["x", "x", "y"], "v": [1.0, 2.0, 3.0]})


def test_classes_come_in_order_of_the_first_appearance_of_their_case():
    rest, classes = take_labels(TABLE, "class", "case")
    assert classes.tolist() == ["x", "y"]
    assert rest.columns == ["case", "v"]


def test_a_column_can_be_added_and_read():
    more = add_column(TABLE, "alarm", np.array([True, False, True]))
    assert get_column(more, "alarm").to_list() == [True, False, True]
    with pytest.raises(DataError, match="no column 'nowhere'"):
        get_column(more, "nowhere")


def test_cases_of_a_ts_file_become_groups_of_a_table(files):
    table, columns = open_series(files / "cases.ts", {})
    assert columns == {"time": None, "variable": None, "value": None, "group": "case"}
    assert table.columns == ["case", "v0", "v1", "v2"]
    assert table["case"].n_unique() == 9


@pytest.mark.parametrize("labels", [[1.0, None, None], [1.0, 1.0, None], ["x", None, None]])
def test_a_missing_label_is_not_a_class(labels):
    table = pl.DataFrame({"case": ["b", "a", "a"], "class": labels, "v": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match=r"label of case 'a' is missing\. Leave such cases out"):
        take_labels(table, "class", "case")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_name_is_written_in_utf_8_whatever_standard_output_speaks(encoding, monkeypatch):
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(content, encoding=encoding))
    print("before")
    put_table({"温度": np.array([1.5])}, None)
    assert content.getvalue().decode() == "before\n温度\n1.5\n"


def test_a_standard_output_without_bytes_takes_text(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    put_table({"温度": np.array([1.5])}, None)
    assert shown.getvalue() == "温度\n1.5\n"
