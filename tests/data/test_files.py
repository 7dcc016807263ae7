import numpy as np
import pandas as pd
import polars as pl
import pytest

from orderless.data import files, read_panel, read_table, write_table
from orderless.errors import DataError

NAMELESS = {
    "rows left": (pd.Index([0, 1, 3]), "none"),
    "rows twice": (pd.Index([0, 1, 0]), "none"),
    "halves": (pd.Index([0.5, 1.5, 7.0]), "none"),
    "a plain range": (pd.RangeIndex(3), "none"),
    "time stamps": (pd.date_range("2024", periods=3), "datetime"),
    "zoned": (pd.date_range("2024", periods=3, tz="Europe/Paris"), "datetime"),
    "durations": (pd.timedelta_range("0s", periods=3, freq="s"), "duration"),
    "dates as text": (pd.Index(["2024-01-01", "2024-01-02", "2024-01-03"]), "text"),
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_an_index_without_a_name_in_parquet_is_time_or_nothing(kind, tmp_path):
    index, time = NAMELESS[kind]
    pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=index).to_parquet(tmp_path / "a.parquet")
    panel = read_panel(read_table(tmp_path / "a.parquet"))
    assert panel.variables == ("x",)
    assert panel.systems[0].values.tolist() == [[1, 2, 4]]
    assert panel.form.time.kind == time


def test_a_level_of_an_index_in_parquet_can_still_tell_systems_apart(tmp_path):
    days = pd.date_range("2024", periods=2)
    for number, names in enumerate(([None, None], [None, "date"], ["id", None])):
        index = pd.MultiIndex.from_product([[7, 8], days], names=names)
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=index).to_parquet(path)
        panel = read_panel(read_table(path), group=names[0] or files.NAMELESS_INDEX)
        assert [one.name for one in panel.systems] == [7, 8]
        assert panel.variables == ("x",)


def test_a_damaged_parquet_file_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read_table(tmp_path / "a.parquet")


def test_files_that_are_not_there_or_of_unknown_kind_are_refused(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(DataError, match=r"does not end in \.csv"):
        read_table(tmp_path / "a.xlsx")


TABLES = {
    "polars": pl.DataFrame({"time": [1, 2], "a,b": [1.5, 2.5]}),
    "pandas": pd.DataFrame({"time": [1, 2], "a,b": [1.5, 2.5]}),
    "pandas index": pd.DataFrame({"a,b": [1.5, 2.5]}, index=pd.Index([1, 2], name="time")),
    "arrow": pl.DataFrame({"time": [1, 2], "a,b": [1.5, 2.5]}).to_arrow(),
    "dict": {"time": np.array([1, 2]), "a,b": np.array([1.5, 2.5])},
}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("kind", TABLES)
def test_what_is_written_can_be_read(kind, ending, tmp_path):
    path = tmp_path / f"a{ending}"
    write_table(TABLES[kind], path)
    assert list(tmp_path.iterdir()) == [path]
    (system,) = read_panel(read_table(path)).systems
    assert system.variables == ("a,b",)
    assert system.values.tolist() == [[1.5, 2.5]]
    assert system.times.tolist() == [1, 2]


def test_a_dict_of_columns_is_written_as_parquet(tmp_path):
    columns = {"case": ["x", "y"], "class": np.array(["a", "b"]), "p": np.array([0.5, 1.0])}
    write_table(columns, tmp_path / "classes.parquet")
    assert pl.read_parquet(tmp_path / "classes.parquet").to_dict(as_series=False) == {
        "case": ["x", "y"],
        "class": ["a", "b"],
        "p": [0.5, 1.0],
    }


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(DataError, match="differ in length"):
        write_table({"x": [1, 2], "y": [1]}, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        write_table({"x": [1]}, tmp_path / "nowhere" / "a.csv")
    with pytest.raises(DataError, match="must end in"):
        write_table({"x": [1]}, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("table", "words"),
    [(np.ones((2, 2)), "this is a ndarray"), ({"a": [1, 2], "b": [1]}, "differ in length")],
    ids=["array", "uneven"],
)
def test_what_is_no_table_is_not_written(table, words, tmp_path):
    with pytest.raises(DataError, match=words):
        write_table(table, tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_replaced_by_the_table_and_what_it_led_to_stays(tmp_path):
    (tmp_path / "old.csv").write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to("old.csv")
    write_table({"a": np.array([2])}, tmp_path / "link.csv")
    assert not (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "old.csv").read_text() == "a\n1\n"


def test_parquet_that_cannot_be_written_is_an_error_with_its_name(tmp_path, monkeypatch):
    def fail(*_):
        raise pl.exceptions.ComputeError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(DataError, match=r"a\.parquet cannot be written as parquet: No space left"):
        write_table(pl.DataFrame({"x": [1.0]}), tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())
