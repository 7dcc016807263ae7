"""Where our own model stands in each table, on the rows for which it has figures."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from orderless.bench.grid import Grid
from orderless.bench.m4_rows import BY_SERIES
from orderless.bench.published import THE_PAPER
from orderless.bench.registry import TABLES
from orderless.bench.report.words import heading
from orderless.bench.rows import Row

HEAD = ("", "mean over", "ours", "best baseline here", "the paper", "our mean rank")


@dataclass(frozen=True)
class Standing:
    """Means over the same rows; None where a column lacks one of them."""

    grid: Grid
    rows: str
    ours: float
    baseline: tuple[str, float] | None
    paper: float | None

    @property
    def entries(self) -> list[str]:
        """The line of the overview, in the order of `HEAD`."""
        digits = self.grid.metric.digits
        best = "-" if self.baseline is None else f"{self.baseline[0]} {self.baseline[1]:.{digits}f}"
        rank = f"{self.grid.ranks[self.grid.measured[0]]:.2f} of {len(self.grid.ranks)}"
        return [
            f"{heading(self.grid)}: {self.grid.metric.label}",
            self.rows,
            f"{self.ours:.{digits}f}",
            best,
            "-" if self.paper is None else f"{self.paper:.{digits}f}",
            rank,
        ]


def standings(grids: Sequence[Grid]) -> list[Standing]:
    """One for each grid of a table in which our model has a figure."""
    return [
        found
        for grid in grids
        if grid.table.name in TABLES
        if (found := _standing(grid)) is not None
    ]


def _standing(grid: Grid) -> Standing | None:
    ours, *others = grid.measured
    rows = [row for row in grid.rows if not row.summary and row.figures[ours].value is not None]
    if not rows or ours not in grid.ranks:
        return None
    # Where the paper has figures, all are compared on those rows.
    rows = [row for row in rows if _value(row, THE_PAPER) is not None] or rows
    words = f"{len(rows)} row{'s' if len(rows) > 1 else ''}"
    # Of M4 the mean over all series is the figure that everybody prints.
    overall = [row for row in grid.rows if row.label == BY_SERIES and _value(row, ours) is not None]
    if overall:
        rows, words = overall, "all series"

    def mean(column: str) -> float | None:
        values = [_value(row, column) for row in rows]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(values) else None

    own = mean(ours)
    assert own is not None
    # Our other models are not baselines of this one.
    means = {name: mean(name) for name in others if not name.startswith(ours)}
    known = [(value, name) for name, value in means.items() if value is not None]
    best = (max if grid.metric.higher_is_better else min)(known, default=None)
    paper = mean(THE_PAPER) if THE_PAPER in grid.published else None
    return Standing(grid, words, own, None if best is None else (best[1], best[0]), paper)


def _value(row: Row, column: str) -> float | None:
    return row.figures[column].value if column in row.figures else None
