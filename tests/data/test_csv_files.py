import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import read_panel, read_table
from orderless.errors import DataError

CSV = """date,α,on,count,gap
2024-01-01 00:00,1.5,true,1,
2024-01-01 01:00,-2e3,false,2,NaN
2024-01-01 02:00,0.25,true,30000000000,7
"""


def panel_of(folder, text, name="a.csv", **columns):
    path = folder / name
    path.write_bytes(text.encode())
    return read_panel(read_table(path), **columns)


def test_numbers_truth_values_gaps_and_time_stamps_are_read(tmp_path):
    (tmp_path / "a.csv").write_text(CSV, "utf-8")
    table = read_table(tmp_path / "a.csv")
    (system,) = read_panel(table).systems
    assert system.variables == ("α", "on", "count", "gap")
    assert (
        system.times.tolist()
        == pd.date_range("2024", periods=3, freq="h").as_unit("ns").asi8.tolist()
    )
    nan = np.nan
    expected = [[1.5, -2e3, 0.25], [1, 0, 1], [1, 2, 3e10], [nan, nan, 7]]
    assert np.array_equal(system.values, expected, equal_nan=True)


CELLS = {
    "float": st.floats(-1e9, 1e9).map(repr),
    "int": st.integers(-(2**31), 2**31).map(str),
    "bool": st.sampled_from(["true", "false"]),
    "gaps": st.sampled_from(["1.5", "", "NA", "NaN", "null", "-2"]),
}
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), min_size=1)
NAMES = NAMES.filter(lambda name: name != "time")


@settings(max_examples=40)
@given(data=st.data(), names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_any_csv_is_read_cell_by_cell(data, names):
    rows = data.draw(st.integers(2, 6))
    kinds = [data.draw(st.sampled_from(list(CELLS))) for _ in names]
    columns = [data.draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["time", *names], *zip(range(rows), *columns, strict=True)])
        panel = read_panel(read_table(path), time="time")
    words = {"true": "1", "false": "0", "": "nan", "NA": "nan", "null": "nan"}
    expected = [[float(words.get(cell, cell)) for cell in column] for column in columns]
    (system,) = panel.systems
    assert system.variables == tuple(names)
    assert np.array_equal(system.values, expected, equal_nan=True)


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_the_header_tells_the_separator_and_a_mark_of_bytes_is_no_name(separator, tmp_path):
    text = CSV.replace(",", separator)
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    panel = read_panel(read_table(tmp_path / "a.csv"))
    assert panel.variables == ("α", "on", "count", "gap")
    assert panel.form.time.name == "date"


def test_a_saved_index_is_dropped_or_becomes_the_time(tmp_path):
    assert panel_of(tmp_path, ",x\n0,1.5\n1,2.5\n", "counted.csv").variables == ("x",)
    panel = panel_of(tmp_path, ",x\n2024-01-01,1.5\n2024-01-02,2.5\n", "dated.csv")
    assert panel.variables == ("x",)
    assert panel.form.time.name == "time"
    panel = panel_of(tmp_path, ",date,x\n0,2024-01-01,1.5\n2,2024-01-02,2.5\n", "dropped.csv")
    assert panel.variables == ("x",)
    assert panel.form.time.name == "date"


BLANK = {
    "at the end": "a,b\n1,2\n3,4\n\n\n\n",
    "after every row": "a,b\n\n1,2\n\n3,4\n\n",
    "of Windows": "a,b\r\n1,2\r\n\r\n3,4\r\n\r\n",
    "of spaces": "a,b\n1,2\n   \n3,4\n \t\n  ",
    "beside quotes": 'a,b\n"1",2\n\n"3","4"\n\n',
    "after a mark of bytes": "\ufeffa,b\n1,2\n\n3,4\n",
    "of one column": "a\n1\n\n3\n  \n\n",
}


@pytest.mark.parametrize("kind", BLANK)
def test_blank_lines_are_no_rows(kind, tmp_path):
    (tmp_path / "a.csv").write_bytes(BLANK[kind].encode())
    (system,) = read_panel(read_table(tmp_path / "a.csv")).systems
    assert system.values.tolist() == ([[1, 3]] if "one column" in kind else [[1, 3], [2, 4]])


