import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from orderless import Detector, load
from orderless.data import Series, read_panel
from orderless.data.simulate import faulty_plant, plant
from orderless.errors import DataError, NotFittedError, SettingError, VariableMismatch
from orderless.estimators.pictures import draw_anomalies
from orderless.metrics import auc_pr
from orderless.models.detection import find_events
from orderless.models.detection.inputs import FAR, WITHIN
from orderless.models.detection.network import Reconstruction, ReconstructionTask

TRAIN, TEST, LABELS, NAMES = faulty_plant(0, sensors=5, train_steps=600, test_steps=300, faults=4)
CLOSED = ("ridge", "PCA", "regression")
ALL = (*CLOSED, "network")
SMALL = {"channels": 8, "states": 2, "stride": 4, "patch": 8}


pytestmark = pytest.mark.filterwarnings("ignore:These data are not what was fitted")


def quick(**settings) -> Detector:
    base = {"context": 32, "network": SMALL, "members": CLOSED, "epochs": 1, "verbose": False}
    return Detector(**(base | settings))


@pytest.fixture(scope="module")
def trained() -> Detector:
    return quick(
        members=ALL, epochs=3, training={"learning_rate": 0.01, "steps_per_epoch": 20}
    ).fit(TRAIN)


def test_faults_score_higher_than_the_rest(trained):
    score = trained.score(TEST)
    assert score.shape == (300,)
    assert auc_pr(LABELS.any(1), score) > 1.5 * LABELS.any(1).mean()


def test_the_variable_at_fault_is_blamed(trained):
    broken = TRAIN[:200].copy()
    broken[100:110, 3] += 30.0
    each = trained.score(broken, per_variable=True)
    assert each.shape == broken.shape
    assert (each[100:110].argmax(1) == 3).all()
    assert trained.predict(broken)[100:110].all()


@pytest.mark.parametrize("size", [1e3, 1e9, 1e30, 1e300])
def test_the_largest_faults_ring_and_are_blamed(trained, size):
    broken = TRAIN[:200].copy()
    broken[100:, 3] = size
    assert trained.predict(broken)[100:].all()
    assert (trained.score(broken, per_variable=True)[100:].argmax(1) == 3).all()


SPREADS = TRAIN.std(0)


@pytest.mark.parametrize("spreads", [100.0, 1e4, 1e9])
def test_one_sensor_far_off_leaves_the_scores_of_the_others_ordinary(trained, spreads):
    others = [0, 1, 3, 4]
    shifted = TRAIN[:200].copy()
    shifted[:, 2] += spreads * SPREADS[2]
    each = trained.score(shifted, per_variable=True)
    assert np.median(each[:, 2]) > 1000
    assert np.median(each[:, others], axis=0).max() < 2
    # A second fault is seen as if it were alone.
    for values in (TRAIN[:200].copy(), shifted):
        values[100, 4] += 20 * SPREADS[4]
        fault = trained.score(values, per_variable=True)[:, 4]
        assert fault.argmax() == 100
        assert fault[100] > 10 * np.delete(fault, np.arange(100, 116)).max()


@pytest.mark.parametrize("spreads", [20.0, 1e3, 1e6])
def test_a_reading_far_off_raises_an_alarm_from_its_time_step_on_and_soon_no_more(trained, spreads):
    glitch = TRAIN[:200].copy()
    glitch[100, 2] += spreads * SPREADS[2]
    new = trained.predict(glitch) & ~trained.predict(TRAIN[:200])
    assert 100 in new.nonzero()[0]
    assert set(new.nonzero()[0]) <= set(range(100, 116))  # the longest mean is over 16
    assert trained.score(glitch, per_variable=True)[100].argmax() == 2


def test_the_network_sees_nothing_further_off_than_in_training(trained):
    member = trained.stack_.members[-1]
    assert isinstance(member, Reconstruction)
    far = np.where(np.arange(64) % 4 == 2, 1e6, np.zeros((3, 64))).astype(np.float32)
    series = Series.from_arrays([far], [np.ones_like(far, bool)])
    windows = torch.tensor([[0, 0], [0, 32]])
    task = ReconstructionTask(member.network, series, 32, windows, windows)
    seen = []
    hook = member.network.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    loss = task.loss(member.network, windows, None)
    batch = trained.batch(read_panel(far.T).systems[0])
    errors = member(replace(batch, values=torch.from_numpy(far[None, :, -32:])))
    hook.remove()
    assert all(one.abs().max() <= WITHIN for one in seen)
    # The error is that of the value itself, and in training it is bounded.
    assert errors.max() > 9e5
    assert loss < FAR**2


@settings(max_examples=10)
@given(length=st.integers(40, 280), added=st.integers(1, 20))
def test_rows_that_are_added_change_no_score_behind_the_last_context(trained, length, added):
    before, after = (
        trained.score(TEST[:end], per_variable=True) for end in (length, length + added)
    )
    settled = length - trained.context_
    # float32, in batches of other sizes
    np.testing.assert_allclose(before[:settled], after[:settled], rtol=1e-5, atol=1e-6)


