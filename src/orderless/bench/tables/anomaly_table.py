"""The table of anomaly detection: five sets; what the paper prints, and what means something."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orderless import Detector
from orderless.bench.config import CellConfig, frozen, training_of
from orderless.bench.datasets.catalogue import ANOMALY_SETS
from orderless.bench.datasets.readers import Monitored, MonitoredSet, anomaly
from orderless.bench.models.detectors import (
    Score,
    fit_pca,
    own_score,
    random_score,
    squared_error,
)
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.anomaly_rules import (
    PAPER_SHARE,
    PAPER_STRIDE,
    PAPER_WINDOW,
    fair_scores,
    paper_scores,
    scale_by_training_rows,
    training_rows,
)
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.seeds import run_seeds
from orderless.bench.table import Metric, Table
from orderless.errors import SettingError
from orderless.estimators.report import MODEL as OURS

NAME = "anomaly"
MODELS = ("orderless", "PCA", "random score")
BUDGET = {"epochs": 10, "steps": 60}
FIGURES = {
    FAIR: tuple(
        Metric(name, f"{label} %", 1, higher_is_better=True)
        for name, label in (
            ("vus_pr", "VUS-PR"),
            ("auc_pr", "AUC-PR"),
            ("affiliation_f1", "affiliation F1"),
            ("range_f1", "range F1"),
            ("point_f1", "point F1"),
        )
    ),
    PAPER: tuple(
        Metric(f"point_adjusted_{part.lower()}", f"point-adjusted {part} %", 2, True)
        for part in ("F1", "precision", "recall")
    ),
}
SQUARED_ERROR = "squared error"
"""What the published code scores a moment by, the mean over the variables; ours has its own."""


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every cell, those of one set together."""
    return [cell(dataset, model, protocol, seeds) for dataset in ANOMALY_SETS for model in MODELS]


def cell(dataset: str, model: str, protocol: str, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    options: dict[str, object] = {}
    if model == "orderless":
        options |= {"detector": {"preset": "tiny", "context": PAPER_WINDOW}, "budget": BUDGET}
        if protocol == PAPER:
            options["score"] = SQUARED_ERROR
    if protocol == PAPER:
        options |= {"share": PAPER_SHARE[dataset], "stride": PAPER_STRIDE[dataset]}
    return CellConfig(
        table=NAME,
        dataset=dataset,
        setting="all",
        model=model,
        protocol=protocol,
        seeds=(0,) if model == "PCA" else tuple(seeds),
        options=frozen(options),
    )


def run(config: CellConfig) -> Outcome:
    """Score every moment of the test rows.

    fair: each system by a model of its own, and the mean over the systems. paper: the systems are
    joined to one series, as the published code does.
    """
    data = anomaly(config.dataset)
    systems = [_join(data)] if config.protocol == PAPER else data.systems
    results = run_seeds(config.seeds, lambda seed: _run_systems(config, systems, seed))
    return Outcome(results, data.checksum, data.note)


def _run_systems(config: CellConfig, systems: Sequence[Monitored], seed: int) -> SeedResult:
    each = [_run_system(config, system, seed) for system in systems]
    epochs = [one.epochs for one in each if one.epochs is not None]
    return SeedResult(
        seed=seed,
        test=_mean([one.test for one in each]),
        validation=_mean([one.validation for one in each]),
        epochs=sum(epochs) if epochs else None,
    )


def _run_system(config: CellConfig, system: Monitored, seed: int) -> SeedResult:
    fitted, held_out = training_rows(len(system.train), config.protocol)
    train, test = scale_by_training_rows(system.train, system.test, fitted)
    score, learned = _fit(config, train[fitted], seed)
    on_test = score(test)
    if config.protocol == PAPER:
        rule = (config.option("share"), config.option("stride"))
        figures = paper_scores(system.labels, score(train), on_test, *rule)
    else:
        figures = fair_scores(system.labels, score(train[held_out]), on_test)
    return SeedResult(seed, figures, **learned)


def _mean(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


def _fit(config: CellConfig, rows: np.ndarray, seed: int) -> tuple[Score, dict[str, Any]]:
    """A score of rows, and of a network how long it learned and what chose its epoch."""
    if config.model == "PCA":
        return fit_pca(rows), {}
    if config.model == "random score":
        return random_score(seed), {}
    if config.model == "orderless":
        model = Detector(
            random_state=seed,
            verbose=False,
            **config.option("detector"),
            **training_of(config.option("budget")),
        ).fit(rows)
        learned = {
            "validation": {"mse": model.errors_[OURS]},
            "epochs": len(model.history_) - 1,
        }
        score = squared_error if config.settings.get("score") == SQUARED_ERROR else own_score
        return score(model), learned
    raise SettingError(f"There is no model {config.model!r} in the table {NAME}.")


def _join(data: MonitoredSet) -> Monitored:
    return Monitored(
        data.name,
        np.concatenate([system.train for system in data.systems]),
        np.concatenate([system.test for system in data.systems]),
        np.concatenate([system.labels for system in data.systems]),
    )


TABLE = Table(
    NAME,
    "Anomaly detection",
    cells,
    run,
    MODELS,
    FIGURES,
)