def test_blank_lines_are_no_rows_beside_time_stamps(tmp_path):
    (tmp_path / "a.csv").write_text(CSV + "\n\n", "utf-8")
    assert len(read_panel(read_table(tmp_path / "a.csv")).systems[0].times) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "a,b\n1,2\n,\n\n3,4\n"),
        ("a.csv", "a;b\n1;2\n;\n\n3;4\n"),
        ("a.tsv", "a\tb\n1\t2\n\t\n\n3\t4\n"),
    ],
)
def test_a_line_of_separators_is_a_row_of_missing_values(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    (system,) = read_panel(read_table(tmp_path / name)).systems
    assert np.array_equal(system.values, [[1, np.nan, 3], [2, np.nan, 4]], equal_nan=True)


def test_a_blank_line_within_quotes_is_part_of_a_text(tmp_path):
    (tmp_path / "a.csv").write_text('who,x\n"p\n\nq",1\n\n"r",2\n')
    panel = read_panel(read_table(tmp_path / "a.csv"), group="who")
    assert [one.name for one in panel.systems] == ["p\n\nq", "r"]


def test_sensors_may_be_numbered(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "time,sensor,value\n" + "".join(f"{t},{k},{t + k}\n" for t in range(3) for k in (1, 2))
    )
    assert read_panel(read_table(path)).variables == ("1", "2")


def test_spaces_around_numbers_are_no_text(tmp_path):
    (tmp_path / "a.csv").write_text(
        "date, a, b ,on,who\n2024-01-01, 1, 2.5 , true, x\n2024-01-02, -3, NA , False, x\n"
    )
    (system,) = read_panel(read_table(tmp_path / "a.csv"), group="who").systems
    assert np.array_equal(system.values, [[1, -3], [2.5, np.nan], [1, 0]], equal_nan=True)
    assert system.name == " x"


def test_nanoseconds_keep_their_digits(tmp_path):
    times = 1767225600_000_000_000 + 1000 * np.arange(5)
    rows = "".join(f"{one},1.5\n" for one in times)
    (system,) = panel_of(tmp_path, f"time,x\n{rows}").systems
    assert system.times.tolist() == times.tolist()
    assert system.frequency.count == 1000


def test_spaces_around_nanoseconds_do_not_round_them(tmp_path):
    (system,) = panel_of(
        tmp_path, "x, time\n1, 1700000000000000001\n2, 1700000000000000002\n"
    ).systems
    assert system.times.tolist() == [1700000000000000001, 1700000000000000002]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("x,x\n1,2\n", "two columns called 'x'"),
        ("x,y\n1,2\n1,2,3\n", "cannot be read as CSV|has 3 entries"),
    ],
)
def test_a_damaged_csv_is_refused_in_words(text, words, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        read_panel(read_table(tmp_path / "a.csv"))


def test_a_csv_without_rows_is_refused_when_it_is_read_as_a_panel(tmp_path):
    with pytest.raises(DataError):
        panel_of(tmp_path, "time,x\n")


def test_text_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("tempé,x\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "text", "entries"),
    [
        ("long.csv", "a,b\n1,2\n3,4,5\n", 3),
        ("short.csv", "a,b\n1,2\n3\n\n5,6\n", 1),
        # Tabs alone are a row that is too short, and no blank line.
        ("tabs.tsv", "a\tb\tc\n1\t2\t3\n\t\n4\t5\t6\n", 2),
    ],
)
def test_a_row_of_another_length_is_named(name, text, entries, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=rf"Row 3 of {name} has {entries} entries"):
        read_table(tmp_path / name)


def test_commas_at_the_end_of_lines_make_no_variable(tmp_path):
    assert panel_of(tmp_path, "a,b,\n1,2,\n3,4,\n", "trailing.csv").variables == ("a", "b")


def test_bars_separate_columns_where_nothing_else_does(tmp_path):
    (tmp_path / "bars.csv").write_text("a|b\n1|2\n")
    (tmp_path / "commas.csv").write_text("a|b|c,d\n1,2\n")
    assert read_panel(read_table(tmp_path / "bars.csv")).variables == ("a", "b")
    assert read_panel(read_table(tmp_path / "commas.csv")).variables == ("a|b|c", "d")


def test_a_file_without_a_header_is_not_robbed_of_its_first_row(tmp_path):
    (tmp_path / "bare.csv").write_text("0.5,1.5\n1,2\n")
    with pytest.raises(DataError, match=r"number 0\.5, so it is no header"):
        read_table(tmp_path / "bare.csv")
    assert panel_of(tmp_path, "0,1\n1,2\n", "numbered.csv").variables == ("0", "1")


def test_a_file_that_nobody_understands_hears_how_to_separate_columns(tmp_path):
    (tmp_path / "spaces.csv").write_text('time a\n"2026-01-01 00:00" 1\n"2026-01-01 01:00" 2\n')
    with pytest.raises(DataError, match=r"(?s)commas, semicolons, tabs or bars|time a"):
        read_panel(read_table(tmp_path / "spaces.csv"))


def test_a_file_that_breaks_off_within_its_last_row_is_refused(tmp_path):
    (tmp_path / "cut.csv").write_text("a,b,c\n1,2,3\n4,5.1")
    with pytest.raises(DataError, match="still being written"):
        read_table(tmp_path / "cut.csv")
    (tmp_path / "whole.csv").write_text('a,b,c\n1,2,3\n4,5.1,"6"\n\n')
    assert read_panel(read_table(tmp_path / "whole.csv")).variables == ("a", "b", "c")


@pytest.mark.parametrize("text", ["x" * 200_000 + "\n1\n", "a\n1\n" + "x" * 200_000])
def test_something_else_with_the_ending_of_csv_is_refused_in_words(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=r"cannot be read as CSV|holds 'xxx"):
        read_panel(read_table(tmp_path / "a.csv"))


QUOTED = {
    "in the header": '"a","b","c"\n1,2,3\n',
    "in a row": 'a,b,c\n"1",2,3\n',
    "separators": 'a,b,c\n"1,5",2,3\n',
    "doubled": 'a,b,c\n"say ""1,2""",2,3\n',
    "line breaks": 'a,b,c\n"x\n,\n\ny",2,3\n',
    "a mark of bytes": '\ufeff"a, b",b,c\n1,2,3\n',
    "of Windows": '"a","b","c"\r\n"1",2,3\r\n',
}


@pytest.mark.parametrize("short", ["4,5", '"4,5",6', '"4\n,",""""'])
@pytest.mark.parametrize("kind", QUOTED)
def test_a_short_row_after_quotes_is_named(kind, short, tmp_path):
    start = QUOTED[kind]
    (tmp_path / "whole.csv").write_bytes(f'{start}\n4,"5,\n",6\n'.encode())
    assert [len(one) for one in read_table(tmp_path / "whole.csv")] == [2] * 3
    (tmp_path / "last.csv").write_bytes(f"{start}{short}\n\n".encode())
    with pytest.raises(DataError, match=r"last row of last\.csv has 2 .* still being written"):
        read_table(tmp_path / "last.csv")
    (tmp_path / "within.csv").write_bytes(f"{start}{short}\n7,8,9\n".encode())
    with pytest.raises(DataError, match=r"Row 3 of within\.csv has 2 entries; the header has 3"):
        read_table(tmp_path / "within.csv")


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 30])
def test_integers_of_more_than_64_bits_are_numbers(number, tmp_path):
    (system,) = panel_of(tmp_path, f"time,a\n1,{number}\n2,3\n").systems
    assert system.values.tolist() == [[float(number), 3]]


