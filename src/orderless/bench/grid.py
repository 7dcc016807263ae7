"""A table of figures for one metric: rows, columns, averages, who is best, ranks.

Everything that is printed in bold or counted is computed here, from unrounded figures where we have
them and from printed ones where others have them.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orderless.bench.config import CellConfig
from orderless.bench.protocols.short_term_rules import (
    OTHERS,
    Scores,
    owa_from_means,
    weighted_mean,
)
from orderless.bench.published import AVERAGE, THE_PAPER, Published, read_main_table, read_published
from orderless.bench.records import CellResult, path_of, read_result
from orderless.bench.registry import Metric, Table
from orderless.data.catalogue import PAPER_UEA_SETS, files_there, find_entry

NO_DATA, NOT_RUN = "no data here", "not run yet"
NOTHING = "-"


@dataclass(frozen=True)
class Figure:
    """One entry: a value, or words that say why there is none; and what stands behind it."""

    value: float | None = None
    words: str = NOTHING
    spread: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Row:
    """A line of the grid. Summaries are not ranked: they are made of lines that are."""

    label: str
    figures: Mapping[str, Figure]
    summary: bool = False


@dataclass(frozen=True)
class Grid:
    """All figures of one metric of one table under one protocol."""

    table: str
    title: str
    protocol: str
    metric: Metric
    measured: tuple[str, ...]
    published: tuple[str, ...]
    source: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    ranks: Mapping[str, float] = field(default_factory=dict)
    firsts: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Ours and our baselines, then what others printed."""
        return self.measured + self.published

    def best(self, row: Row) -> set[str]:
        """The columns that no other beats in this row, at the printed precision."""
        values = _rounded(row, self.metric)
        if len(values) < 2:
            return set()
        top = max(values.values()) if self.metric.higher_is_better else min(values.values())
        return {column for column, value in values.items() if value == top}


def build_grid(table: Table, protocol: str, metric: Metric, results: Path) -> Grid:
    """The grid of a table from the results in a folder and from what was printed elsewhere."""
    published = read_published(table.name, protocol)
    cells = table.cells(protocol, (0,))
    known = {cell: _read(cell, results) for cell in cells}
    measured = {
        (cell.dataset, cell.setting, cell.model): _figure(table, cell, result, metric)
        for cell, result in known.items()
    }
    if table.name == "m4":
        results_of = {(cell.dataset, cell.model): result for cell, result in known.items()}
        rows = _m4_rows(table, metric, measured, published, results_of)
    else:
        rows = _rows(table, metric, measured, published)
    ranks, firsts = rank(rows, metric)
    notes = {
        f"{cell.dataset}: {result.note}"
        for cell, result in known.items()
        if result is not None and result.note
    }
    return Grid(
        table=table.name,
        title=table.title,
        protocol=protocol,
        metric=metric,
        measured=table.models,
        published=published.models,
        source=published.source,
        rows=tuple(rows),
        notes=tuple(sorted(notes)),
        ranks=ranks,
        firsts=firsts,
    )


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
        column: round(figure.value, metric.digits)
        for column, figure in row.figures.items()
        if figure.value is not None
    }


def _read(cell: CellConfig, results: Path) -> CellResult | None:
    path = path_of(cell, results)
    return read_result(path) if path.is_file() else None


def _figure(table: Table, cell: CellConfig, result: CellResult | None, metric: Metric) -> Figure:
    if result is None:
        here = table.simulated or files_there(find_entry(cell.dataset))
        return Figure(words=NOT_RUN if here else NO_DATA)
    return Figure(result.mean(metric.name), spread=result.spread(metric.name), remark=result.note)


def _row(
    table: Table,
    metric: Metric,
    measured: Mapping[tuple[str, str, str], Figure],
    published: Published,
    place: tuple[str, str],
) -> Row:
    """The line of a set and a setting."""
    dataset, setting = place
    figures = {model: measured[dataset, setting, model] for model in table.models}
    for model in published.models:
        value = published.figures.get((dataset, setting, model, metric.name))
        figures[model] = _check_f1(published, dataset, model, metric, Figure(value))
    return Row(dataset if setting == "all" else f"{dataset} {setting}", figures)


def _rows(
    table: Table,
    metric: Metric,
    measured: Mapping[tuple[str, str, str], Figure],
    published: Published,
) -> list[Row]:
    places = list(dict.fromkeys((dataset, setting) for dataset, setting, _ in measured))
    datasets = list(dict.fromkeys(dataset for dataset, _ in places))
    rows: list[Row] = []
    for dataset in datasets:
        settings = [setting for name, setting in places if name == dataset]
        own = [_row(table, metric, measured, published, (dataset, setting)) for setting in settings]
        rows += own
        if len(settings) > 1 and not table.simulated:
            printed = _printed(published, dataset, AVERAGE, metric)
            main = read_main_table() if THE_PAPER in published.models else {}
            also = {
                model: main.get((dataset, "main table", model, metric.name))
                for model in published.models
            }
            rows.append(_average(own, f"{dataset} {AVERAGE}", printed, metric, also))
    if table.setting:
        return rows
    official = [one for one in rows if one.label in PAPER_UEA_SETS or table.name == "anomaly"]
    printed = _printed(published, AVERAGE, "all", metric)
    rows.append(_average(official, f"{AVERAGE} of the paper's {len(official)}", printed, metric))
    common = [
        one for one in official if any(one.figures[m].value is not None for m in table.models)
    ]
    if 0 < len(common) < len(official):
        names = f"{AVERAGE} of the {len(common)} with data"
        rows.append(_average(common, names, {}, metric))
    return rows