def test_about_the_asked_share_of_ordinary_moments_rings(trained):
    assert trained.predict(TRAIN).mean() < 0.1
    assert trained.predict(TRAIN).dtype == bool


def test_the_threshold_does_not_depend_on_what_is_scored(trained):
    before = trained.threshold_
    trained.predict(TEST * 100)
    assert trained.threshold_ == before
    few, many = (quick(contamination=share).fit(TRAIN).threshold_ for share in (0.01, 0.2))
    assert few > many


def test_the_order_of_the_columns_changes_nothing_to_the_bit(trained):
    frame = pd.DataFrame(TEST, columns=NAMES)
    one = trained.score(frame, per_variable=True)
    two = trained.score(frame[NAMES[::-1]], per_variable=True)
    pd.testing.assert_frame_equal(one, two[one.columns], check_exact=True)
    np.testing.assert_array_equal(trained.score(frame), trained.score(frame[NAMES[::-1]]))


def test_other_variables_missing_values_and_short_series_are_scored(trained):
    assert np.isfinite(trained.score(np.column_stack([TEST, TEST]))).all()
    assert np.isfinite(trained.score(TEST[:, :1])).all()
    with pytest.warns(UserWarning, match="fewer than 32 time steps"):
        assert np.isfinite(trained.score(TEST[:3])).all()
    holes = TEST.copy()
    holes[10] = np.nan
    holes[20:40, 2] = np.nan
    score = trained.score(holes)
    assert np.isnan(score[10])
    assert np.isfinite(np.delete(score, 10)).all()
    assert np.isnan(trained.score(holes, per_variable=True)[20:40, 2]).all()
    assert not trained.predict(holes)[10]
    strict = quick(strict_variables=True).fit(TRAIN)
    with pytest.raises(VariableMismatch):
        strict.score(TEST[:, :2])


@pytest.mark.parametrize("level", [0.0, 1e2, 1e6])
def test_groups_may_live_on_different_levels(level, tmp_path):
    values = plant(0, sensors=3, steps=300)[0]

    def frame(first, second):
        parts = [pd.DataFrame(one).assign(group=k) for k, one in (("a", first), ("b", second))]
        return pd.concat(parts, ignore_index=True).rename(columns=str)

    data = frame(values[:150], values[150:] + level)
    model = quick(context=24).fit(data, group="group")
    plain = quick(context=24).fit(frame(values[:150], values[150:]), group="group")
    broken = data.copy()
    broken.loc[220, "0"] += 20 * values[:, 0].std()
    expected = plain.score(frame(values[:150], values[150:]))["score"]
    np.testing.assert_allclose(model.score(data)["score"], expected, rtol=1e-5)
    assert model.score(broken)["score"][220] > 5 * expected.max()
    model.save(tmp_path)
    np.testing.assert_array_equal(
        load(tmp_path).score(broken)["score"], model.score(broken)["score"]
    )
    numbered = data.assign(group=(data["group"] == "b").astype(int))
    of_numbers = quick(context=24).fit(numbered, group="group")
    scores = [of_numbers.score(numbered.astype({"group": kind}))["score"] for kind in (int, float)]
    np.testing.assert_array_equal(*scores)
    # A whole group that has moved since `fit` is odd; one that is new is on the level it has.
    moved = model.score(data.assign(**{"0": data["0"] + 20.0 * (data["group"] == "b")}))["score"]
    assert moved[150:].median() > 3 * expected[150:].median()
    new = model.score(data.assign(group=data["group"] + "2"))["score"]
    assert new.median() < 2 * expected.median()


SETTINGS = {"learning_rate": 0.01, "steps_per_epoch": 20}


def groups_of(values, size):
    """The columns by groups, the others missing."""
    for first in range(0, values.shape[1] - size + 1, size):
        group = np.full_like(values, np.nan)
        group[:, first : first + size] = values[:, first : first + size]
        yield group


def test_the_alarm_rings_as_often_for_few_variables_as_for_many():
    values = plant(0, sensors=8, steps=4600)[0]
    model = quick(epochs=2, contamination=0.02, training=SETTINGS).fit(values[:3000])
    new = values[3000:]
    for size in (8, 3, 1):
        share = np.mean([model.predict(group) for group in groups_of(new, size)])
        assert 0.004 < share < 0.04  # 2 % by 600 held-out moments: by 12 of them
    gappy = new.copy()
    gappy[::4, 1:] = np.nan
    with pytest.warns(UserWarning, match="22% of the readings are missing"):
        assert model.predict(gappy)[::4].mean() < 0.04
    # And a fault of a single sensor is seen by itself.
    spread = values[:3000].std(0)
    for number, group in enumerate(groups_of(new, 1)):
        group[300] += 12 * spread[number]
        assert model.predict(group)[300]


