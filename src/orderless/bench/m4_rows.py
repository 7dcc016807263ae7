"""The lines of M4, which are averaged by series, and not by group."""

from collections.abc import Mapping

from orderless.bench.protocols.short_term_rules import (
    OTHERS,
    Scores,
    owa_from_means,
    weighted_mean,
)
from orderless.bench.published import AVERAGE, Published
from orderless.bench.records import CellResult
from orderless.bench.registry import Metric, Table
from orderless.bench.rows import NOTHING, Figure, Row, row_of

BY_SERIES = f"{AVERAGE}, by series"
"""The row in which every series counts once."""


def m4_rows(
    table: Table,
    metric: Metric,
    measured: Mapping[tuple[str, str, str], Figure],
    published: Published,
    results: Mapping[tuple[str, str], CellResult | None],
) -> list[Row]:
    """Six groups, the three small ones as one, and the mean over all series."""
    groups = list(dict.fromkeys(dataset for dataset, _, _ in measured))
    rows = [row_of(table, metric, measured, published, (group, "all")) for group in groups]
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
                again = _again(published, model, metric)
                if abs(again - printed) > 1.5 * 10**-metric.digits:
                    remark = f"its rows give {again:.{metric.digits}f}"
            figures[model] = Figure(printed, remark=remark)
        rows.append(Row(label, figures, summary=True))
    return rows


def _of_scores(scores: Mapping[str, Scores], metric: Metric) -> float:
    if metric.name == "owa":
        return owa_from_means(scores)
    return getattr(weighted_mean(scores), metric.name)


def _again(published: Published, model: str, metric: Metric) -> float:
    """The average that the printed rows of a model give."""

    def of(group: str) -> Scores:
        smape, mase = (published.figures[group, "all", model, name] for name in ("smape", "mase"))
        return Scores(smape, mase)

    scores = {name: of(f"M4-{name}") for name in ("Yearly", "Quarterly", "Monthly")}
    # The paper prints the three small groups as one.
    scores |= dict.fromkeys(OTHERS, of("M4-Others"))
    return _of_scores(scores, metric)