def _printed(
    published: Published, dataset: str, setting: str, metric: Metric
) -> dict[str, float | None]:
    return {
        model: published.figures.get((dataset, setting, model, metric.name))
        for model in published.models
    }


def _average(
    rows: Sequence[Row],
    label: str,
    printed: Mapping[str, float | None],
    metric: Metric,
    also_printed: Mapping[str, float | None] | None = None,
) -> Row:
    """The mean of the rows for each column that has them all.

    A printed average is shown as printed; where its own rows or the other place of its printing
    disagree, that is said beside it.
    """
    figures = {}
    for column in rows[0].figures if rows else ():
        each = [row.figures[column] for row in rows]
        values = [figure.value for figure in each if figure.value is not None]
        mean = statistics.fmean(values) if values and len(values) == len(each) else None
        figures[column] = _summary(
            mean, each, printed.get(column), (also_printed or {}).get(column), metric
        )
    return Row(label, figures, summary=True)


def _summary(
    mean: float | None,
    each: Sequence[Figure],
    printed: float | None,
    also_printed: float | None,
    metric: Metric,
) -> Figure:
    if printed is None:
        if mean is not None:
            return Figure(mean)
        words = {figure.words for figure in each if figure.value is None}
        return Figure(words=words.pop() if len(words) == 1 else NOTHING)
    remarks = []
    # Half a unit of the last digit, and a little for the floating point of halves.
    if mean is not None and abs(mean - printed) > 0.5 * 10**-metric.digits + 1e-9:
        remarks.append(f"its rows give {mean:.{metric.digits + 1}f}")
    if also_printed is not None and also_printed != printed:
        remarks.append(f"{also_printed:.{metric.digits}f} in its main table")
    return Figure(printed, remark="; ".join(remarks))


def _check_f1(
    published: Published, dataset: str, model: str, metric: Metric, figure: Figure
) -> Figure:
    """A printed F1 beside the one that its printed precision and recall give, if they differ."""
    if metric.name != "point_adjusted_f1" or figure.value is None:
        return figure
    parts = [
        published.figures[dataset, "all", model, f"point_adjusted_{part}"]
        for part in ("precision", "recall")
    ]
    expected = 2 * parts[0] * parts[1] / sum(parts)
    # Precision and recall are rounded to 0.01, which moves F1 by no more than that.
    if abs(expected - figure.value) <= 0.015:
        return figure
    return Figure(figure.value, remark=f"its precision and recall give {expected:.2f}")


def _m4_rows(
    table: Table,
    metric: Metric,
    measured: Mapping[tuple[str, str, str], Figure],
    published: Published,
    results: Mapping[tuple[str, str], CellResult | None],
) -> list[Row]:
    """Six groups, the three small ones as one, and the mean over all series."""
    groups = list(dict.fromkeys(dataset for dataset, _, _ in measured))
    rows = [_row(table, metric, measured, published, (group, "all")) for group in groups]
    for label, members, place in (
        ("M4-Others", [f"M4-{group}" for group in OTHERS], "M4-Others"),
        (f"{AVERAGE}, by series", groups, AVERAGE),
    ):
        figures = {}
        for model in table.models:
            missing = {
                measured[group, "all", model].words
                for group in members
                if results[group, model] is None
            }
            scores = {
                group.removeprefix("M4-"): Scores(result.mean("smape"), result.mean("mase"))
                for group in members
                if (result := results[group, model]) is not None
            }
            if missing:
                figures[model] = Figure(words=missing.pop() if len(missing) == 1 else NOTHING)
            else:
                figures[model] = Figure(_of_scores(scores, metric))
        for model in published.models:
            printed = published.figures.get((place, "all", model, metric.name))
            remark = ""
            if place == AVERAGE and printed is not None:
                again = _m4_again(published, model, metric)
                if abs(again - printed) > 1.5 * 10**-metric.digits:
                    remark = f"its rows give {again:.{metric.digits}f}"
            figures[model] = Figure(printed, remark=remark)
        rows.append(Row(label, figures, summary=True))
    return rows


def _of_scores(scores: Mapping[str, Scores], metric: Metric) -> float:
    if metric.name == "owa":
        return owa_from_means(scores)
    return getattr(weighted_mean(scores), metric.name)


def _m4_again(published: Published, model: str, metric: Metric) -> float:
    """The average that the printed rows of a model give."""

    def of(group: str) -> Scores:
        smape, mase = (published.figures[group, "all", model, name] for name in ("smape", "mase"))
        return Scores(smape, mase)

    scores = {name: of(f"M4-{name}") for name in ("Yearly", "Quarterly", "Monthly")}
    # The paper prints the three small groups as one.
    scores |= dict.fromkeys(OTHERS, of("M4-Others"))
    return _of_scores(scores, metric)
