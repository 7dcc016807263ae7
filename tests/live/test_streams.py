import numpy as np
import pandas as pd
import pytest

from orderless import Forecaster, load
from orderless.data.simulate import faulty_plant
from orderless.errors import DataError, ModelFileError, SettingError, VariableMismatch

NAMES = [f"sensor_{number}" for number in range(5)]
START = pd.Timestamp("2026-02-01")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def ticks(seed, steps, *, unseen=True):
    """A frame of what a plant sends: gaps, missing readings, variables that join and leave."""
    values = faulty_plant(seed, sensors=7, train_steps=10, test_steps=steps, faults=2)[1]
    random = np.random.default_rng(seed)
    values = np.where(random.random(values.shape) < 0.15, np.nan, values)
    for column in range(1, 7):  # the first stays
        begin, end = np.sort(random.integers(0, steps, 2))
        values[begin : end if column % 2 else steps, column] = np.nan
    frame = pd.DataFrame(values, columns=[*NAMES, "unseen", "stranger"])
    frame.loc[steps // 3 :, "stranger"] = 4.0  # one that is constant
    frame = frame if unseen else frame[NAMES]
    gone = np.flatnonzero(random.random(steps) < 0.1)
    return frame.drop(index=gone[gone > 0])


def on_grid(frame, stream):
    """The rows that a stream keeps, as a frame for `predict` and `score`."""
    whole = frame.reindex(range(frame.index[-1] + 1))
    kept = whole.iloc[len(whole) - (stream.rows.count - stream.rows.first) :]
    return kept.dropna(axis=1, how="all")


def push(stream, frame, time):
    for number, row in zip(frame.index, frame.to_dict("records"), strict=True):
        yield number, stream.push(row, time(number))


def hour(number):
    return START + pd.Timedelta(hours=number)


@pytest.mark.parametrize("seed", range(2))
def test_forecasts_are_those_of_predict_on_the_rows_kept(forecaster, seed):
    stream, frame = forecaster.stream(level=80), ticks(seed, 140)
    checked = 0
    for number, answer in push(stream, frame, hour):
        if number % 13 and number > 2:
            continue
        rows = on_grid(frame.loc[:number], stream)
        expected = forecaster.predict(
            rows.assign(time=hour(0) + pd.to_timedelta(rows.index, "h")), level=80
        )
        assert list(answer.values[""]) == list(stream.rows.names)
        assert set(answer.values[""]) == set(rows.columns)
        for name, values in answer.values["lo-80"].items():
            np.testing.assert_allclose(values, expected[f"{name}-lo-80"], rtol=1e-5, atol=1e-6)
        for name, values in answer.values[""].items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-6)
        if len(rows) > 1:
            np.testing.assert_array_equal(answer.times, expected["time"].to_numpy("M8[ns]"))
        checked += 1
    assert checked > 8


@pytest.mark.parametrize(
    ("which", "unseen"),
    [("closed_detector", False), ("closed_detector", True), ("detector", True)],
)
def test_scores_are_those_of_the_rows_kept(which, unseen, request):
    model = request.getfixturevalue(which)
    stream, frame = model.stream(), ticks(5, 130, unseen=unseen)
    checked = 0
    for number, answer in push(stream, frame, int):
        if (number % 29 and number != frame.index[-1]) or number < 1:
            continue
        rows = on_grid(frame.loc[:number], stream)
        rows = rows.assign(time=rows.index)
        np.testing.assert_allclose(answer.score, model.score(rows)["score"].iloc[-1], rtol=1e-5)
        each = model.score(rows, per_variable=True).iloc[-1].drop("time").dropna()
        assert set(answer.variables) == set(each.index)
        np.testing.assert_allclose(
            [answer.variables[name] for name in each.index],
            each.astype(float),
            rtol=1e-5,
            atol=1e-7,
        )
        assert answer.alarm == (answer.score > model.threshold_)
        checked += 1
    assert checked > 3
    assert stream.rows.first > 0


