"""A table of figures for one metric: rows, columns, who is best, ranks.

Everything that is printed in bold or counted is computed here, from unrounded figures where we have
them and from printed ones where others have them.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orderless.bench.config import CellConfig
from orderless.bench.m4_rows import m4_rows
from orderless.bench.notes import notes_of
from orderless.bench.published import read_published
from orderless.bench.records import CellResult, find_any_result
from orderless.bench.registry import Metric, Table, has_data
from orderless.bench.rows import Figure, Row, rows_of

NO_DATA, NOT_RUN = "no data here", "not run yet"
NOISE = 3
"""Standard errors of a difference; with three seeds each, luck exceeds it once in 25 times."""


@dataclass(frozen=True)
class Grid:
    """All figures of one metric of one table under one protocol.

    table               its models are those that have a column
    published, source   the columns that others printed, and where
    against_numbers     whether the rows are numbers of variables, which a plot can have as an axis
    """

    table: Table
    protocol: str
    metric: Metric
    rows: tuple[Row, ...]
    published: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    ranks: Mapping[str, float] = field(default_factory=dict)
    firsts: Mapping[str, int] = field(default_factory=dict)
    against_numbers: bool = False

    @property
    def measured(self) -> tuple[str, ...]:
        """Ours and our baselines."""
        return self.table.models

    @property
    def columns(self) -> tuple[str, ...]:
        """What was measured, then what others printed."""
        return self.measured + self.published

    def best(self, row: Row) -> set[str]:
        """The columns that no other beats in this row, at the printed precision."""
        values = _rounded(row, self.metric)
        if not self.table.comparable:
            values = {column: values[column] for column in self.measured if column in values}
        if len(values) < 2 or self.metric.rounding:
            return set()
        top = max(values.values()) if self.metric.higher_is_better else min(values.values())
        return {column for column, value in values.items() if value == top}


def build_grid(table: Table, protocol: str, metric: Metric, results: Path) -> Grid:
    """The grid of a table from the results in a folder and from what was printed elsewhere."""
    published = read_published(table.name, protocol)
    # With two seeds asked for, a cell that has but one needs no more.
    cells = table.cells(protocol, (0, 1))
    known = {cell: find_any_result(cell, results) for cell in cells}
    there = {cell.model for cell, result in known.items() if result is not None}
    # A peer that nobody has run is a line below the table, not a column of words.
    absent = tuple(model for model in table.peers if model not in there)
    table = replace(table, models=tuple(model for model in table.models if model not in absent))
    known = {cell: result for cell, result in known.items() if cell.model not in absent}
    if table.simulated:
        known = _of_common_seeds(known)
    measured = {
        (cell.dataset, cell.setting, cell.model): _figure(cell, result, metric)
        for cell, result in known.items()
    }
    if table.name == "m4":
        results_of = {(cell.dataset, cell.model): result for cell, result in known.items()}
        rows = m4_rows(table, metric, measured, published, results_of)
    else:
        rows = rows_of(table, metric, measured, published)
    rows = [_compared(row, table) for row in rows]
    # A place among a few layers at so many variables says nothing that the figures do not.
    ranked = [] if table.simulated else rows
    ranks, firsts = rank(ranked if table.comparable else _only(ranked, table.models), metric)
    return Grid(
        table=table,
        protocol=protocol,
        metric=metric,
        rows=tuple(rows),
        published=published.models,
        source=published.source,
        notes=tuple(notes_of(known, absent, table)),
        ranks=ranks,
        firsts=firsts,
        against_numbers=table.simulated and all(cell.setting.isdecimal() for cell in cells),
    )


def _of_common_seeds(
    known: Mapping[CellConfig, CellResult | None],
) -> dict[CellConfig, CellResult | None]:
    """Results of the seeds that all of a row have: where data are drawn, each has its own."""
    common: dict[tuple[str, str], set[int]] = {}
    for cell, result in known.items():
        if result is not None:
            seeds = {seed.seed for seed in result.seeds}
            row = (cell.dataset, cell.setting)
            common[row] = common.get(row, seeds) & seeds
    return {
        cell: result
        and replace(
            result,
            seeds=tuple(
                seed for seed in result.seeds if seed.seed in common[cell.dataset, cell.setting]
            ),
        )
        for cell, result in known.items()
    }


def _compared(row: Row, table: Table) -> Row:
    """The row with what differs from the reference by no more than the seeds do marked as alike.

    That is: by less than `NOISE` standard errors of the difference.
    """
    reference = row.figures.get(table.reference)
    if reference is None or reference.value is None or reference.spread is None:
        return row
    figures = dict(row.figures)
    for model in table.models:
        figure = figures[model]
        if model == table.reference or figure.value is None or figure.spread is None:
            continue
        error = (reference.spread**2 / reference.seeds + figure.spread**2 / figure.seeds) ** 0.5
        alike = abs(figure.value - reference.value) <= NOISE * error
        figures[model] = replace(figure, alike=alike)
    return replace(row, figures=figures)


def _only(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    return [
        replace(row, figures={column: row.figures[column] for column in columns}) for row in rows
    ]


def rank(rows: Sequence[Row], metric: Metric) -> tuple[dict[str, float], dict[str, int]]:
    """Mean rank of each column and how often it is first, over rows that are not summaries.

    Equals share the mean of their places. Rows with fewer than two figures rank nobody; a column is
    ranked over the rows in which it has a figure.
    """
    places: dict[str, list[float]] = {}
    firsts: dict[str, int] = {}
    for row in rows:
        values = _rounded(row, metric)
        if row.summary or len(values) < 2:
            continue
        sign = -1 if metric.higher_is_better else 1
        for column, value in values.items():
            better = sum(sign * other < sign * value for other in values.values())
            equal = sum(other == value for other in values.values())
            places.setdefault(column, []).append(better + (equal + 1) / 2)
            firsts[column] = firsts.get(column, 0) + (better == 0)
    return {column: statistics.fmean(each) for column, each in places.items()}, firsts


def _rounded(row: Row, metric: Metric) -> dict[str, float]:
    return {
        column: float(f"{figure.value:{metric.form}}")
        for column, figure in row.figures.items()
        if figure.value is not None
    }


def _figure(cell: CellConfig, result: CellResult | None, metric: Metric) -> Figure:
    if result is None:
        return Figure(words=NOT_RUN if has_data(cell) else NO_DATA)
    return Figure(
        result.mean(metric.name),
        spread=result.spread(metric.name),
        seeds=len(result.seeds),
        remark=result.note,
    )
