"""The lines of a table: figures of a set and a setting, and averages of those.

A printed average is shown as printed; where its own rows or another place of its printing disagree,
that is said beside it.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orderless.bench.datasets.catalogue import PAPER_UEA_SETS
from orderless.bench.published import AVERAGE, THE_PAPER, Published, read_main_table
from orderless.bench.registry import Metric, Table

NOTHING = "-"


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


def row_of(
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


def rows_of(
    table: Table,
    metric: Metric,
    measured: Mapping[tuple[str, str, str], Figure],
    published: Published,
) -> list[Row]:
    """Every line of a table, with averages over settings or sets below those they are made of."""
    places = list(dict.fromkeys((dataset, setting) for dataset, setting, _ in measured))
    datasets = list(dict.fromkeys(dataset for dataset, _ in places))
    rows: list[Row] = []
    for dataset in datasets:
        settings = [setting for name, setting in places if name == dataset]
        own = [
            row_of(table, metric, measured, published, (dataset, setting)) for setting in settings
        ]
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
    """The mean of the rows for each column that has them all; what was printed is as printed."""
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
