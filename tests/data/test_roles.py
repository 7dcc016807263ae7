import numpy as np
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
    with pytest.raises(DataError, match="Row 1 of column 'plant' is empty"):
        read_panel(frame, group="plant")


def test_a_decimal_comma_is_recognised():
    with pytest.raises(DataError, match="with a point here"):
        read_panel({"a": ["0,5", "1,5"], "b": [1, 2]})


def test_time_stamps_that_cannot_be_read_are_not_said_to_be_numbers():
    with pytest.raises(DataError, match="cannot be read as a time stamp"):
        read_panel({"time": ["noon", "midnight"], "a": [1, 2], "b": [1, 2]})


HOURS = pd.date_range("2026-01-01", periods=48, freq="h")
READINGS = 10 + np.sin(np.arange(48.0))


@pytest.mark.parametrize("name", ["time", "clock"])
@pytest.mark.parametrize("columns", [3, 4])
def test_a_clock_beside_a_date_names_no_variables(name, columns):
    days, clocks = HOURS.strftime("%Y-%m-%d"), HOURS.strftime("%H:%M")
    frame = pd.DataFrame({"date": days, name: clocks, "load": READINGS, "more": READINGS})
    frame = frame.iloc[:, :columns]
    with pytest.raises(DataError, match="'00:00' in row 0, a time of day without its date") as info:
        read_panel(frame)
    advice = str(info.value).partition("with pandas: ")[2].rstrip(".")
    for dates in (frame, frame.assign(date=pd.to_datetime(days))):
        exec(advice, {"frame": dates})
        (system,) = read_panel(dates).systems
        assert system.times.tolist() == HOURS.as_unit("ns").asi8.tolist()


@pytest.mark.parametrize("index", [None, pd.RangeIndex(3), HOURS[:3].rename("date")])
def test_a_clock_without_a_column_of_dates_is_refused(index):
    frame = pd.DataFrame({"time": [None, "1:05 pm", "2:05 pm"], "a": [1, 2, 3]}, index)
    for one in (frame, pl.from_pandas(frame)):
        with pytest.raises(DataError, match=r"'1:05 pm' in row 1, .* as in 2026-12-31 23:59\.$"):
            read_panel(one)


@pytest.mark.parametrize("readings", [READINGS.round(2), np.arange(48) % 3, np.zeros(48, int)])
def test_readings_with_an_error_among_them_name_no_variables(readings):
    texts = readings.astype(str).astype(object)
    texts[30] = "ERR"
    with pytest.raises(DataError, match="column 'a' holds 'ERR' in row 30 where numbers"):
        read_panel({"time": HOURS, "a": texts, "b": READINGS})


@pytest.mark.parametrize("readings", [READINGS.round(1), np.full(48, 0.5)])
def test_decimal_commas_name_no_variables(readings):
    texts = [str(one).replace(".", ",") for one in readings]
    with pytest.raises(DataError, match=r"in row 0 where numbers .* with a point here"):
        read_panel({"time": HOURS, "a": texts, "b": READINGS})


def test_a_decimal_comma_is_recognised_after_whole_numbers():
    with pytest.raises(DataError, match=r"'10,5' in row 1 .* with a point here"):
        read_panel({"time": HOURS[:3], "a": ["10", "10,5", "11"], "b": [1, 2, 3]})


@pytest.mark.parametrize("text", ["1,234,567", "1_234"])
def test_thousands_set_apart_name_no_variables(text):
    with pytest.raises(DataError, match=f"'{text}' in row 2"):
        read_panel({"time": HOURS[:3], "a": ["1", "2", text], "b": [1, 2, 3]})


@pytest.mark.parametrize("ids", [("1",), ("1", "2", "10"), ("1", "2", "A3"), ("1_1", "1_2")])
def test_whole_numbers_name_variables_where_they_stand_at_every_time(ids):
    rows = [(when, one, 1.0) for when in HOURS for one in ids][:-1]
    panel = read_panel(pd.DataFrame(rows, columns=["when", "station", "level"]))
    assert panel.variables == ids


@pytest.mark.parametrize(
    ("first", "odd"),
    [
        ("2026-01-01 00:00", "2026-01-13 12h"),
        ("2026-01-01 00:00", "13.01.2026 12:00"),
        ("02/01/2026", "01/13/2026"),
        ("noon", None),
    ],
)
def test_the_first_time_stamp_that_cannot_be_read_is_named(first, odd):
    texts = [None, first, first.replace("02/", "13/"), None, odd, odd]
    words = f"'{odd}' in row 4" if odd else f"'{first}' in row 1"
    with pytest.raises(DataError, match=f"{words}, which cannot be read as a time stamp"):
        read_panel({"time": texts, "a": range(6)})


@pytest.mark.parametrize(
    "names", [("1", "2"), ("7A", "8"), ("1e5", "2e5"), ("-1", "-2"), ("12.5", "1,3")]
)
def test_numbers_as_text_name_variables_where_time_stamps_have_several_rows(names):
    days = np.arange("2026-01-01", "2026-01-31", dtype="M8[D]").astype("M8[ns]")
    parts = zip(names, (30, 10), strict=True)
    rows = [pd.DataFrame({"date": days[:n], "store": name, "sales": 1.0}) for name, n in parts]
    assert read_panel(pd.concat(rows)).variables == names


@pytest.mark.parametrize("groups", [1, 2])
def test_a_remark_beside_each_reading_is_not_taken_for_the_name_of_a_variable(groups):
    frame = pl.DataFrame(
        {
            "time": list(pd.date_range("2026-01-01", periods=4, freq="h")) * groups,
            "level": np.arange(4.0 * groups),
            "status": ["ok", "ok", "late", "ok"] * groups,
            "site": np.repeat(["a", "b"][:groups], 4),
        }
    )
    columns = {"group": "site"} if groups > 1 else {}
    if not columns:
        frame = frame.drop("site")
    with pytest.raises(DataError, match=r"column 'status' may name .* Pass variable= if"):
        read_panel(frame, **columns)
    assert read_panel(frame, variable="status", **columns).variables == ("ok", "late")
    assert read_panel(frame.drop("status"), **columns).variables == ("level",)


def test_one_name_at_all_times_is_the_name_of_a_variable():
    stamps = pd.date_range("2026-01-01", periods=4, freq="h")
    frame = pl.DataFrame({"time": stamps, "level": np.arange(4.0), "what": ["tank"] * 4})
    assert read_panel(frame).variables == ("tank",)
