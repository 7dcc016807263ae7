"""The table of anomaly detection: five sets; what the paper prints, and what means something."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import ANOMALY_SETS
from orderless.bench.datasets.readers import Monitored, MonitoredSet, anomaly
from orderless.bench.measuring import run_seeds
from orderless.bench.models.columns import column
from orderless.bench.models.detectors import SQUARED_ERROR
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
from orderless.bench.table import Metric, Table

NAME = "anomaly"
OURS = {
    "detector": {"preset": "tiny", "context": PAPER_WINDOW},
    "budget": {"epochs": 10, "steps": 60},
}
FAIR_METRICS = tuple(
    Metric(name, f"{label} %", 1, higher_is_better=True)
    for name, label in (
        ("vus_pr", "VUS-PR"),
        ("auc_pr", "AUC-PR"),
        ("affiliation_f1", "affiliation F1"),
        ("range_f1", "range F1"),
        ("point_f1", "point F1"),
    )
)
PAPER_METRICS = tuple(
    Metric(f"point_adjusted_{part.lower()}", f"point-adjusted {part} %", 2, higher_is_better=True)
    for part in ("F1", "precision", "recall")
)


def run(config: CellConfig) -> Outcome:
    """Score every time step of the test rows.

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
        seed,
        _mean([one.test for one in each]),
        _mean([one.validation for one in each]),
        epochs=sum(epochs) if epochs else None,
    )


def _run_system(config: CellConfig, system: Monitored, seed: int) -> SeedResult:
    taught, held_out = training_rows(len(system.train), config.protocol)
    train, test = scale_by_training_rows(system.train, system.test, taught)
    found = column(NAME, config.model)(train[taught], seed, config.settings)
    on_test = found.score(test)
    if config.protocol == PAPER:
        rule = (config.option("share"), config.option("stride"))
        figures = paper_scores(system.labels, found.score(train), on_test, *rule)
    else:
        figures = fair_scores(system.labels, found.score(train[held_out]), on_test)
    return SeedResult(seed, figures, found.validation, epochs=found.epochs)


def _mean(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


def _join(data: MonitoredSet) -> Monitored:
    return Monitored(
        data.name,
        np.concatenate([system.train for system in data.systems]),
        np.concatenate([system.test for system in data.systems]),
        np.concatenate([system.labels for system in data.systems]),
    )


def _paper(dataset: str, model: str) -> dict[str, Any]:
    rule = {"share": PAPER_SHARE[dataset], "stride": PAPER_STRIDE[dataset]}
    return rule | ({"score": SQUARED_ERROR} if model == "orderless" else {})


TABLE = Table(
    NAME,
    "Anomaly detection",
    run,
    ANOMALY_SETS,
    {"orderless": OURS, "PCA": {}, "random score": {}},
    {FAIR: FAIR_METRICS, PAPER: PAPER_METRICS},
    drawn=("orderless", "random score"),
    paper=_paper,
)
