import copy
from dataclasses import replace

import numpy as np
import pytest

import orderless
from orderless import Forecaster
from orderless.data import read_panel
from orderless.data.simulate import plant
from orderless.errors import DataError
from orderless.estimators import pictures
from orderless.estimators.alarms import Scores
from orderless.estimators.intervals import column_endings
from orderless.estimators.pictures import (
    Ahead,
    Outlook,
    draw_anomalies,
    draw_backtest,
    draw_forecast,
    draw_outlooks,
)

TINY = {"channels": 8, "states": 2, "branches": ["long"]}


def fit_detector(data, context=24):
    return orderless.Detector(context, network=TINY, epochs=1, verbose=False).fit(data)


@pytest.fixture(scope="module")
def data():
    return plant(0, sensors=4, steps=120, period=12)[0]


@pytest.fixture(scope="module")
def forecaster(data):
    return Forecaster(6, 24, members="ridge", verbose=False).fit(data)


def _draw_forecast(model, data, path, level=(80,)):
    panel = read_panel(data)
    blocks = model.forecast_panel(panel, column_endings(level, None))
    draw_forecast(model, panel, blocks, path, level=level)


@pytest.fixture
def drawn(monkeypatch):
    """What would be drawn, instead of a picture."""
    calls = []
    monkeypatch.setattr(
        pictures, "draw_outlooks", lambda outlooks, path, **more: calls.append((outlooks, more))
    )
    return calls


def test_the_picture_holds_the_forecast_and_its_intervals(forecaster, data, drawn):
    _draw_forecast(forecaster, data, "f.png")
    ((outlooks, _),) = drawn
    expected = forecaster.predict(data, level=[80])
    assert [outlook.name for outlook in outlooks] == ["v0", "v1", "v2", "v3"]
    for column, outlook in enumerate(outlooks):
        (ahead,) = outlook.ahead
        np.testing.assert_array_equal(ahead.times, np.arange(120, 126))
        np.testing.assert_array_equal(ahead.point, expected[""][:, column])
        np.testing.assert_array_equal(ahead.intervals[80][0], expected["lo-80"][:, column])
        np.testing.assert_array_equal(outlook.history, data[-48:, column])


def test_a_horizon_that_waits_for_the_next_fit_is_not_drawn(forecaster, data, drawn):
    changed = copy.copy(forecaster).set_params(horizon=9)
    _draw_forecast(changed, data, "f.png")
    draw_backtest(changed, read_panel(data), "b.png", windows=3, level=[80])
    for outlooks, more in drawn:
        assert {len(ahead.times) for outlook in outlooks for ahead in outlook.ahead} == {6}
        assert more["title"].startswith("6 steps ahead")


def test_the_picture_of_a_backtest_holds_every_window_and_the_errors(forecaster, data, drawn):
    draw_backtest(forecaster, read_panel(data), "b.png", windows=3, level=[80])
    ((outlooks, more),) = drawn
    result = forecaster.backtest(data, 3)
    assert more["errors"]["naive"] == result.scores["naive"]["mae"]
    for window, ahead in enumerate(outlooks[2].ahead):
        np.testing.assert_array_equal(ahead.times, np.arange(102, 108) + 6 * window)
        np.testing.assert_array_equal(ahead.point, result.forecast[window, :, 2])


def test_many_variables_are_a_sensible_number_of_pictures(forecaster, drawn):
    values = plant(1, sensors=40, steps=60, period=12)[0]
    _draw_forecast(forecaster, [values, values], "f.png")
    ((outlooks, more),) = drawn
    names = [outlook.name for outlook in outlooks]
    assert len(names) == 9
    assert (names[0], names[-1]) == ("0: v0", "1: v39")
    assert more["title"] == "6 steps ahead, 9 of 80 variables"


@pytest.mark.parametrize("unit", ["s", "h", "D", "M", "timedelta", "number"])
def test_every_kind_of_time_can_be_drawn(unit, tmp_path):
    times = np.arange(30)
    if unit == "timedelta":
        times = times * np.timedelta64(10**9, "ns")
    elif unit != "number":
        times = (np.datetime64("2026-01-01", unit) + times).astype("datetime64[ns]")
    values = np.sin(np.arange(30.0))
    low, high = values[20:] - 1, values[20:] + 1
    ahead = Ahead(times[20:], values[20:], {80: (low, high)})
    nothing = Outlook("dead", times[:20], np.full(20, np.nan), [ahead])
    outlook = Outlook("living", times[:20], values[:20], [ahead], actual=values[20:])
    path = tmp_path / "picture.png"
    draw_outlooks([outlook, nothing], path, title="both", errors={"naive": 1.0, "this model": 0.5})
    assert path.read_bytes().startswith(b"\x89PNG")


