"""The results as a page of Markdown or of HTML, made of the files in a folder alone."""

import statistics
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from orderless.bench.grid import BY_SERIES, NOISE, Figure, Grid, Row, build_grid
from orderless.bench.protocols import PROTOCOLS
from orderless.bench.published import THE_PAPER
from orderless.bench.registry import ALL, TABLES
from orderless.io import write_file

MARKDOWN, HTML = "report.md", "report.html"


def write_report(results: Path, name: str = MARKDOWN) -> Path:
    """Write report.md or report.html beside the results; returns its path."""
    grids = [
        build_grid(table, protocol, metric, results)
        for table in ALL.values()
        for protocol in PROTOCOLS
        for metric in table.metrics.get(protocol, ())
    ]
    write_file(results / name, render(grids, name).encode())
    return results / name


def render(grids: Sequence[Grid], name: str) -> str:
    """The page of that name."""
    from jinja2 import Environment, PackageLoader

    from orderless.bench.report.plots import draw

    environment = Environment(
        loader=PackageLoader("orderless.bench.report", ""),
        autoescape=name == HTML,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    about = tomllib.loads((files("orderless.bench.report") / "tables.toml").read_text("utf-8"))
    sections = []
    for (table, protocol), each in groupby(grids, lambda grid: (grid.table.name, grid.protocol)):
        words, first = about[table], (own := list(each))[0]
        explanation = " ".join(words[key] for key in ("about", protocol) if key in words)
        heading = first.table.heading(protocol)
        sections.append(
            {"heading": heading, "about": explanation, "grids": own, "notes": notes(first)}
        )
    page = environment.get_template(f"{name}.jinja")
    calls: dict[str, Any] = {"rank_rows": rank_rows, "remarks": remarks, "draw": draw}
    return page.render(sections=sections, overview=overview(grids), **calls)


def rank_rows(grid: Grid) -> list[list[str]]:
    """The lines below the rows that count places; none where nobody is ranked."""
    if not grid.ranks:
        return []
    ranks = [f"{grid.ranks[c]:.2f}" if c in grid.ranks else "-" for c in grid.columns]
    firsts = [str(grid.firsts.get(c, "-")) for c in grid.columns]
    return [["mean rank", *ranks], ["firsts", *firsts]]


def remarks(grid: Grid) -> list[str]:
    """What is said below a table: what ≈ means, and where a printed figure contradicts itself."""
    lines = [
        f"{column}, {row.label}: printed {figure.text(grid.metric)}, {figure.remark}"
        for row in grid.rows
        for column in grid.published
        if (figure := row.figures[column]).remark
    ]
    reference = grid.table.reference
    pairs = [
        (row.figures[reference], row.figures[column])
        for row in grid.rows
        if reference and not row.summary
        for column in grid.measured
        if column != reference
    ]
    # Without a standard deviation nobody knows.
    known = [pair for pair in pairs if None not in (pair[0].deviation, pair[1].deviation)]
    return [*lines, _tally(grid, known)] if known else lines


def _tally(grid: Grid, pairs: Sequence[tuple[Figure, Figure]]) -> str:
    """How many figures are within the noise of the reference, better and worse."""
    sign = 1 if grid.metric.higher_is_better else -1
    gains = [sign * (two.value - one.value) for one, two in pairs if not two.alike]  # type: ignore[operator]
    better = sum(gain > 0 for gain in gains)
    return (
        f"≈ is within the noise of the seeds: it differs from `{grid.table.reference}` by less "
        f"than {NOISE} standard errors, so no difference was shown. Of {len(pairs)} figures that "
        f"are no averages {len(pairs) - len(gains)} are so, {better} better and "
        f"{len(gains) - better} worse."
    )


def notes(grid: Grid) -> list[str]:
    """What is said once about all figures of a table under a protocol."""
    lines = list(grid.notes)
    if grid.source:
        lines.append(f"Published columns: {grid.source}.")
    if not grid.table.comparable and grid.published:
        lines.append("Published figures stand beside ours and are not ranked against them.")
    return lines


def overview(grids: Sequence[Grid]) -> list[list[str]]:
    """Where our own model stands in each table, on the rows for which it has figures."""
    return [line for grid in grids if grid.table.name in TABLES if (line := _standing(grid))]


def _standing(grid: Grid) -> list[str]:
    """Metric, rows, ours, the best baseline, the paper, our mean rank; nothing without figures."""
    ours, *others = grid.measured
    rows = [row for row in grid.rows if not row.summary and _value(row, ours) is not None]
    if not rows or ours not in grid.ranks:
        return []
    # Where the paper has figures, all are compared on those rows.
    rows = [row for row in rows if _value(row, THE_PAPER) is not None] or rows
    words = f"{len(rows)} row{'s' if len(rows) > 1 else ''}"
    # Of M4 the mean over all series is the figure that everybody prints.
    overall = [row for row in grid.rows if row.label == BY_SERIES and _value(row, ours) is not None]
    if overall:
        rows, words = overall, "all series"
    columns = {name: [_value(row, name) for row in rows] for name in grid.columns}
    means = {name: statistics.fmean(each) for name, each in columns.items() if None not in each}  # type: ignore[arg-type]
    # Our other models are not baselines of this one.
    rivals = {name: means[name] for name in others if name in means and not name.startswith(ours)}
    best = (max if grid.metric.higher_is_better else min)(
        rivals, key=rivals.__getitem__, default=""
    )
    text = grid.metric.text
    return [
        f"{grid.table.heading(grid.protocol)}: {grid.metric.label}",
        words,
        text(means[ours]),
        f"{best} {text(rivals[best])}" if best else "-",
        text(means[THE_PAPER]) if THE_PAPER in means else "-",
        f"{grid.ranks[ours]:.2f} of {len(grid.ranks)}",
    ]


def _value(row: Row, column: str) -> float | None:
    return row.figures[column].value if column in row.figures else None
