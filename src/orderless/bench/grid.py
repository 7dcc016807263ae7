"""A table of figures for one metric: rows, columns, averages, who is best, ranks.

Everything that is printed in bold or counted is computed here, from unrounded figures where we have
them and from printed ones where others have them.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orderless.bench.config import CellConfig
from orderless.bench.protocols.short_term_rules import (
    OTHERS,
    Scores,
    owa_from_means,
    weighted_mean,
)
from orderless.bench.published import AVERAGE, THE_PAPER, Published, read_main_table, read_published
from orderless.bench.records import CellResult, find_any_result
from orderless.bench.registry import Metric, Table, has_data
from orderless.data.catalogue import PAPER_UEA_SETS

NO_DATA, NOT_RUN = "no data here", "not run yet"
NOTHING = "-"
NOISE = 3
"""Standard errors of a difference; with three seeds each, luck exceeds it once in 25 times."""
BY_SERIES = f"{AVERAGE}, by series"
"""The row of M4 in which every series counts once."""


@dataclass(frozen=True)
class Figure:
    """One entry: a value, or words that say why there is none; and what stands behind it.

    spread      the standard deviation over the seeds, and how many there were
    alike       whether it differs from the reference by no more than the seeds do
    """

    value: float | None = None
    words: str = NOTHING
    spread: float | None = None
    seeds: int = 1
    remark: str = ""
    alike: bool = False


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
    comparable: bool = True
    reference: str = ""
    simulated: bool = False
    against_numbers: bool = False
    """Whether the rows are numbers of variables, which a plot can have as an axis."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Ours and our baselines, then what others printed."""
        return self.measured + self.published

    def best(self, row: Row) -> set[str]:
        """The columns that no other beats in this row, at the printed precision."""
        values = _rounded(row, self.metric)
        if not self.comparable:
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
        rows = _m4_rows(table, metric, measured, published, results_of)
    else:
        rows = _rows(table, metric, measured, published)
    rows = [_compared(row, table) for row in rows]
    # A place among a few layers at so many variables says nothing that the figures do not.
    ranked = [] if table.simulated else rows
    ranks, firsts = rank(ranked if table.comparable else _only(ranked, table.models), metric)
    return Grid(
        table=table.name,
        title=table.title,
        protocol=protocol,
        metric=metric,
        measured=table.models,
        published=published.models,
        source=published.source,
        rows=tuple(rows),
        notes=(*_notes(known), *_absent_note(absent, table)),
        ranks=ranks,
        firsts=firsts,
        comparable=table.comparable,
        reference=table.reference,
        simulated=table.simulated,
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


def _notes(known: Mapping[CellConfig, CellResult | None]) -> list[str]:
    """What has to be known about the results: parts of sets, budgets, seeds, machines."""
    results = {cell: result for cell, result in known.items() if result is not None}
    notes = {f"{cell.dataset}: {one.note}" for cell, one in results.items() if one.note}
    trained = [
        f"Trained for at most {budget}: {', '.join(models)}."
        for budget, models in _budgets(results).items()
    ]
    older = [cell.name for cell, result in results.items() if _is_older(cell, result)]
    if older:
        were = "1 cell was" if len(older) == 1 else f"{len(older)} cells were"
        trained.append(
            f"{were} run in another setting than the table has now, the first of them {older[0]}; "
            "`orderless bench run` runs them again."
        )
    devices: dict[str, int] = {}
    for result in results.values():
        device = str(result.machine["device"])
        devices[device] = devices.get(device, 0) + 1
    machines = ", ".join(f"{count} on {device}" for device, count in sorted(devices.items()))
    changed = sum(bool(one.machine["uncommitted_changes"]) for one in results.values())
    if changed:
        machines += f"; {changed} of them by code with changes that its commit does not have"
    return [
        *sorted(notes),
        *trained,
        *_single_seeds(results),
        *([f"Cells: {machines}."] if machines else []),
    ]


def _single_seeds(results: Mapping[CellConfig, CellResult]) -> list[str]:
    """Which models that draw numbers were run once, so that nobody knows how far luck carried."""
    drawn = [cell for cell in results if len(cell.seeds) > 1]
    once = [cell for cell in drawn if len(results[cell].seeds) == 1]
    names = []
    for model in dict.fromkeys(cell.model for cell in once):
        mine = [cell for cell in once if cell.model == model]
        places = dict.fromkeys(
            cell.dataset if cell.setting == "all" else f"{cell.dataset} {cell.setting}"
            for cell in mine
        )
        everywhere = len(mine) == sum(cell.model == model for cell in drawn)
        names.append(model if everywhere else f"{model} on {', '.join(places)}")
    return [f"One seed only: {'; '.join(names)}."] if names else []


def _budgets(results: Mapping[CellConfig, CellResult]) -> dict[str, list[str]]:
    """How long networks were trained at most, in words, and which."""
    budgets: dict[str, dict[str, None]] = {}
    for cell, result in results.items():
        budget = result.config["options"].get("budget")
        if budget is not None:
            steps = "all" if budget["steps"] is None else budget["steps"]
            words = f"{budget['epochs']} epochs of {steps} steps"
            budgets.setdefault(words, {})[cell.model] = None
    return {words: list(models) for words, models in budgets.items()}


def _is_older(cell: CellConfig, result: CellResult) -> bool:
    """Whether a result is of other options; seeds and budgets are printed, and may differ."""
    asked, had = cell.to_json()["options"], dict(result.config["options"])
    return {**asked, "budget": None} != {**had, "budget": None}


def _absent_note(absent: Sequence[str], table: Table) -> list[str]:
    if not absent:
        return []
    packages = " and ".join(sorted({table.peers[model] for model in absent}))
    return [f"Not run yet, peers of {packages}: {', '.join(absent)}."]


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
    return Row(_label(table, dataset, setting), figures)


def _label(table: Table, dataset: str, setting: str) -> str:
    if table.simulated:
        return f"{setting} variables" if setting.isdecimal() else setting
    return dataset if setting == "all" else f"{dataset} {setting}"


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
            spreads = [figure.spread for figure in each if figure.spread is not None]
            # Of a mean of independent runs; none where a row has but one seed.
            spread = sum(one**2 for one in spreads) ** 0.5 / len(each)
            seeds = min(figure.seeds for figure in each)
            return Figure(mean, spread=spread if len(spreads) == len(each) else None, seeds=seeds)
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
        (BY_SERIES, groups, AVERAGE),
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