def test_the_share_of_alarms_is_the_one_asked_for_where_few_readings_are_usual():
    values = plant(0, sensors=8, steps=1600)[0].copy()
    random = np.random.default_rng(0)
    values[random.random(1600) < 0.4, 1:] = np.nan
    model = quick(epochs=2, contamination=0.05, training=SETTINGS).fit(values[:1000])
    # The held-out part, but in windows of its own; then what comes after it.
    assert 0.03 < model.predict(values[800:1000]).mean() < 0.07
    assert 0.025 < model.predict(values[1000:]).mean() < 0.1


def test_variables_that_stand_still_do_not_lower_the_scores_of_others():
    moving = plant(0, sensors=2, steps=1300)[0]
    values = np.hstack([moving, np.full((1300, 10), 5.0)])
    model = quick(epochs=2, contamination=0.02, training=SETTINGS).fit(values[:1000])
    broken = values[1000:].copy()
    broken[100] += 12 * values[:1000].std(0)
    assert model.predict(broken)[100]
    for seen in ([0], [1], [0, 1], [0, *range(2, 12)]):
        part = np.full_like(broken, np.nan)
        part[:, seen] = broken[:, seen]
        assert model.predict(part)[100]


@pytest.mark.filterwarnings("ignore:.*readings are missing")
def test_a_score_is_the_mean_over_the_variables_and_lower_where_few_are_seen(trained, tmp_path):
    each = trained.score(TEST, per_variable=True)
    np.testing.assert_array_equal(trained.score(TEST), each.T.sum(0) / 5)
    holes = TEST.copy()
    holes[::2, 1:] = np.nan
    each = trained.score(holes, per_variable=True)
    assert (trained.score(holes)[::2] <= each[::2, 0]).all()
    np.testing.assert_array_equal(trained.predict(holes), trained.score(holes) > trained.threshold_)
    trained.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).score(holes), trained.score(holes))


def test_a_group_that_fit_did_not_see_is_on_its_own_level_also_where_it_saw_one():
    frame = pd.DataFrame(TRAIN[:300], columns=NAMES).assign(unit="A")
    other = pd.DataFrame(TRAIN[300:] + 500.0, columns=NAMES).assign(unit="B")
    model = quick().fit(frame, group="unit")
    scores = model.score(pd.concat([frame, other])).groupby("unit")["score"].median()
    assert scores["B"] < 2 * scores["A"]
    plain = quick().fit(frame[NAMES])
    np.testing.assert_array_equal(model.score(frame)["score"], plain.score(frame[NAMES])["score"])
    # Without a name, data is of the one group there was: a shift is seen.
    unnamed = model.score(frame[NAMES] + 500.0, group=None)["score"]
    np.testing.assert_array_equal(unnamed, plain.score(frame[NAMES] + 500.0)["score"])


def test_wrong_input_is_an_error_in_words():
    with pytest.raises(NotFittedError):
        Detector().score(TEST)
    with pytest.raises(SettingError, match="contamination"):
        quick(contamination=0.0).fit(TRAIN)
    with pytest.raises(SettingError, match="context"):
        quick(context=1).fit(TRAIN)
    with pytest.raises(DataError, match="observed"):
        quick().fit(np.full((50, 2), np.nan))


def test_a_few_rows_are_enough():
    model = quick().fit(TRAIN[:3])
    assert np.isfinite(model.score(TRAIN[:3])).all()


def test_fit_compares_with_simple_guesses(capsys):
    quick(verbose=True).fit(TRAIN)
    said = capsys.readouterr().out
    for words in ("5 variables", "threshold", "ridge", "the mean"):
        assert words in said


def test_a_threshold_needs_readings_in_the_part_it_comes_from():
    silent = TRAIN.copy()
    silent[400:] = np.nan
    with pytest.raises(DataError, match=r"Not a single value is observed .* find the threshold"):
        quick().fit(silent)
    with pytest.raises(DataError, match=r"Not a single value of what moves .* find the threshold"):
        quick().fit(np.column_stack([silent, np.ones(len(silent))]))


LATE = np.where(np.arange(600)[:, None] < 485, np.nan, TRAIN)


def test_a_sensor_that_takes_the_place_of_another_in_the_held_out_part_has_a_threshold():
    first = np.where(np.arange(600) < 440, TRAIN[:, 0], np.nan)
    model = quick(contamination=0.05).fit(np.column_stack([first, LATE[:, 1]]))
    alarms = model.predict(np.column_stack([first, LATE[:, 1]]))[485:]
    assert 0 < alarms.mean() <= 0.05


def test_sensors_that_begin_in_the_held_out_part_have_the_threshold_asked_for():
    beside = np.column_stack([np.full(600, 5.0), LATE[:, :2]])
    few, many = (quick(contamination=share).fit(beside) for share in (0.01, 0.2))
    assert few.threshold_ > many.threshold_
    assert 0.1 < many.predict(beside)[485:].mean() <= 0.2