def test_numbers_with_a_plus_and_nan_in_any_case_are_no_text(tmp_path):
    (system,) = panel_of(tmp_path, "time,a,b,c\n1,+3,NAN,+1.5\n2,4,-1,Nan\n3,+0,2,\n").systems
    nan = np.nan
    expected = [[3, 4, 0], [nan, -1, 2], [1.5, nan, nan]]
    assert np.array_equal(system.values, expected, equal_nan=True)


@pytest.mark.parametrize("text", ["NULL", "n/a", "N/A", "#N/A", "<NA>", "-nan", "-1.#IND"])
def test_what_stands_for_a_missing_value_does(text, tmp_path):
    (system,) = panel_of(tmp_path, f"time,a,b\n1,3,1\n2,{text},1\n").systems
    assert np.array_equal(system.values[0], [3, np.nan], equal_nan=True)


@pytest.mark.parametrize("text", ["inf", "Inf", "-INF", "+inf", "Infinity"])
def test_an_infinity_is_named_in_any_case(text, tmp_path):
    with pytest.raises(DataError, match="infinity in row 1 of column 'a'"):
        panel_of(tmp_path, f"time,a,b\n1,3,1\n2,{text},1\n")


def test_an_underscore_makes_no_number(tmp_path):
    with pytest.raises(DataError, match="column 'a' holds '1_000' in row 1"):
        panel_of(tmp_path, "time,a\n1,+2\n2,1_000\n")


HEADERS = {
    'time;"a, b, c"': ("time", "a, b, c"),
    '"a, b, c";time': ("a, b, c", "time"),
    '"a;b;c","time"': ("a;b;c", "time"),
    'time|"a,b,c"': ("time", "a,b,c"),
    'time;"a ""b"", c"': ("time", 'a "b", c'),
    'time,"a\nb"': ("time", "a\nb"),
    '"a,\n\nb,";"time"': ("a,\n\nb,", "time"),
}


