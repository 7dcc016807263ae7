"""A table of figures for one metric: results and printed figures grouped, averaged and ranked.

Everything that is printed in bold or counted is computed here, from unrounded figures where we have
them and from printed ones where others have them. A printed average is shown as printed; where its
own rows or another place of its printing disagree, that is said beside it.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import PAPER_UEA_SETS
from orderless.bench.notes import notes_of
from orderless.bench.protocols.short_term_rules import OTHERS, Scores, combined
from orderless.bench.published import AVERAGE, THE_PAPER, Published, read_main_table, read_published
from orderless.bench.records import CellResult, find_any_result
from orderless.bench.registry import has_data
from orderless.bench.table import Metric, Table

NO_DATA, NOT_RUN, NOTHING = "no data here", "not run yet", "-"
BY_SERIES = f"{AVERAGE}, by series"
M4_OTHERS = "M4-Others"
"""The three small groups, which the paper prints as one."""
NOISE = 3
"""Standard errors of a difference; with three seeds each, luck exceeds it once in 25 times."""
Place = tuple[str, str]
"""A set and a setting: a row."""
Results = Mapping[CellConfig, CellResult | None]


@dataclass(frozen=True)
class Figure:
    """One entry: a value, or words that say why there is none; and what stands behind it.

    deviation   the standard deviation over the seeds, and how many there were
    alike       whether it differs from the reference by no more than the seeds do
    """

    value: float | None = None
    words: str = NOTHING
    deviation: float | None = None
    seeds: int = 1
    remark: str = ""
    alike: bool = False

    def text(self, metric: Metric) -> str:
        """The figure as it is printed, without its remark."""
        if self.value is None:
            return self.words
        text = metric.text(self.value)
        text = text if self.deviation is None else f"{text} ± {metric.text(self.deviation)}"
        return f"≈ {text}" if self.alike else text


@dataclass(frozen=True)
class Row:
    """A line of the grid. Summaries are not ranked: they are made of lines that are."""

    label: str
    figures: Mapping[str, Figure]
    summary: bool = False

    def rounded(self, metric: Metric) -> dict[str, float]:
        """The figures that there are, at the printed precision."""
        known = {column: figure.value for column, figure in self.figures.items()}
        return {c: float(metric.text(value)) for c, value in known.items() if value is not None}


@dataclass(frozen=True)
class Grid:
    """All figures of one metric of one table under one protocol.

    table               its models are those that have a column
    published, source   the columns that others printed, and where
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
        ranked = self.columns if self.table.comparable else self.measured
        values = {c: value for c, value in row.rounded(self.metric).items() if c in ranked}
        if len(values) < 2 or self.metric.rounding:
            return set()
        top = max(values.values()) if self.metric.higher_is_better else min(values.values())
        return {column for column, value in values.items() if value == top}


def build_grid(table: Table, protocol: str, metric: Metric, folder: Path) -> Grid:
    """The grid of a table from the results in a folder and from what was printed elsewhere."""
    published = read_published(table.name, protocol)
    # With two seeds asked for, a cell that has but one needs no more.
    results = {cell: find_any_result(cell, folder) for cell in table.cells(protocol, (0, 1))}
    # A peer that nobody has run is a line below the table, not a column of words.
    there = {cell.model for cell, result in results.items() if result is not None}
    absent = tuple(model for model in table.peers if model not in there)
    columns = {name: options for name, options in table.columns.items() if name not in absent}
    table = replace(table, columns=columns)
    results = {cell: result for cell, result in results.items() if cell.model not in absent}
    if table.simulated:
        results = _of_common_seeds(results)
    rows = tuple(
        _compared(row, table) for row in _Figures(table, metric, results, published).rows()
    )
    # A place among a few layers at so many variables says nothing that the figures do not.
    ranked = () if table.simulated else rows
    ranks, firsts = rank(ranked, metric, (*table.models, *published.models * table.comparable))
    return Grid(
        table,
        protocol,
        metric,
        rows,
        published.models,
        published.source,
        tuple(notes_of(results, absent, table)),
        ranks,
        firsts,
    )