@pytest.mark.parametrize("which", ["closed_detector", "detector"])
def test_scores_are_those_of_all_rows_while_the_variables_stay(which, request):
    model = request.getfixturevalue(which)
    values = faulty_plant(1, sensors=5, train_steps=10, test_steps=130, faults=3)[1]
    stream = model.stream()
    answers = [stream.push(row, time) for time, row in enumerate(values)]
    assert stream.rows.first > 0
    for last in (1, 30, 64, 129):
        frame = pd.DataFrame(values[: last + 1], columns=NAMES).assign(time=range(last + 1))
        expected = model.score(frame)["score"].iloc[-1]
        np.testing.assert_allclose(answers[last].score, expected, rtol=1e-5)


def test_a_group_of_fit_has_its_own_level(detector_of_groups):
    frame = ticks(2, 200, unseen=False)
    for group in ("two", None):
        stream = detector_of_groups.stream(group=group)
        *_, (_, answer) = push(stream, frame, int)
        rows = on_grid(frame, stream)
        rows = (
            rows.assign(time=rows.index)
            if group is None
            else rows.assign(time=rows.index, plant=group)
        )
        expected = detector_of_groups.score(rows, group=None if group is None else "plant")
        np.testing.assert_allclose(answer.score, expected["score"].iloc[-1], rtol=1e-5)


def test_blame_is_in_falling_order(closed_detector):
    stream = closed_detector.stream()
    for number, row in enumerate(faulty_plant(0, sensors=5, train_steps=10, test_steps=60)[1]):
        stream.push(row, number)
    answer = stream.push(dict.fromkeys(NAMES, 0.0) | {"sensor_2": 40.0}, 60)
    assert answer.alarm
    assert answer.blame[0] == "sensor_2"
    assert list(answer.variables.values()) == sorted(answer.variables.values(), reverse=True)


def test_memory_does_not_grow(closed_detector):
    stream = closed_detector.stream()
    random = np.random.default_rng(0)
    sizes = set()
    for number in range(700):
        stream.push({f"new {number // 7}": number, "sensor_0": random.normal()}, number)
        if number > 400:
            sizes.add((stream.rows._values.shape[1], len(stream.rows.names) > 40))
    assert sizes == {(stream.rows._values.shape[1], False)}


def test_a_variable_leaves_after_the_rows_kept_and_returns_as_new(forecaster):
    stream = forecaster.stream()
    stream.push({"sensor_0": 1.0, "sensor_1": 2.0}, hour(0))
    for number in range(1, forecaster.reach):
        answer = stream.push({"sensor_0": 1.0}, hour(number))
        assert set(answer.values[""]) == {"sensor_0", "sensor_1"}
    assert set(stream.push({"sensor_0": 1.0}, hour(number + 1)).values[""]) == {"sensor_0"}
    back = stream.push({"sensor_0": 1.0, "sensor_1": 2.0}, hour(number + 2))
    assert set(back.values[""]) == {"sensor_0", "sensor_1"}


def test_a_long_gap_forgets_what_came_before(forecaster):
    stream, fresh = forecaster.stream(), forecaster.stream()
    for number in range(60):
        stream.push([number, 1, 2, 3, 4], hour(number))
    later, first = stream.push([9, 8, 7, 6, 5], hour(5000)), fresh.push([9, 8, 7, 6, 5], hour(5000))
    for name, values in first.values[""].items():
        np.testing.assert_array_equal(later.values[""][name], values)


def test_late_and_doubled_ticks_are_dropped_and_counted(forecaster):
    stream, orderly = forecaster.stream(), forecaster.stream()
    for number in (0, 1, 3, 3, 2, 0, 4):
        answer = stream.push([number] * 5, hour(number))
        assert (answer is None) == (stream.number + stream.dropped > 3 and number != 4)
    for number in (0, 1, 3, 4):
        expected = orderly.push([number] * 5, hour(number))
    assert stream.dropped == 3
    assert answer.number == expected.number == 4
    np.testing.assert_array_equal(answer.values[""]["sensor_1"], expected.values[""]["sensor_1"])


