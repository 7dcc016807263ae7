import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import LeaveOneOut, cross_val_score

from orderless import Classifier, load
from orderless.data.simulate import motions
from orderless.errors import DataError, NotFittedError, SettingError, VariableMismatch
from orderless.models.classification import closed_form

CASES, LABELS, NAMES = motions(0, cases=48)
SMALL = {"channels": 16, "states": 2, "stride": 4, "patch": 8}
CLOSED = ["commonest class", "flat ridge", "convolutions"]


def quick(**settings) -> Classifier:
    base = {"members": ["flat ridge", "convolutions"], "identify": None, "verbose": False}
    return Classifier(**(base | settings))


def as_frame(cases) -> pd.DataFrame:
    """Long in cases, wide in variables."""
    return pd.concat(
        pd.DataFrame(case.T, columns=NAMES).assign(case=number, time=range(case.shape[1]))
        for number, case in enumerate(cases)
    )


@pytest.fixture(scope="module", params=["convolutions", "flat ridge", "network"])
def trained(request) -> Classifier:
    settings = {"network": SMALL, "epochs": 15, "training": {"learning_rate": 0.01}}
    return quick(members=request.param, **settings).fit(CASES[:36], LABELS[:36])


def test_motions_are_told_apart(trained):
    least = 0.0 if trained.weights_.get("flat ridge") else 0.7
    assert trained.score(CASES[36:], LABELS[36:]) >= least
    assert set(trained.predict(CASES[36:])) <= set(LABELS)


def test_labels_of_another_kind_are_no_score_of_zero(trained):
    with pytest.raises(DataError, match=r"are numbers, such as 0, .* text, such as 'drift'"):
        trained.score(CASES[:2], [0, 1])
    with pytest.raises(DataError, match="of type int, str"):
        trained.score(CASES[:2], [0, "fast"])


def test_cases_of_classes_that_fit_did_not_see_are_named_wrongly():
    model = quick(members="flat ridge").fit(CASES[:12], LABELS[:12])
    assert model.score(CASES[:2], ["new", "newer"]) == 0.0
    numbers = [0] * 5 + [1] * 6 + [2]
    scores = cross_val_score(model, CASES[:12], numbers, cv=LeaveOneOut(), error_score="raise")
    assert scores[-1] == 0.0


def test_probabilities_add_up_to_one(trained):
    probabilities = trained.predict_proba(CASES)
    assert probabilities.shape == (48, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("identify", [None, "name"])
@pytest.mark.parametrize("member", ["flat ridge", "convolutions", "network"])
def test_the_order_of_named_variables_changes_nothing_to_the_bit(identify, member):
    frame = as_frame(CASES[:12])
    model = quick(identify=identify, members=member, network=SMALL, epochs=1)
    model.fit(frame, LABELS[:12], group="case", time="time")
    shuffled = frame[["time", *NAMES[::-1], "case"]]
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(shuffled))


def test_exchangeable_variables_have_no_names(trained):
    shuffled = [case[::-1] for case in CASES]
    np.testing.assert_allclose(
        trained.predict_proba(shuffled), trained.predict_proba(CASES), atol=1e-5
    )


@pytest.mark.parametrize("member", ["flat ridge", "convolutions", "network"])
def test_identified_variables_do(member):
    model = quick(identify="name", members=member, network=SMALL, epochs=2).fit(CASES, LABELS)
    shuffled = [case[::-1] for case in CASES]
    assert not np.allclose(model.predict_proba(shuffled), model.predict_proba(CASES), atol=1e-6)


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
        model = quick(members="flat ridge").fit(CASES[:12], labels)
        assert set(model.predict(CASES[:12])) <= set(np.asarray(labels).tolist())


