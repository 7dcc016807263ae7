import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import LeaveOneOut, cross_val_score

from orderless import Classifier, load
from orderless.data.simulate import motions
from orderless.errors import DataError, NotFittedError, SettingError, VariableMismatch

CASES, LABELS, NAMES = motions(0, cases=48)
SMALL = {"channels": 16, "states": 2, "stride": 4, "patch": 8}


def quick(**settings) -> Classifier:
    base = {"network": SMALL, "epochs": 0, "verbose": False}
    return Classifier(**(base | settings))


@pytest.fixture(scope="module")
def trained() -> Classifier:
    return quick(epochs=25, training={"learning_rate": 0.01}).fit(CASES[:36], LABELS[:36])


def test_motions_are_told_apart(trained):
    assert trained.score(CASES[36:], LABELS[36:]) > 0.7
    assert set(trained.predict(CASES[36:])) <= set(LABELS)


def test_labels_of_another_kind_are_no_score_of_zero(trained):
    with pytest.raises(DataError, match=r"are numbers, such as 0, .* text, such as 'drift'"):
        trained.score(CASES[:2], [0, 1])
    with pytest.raises(DataError, match="of type int, str"):
        trained.score(CASES[:2], [0, "fast"])


def test_cases_of_classes_that_fit_did_not_see_are_named_wrongly(trained):
    assert trained.score(CASES[:2], ["new", "newer"]) == 0.0
    numbers = [0] * 5 + [1] * 6 + [2]
    scores = cross_val_score(quick(), CASES[:12], numbers, cv=LeaveOneOut(), error_score="raise")
    assert scores[-1] == 0.0


def test_probabilities_add_up_to_one(trained):
    probabilities = trained.predict_proba(CASES)
    assert probabilities.shape == (48, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("identify", [None, "name"])
def test_the_order_of_named_variables_changes_nothing_to_the_bit(identify):
    frame = pd.concat(
        pd.DataFrame(case.T, columns=NAMES).assign(case=number, time=range(case.shape[1]))
        for number, case in enumerate(CASES[:12])
    )
    model = quick(identify=identify).fit(frame, LABELS[:12], group="case", time="time")
    shuffled = frame[["time", *NAMES[::-1], "case"]]
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(shuffled))


def test_exchangeable_variables_have_no_names(trained):
    shuffled = [case[::-1] for case in CASES]
    np.testing.assert_allclose(
        trained.predict_proba(shuffled), trained.predict_proba(CASES), atol=1e-5
    )


def test_identified_variables_do():
    model = quick(identify="name").fit(CASES, LABELS)
    shuffled = [case[::-1] for case in CASES]
    assert not np.allclose(model.predict_proba(shuffled), model.predict_proba(CASES), atol=1e-4)


def test_more_and_fewer_variables_are_classified(trained):
    more = [np.concatenate([case, case[:2]]) for case in CASES]
    fewer = [case[:1] for case in CASES]
    for cases in (more, fewer):
        assert trained.predict_proba(cases).shape == (48, 3)
    strict = quick(strict_variables=True).fit(CASES, LABELS)
    with pytest.raises(VariableMismatch):
        strict.predict(fewer)


def test_a_case_does_not_depend_on_its_neighbours(trained):
    together = trained.predict_proba(CASES[:5])
    alone = np.concatenate([trained.predict_proba([case]) for case in CASES[:5]])
    long = trained.predict_proba([np.tile(CASES[0], 4), CASES[1]])
    np.testing.assert_allclose(long[1], together[1], atol=1e-5)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_labels_of_any_kind_come_back():
    for labels in (np.arange(12) % 2, np.arange(12) % 2 == 0, list("ab") * 6):
        model = quick().fit(CASES[:12], labels)
        assert set(model.predict(CASES[:12])) <= set(np.asarray(labels).tolist())


@pytest.mark.parametrize("identify", [None, "name"])
def test_what_stands_still_within_cases_counts_in_any_unit(identify):
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    level = (random.standard_normal(40) + 3 * labels)[:, None, None]
    cases = np.broadcast_to(level, (40, 1, 12))
    found = [
        quick(epochs=0, identify=identify).fit(unit * cases, labels).predict_proba(unit * cases)
        for unit in (1.0, 1e-6, 1e6, 1e-160, 1e160)
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], atol=1e-6)
    assert np.ptp(found[0][:, 0]) > 0


def test_wrong_input_is_an_error_in_words():
    with pytest.raises(DataError, match="one class"):
        quick().fit(CASES[:3], ["a", "a", "a"])
    with pytest.raises(DataError):
        quick().fit(CASES[:3], ["a", "b"])
    with pytest.raises(SettingError, match="identify"):
        quick(identify="number").fit(CASES, LABELS)
    with pytest.raises(NotFittedError):
        Classifier().predict(CASES)


def test_one_case_of_each_class_is_enough():
    model = quick().fit(CASES[:3], LABELS[:3])
    assert len(model.classes_) == 3


def test_fit_says_who_won(capsys):
    quick(verbose=True).fit(CASES, LABELS)
    said = capsys.readouterr().out
    for words in ("4 variables", "48 cases", "3 classes", "most common class"):
        assert words in said


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, "a"] * 24, object),
        [1, "a"] * 24,
        np.array(["2026-01-01", "2026-01-02"] * 24, "M8[D]"),
    ],
    ids=["mixed", "mixed list", "dates"],
)
def test_labels_that_cannot_be_sorted_or_saved_are_refused_before_training(labels):
    with pytest.raises(DataError, match="labels are of type"):
        quick().fit(CASES, labels)


def test_cases_without_a_single_value_teach_nothing():
    with pytest.raises(DataError, match="nothing to learn from"):
        quick().fit(np.full((4, 2, 5), np.nan), ["a", "b", "a", "b"])


def test_cases_without_a_single_reading_are_counted(trained):
    cases = [np.full((4, 9), np.nan), CASES[0], np.full((2, 9), np.nan)]
    for call in (trained.predict, trained.predict_proba):
        with pytest.warns(UserWarning, match="2 of 3 cases have not a single reading") as caught:
            call(cases)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.bool_, np.str_])
def test_labels_that_are_numpy_scalars_in_an_array_of_objects_are_what_they_hold(kind, tmp_path):
    labels = np.empty(12, object)
    labels[:] = [kind(number % 2) for number in range(12)]
    model = quick().fit(CASES[:12], labels)
    plain = [one.item() for one in labels]
    assert model.classes_.tolist() == sorted(set(plain))
    assert model.score(CASES[:12], labels) == model.score(CASES[:12], plain)
    model.save(tmp_path)
    assert load(tmp_path).predict(CASES[:12]).tolist() == model.predict(CASES[:12]).tolist()


@pytest.mark.parametrize("kind", [float, object])
def test_infinite_labels_are_refused_before_training(kind):
    with pytest.raises(DataError, match="label of case 2 is infinite"):
        quick().fit(CASES[:4], np.array([0.0, 1.0, np.inf, -np.inf], kind))
