import numpy as np
import pandas as pd
import pytest
import torch

from orderless import Detector, load
from orderless.data.simulate import faulty_plant, plant
from orderless.errors import DataError, NotFittedError, SettingError, VariableMismatch
from orderless.estimators.detection_task import neighbours
from orderless.metrics import auc_pr

TRAIN, TEST, LABELS, NAMES = faulty_plant(0, sensors=5, train_steps=600, test_steps=300, faults=4)
SMALL = {"channels": 8, "states": 2, "stride": 4, "patch": 8}


def quick(**settings) -> Detector:
    base = {"context": 32, "network": SMALL, "epochs": 0, "verbose": False}
    return Detector(**(base | settings))


@pytest.fixture(scope="module")
def trained() -> Detector:
    return quick(epochs=3, training={"learning_rate": 0.01, "steps_per_epoch": 20}).fit(TRAIN)


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
    model = quick(context=24, epochs=0).fit(data, group="group")
    plain = quick(context=24, epochs=0).fit(frame(values[:150], values[150:]), group="group")
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
    of_numbers = quick(context=24, epochs=0).fit(numbered, group="group")
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
    values = plant(0, sensors=8, steps=1600)[0]
    model = quick(epochs=2, contamination=0.02, training=SETTINGS).fit(values[:1000])
    new = values[1000:]
    for size in (8, 3, 1):
        share = np.mean([model.predict(group) for group in groups_of(new, size)])
        assert 0.004 < share < 0.04  # 2 % by 200 held-out moments: by 4 of them
    gappy = new.copy()
    gappy[::4, 1:] = np.nan
    assert model.predict(gappy)[::4].mean() < 0.04
    # And a fault of a single sensor is seen by itself.
    spread = values[:1000].std(0)
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
    for words in ("5 variables", "threshold", "neighbours in time", "the mean"):
        assert words in said


def test_neighbours_are_the_nearest_known_values():
    values = torch.tensor([[[1.0, 9.0, 3.0, 9.0, 9.0]]])
    known = torch.tensor([[[True, False, True, False, False]]])
    assert neighbours(values, known).flatten().tolist() == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert not neighbours(values, torch.zeros_like(known)).any()


def test_a_threshold_needs_readings_in_the_part_it_comes_from():
    silent = TRAIN.copy()
    silent[400:] = np.nan
    with pytest.raises(DataError, match="find the threshold"):
        quick().fit(silent)
