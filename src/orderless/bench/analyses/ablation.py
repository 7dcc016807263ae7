"""What each part is worth: a branch left out, other steps of the spectral branch, another pool."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from orderless.bench.config import CellConfig, frozen
from orderless.bench.records import Outcome
from orderless.bench.table import Table
from orderless.bench.tables import long_term_table

NAME = "ablation"
SETS = ("ETTh1", "ETTm1")
WHOLE = "whole"
VARIANTS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "w/o short": {"branches": ("long", "spectral")},
    "w/o long": {"branches": ("short", "spectral")},
    "w/o spectral": {"branches": ("long", "short")},
    "spectral steps .1-.5": {"spectral_steps": (0.1, 0.5)},
    "spectral steps .01-.05": {"spectral_steps": (0.01, 0.05)},
    "attention pool": {"pool": "attention"},
    "no coupling": {"coupling": "none"},
}
"""Changes of the network, the paper's three cases and one more: no coupling at all."""


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every variant on two sets and four horizons."""
    return [
        cell(dataset, horizon, variant, protocol, seeds)
        for dataset in SETS
        for horizon in long_term_table.HORIZONS
        for variant in VARIANTS
    ]


def cell(
    dataset: str, horizon: int, variant: str, protocol: str, seeds: Sequence[int]
) -> CellConfig:
    """The cell of the long-term table with one change."""
    whole = long_term_table.cell(dataset, horizon, "orderless", protocol, seeds)
    settings = whole.settings
    settings["forecaster"]["network"] = VARIANTS[variant] or None
    return replace(whole, table=NAME, model=variant, options=frozen(settings))


def fit_of(config: CellConfig) -> Hashable:
    """As in the long-term table, which has two of these networks, too."""
    return long_term_table.fit_of(replace(config, model="orderless"))


def run(config: CellConfig) -> Outcome:
    """As in the long-term table."""
    return long_term_table.run(replace(config, model="orderless"))


TABLE = Table(
    NAME,
    "Ablation",
    cells,
    run,
    tuple(VARIANTS),
    long_term_table.TABLE.metrics,
    setting="horizon",
    reference=WHOLE,
    comparable=False,
    fit_of=fit_of,
)