@pytest.mark.parametrize("header", HEADERS)
def test_what_stands_in_quotes_does_not_divide_the_header(header, tmp_path):
    mark = next(one for one in "|;," if f'{one}"' in header or f'"{one}' in header)
    (tmp_path / "a.csv").write_text(f"{header}\n1{mark}2\n3{mark}4\n")
    table = read_table(tmp_path / "a.csv")
    assert tuple(table.columns) == HEADERS[header]
    assert [list(column) for column in table] == [[1, 3], [2, 4]]


def test_an_entry_in_quotes_may_be_long(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text('a,b\n1,"' + "x" * 300_000 + '"\n02,y\n')
    assert read_table(path).shape == (2, 2)
    assert read_table(path)["a"].to_list() == ["1", "02"]


def test_names_keep_their_leading_zeros_and_readings_are_numbers(tmp_path):
    text = "shop,sensor,time,x\n00501,01,1,010\n\n00501,1,1,020\n00502,1,2,030\n"
    roles = {"group": "shop", "variable": "sensor", "value": "x", "time": "time"}
    panel = panel_of(tmp_path, text, **roles)
    assert [one.name for one in panel.systems] == ["00501", "00502"]
    assert [one.variables for one in panel.systems] == [("01", "1"), ("1",)]
    assert panel.systems[1].values.tolist() == [[30.0]]
    panel = panel_of(tmp_path, "shop,time,x\n501,001,010\n501,2,2\n", group="shop")
    assert panel.systems[0].name == 501
    assert panel.systems[0].times.tolist() == [1, 2]
    assert panel.systems[0].values.tolist() == [[10.0, 2.0]]


@pytest.mark.parametrize("header", ["time,Sensor,value", "ds,UNIQUE_ID,y"])
def test_variables_that_are_found_by_name_keep_their_leading_zeros(header, tmp_path):
    panel = panel_of(tmp_path, f"{header}\n1,001,5\n1,010,6\n2,001,7\n2,010,8\n")
    assert panel.variables == ("001", "010")
    with pytest.raises(DataError, match="is empty"):
        panel_of(tmp_path, f"{header}\n1,001,5\n2,,6\n3,001,7\n")


def test_variables_that_are_found_by_type_keep_their_leading_zeros(tmp_path):
    panel = panel_of(tmp_path, "time,shop,sales\n1,007,5\n1,7,6\n2,007,7\n2,7,8\n")
    assert panel.variables == ("007", "7")


@pytest.mark.parametrize("header", ["time,sensor,b", "time,b,tag,series,y"])
def test_readings_under_the_name_of_a_column_of_names_are_numbers(header, tmp_path):
    rows = [",".join([str(hour), *["0" + str(hour)] * header.count(",")]) for hour in range(12)]
    (system,) = panel_of(tmp_path, "\n".join([header, *rows])).systems
    assert system.variables == tuple(header.split(",")[1:])
    assert (system.values == np.arange(12)).all()
    # A table of these names is long where its names are whole numbers.
    panel = panel_of(tmp_path, "time,sensor,value\n1,01,3\n2,1.5,4\n")
    assert panel.variables == ("sensor", "value")


def test_zeros_of_other_kinds_make_no_text(tmp_path):
    row = "2026-01-01 00:00,01:30,01/02,7,0,0.05,-0.07,a-01\n"
    (tmp_path / "a.csv").write_text("time,clock,day,shop,a,b,c,d\n" + row)
    table = read_table(tmp_path / "a.csv")
    assert [str(one) for one in table.dtypes[3:7]] == ["Int64", "Int64", "Float64", "Float64"]


@pytest.mark.parametrize("entry", ["07", '"07"', " 07", "07 "])
@pytest.mark.parametrize("row", ["{}", "{},1", "1;{}", "1\t{}\t2\r", "1|{}"])
def test_a_leading_zero_is_found_wherever_it_stands(row, entry, tmp_path):
    text = "\n".join(map(row.format, ("shop", "1", entry)))
    (tmp_path / "a.csv").write_text(text, newline="")
    table = read_table(tmp_path / "a.csv")
    assert [one.strip() for one in table["shop"]][1:] == ["07"]


def test_a_name_of_a_file_is_no_pattern(tmp_path):
    panel = panel_of(tmp_path, "x\n1\n2\n", "a[1]*.csv")
    assert panel.variables == ("x",)