def rank(
    rows: Sequence[Row], metric: Metric, columns: Sequence[str]
) -> tuple[dict[str, float], dict[str, int]]:
    """Mean rank of each column and how often it is first, over rows that are not summaries.

    Equals share the mean of their places. Rows with fewer than two figures rank nobody; a column is
    ranked over the rows in which it has a figure.
    """
    places: dict[str, list[float]] = {}
    firsts: dict[str, int] = {}
    sign = -1 if metric.higher_is_better else 1
    for row in rows:
        values = {c: sign * value for c, value in row.rounded(metric).items() if c in columns}
        if row.summary or len(values) < 2:
            continue
        for column, value in values.items():
            better = sum(other < value for other in values.values())
            equal = sum(other == value for other in values.values())
            places.setdefault(column, []).append(better + (equal + 1) / 2)
            firsts[column] = firsts.get(column, 0) + (better == 0)
    return {column: statistics.fmean(each) for column, each in places.items()}, firsts


class _Figures:
    """Figures by place and column, and the rows and averages made of them."""

    def __init__(
        self, table: Table, metric: Metric, results: Results, published: Published
    ) -> None:
        self.table, self.metric, self.published = table, metric, published
        self.results = {(c.dataset, c.setting, c.model): one for c, one in results.items()}
        one_of = {cell.dataset: cell for cell in results}
        self.words = {name: NOT_RUN if has_data(c) else NO_DATA for name, c in one_of.items()}
        self.places: list[Place] = list(dict.fromkeys((c.dataset, c.setting) for c in results))
        self.columns = table.models + published.models

    def rows(self) -> list[Row]:
        """Every line, with averages over settings below their set, others below everything."""
        rows = {place: self.row(place) for place in self.places}
        summaries = list(self.summaries(rows))
        if len(self.table.settings) == 1 or not summaries:
            return [*rows.values(), *(self.average(*one) for one in summaries)]
        lines = []
        for label, places, printed in summaries:
            lines += [*(rows[place] for place in places), self.average(label, places, printed)]
        return lines

    def row(self, place: Place) -> Row:
        dataset, setting = place
        label = dataset if setting == "all" else f"{dataset} {setting}"
        if self.table.simulated:
            label = f"{setting} variables" if setting.isdecimal() else setting
        return Row(label, {column: self.figure(place, column) for column in self.columns})

    def figure(self, place: Place, column: str) -> Figure:
        if column in self.published.models:
            value = self.printed(place, column)
            return Figure(value, remark=self.contradiction(place, column, value))
        result = self.results[*place, column]
        if result is None:
            return Figure(words=self.words[place[0]])
        name = self.metric.name
        return Figure(
            result.mean(name),
            deviation=result.deviation(name),
            seeds=len(result.seeds),
            remark=result.note,
        )

    def summaries(self, rows: Mapping[Place, Row]) -> Iterator[tuple[str, list[Place], Place]]:
        """Which rows are averaged, under which name, and where that average is printed."""
        if self.table.by_series:
            small = [(f"M4-{group}", "all") for group in OTHERS]
            yield M4_OTHERS, small, (M4_OTHERS, "all")
            yield BY_SERIES, self.places, (AVERAGE, "all")
        elif len(self.table.settings) > 1 and not self.table.simulated:
            for dataset in dict.fromkeys(dataset for dataset, _ in self.places):
                own = [place for place in self.places if place[0] == dataset]
                yield f"{dataset} {AVERAGE}", own, (dataset, AVERAGE)
        elif not self.table.simulated:
            official = [
                place
                for place in self.places
                if place[0] in PAPER_UEA_SETS or self.table.name == "anomaly"
            ]
            yield f"{AVERAGE} of the paper's {len(official)}", official, (AVERAGE, "all")
            known = [
                place
                for place in official
                if any(rows[place].figures[model].value is not None for model in self.table.models)
            ]
            if 0 < len(known) < len(official):
                yield f"{AVERAGE} of the {len(known)} with data", known, ("", "")

    def average(self, label: str, places: Sequence[Place], printed: Place) -> Row:
        """The mean of the rows for each column that has them all, or what was printed."""
        figures = {}
        for column in self.columns:
            mean, shown = self.mean(places, column), self.printed(printed, column)
            if shown is not None:
                figures[column] = Figure(shown, remark=self.remark(mean, shown, printed, column))
                continue
            each = [self.figure(place, column) for place in places]
            deviations = [one.deviation for one in each if one.deviation is not None]
            if mean is None:
                words = {one.words for one in each if one.value is None}
                figures[column] = Figure(words=words.pop() if len(words) == 1 else NOTHING)
            elif self.table.by_series or len(deviations) < len(each):
                figures[column] = Figure(mean)
            else:
                # Of a mean of independent runs.
                deviation = sum(one**2 for one in deviations) ** 0.5 / len(each)
                figures[column] = Figure(
                    mean, deviation=deviation, seeds=min(one.seeds for one in each)
                )
        return Row(label, figures, summary=True)

    def mean(self, places: Sequence[Place], column: str) -> float | None:
        if not self.table.by_series:
            return _mean([self.value(place, column, self.metric.name) for place in places])
        scores = {}
        for place in places:
            smape, mase = (self.value(place, column, name) for name in ("smape", "mase"))
            if smape is None or mase is None:
                return None
            scores[place[0].removeprefix("M4-")] = Scores(smape, mase)
        return combined(scores, self.metric.name)

    def value(self, place: Place, column: str, metric: str) -> float | None:
        if column not in self.published.models:
            result = self.results[*place, column]
            return None if result is None else result.mean(metric)
        dataset, setting = place
        if self.table.by_series and dataset.removeprefix("M4-") in OTHERS:
            dataset = M4_OTHERS
        return self.published.figures.get((dataset, setting, column, metric))

    def printed(self, place: Place, column: str) -> float | None:
        return self.published.figures.get((*place, column, self.metric.name))

    def remark(self, mean: float | None, shown: float, place: Place, column: str) -> str:
        """Where a printed average contradicts its rows, or itself in another table."""
        remarks, digits = [], self.metric.digits
        # Half a unit of the last digit, and a little for the floating point of halves; of M4 the
        # rows are weighted means of rounded figures.
        slack = (1.5 if self.table.by_series else 0.5) * 10**-digits + 1e-9
        if mean is not None and AVERAGE in place and abs(mean - shown) > slack:
            remarks.append(f"its rows give {mean:.{digits + (not self.table.by_series)}f}")
        if THE_PAPER in self.published.models:
            main = read_main_table().get((place[0], "main table", column, self.metric.name))
            if main is not None and main != shown:
                remarks.append(f"{main:.{digits}f} in its main table")
        return "; ".join(remarks)

    def contradiction(self, place: Place, column: str, value: float | None) -> str:
        """Where a printed F1 is not the one that its printed precision and recall give."""
        if self.metric.name != "point_adjusted_f1" or value is None:
            return ""
        precision, recall = (
            self.published.figures[*place, column, f"point_adjusted_{part}"]
            for part in ("precision", "recall")
        )
        expected = 2 * precision * recall / (precision + recall)
        # Precision and recall are rounded to 0.01, which moves F1 by no more than that.
        if abs(expected - value) <= 0.015:
            return ""
        return f"its precision and recall give {expected:.2f}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def _of_common_seeds(results: Results) -> dict[CellConfig, CellResult | None]:
    """Results of the seeds that all of a row have: where data are drawn, each has its own."""
    common: dict[Place, set[int]] = {}
    for cell, result in results.items():
        if result is not None:
            seeds = {seed.seed for seed in result.seeds}
            place = cell.dataset, cell.setting
            common[place] = common.get(place, seeds) & seeds
    return {
        cell: result
        and replace(
            result,
            seeds=tuple(s for s in result.seeds if s.seed in common[cell.dataset, cell.setting]),
        )
        for cell, result in results.items()
    }


def _compared(row: Row, table: Table) -> Row:
    """The row with what differs from the reference by no more than the seeds do marked as alike.

    That is: by less than `NOISE` standard errors of the difference.
    """
    reference = row.figures.get(table.reference)
    if reference is None or reference.value is None or reference.deviation is None:
        return row
    figures = dict(row.figures)
    for model in table.models:
        figure = figures[model]
        if model == table.reference or figure.value is None or figure.deviation is None:
            continue
        error = reference.deviation**2 / reference.seeds + figure.deviation**2 / figure.seeds
        alike = abs(figure.value - reference.value) <= NOISE * error**0.5
        figures[model] = replace(figure, alike=alike)
    return replace(row, figures=figures)