@pytest.mark.parametrize("identify", [None, "name"])
def test_what_stands_still_within_cases_counts_in_any_unit(identify):
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    level = (random.standard_normal(40) + 3 * labels)[:, None, None]
    cases = np.broadcast_to(level, (40, 1, 12))
    model = quick(members="flat ridge", identify=identify)
    found = [
        model.fit(unit * cases, labels).predict_proba(unit * cases)
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
    with pytest.raises(SettingError, match="members"):
        quick(members=["forest"]).fit(CASES, LABELS)
    with pytest.raises(SettingError, match="epochs"):
        quick(epochs=0).fit(CASES, LABELS)
    with pytest.raises(DataError, match="one group"):
        quick().fit(CASES, LABELS, groups=["a"] * len(CASES))
    with pytest.raises(NotFittedError):
        Classifier().predict(CASES)


@pytest.mark.parametrize("members", [CLOSED, "network"])
def test_one_case_of_each_class_is_enough(members):
    model = quick(members=members, network=SMALL, epochs=1).fit(CASES[:3], LABELS[:3])
    assert np.isfinite(model.predict_proba(CASES)).all()
    assert len(model.classes_) == 3


def test_fit_says_who_won(capsys):
    quick(verbose=True, members=CLOSED).fit(CASES, LABELS)
    said = capsys.readouterr().out
    for words in ("4 variables", "48 cases", "3 classes", *CLOSED, "weight"):
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


def of_places(random: np.random.Generator, cases: int) -> tuple[np.ndarray, np.ndarray]:
    """The class is the place of the one variable that swings: only names tell it."""
    labels = np.arange(cases) % 3
    series = 0.3 * random.standard_normal((cases, 3, 40))
    series[np.arange(cases), labels] += np.sin(np.arange(40) / 2 + random.uniform(0, 6, (cases, 1)))
    return series, labels


def test_names_are_used_where_they_help_and_only_where_there_are_names():
    cases, labels = of_places(np.random.default_rng(0), 60)
    frame = pd.concat(
        pd.DataFrame(case.T, columns=["x", "y", "z"]).assign(case=number)
        for number, case in enumerate(cases)
    )
    named = quick(identify="auto").fit(frame, labels, group="case")
    assert named.identify_ == "name"
    assert named.score(frame, labels, group="case") > 0.95
    free = quick(identify="auto").fit(cases, labels)
    assert free.identify_ is None
    assert free.errors_["this model"] > 0.3
    for model in (named, free):
        (said,) = (line for line in model.report_ if line.startswith("variables"))
        assert said.count("%") == 2  # both ways, whichever was chosen


def test_names_are_left_alone_where_they_say_nothing():
    random = np.random.default_rng(0)
    rows = []
    labels = np.arange(40) % 2
    for number, label in enumerate(labels):
        swing = np.sin(np.arange(40) / (2 + 2 * label) + random.uniform(0, 6))
        names = random.permutation(["a", "b", "c"])
        values = 0.3 * random.standard_normal((40, 3))
        values[:, 0] += swing
        rows.append(pd.DataFrame(values, columns=names)[["a", "b", "c"]].assign(case=number))
    model = quick(identify="auto").fit(pd.concat(rows), labels, group="case")
    assert model.identify_ is None


def test_cases_of_a_group_are_held_out_together():
    """Each group has its own signature, and its own class: with the group goes all knowledge."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), 6)
    signature = 3.0 * random.standard_normal((6, 2, 30))
    cases = signature[groups] + 0.1 * random.standard_normal((36, 2, 30))
    labels = groups % 2
    alone = quick().fit(cases, labels)
    together = quick().fit(cases, labels, groups=groups)
    assert alone.errors_["convolutions"] < 0.1
    assert together.errors_["convolutions"] > 0.2


def test_a_member_of_no_use_is_neither_kept_nor_saved(tmp_path):
    model = quick(members=CLOSED).fit(CASES, LABELS)
    assert model.weights_["commonest class"] == 0.0
    assert [one.name for one in model.stack_.members] == ["convolutions"]
    model.save(tmp_path)
    other = load(tmp_path)
    assert other.weights_ == model.weights_
    np.testing.assert_array_equal(other.predict_proba(CASES), model.predict_proba(CASES))


def test_the_stack_weighs_members_that_know_different_things():
    """Of half of the classes only the level tells, of the other half only the rhythm."""
    random = np.random.default_rng(0)
    labels = np.arange(160) % 4
    time = np.arange(48)
    cases = random.standard_normal((160, 1, 48))
    cases[:, 0] += np.where(labels % 2, 1.0, -1.0)[:, None] * (labels < 2)[:, None] * 0.7
    rhythm = np.sin(time / np.where(labels % 2, 1.0, 2.0)[:, None] + random.uniform(0, 6, (160, 1)))
    cases[:, 0] += 1.5 * rhythm * (labels >= 2)[:, None]
    model = quick(members=CLOSED).fit(cases, labels)
    assert model.errors_["this model"] <= model.errors_["flat ridge"]
    assert abs(sum(model.weights_.values()) - 1) < 1e-6


def test_predicting_hashes_nothing_and_builds_no_task(trained, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("orderless.models.fingerprint.fingerprint", refuse)
    monkeypatch.setattr("orderless.models.classification.network.ClassificationTask", refuse)
    monkeypatch.setattr("orderless.models.classification.fit.build_task", refuse)
    trained.predict(CASES[:2])


def test_cases_without_a_known_name_are_counted():
    model = quick(identify="name").fit(as_frame(CASES[:12]), LABELS[:12], group="case", time="time")
    other = as_frame(CASES[:3]).rename(columns={name: f"other {name}" for name in NAMES})
    with pytest.warns(UserWarning, match="3 of 3 cases"):
        model.predict(other)


def test_a_stopped_network_goes_on_and_ends_the_same(tmp_path):
    settings = {"members": "network", "network": SMALL, "epochs": 2}
    whole = quick(**settings).fit(CASES[:12], LABELS[:12])
    folders = quick(**settings).fit(CASES[:12], LABELS[:12], checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == len(whole.history_) == 3
    np.testing.assert_array_equal(whole.predict_proba(CASES[:5]), folders.predict_proba(CASES[:5]))
    again = quick(**settings).fit(CASES[:12], LABELS[:12], checkpoint=tmp_path)
    np.testing.assert_array_equal(whole.predict_proba(CASES[:5]), again.predict_proba(CASES[:5]))


def test_many_cases_have_several_ridges_with_kernels_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(closed_form, "MANY_CASES", 10)
    monkeypatch.setattr(closed_form, "MOST_FEATURES", 400)
    model = quick(members="convolutions").fit(CASES[:36], LABELS[:36])
    (member,) = model.stack_.members
    assert len(member.module) == closed_form.RIDGES
    first, second = (ridge[0].together[0].competing for ridge in member.module[:2])
    assert not torch.equal(first, second)
    assert model.score(CASES[36:], LABELS[36:]) > 0.7
    model.save(tmp_path)
    other = load(tmp_path).predict_proba(CASES)
    np.testing.assert_array_equal(other, model.predict_proba(CASES))


def test_a_network_that_nobody_asked_for_must_not_take_long(monkeypatch):
    monkeypatch.setattr("orderless.models.classification.fit.STEPS", 40)
    assert Classifier(verbose=False, identify=None).fit(CASES, LABELS).history_ == {}