def test_a_sensor_that_begins_in_the_held_out_part_is_one_that_fit_saw():
    model = quick().fit(np.column_stack([TRAIN[:, :4], LATE[:, 4]]))
    ordinary = np.median(model.score(TEST, per_variable=True)[:, 4])
    louder = model.score(TEST * [1, 1, 1, 1, 30], per_variable=True)[:, 4]
    assert np.median(louder) > 100 * ordinary
    # Also where it stands still.
    still = quick().fit(np.column_stack([TRAIN[:, :4], np.where(np.isnan(LATE[:, 4]), np.nan, 7)]))
    moved = np.column_stack([TEST[:, :4], at(7.0, 50, 7.1)])
    assert still.score(moved, per_variable=True)[:, 4].nonzero()[0].tolist() == [50]
    assert still.predict(moved)[50]


def test_a_sensor_that_begins_late_in_a_group_has_its_level_there():
    late = np.column_stack([TRAIN[:, :4], LATE[:, 4]])

    def both(values):
        frames = [pd.DataFrame(values + 9 * k, columns=NAMES).assign(plant=k) for k in range(2)]
        return pd.concat(frames, ignore_index=True)

    model = quick().fit(both(late), group="plant")
    ordinary = model.score(both(TEST), per_variable=True)[NAMES[4]]
    shifted = model.score(both(TEST + 50 * np.eye(5)[4]), per_variable=True)[NAMES[4]]
    assert np.median(shifted) > 100 * np.median(ordinary)


STILL = {"dew": 1013.25, "flag": 0.0, "leak": 3e-6, "odometer": 1e8 + 1, "sink": -7.0}
several, few = settings(max_examples=15), settings(max_examples=5)
away = st.floats(2e-6, 1e6) | st.floats(-1e6, -2e-6)


def beside_still(values, **readings) -> pd.DataFrame:
    """Sensors that move, and some that stand still but for these readings."""
    frame = pd.DataFrame(values[:, :3], columns=NAMES[:3])
    return frame.assign(**(STILL | readings))


def at(constant: float, moment: int, reading: float, steps: int = 300) -> np.ndarray:
    """A constant, and one reading that is not it."""
    readings = np.full(steps, constant)
    readings[moment] = reading
    return readings


@pytest.fixture(scope="module")
def watching() -> Detector:
    return quick(
        members=ALL, epochs=2, training={"learning_rate": 0.01, "steps_per_epoch": 20}
    ).fit(beside_still(TRAIN))


@several
@given(name=st.sampled_from(sorted(STILL)), share=away, moment=st.integers(0, 299))
def test_any_move_of_what_stood_still_rings_and_is_blamed(watching, name, share, moment):
    reading = STILL[name] + share * (abs(STILL[name]) or 1e-9)
    moved = beside_still(TEST, **{name: at(STILL[name], moment, reading)})
    assert watching.predict(moved)["anomaly"][moment]
    each = watching.score(moved, per_variable=True)[[*NAMES[:3], *STILL]]
    assert each.loc[moment, name] > 30
    # The others are what they were, to the bit.
    each[name] = 0.0
    expected = watching.score(beside_still(TEST), per_variable=True)[each.columns]
    pd.testing.assert_frame_equal(each, expected, check_exact=True)


def test_a_small_move_in_a_tiny_unit_rings(watching):
    moved = beside_still(TEST, leak=at(3e-6, 50, 9e-6))
    assert watching.predict(moved)["anomaly"][50]
    assert not watching.predict(moved.assign(leak=3e-6))["anomaly"][50]


@few
@given(
    constant=st.floats(1e-30, 1e30) | st.floats(-1e30, -1e-30),
    rounding=arrays(float, 300, elements=st.floats(-4e-7, 4e-7)),
)
def test_rounding_of_what_stood_still_is_nothing(constant, rounding):
    model = quick().fit(beside_still(TRAIN, dew=constant))
    for readings in (constant * (1 + rounding), np.full(300, constant, np.float32)):
        rounded = beside_still(TEST, dew=readings)
        assert (model.score(rounded, per_variable=True)["dew"] == 0.0).all()
        expected = model.score(beside_still(TEST, dew=constant))["score"]
        np.testing.assert_array_equal(model.score(rounded)["score"], expected)


