"""The peer is not installed for tests: a stand-in of the same name shows how it is called."""

import sys
from types import ModuleType

import numpy as np
import pytest
from bench_data import write_cases

from orderless.bench.models import classifiers
from orderless.bench.models.classifiers import Labelled, Lesson
from orderless.bench.models.columns import column
from orderless.bench.tables import classification_table
from orderless.errors import SettingError


class StandIn:
    """Remembers what it was given, and names the first class."""

    given: list = []  # noqa: RUF012

    def __init__(self, random_state):
        self.random_state = random_state

    def fit(self, cases, labels):
        StandIn.given.append((cases, self.random_state))
        self.first = labels[0]
        return self

    def predict(self, cases):
        assert not np.isnan(cases).any()
        return [self.first] * len(cases)


@pytest.fixture
def aeon(monkeypatch):
    StandIn.given.clear()
    for name in ("aeon", "aeon.classification", "aeon.classification.convolution_based"):
        module = ModuleType(name)
        module.MiniRocketClassifier = StandIn
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(classifiers, "find_spec", lambda name: object())


def lesson(cases, seed=0):
    some = Labelled(cases, np.array(["a", "b"]))
    return Lesson(some, some, some, seed, {})


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(classifiers, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="aeon"):
        column("classification", "MiniRocket")(lesson(np.zeros((2, 1, 9))))


def test_a_peer_gets_padded_cases_and_the_seed(aeon):
    cases = np.full((2, 1, 9), np.nan)
    found = column("classification", "MiniRocket")(lesson(cases, seed=7))
    ((given, seed),) = StandIn.given
    assert (given == 0).all()
    assert given.dtype == np.float32
    assert seed == 7
    assert found.predict(cases).tolist() == ["a", "a"]


def test_a_peer_stands_in_the_table_and_learns_from_all_training_cases(aeon, folder):
    write_cases(folder)
    cell = classification_table.TABLE.cell("BasicMotions", "all", "MiniRocket", "fair", (0, 1))
    outcome = classification_table.run(cell)
    assert [seed.test["accuracy"] for seed in outcome.seeds] == [50.0, 50.0]
    assert [len(cases) for cases, _ in StandIn.given] == [20, 20]
