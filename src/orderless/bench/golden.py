"""Figures that others can check: if one moves, the harness, not a model, has changed.

The forecasts here have no randomness and no settings to speak of, and their figures were found by
another program, or are those of the M4 competition itself.
"""

from dataclasses import dataclass

from orderless.bench.config import CellConfig, frozen
from orderless.bench.protocols.short_term_rules import NAIVE2
from orderless.bench.records import Outcome
from orderless.bench.tables import long_term_table, m4_table

NAME = "golden"
CONTEXT = 336


@dataclass(frozen=True)
class Golden:
    """A figure and how near it must be met."""

    cell: CellConfig
    metric: str
    expected: float
    tolerance: float


MSE = {
    ("ETTh1", "ridge", "fair"): (0.370, 0.403, 0.426, 0.420),
    ("ETTh1", "ridge", "paper"): (0.363, 0.399, 0.379, 0.411),
    ("ETTh2", "ridge", "fair"): (0.271, 0.333, 0.358, 0.384),
    ("ETTh2", "ridge", "paper"): (0.257, 0.312, 0.298, 0.369),
    ("Exchange", "naive", "fair"): (0.081, 0.167, 0.306, 0.810),
    ("Exchange", "naive", "paper"): (0.086, 0.175, 0.312, 0.654),
}
"""Mean squared error at the four horizons; both protocols show what dropping windows does."""
NAIVE_TOLERANCE, RIDGE_TOLERANCE = 0.0006, 0.002
"""Naive has only rounding to differ by; ridges also differ in their grid of penalties."""


def golden_figures() -> list[Golden]:
    """All of them, those that share a fit side by side."""
    figures = []
    for (dataset, model, protocol), values in MSE.items():
        tolerance = NAIVE_TOLERANCE if model == "naive" else RIDGE_TOLERANCE
        for horizon, value in zip(long_term_table.HORIZONS, values, strict=True):
            cell = CellConfig(
                NAME,
                dataset,
                horizon,
                model,
                protocol,
                options=frozen({"contexts": (CONTEXT,)}),
            )
            figures.append(Golden(cell, "mse", value, tolerance))
    for group, scores in NAIVE2.items():
        cell = CellConfig(NAME, f"M4-{group}", "all", "naive2", "fair")
        figures.append(Golden(cell, "smape", scores.smape, NAIVE_TOLERANCE))
        figures.append(Golden(cell, "mase", scores.mase, NAIVE_TOLERANCE))
    return sorted(figures, key=lambda one: (one.cell.dataset, one.cell.setting))


def run(config: CellConfig) -> Outcome:
    """Run a golden cell as its table would."""
    return m4_table.run(config) if config.dataset.startswith("M4-") else long_term_table.run(config)
