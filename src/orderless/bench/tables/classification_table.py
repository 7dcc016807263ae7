"""The table of classification: sets of the UEA archive, accuracy in percent."""

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import UEA_SETS
from orderless.bench.datasets.readers import uea
from orderless.bench.measuring import run_seeds
from orderless.bench.models.classifiers import ACCURACY, ROCKETS, Labelled, Lesson
from orderless.bench.models.columns import column
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.classification_rules import scale_cases, selection_cases
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table
from orderless.metrics import accuracy

NAME = "classification"
BUDGET = {"epochs": 60, "steps": 50}
OURS = {
    name: {"classifier": {"identify": identify}}
    for name, identify in (("orderless", None), ("orderless identified", "name"))
}
PUBLISHED = {"choose_by": ACCURACY, "budget": BUDGET}
NOTHING: dict[str, str] = {}
METRICS = (Metric("accuracy", "accuracy %", 1, higher_is_better=True),)


def run(config: CellConfig) -> Outcome:
    """Learn from the training cases and score the test cases."""
    data = uea(config.dataset)
    train, test = scale_cases(data.train, data.test, config.protocol, config.dataset)
    everything = Labelled(train, data.train_labels)

    def run_seed(seed: int) -> SeedResult:
        learn, choose = selection_cases(data.train_labels, config.protocol, seed)
        teach, chooser = (
            Labelled(train[index], data.train_labels[index])
            if index is not None
            else Labelled(test, data.test_labels)
            for index in (learn, choose)
        )
        lesson = Lesson(teach, chooser, everything, seed, config.settings)
        found = column(NAME, config.model)(lesson)
        scores = {"accuracy": 100 * accuracy(data.test_labels, found.predict(test))}
        return SeedResult(seed, scores, found.validation, found.chosen, found.epochs)

    return Outcome(run_seeds(config.seeds, run_seed), data.checksum, data.note)


TABLE = Table(
    NAME,
    "Classification on UEA",
    run,
    UEA_SETS,
    {**OURS, "commonest class": {}, "ridge": {}, **dict.fromkeys(ROCKETS, NOTHING)},
    dict.fromkeys((FAIR, PAPER), METRICS),
    # The ridge depends on which cases are held out, so it has seeds as well.
    drawn=(*OURS, "ridge", *ROCKETS),
    # The published models are networks, chosen on the test cases: so is ours.
    paper=lambda dataset, model: PUBLISHED if model in OURS else {},
    peers=dict.fromkeys(ROCKETS, "aeon"),
)