def test_long_names_leave_room_for_the_picture(tmp_path, monkeypatch):
    """An axis without room is a warning."""
    figures = []
    monkeypatch.setattr(pictures, "_save", lambda figure, path: figures.append(figure))
    names = [f"ns=2;s=Works.Line 3.{'Furnace.' * 20}Zone {zone}.Temperature" for zone in range(3)]
    values = np.sin(np.arange(30.0))
    ahead = Ahead(np.arange(20, 30), values[20:])
    draw_outlooks([Outlook(name, np.arange(20), values[:20], [ahead]) for name in names], "f.png")
    rows = dict.fromkeys(names, values)
    pictures.draw_blame(np.arange(30), values + 1, 1.5, rows, rows, "d.png")
    for figure in figures:
        figure.savefig(tmp_path / "picture.png")
    assert all(axes.get_position().width > 0.2 for axes in figures[0].axes)
    titles = [axes.get_title("left").replace("\n", " ") for axes in figures[0].axes]
    assert [one.replace(" ", "") for one in titles] == [one.replace(" ", "") for one in names]
    top, heat, *_ = figures[1].axes
    assert top.get_position().width * figures[1].get_figwidth() > 8
    label = heat.get_yticklabels()[2].get_text()
    assert label.startswith("ns=2;s=Works.Line 3.Furnace.")
    assert label.endswith("Furnace.Zone 2.Temperature")
    assert len(label) == 81


def _draw_anomalies(detector, data, path):
    panel = read_panel(data)
    draw_anomalies(panel, detector.score_panel(panel), detector.threshold_, path)


def test_anomalies_are_drawn_for_the_oddest_system(data, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(pictures, "draw_blame", lambda *arguments: calls.append(arguments))
    detector = orderless.Detector(24, members="ridge", verbose=False).fit(data)
    odd = data.copy()
    odd[50:53, 2] += 30.0
    _draw_anomalies(detector, [data, odd], tmp_path / "d.png")
    ((_, score, threshold, blame, traces, _, whose),) = calls
    assert whose == " of 1"
    assert next(iter(blame)) == next(iter(traces)) == "v2"
    assert 50 <= int(np.argmax(score)) < 53
    assert threshold == detector.threshold_


def test_variables_asked_for_are_drawn_for_a_system_that_has_them(data, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(pictures, "draw_blame", lambda *arguments: calls.append(arguments))
    detector = orderless.Detector(24, members="ridge", verbose=False).fit(data)
    odd = data[:, :2].copy()
    odd[50:53, 1] += 30.0
    panel = read_panel([data, odd])
    scores = detector.score_panel(panel)

    def draw(*variables):
        path = tmp_path / "d.png"
        draw_anomalies(panel, scores, detector.threshold_, path, variables=variables)

    draw("v1")
    draw("v3", "v1")
    assert [call[-1] for call in calls] == [" of 1", " of 0"]
    assert list(calls[1][3]) == ["v3", "v1"]
    with pytest.raises(DataError, match="v9"):
        draw("v1", "v9")
    first, second = panel.systems
    apart = replace(panel, systems=(first, replace(second, variables=("a", "b"))))
    with pytest.raises(DataError, match="v3, a"):
        draw_anomalies(apart, scores, 1.0, tmp_path / "d.png", variables=["v3", "a"])


def test_names_are_drawn_as_they_are(data, tmp_path):
    odd = dict(zip(("load $/h_$", "$a^$", "$\\frac$", "b"), data.T, strict=True))
    model = Forecaster(6, 24, members="ridge", verbose=False).fit(odd)
    _draw_forecast(model, odd, tmp_path / "forecast.png")
    detector = orderless.Detector(12, members="ridge", verbose=False).fit(odd)
    _draw_anomalies(detector, odd, tmp_path / "blame.png")


def test_who_was_blamed_longest_comes_first_also_where_everything_alarms(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, "_save", lambda figure, path: drawn.append(figure))
    times = np.arange(500)
    each = np.ones((3, 500))
    each[0, 40] = 1e6
    each[2, 50:] = 20.0
    each[1] = 5.0
    system = replace(read_panel(np.ones((500, 3))).systems[0], variables=("a", "b", "c"))
    panel = replace(read_panel(np.ones((500, 3))), systems=(system,))
    scores = Scores([each.mean(0)], [each])
    draw_anomalies(panel, scores, 0.5, tmp_path / "d.png")
    top, heat, *traces = drawn[0].axes[:5]
    assert [one.get_text() for one in heat.get_yticklabels()] == ["c", "b", "a"]
    assert [one.get_title("left") for one in traces[:1]] == ["c"]
    assert len(top.patches) == len(traces[0].patches) == 1  # one band, and the line stays visible
    assert len(times) == top.lines[0].get_xdata().size


def test_a_picture_of_anomalies_survives_gaps_and_silence(data, tmp_path):
    detector = orderless.Detector(24, members="ridge", verbose=False).fit(data)
    gaps = data.copy()
    gaps[10:20] = np.nan
    gaps[:, 1] = np.nan
    for values in (gaps, np.full((40, 2), np.nan)):
        _draw_anomalies(detector, values, tmp_path / "d.png")
        assert (tmp_path / "d.png").exists()


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path):
    outlook = Outlook("\u6e29\u5ea6", np.arange(3), np.ones(3), [])
    draw_outlooks([outlook], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_a_picture_that_cannot_be_written_is_an_error_in_words(tmp_path):
    outlook = Outlook("one", np.arange(3), np.ones(3), [])
    with pytest.raises(DataError, match="png"):
        draw_outlooks([outlook], tmp_path / "picture.xyz")
    with pytest.raises(DataError, match="folder"):
        draw_outlooks([outlook], tmp_path / "none" / "picture.png")
