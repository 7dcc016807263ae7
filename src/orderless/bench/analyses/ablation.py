"""What each part is worth: a branch left out, other steps of the spectral branch, another pool."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from orderless.bench.config import CellConfig
from orderless.bench.records import Outcome
from orderless.bench.table import Table
from orderless.bench.tables import long_term_table as long_term

WHOLE = "whole"
VARIANTS: dict[str, dict[str, Any] | None] = {
    WHOLE: None,
    "w/o short": {"branches": ("long", "spectral")},
    "w/o long": {"branches": ("short", "spectral")},
    "w/o spectral": {"branches": ("long", "short")},
    "spectral steps .1-.5": {"spectral_steps": (0.1, 0.5)},
    "spectral steps .01-.05": {"spectral_steps": (0.01, 0.05)},
    "attention pool": {"pool": "attention"},
    "no coupling": {"coupling": "none"},
}
"""Changes of the network, the paper's three cases and one more: no coupling at all."""
OURS = long_term.OURS["orderless"]


def fit_of(config: CellConfig) -> Hashable:
    """As in the long-term table, which has two of these networks, too."""
    return long_term.fit_of(replace(config, model="orderless"))


def run(config: CellConfig) -> Outcome:
    """As in the long-term table."""
    return long_term.run(replace(config, model="orderless"))


TABLE = Table(
    "ablation",
    "Ablation",
    run,
    ("ETTh1", "ETTm1"),
    {
        name: OURS | {"forecaster": {"preset": "default", "network": network}}
        for name, network in VARIANTS.items()
    },
    long_term.TABLE.metrics,
    long_term.HORIZONS,
    reference=WHOLE,
    comparable=False,
    fit_of=fit_of,
)
