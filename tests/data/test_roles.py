import pandas as pd
import polars as pl
import pytest

from orderless.data import read_panel
from orderless.errors import DataError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": "when"}, "no column 'when' to take as time"),
        ({"group": "plant"}, "no column 'plant' to take as group"),
        ({"variable": "x", "value": "nothing"}, "no column 'nothing'"),
        ({"value": "x"}, "Which column is the variable"),
        ({"time": "time", "group": "time"}, "one role only"),
    ],
)
def test_columns_named_wrongly_are_refused(options, words):
    with pytest.raises(DataError, match=words):
        read_panel(pl.DataFrame({"time": [1, 2], "x": [1.0, 2.0]}), **options)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("unique_id", "ds", "y"), "long"),
        (("item_id", "timestamp", "target"), "long"),
        (("variable", "time", "value"), "long"),
        (("station", "when", "level"), "long"),
    ],
)
def test_long_frames_are_recognised(names, kind):
    variable, time, value = names
    stamps = pd.to_datetime(["2024-01-01", "2024-01-02"] * 2)
    frame = pd.DataFrame({variable: ["a", "a", "b", "b"], time: stamps, value: [1.0, 2, 3, 4]})
    panel = read_panel(frame)
    assert panel.form.kind == kind
    assert panel.systems[0].values.tolist() == [[1, 2], [3, 4]]


def test_a_long_frame_without_time_counts_the_rows_of_each_variable():
    frame = pl.DataFrame({"tag": ["a", "b", "a", "b"], "reading": [1.0, 2.0, 3.0, 4.0]})
    (system,) = read_panel(frame, variable="tag", value="reading").systems
    assert system.values.tolist() == [[1, 3], [2, 4]]


def test_a_long_frame_with_groups_couples_nothing_between_them():
    frame = pl.DataFrame(
        {
            "plant": ["p", "p", "q", "q"],
            "unique_id": ["a", "b", "b", "c"],
            "ds": [1, 1, 1, 1],
            "y": [1.0, 2.0, 3.0, 4.0],
        }
    )
    panel = read_panel(frame, group="plant")
    assert [system.variables for system in panel.systems] == [("a", "b"), ("b", "c")]
    assert [system.values.tolist() for system in panel.systems] == [[[1], [2]], [[3], [4]]]


def test_a_long_frame_with_a_column_too_many_is_refused():
    frame = pl.DataFrame({"unique_id": ["a"], "ds": [1], "y": [1.0], "price": [2.0]})
    with pytest.raises(DataError, match="'price' is none of them"):
        read_panel(frame)


def test_a_group_or_variable_without_a_name_is_refused():
    frame = pd.DataFrame({"plant": ["a", None], "time": [1, 2], "x": [1.0, 1.0]})
    with pytest.raises(DataError, match="Row 1 of column 'plant' names nothing"):
        read_panel(frame, group="plant")


def test_a_decimal_comma_is_recognised():
    with pytest.raises(DataError, match="with a point here"):
        read_panel({"a": ["0,5", "1,5"], "b": [1, 2]})


def test_time_stamps_that_cannot_be_read_are_not_said_to_be_numbers():
    with pytest.raises(DataError, match="cannot be read as a time stamp"):
        read_panel({"time": ["noon", "midnight"], "a": [1, 2], "b": [1, 2]})