@pytest.mark.parametrize(
    ("readings", "time"),
    [
        ({"sensor_0": 1.0}, hour(1.5)),
        ({"sensor_0": 1.0}, hour(10**6)),
        ({"sensor_0": 1.0}, 7),
        ({"sensor_0": 1.0}, None),
        ({"sensor_0": 1.0}, "2026-02-01T01:00Z"),
        ({"sensor_0": "broken"}, hour(1)),
        ({"sensor_0": np.inf}, hour(1)),
        ([1.0, 2.0], hour(1)),
    ],
)
def test_a_tick_that_cannot_be_read_changes_nothing(forecaster, readings, time):
    stream = forecaster.stream()
    stream.push({"sensor_0": 2.0}, hour(0))
    before = stream.state()
    with pytest.raises(DataError):
        stream.push(readings, time)
    assert stream.state() == before


@pytest.mark.parametrize(
    ("times", "later"),
    [
        (pd.date_range("2026-01-31", periods=80, freq="ME"), "2032-10-31T00:00"),
        (pd.date_range("2026-03-01", periods=80, freq="D", tz="Europe/Berlin"), None),
        (np.arange(80) * 0.5, 40.5),
        (np.arange(0, 800, 10), 810),
    ],
)
def test_time_is_read_and_continued_as_in_predict(times, later):
    values = np.random.default_rng(0).normal(size=(80, 2))
    frame = pd.DataFrame(values, columns=["a", "b"]).assign(time=times)
    model = Forecaster(3, 8, members="ridge", verbose=False).fit(frame)
    stream = model.stream()
    for row, time in zip(values, times, strict=True):
        answer = stream.push(row, time)
    assert stream.rows.count == 80
    expected = model.predict(frame)["time"]
    if expected.dtype.kind == "M":
        expected = (
            pd.DatetimeIndex(expected).tz_localize(None)
            if times.tz is None
            else (pd.DatetimeIndex(expected).tz_convert(None))
        )
        expected = expected.as_unit("ns")
    np.testing.assert_array_equal(answer.times, expected.to_numpy())
    if later is not None:
        stream.push(values[0], later)
        assert stream.rows.count == 82


def test_rows_that_are_counted_need_no_time(closed_detector):
    values = np.random.default_rng(0).normal(size=(100, 3))
    model = Forecaster(3, 8, members="ridge", verbose=False).fit(values)
    stream = model.stream()
    for row in values:
        answer = stream.push(row)
    np.testing.assert_allclose(
        np.array(list(answer.values[""].values())).T, model.predict(values), rtol=1e-6
    )
    assert answer.times.tolist() == [100, 101, 102]


@pytest.mark.parametrize("which", ["forecaster", "closed_detector", "detector"])
def test_a_state_goes_on_to_the_bit(which, request, tmp_path):
    model = request.getfixturevalue(which)
    model.save(tmp_path)
    frame = ticks(3, 60)
    time = hour if which == "forecaster" else int
    whole, half = model.stream(), model.stream()
    answers = [answer for _, answer in push(whole, frame, time)]
    for _ in push(half, frame.iloc[:30], time):
        pass
    resumed = load(tmp_path).stream()
    resumed.restore(half.state())
    rest = [answer for _, answer in push(resumed, frame.iloc[30:], time)]
    assert [one.record() for one in rest] == [one.record() for one in answers[30:]]
    assert resumed.state() == whole.state()


def test_a_state_that_is_damaged_or_foreign_is_refused(forecaster, closed_detector):
    stream, other = forecaster.stream(), closed_detector.stream()
    stream.push({"sensor_0": 1.0}, hour(0))
    state, before = stream.state(), other.state()
    with pytest.raises(ModelFileError, match="another model"):
        other.restore(state)
    for damaged in (b"", state[:-3], state[:40], b"\xff" * 50, state[:-8] + b"\xff\xf0" * 4):
        with pytest.raises(ModelFileError):
            other.restore(damaged)
    assert other.state() == before


def test_the_variables_of_fit_alone_where_it_was_asked_for(healthy):
    frame = healthy.drop(columns="time")
    model = Forecaster(3, 8, members="ridge", strict_variables=True, verbose=False).fit(frame)
    stream = model.stream()
    stream.push({"sensor_0": 1.0})
    with pytest.raises(VariableMismatch):
        stream.push({"other": 1.0})


def test_a_level_beyond_all_is_refused(forecaster):
    with pytest.raises(SettingError, match="level"):
        forecaster.stream(level=101)