@few
@given(
    powers=arrays(int, 8, elements=st.integers(-60, 60)),
    shares=arrays(float, 5, elements=away),
    decimal=st.sampled_from([1e-9, 1e9]),
)
def test_scores_are_the_same_in_every_unit(powers, shares, decimal):
    moves = {
        name: at(constant, 20 * number, constant + share * (abs(constant) or 1.0))
        for number, ((name, constant), share) in enumerate(zip(STILL.items(), shares, strict=True))
    }
    train, test = beside_still(TRAIN), beside_still(TEST, **moves)
    plain = quick().fit(train)
    score, alarm = plain.score(test, per_variable=True), plain.predict(test)["anomaly"]
    exact = quick().fit(train * 2.0**powers)
    pd.testing.assert_frame_equal(exact.score(test * 2.0**powers, per_variable=True), score)
    rounded = quick().fit(train * decimal)
    other = rounded.score(test * decimal, per_variable=True)
    np.testing.assert_allclose(other[[*STILL]], score[[*STILL]], rtol=1e-5)
    np.testing.assert_allclose(other[NAMES[:3]], score[NAMES[:3]], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(rounded.predict(test * decimal)["anomaly"], alarm)
    assert alarm[::20][:5].all()


@pytest.mark.filterwarnings("ignore:.*fewer than 32 time steps")
@several
@given(begin=st.integers(0, 299), steps=st.integers(1, 50), shares=arrays(float, 5, elements=away))
def test_what_stood_still_scores_the_same_in_any_company(watching, begin, steps, shares):
    constants = np.array(list(STILL.values()))
    moved = beside_still(TEST)
    moved.loc[begin::7, [*STILL]] = constants + shares * np.where(constants, abs(constants), 1.0)
    expected = watching.score(moved, per_variable=True)[[*STILL]]
    part = moved.iloc[begin : begin + steps].reset_index(drop=True)
    alone = watching.score(part, per_variable=True)[[*STILL]]
    np.testing.assert_array_equal(alone, expected.iloc[begin : begin + steps])
    np.testing.assert_array_equal(watching.score(moved[[*STILL]], per_variable=True), expected)
    shuffled = watching.score(moved[moved.columns[::-1]], per_variable=True)
    np.testing.assert_array_equal(shuffled[[*STILL]], expected)
    assert (alone.iloc[0] > 0).all()
    assert watching.predict(part)["anomaly"][0]


@several
@given(glitch=st.floats(1.0, 1e300), share=away)
def test_one_glitch_hides_no_smaller_move(watching, glitch, share):
    dew = at(1013.25, 200, 1013.25 * (1 + share))
    small = beside_still(TEST, dew=dew)
    both = beside_still(TEST, dew=np.where(np.arange(300) == 100, glitch + 1014.0, dew))
    quiet = np.arange(300) != 100
    np.testing.assert_array_equal(
        watching.score(both)["score"][quiet], watching.score(small)["score"][quiet]
    )
    assert watching.predict(both)["anomaly"][[100, 200]].all()


@pytest.mark.filterwarnings("ignore:.*readings are missing")
def test_what_stood_still_does_not_count_while_it_does_or_is_missing(watching, tmp_path):
    test = beside_still(TEST)
    gone = test.copy()
    gone.loc[50:60, [*STILL]] = np.nan
    for frame in (test, gone):
        each = watching.score(frame, per_variable=True)
        np.testing.assert_allclose(watching.score(frame)["score"], each[NAMES[:3]].mean(axis=1))
    assert each.loc[50:60, [*STILL]].isna().all(axis=None)
    assert (watching.score(test[[*STILL]])["score"] == 0.0).all()
    assert not watching.predict(test[[*STILL]])["anomaly"].any()
    watching.save(tmp_path)
    moved = beside_still(TEST, leak=at(3e-6, 50, 9e-6))
    pd.testing.assert_frame_equal(load(tmp_path).score(moved), watching.score(moved))


@pytest.mark.parametrize("rows", [TRAIN[:1], np.where(np.eye(5), TRAIN[:5], np.nan)])
def test_single_readings_do_not_tell_what_is_usual(rows):
    with pytest.raises(DataError, match="more rows"):
        quick().fit(rows)


def test_where_nothing_moved_in_fit_any_move_rings(tmp_path):
    still = np.tile([5.0, 0.0], (100, 1))
    model = quick().fit(still)
    assert not model.predict(still).any()
    panel = read_panel(still)
    picture = tmp_path / "constant.png"
    draw_anomalies(panel, model.score_panel(panel), model.threshold_, picture)
    assert "threshold 10: nothing changes, and any change lies above it" in model.report_
    beside = np.column_stack([still, np.full(100, 3.0)])  # a new one that stands still as well
    assert not model.predict(beside).any()
    # One that is dead, or read once, tells nothing of what is usual.
    for moment in (None, 20, 90):
        once = np.full(100, np.nan) if moment is None else at(np.nan, moment, 5.0, steps=100)
        other = quick().fit(np.column_stack([still, once]))
        assert vars(other.calibration_) | {"factors": ()} == vars(model.calibration_) | {
            "factors": ()
        }
    still[40, 1] = 1e-12
    assert model.predict(still).nonzero()[0].tolist() == [40]


def test_moments_at_which_only_what_stands_still_was_read_are_no_threshold():
    seldom = np.where(np.arange(600)[:, None] % 5 == 0, TRAIN[:, :3], np.nan)
    model = quick(contamination=0.05).fit(np.column_stack([seldom, np.full(600, 7.0)]))
    assert model.threshold_ > 0
    assert model.predict(np.column_stack([seldom, np.full(600, 7.0)])).mean() < 0.1


def test_what_moves_only_in_the_held_out_part_has_the_spread_of_all():
    late = np.where(np.arange(600) < 480, 0.0, 20 + 5 * np.sin(np.arange(600) / 5))
    model = quick().fit(np.column_stack([TRAIN[:, :3], late]))
    test = np.column_stack([TEST[:, :3], 20 + 5 * np.sin(np.arange(300) / 5)])
    ordinary = model.score(test, per_variable=True)[150, 3]
    test[150, 3] = 5000.0
    assert model.score(test, per_variable=True)[150, 3] > 1000 * ordinary
    assert model.predict(test)[150]


def test_what_stood_still_in_each_group_has_a_constant_of_its_own():
    both = pd.concat([beside_still(TRAIN[:300]), beside_still(TRAIN[300:], flag=4.0)])
    data = both.assign(unit=np.repeat(["a", "b"], 300))
    model = quick().fit(data, group="unit")
    assert not model.score(data, per_variable=True)[[*STILL]].any(axis=None)
    swapped = data.assign(unit=np.repeat(["b", "a"], 300))
    each = model.score(swapped, per_variable=True)
    assert (each["flag"] > 0).all()
    assert not each["leak"].any()
    # A new group is on the level that it has: there only what leaves that has moved.
    new = beside_still(TEST, flag=at(9.0, 50, 9.1)).assign(unit="c")
    assert model.score(new, per_variable=True)["flag"].to_numpy().nonzero()[0].tolist() == [50]
    # One that moves in another group has the spread it has there.
    moving = data.assign(flag=np.where(data["unit"] == "a", 0.0, np.resize([0.0, 1.0], 600)))
    model = quick().fit(moving, group="unit")
    ahead = beside_still(TEST, flag=at(0.0, 50, 1e-3)).assign(unit="a")
    assert not model.predict(ahead)["anomaly"][50]


@pytest.mark.parametrize("moment", [7, 550])
def test_a_single_reading_or_none_in_fit_does_not_make_a_sensor_one_that_stood_still(moment):
    once = beside_still(TRAIN, dew=at(np.nan, moment, 5.0, steps=600), leak=np.nan)
    model = quick().fit(once)
    waves = beside_still(TEST, dew=1e3 * TEST[:, 3], leak=1e-9 * TEST[:, 4])
    each = model.score(waves, per_variable=True)
    assert each[["dew", "leak"]].median().max() < 2
    still = model.score(waves.assign(leak=1e20 + 1e5 * np.arange(300) % 2), per_variable=True)
    assert still["leak"].max() < 10


def test_a_group_is_known_by_its_number_however_that_is_written():
    def plants(*names):
        values = np.vstack([TRAIN[:300], TRAIN[300:] + 500.0])
        return pd.DataFrame(values, columns=NAMES).assign(unit=np.repeat(names, 300))

    def shifted_alarms(model, *names):
        data = plants(*names)
        return model.predict(data.assign(**{name: data[name] + 50.0 for name in NAMES}))["anomaly"]

    for fitted in ((1, 2), ("001", "002"), ("1.0", "2")):
        model = quick().fit(plants(*fitted), group="unit")
        for names in ((1, 2), (1.0, 2.0), ("001", "02"), ("1", "2.0")):
            assert shifted_alarms(model, *names).mean() > 0.9
        assert shifted_alarms(model, "10", "a1").mean() < 0.1
    # Where several names are the same number, each is itself, and another is none of them.
    model = quick().fit(plants("1", "001"), group="unit")
    assert shifted_alarms(model, "1", "001").mean() > 0.9
    assert shifted_alarms(model, "01", "1.0").mean() < 0.1
    # All digits of a long one count.
    model = quick().fit(plants("10000000000000000001", "x"), group="unit")
    assert shifted_alarms(model, "10000000000000000002", "y").mean() < 0.1


def test_a_share_that_the_held_out_moments_cannot_tell_is_said(tmp_path, capsys):
    few = quick(contamination=0.001, verbose=True).fit(TRAIN)
    said = capsys.readouterr().out
    assert "the highest of 120 held-out time steps, too few for 0.10%" in said
    few.save(tmp_path)
    for model in (few, load(tmp_path)):
        with pytest.warns(UserWarning, match="120 held-out time steps") as caught:
            model.predict(TEST)
        assert caught[0].filename == __file__
    quick(contamination=0.01).fit(TRAIN).predict(TEST)


def test_more_gaps_than_fit_had_are_said(tmp_path):
    random = np.random.default_rng(0)
    gaps = [np.where(random.random(TRAIN.shape) < share, np.nan, TRAIN) for share in (0.1, 0.4)]
    whole, gappy = quick().fit(TRAIN), quick().fit(gaps[1])
    whole.save(tmp_path)
    for model in (whole, load(tmp_path)):
        for call in (model.score, model.predict):
            with pytest.warns(
                UserWarning, match="1[01]% .* missing, and 0% were in `fit`"
            ) as caught:
                call(gaps[0])
            assert caught[0].filename == __file__
    # As many as there were, and a sensor that is dead, need no word.
    gappy.predict(gaps[1])
    dead = TEST.copy()
    dead[160:, 2] = dead[:, 3] = np.nan
    whole.predict(dead)


def test_data_shorter_than_the_context_is_said():
    model = quick().fit(TRAIN)
    with pytest.warns(UserWarning, match="1 of 2 systems have fewer than 32 time steps"):
        model.predict([TEST, TEST[:31]])
    model.predict([TEST, TEST[:32]])
    # Where `fit` had no more, it is what the model knows.
    quick(contamination=0.4).fit(TRAIN[:20]).predict(TRAIN[:20])


def test_another_step_of_time_than_that_of_fit_is_said(tmp_path):
    hours = pd.date_range("2026-01-01", periods=600, freq="h")
    train = pd.DataFrame(TRAIN, hours, NAMES)
    fitted = quick().fit(train)
    fitted.save(tmp_path)
    for model in (fitted, load(tmp_path)):
        assert list(map(str, model.frequencies_)) == ["1 hour"]
        with pytest.warns(UserWarning, match="2 hours apart, .* 1 hour apart") as caught:
            model.score(train[::2])
        assert caught[0].filename == __file__
        with pytest.warns(UserWarning, match="15 minutes apart"):
            model.predict(train.set_axis(pd.date_range("2026-01-01", periods=600, freq="15min")))
        # At the same step, from another time on, in a zone, or with nothing that tells a step.
        for index in (hours + pd.Timedelta(days=400), hours.tz_localize("UTC"), np.arange(600)):
            model.predict(train.set_axis(index))
        model.predict(TRAIN)


@pytest.mark.filterwarnings("ignore:.*readings are missing", "ignore:.*fewer than 32")
def test_few_rows_that_tell_no_step_are_read_at_that_of_fit():
    hours = pd.date_range("2026-01-01", periods=600, freq="h")
    train = pd.DataFrame(TRAIN, hours, NAMES)
    model = quick().fit(train)
    rows = [0, 5, 10]
    on_the_grid = train[:11].copy()
    on_the_grid.iloc[np.setdiff1d(np.arange(11), rows)] = np.nan
    expected = model.score(on_the_grid)["score"].iloc[rows]
    np.testing.assert_allclose(model.score(train.iloc[rows])["score"], expected, rtol=1e-5)


def test_a_pipeline_gives_scores():
    pipeline = make_pipeline(FunctionTransformer(), quick())
    score = pipeline.fit(TRAIN).score(TEST)
    np.testing.assert_array_equal(score, pipeline[-1].score(TEST))
    with pytest.raises(SettingError, match="time='when'"):
        pipeline[-1].score(TEST, "when")


def test_a_plant_that_stands_still_at_the_end_of_fit_gives_no_threshold():
    still = TRAIN.copy()
    still[350:] = still[350]
    with pytest.warns(UserWarning, match="constant") as said:
        quick().fit(still)
    assert said[0].filename == __file__


SEVERAL = faulty_plant(1, sensors=12, train_steps=1000, test_steps=400, faults=5)


@pytest.fixture(scope="module")
def closed() -> Detector:
    return quick().fit(SEVERAL[0])


def test_events_say_when_and_who(closed):
    values = SEVERAL[0][:300].copy()
    values[100:110, 3] += 20.0
    values[105:110, 5] += 20.0
    values[200, 7] -= 30.0
    first, second = (one for one in closed.events(values) if one.score > 10)
    assert 98 <= first.start <= 100 <= first.peak <= first.end < 140
    assert set(first.variables[:2]) == {"v3", "v5"}
    assert (second.start, second.peak, second.variables[0]) == (200, 200, "v7")
    assert second.lead >= 0
    hours = pd.date_range("2026-01-01", periods=300, freq="h")
    frame = pd.DataFrame(values, hours, closed.variables_in_)
    (same, _) = (one for one in closed.events(frame) if one.score > 10)
    assert same.peak == frame.index[first.peak]
    assert closed.events(values[40:80]) == []


def test_an_event_leads_by_the_alarms_of_its_variables_before():
    alarm = np.array([0, 0, 0, 0, 1, 1] + [0] * 20 + [1], bool)
    alarms = np.stack([np.arange(27) >= 2, np.arange(27) >= 4])
    each = np.where(alarms, 5.0, 1.0) * [[1.0], [9.0]]
    found = find_events(0, np.arange(27), "ab", each.mean(0), each, alarm, alarms)
    first, second = found
    assert (first.start, first.end, first.lead, first.variables) == (4, 5, 2, ("b", "a"))
    assert (second.start, second.end) == (26, 26)


def test_each_variable_has_alarms_of_its_own(closed, tmp_path):
    values = SEVERAL[0][:300].copy()
    values[100:110, 3] += 20.0
    alarms = closed.predict(values, per_variable=True)
    assert alarms.shape == values.shape
    assert alarms[100:110, 3].all()
    assert alarms[:100].mean() < 0.05
    assert closed.predict(SEVERAL[1][:, [4]], per_variable=True).shape == (400, 1)
    closed.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict(values, per_variable=True), alarms)
    assert load(tmp_path).events(values) == closed.events(values)


