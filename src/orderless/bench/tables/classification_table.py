"""The table of classification: sets of the UEA archive, accuracy in percent."""

from collections.abc import Sequence

from orderless.bench.config import DETERMINISTIC_SEEDS, CellConfig, frozen, training_of
from orderless.bench.datasets.catalogue import CATALOGUE, CLASSIFICATION
from orderless.bench.datasets.readers import uea
from orderless.bench.models.chosen_epoch import GivenCasesChooseEpoch
from orderless.bench.models.classifiers import commonest_class, fit_ridge_classifier
from orderless.bench.models.rocket import CLASSES, fit_rocket, predict_rocket
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.classification_rules import scale_cases, selection_cases
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.seeds import run_seeds
from orderless.bench.table import Metric, Table
from orderless.estimators.report import MODEL as OURS
from orderless.metrics import accuracy

NAME = "classification"
MODELS = ("orderless", "orderless identified", "commonest class", "ridge", *CLASSES)
BUDGET = {"epochs": 60, "steps": 50}
ACCURACY = "accuracy"
"""What chooses an epoch in the published code; by itself `Classifier` goes by its cross-entropy."""
SETS = tuple(name for name, entry in CATALOGUE.items() if entry.task == CLASSIFICATION)


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every cell: the ten sets of the paper, then the others."""
    return [cell(dataset, model, protocol, seeds) for dataset in SETS for model in MODELS]


def cell(dataset: str, model: str, protocol: str, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    options: dict[str, object] = {}
    if model.startswith("orderless"):
        identify = "name" if model == "orderless identified" else None
        options["classifier"] = {"preset": "default", "identify": identify}
        options["budget"] = BUDGET
        if protocol == PAPER:
            options["choose_by"] = ACCURACY
    return CellConfig(
        table=NAME,
        dataset=dataset,
        setting="all",
        model=model,
        protocol=protocol,
        # The ridge depends on which cases are held out, so it has seeds as well.
        seeds=DETERMINISTIC_SEEDS if model == "commonest class" else tuple(seeds),
        options=frozen(options),
    )


def run(config: CellConfig) -> Outcome:
    """Learn from the training cases and score the test cases."""
    data = uea(config.dataset)
    train, test = scale_cases(data.train, data.test, config.protocol, config.dataset)

    def run_seed(seed: int) -> SeedResult:
        learn, choose = selection_cases(data.train_labels, config.protocol, seed)
        chooser = (test, data.test_labels)
        if choose is not None:
            chooser = (train[choose], data.train_labels[choose])
        validation: dict[str, float] = {}
        chosen: dict[str, float] = {}
        epochs = None
        if config.model == "commonest class":
            predicted = commonest_class(data.train_labels)(test)
        elif config.model == "ridge":
            ridge = fit_ridge_classifier(train[learn], data.train_labels[learn], *chooser)
            predicted = ridge.predict(test)
            validation = {"accuracy": 100 * ridge.validation_accuracy}
            chosen = {"penalty": ridge.penalty}
        elif config.model in CLASSES:
            # Nothing is chosen, so nothing has to be held out.
            rocket = fit_rocket(config.model, train, data.train_labels, seed)
            predicted = predict_rocket(rocket, test)
        else:
            model = GivenCasesChooseEpoch(
                random_state=seed,
                verbose=False,
                **config.option("classifier"),
                **training_of(config.option("budget")),
            ).fit_with(
                train[learn],
                data.train_labels[learn],
                *chooser,
                by_accuracy=config.settings.get("choose_by") == ACCURACY,
            )
            predicted, epochs = model.predict(test), len(model.history_) - 1
            validation = {"accuracy": 100 * (1 - model.errors_[OURS])}
        scores = {"accuracy": 100 * accuracy(data.test_labels, predicted)}
        return SeedResult(seed, scores, validation, chosen, epochs)

    return Outcome(run_seeds(config.seeds, run_seed), data.checksum, data.note)


TABLE = Table(
    NAME,
    "Classification on UEA",
    cells,
    run,
    MODELS,
    dict.fromkeys((FAIR, PAPER), (Metric("accuracy", "accuracy %", 1, higher_is_better=True),)),
    peers=dict.fromkeys(CLASSES, "aeon"),
)
