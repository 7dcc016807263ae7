import pandas as pd
import polars as pl
import pytest

from orderless.data import read_panel
from orderless.data.timestamps import parse_text, write_text


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-01", "2024-01-02"],
        ["2024-01-01 10:00", "2024-01-01 10:15"],
        ["2024-01-01T10:00:00.5", "2024-01-01T10:00:01.0"],
        ["2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z"],
        ["2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"],
        ["2016/7/1 0:00", "2016/7/1 1:00"],
        ["01.01.2020 00:10:00", "01.01.2020 00:20:00"],
        ["13/01/2024", "14/01/2024"],
        ["01/13/2024", "01/14/2024"],
        ["2024-01", "2024-02"],
        ["20240101", "20240102"],
    ],
)
def test_time_stamps_written_as_text_are_read(texts):
    panel = read_panel(pl.DataFrame({"when": texts, "x": [1.0, 2.0]}))
    assert panel.form.time.kind == "text"
    expected = [
        pd.to_datetime(one, dayfirst=one.startswith("1") or "." in one, utc=True) for one in texts
    ]
    assert panel.systems[0].times.tolist() == [one.value for one in expected]


def test_a_clock_of_twelve_hours_is_read_and_written_back():
    texts = ["1/31/2026 11:00 AM", "1/31/2026 12:00 PM"]
    times, form = parse_text(texts, "here")
    assert times.astype("M8[m]").astype(str).tolist() == ["2026-01-31T11:00", "2026-01-31T12:00"]
    assert write_text(times, form) == ["01/31/2026 11:00 AM", "01/31/2026 12:00 PM"]