def test_the_decision_function_is_flat_and_keeps_the_index(closed):
    values = SEVERAL[1]
    plain = closed.decision_function(values)
    np.testing.assert_array_equal(plain > 0, closed.predict(values))
    hours = pd.date_range("2026-01-01", periods=400, freq="h")
    frame = pd.DataFrame(values, hours, closed.variables_in_)
    found = closed.decision_function(frame)
    assert isinstance(found, pd.Series)
    assert found.index.equals(frame.index)
    np.testing.assert_array_equal(found, plain)
    columns = dict(zip(closed.variables_in_, values.T, strict=True))
    for other in (pl.DataFrame(columns), columns):
        np.testing.assert_array_equal(closed.decision_function(other), plain)


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_readings_far_off_in_the_held_out_part_blind_no_other_sensor(size):
    train, scales = SEVERAL[0].copy(), SEVERAL[0].std(0)
    train[[850, 900, 950], 0] += size * scales[0]
    fault = SEVERAL[0][:300].copy()
    fault[100:120, 5] += 8 * scales[5]
    assert quick().fit(train).predict(fault)[100:120].sum() >= 14


def test_the_right_one_of_many_sensors_is_among_the_three_to_blame_first():
    right = []
    for seed in range(4):
        train, test, labels, _ = faulty_plant(
            seed, sensors=12, train_steps=1500, test_steps=1000, faults=10
        )
        each = quick().fit(train).score(test, per_variable=True)
        edges = np.flatnonzero(np.diff(labels.any(1).astype(int), prepend=0, append=0))
        for begin, end in edges.reshape(-1, 2):
            first = np.argsort(-np.nanmax(each[begin:end], 0))[:3]
            right.append(labels[begin:end].any(0).argmax() in first)
    assert np.mean(right) >= 0.9


@pytest.mark.filterwarnings("ignore:.*readings are missing")
def test_sensors_that_die_or_join_raise_no_alarm_by_themselves(closed):
    values = plant(1, sensors=12, steps=1400)[0][1000:]
    before = closed.predict(values).mean()
    changed = values.copy()
    changed[150:, [2, 9]] = np.nan
    changed[:200, 4] = changed[50:90, 6] = np.nan
    alarms = closed.predict(changed)
    assert alarms.mean() <= before + 0.02
    assert not alarms[[50, 90, 150, 200]].any()


def test_a_level_that_has_shifted_is_said_once_and_raises_no_alarm_for_ever():
    values = plant(3, sensors=6, steps=6000)[0]
    train, test = values[:3000], values[3000:].copy()
    test[500:, 2] += 10 * train[:, 2].std()
    model, rigid = (quick(adapt=adapt).fit(train) for adapt in (1000, None))
    assert quick().fit(values).adapt_ == 1200
    with pytest.warns(UserWarning, match=r"not what was fitted: .*level .*2") as caught:
        alarms = model.predict(test)
    assert caught[0].filename == __file__
    assert alarms[500:900].mean() > 0.9
    assert alarms[1600:].mean() < 0.05
    assert rigid.predict(test)[1600:].mean() > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(test)  # it has been said
    # A second fault is seen from the new level.
    test[2500:2510, 2] += 8 * train[:, 2].std()
    assert model.predict(test)[2500:2510].all()


def test_a_constant_that_has_changed_for_good_is_normal_after_a_while():
    constant = np.where(np.arange(4000) < 2500, 5.0, 6.0)
    values = np.column_stack([plant(0, sensors=3, steps=4000)[0], constant])
    model = quick(adapt=500).fit(values[:2000])
    alarms = model.predict(values[2000:], per_variable=True)[:, 3]
    assert alarms[500:700].all()
    assert not alarms[1100:].any()


def test_share_and_names_of_what_is_not_as_in_fit_are_facts(closed):
    panel = read_panel(SEVERAL[1])
    drift = closed.drift(panel, closed.score_panel(panel))
    assert not drift.shifted
    moved = read_panel(SEVERAL[1] + 50 * np.eye(12)[3])
    drift = closed.drift(moved, closed.score_panel(moved))
    assert list(drift.shifted) == list(drift.beyond) == ["v3"]
    assert drift.beyond["v3"] > 0.9
    assert drift.alarms > 0.9


@pytest.mark.parametrize(
    "wrong", [{"members": ["ridge", "nothing"]}, {"members": []}, {"adapt": 3}, {"epochs": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        quick(**wrong).fit(TRAIN)
