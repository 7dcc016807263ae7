"""A grid as a plot, as SVG that stands by itself.

Numbers of variables are an axis, with a line for each column. Otherwise each row has a height, and
each column a mark on it.
"""

import io
from collections.abc import Sequence
from typing import Any

from orderless.bench.grid import Grid, Row
from orderless.bench.published import THE_PAPER

MOST_ROWS = 20
FARTHEST = 1.6
"""The multiple of the least error in a row at which its axis ends."""


def draw(grid: Grid) -> str:
    """The plot as an <svg> element; empty where nothing was measured."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = [row for row in grid.rows if row.summary] if grid.table.name == "long-term" else []
    rows = rows or [row for row in grid.rows if not row.summary]
    rows = [row for row in rows if any(row.figures[c].value for c in grid.measured)][:MOST_ROWS]
    if not rows:
        return ""
    numbers = [row.label.removesuffix(" variables") for row in rows]
    # A fixed salt makes the same figures the same file.
    with matplotlib.rc_context({"svg.hashsalt": "orderless", "svg.fonttype": "none"}):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        if len(rows) > 1 and all(number.isdecimal() for number in numbers):
            _draw_lines(axes, grid, rows, list(map(int, numbers)))
            height = 3.6
        else:
            _draw_marks(axes, grid, rows)
            height = 0.9 + 0.38 * len(rows)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        names = axes.get_legend_handles_labels()[1]
        figure.set_size_inches(9, max(height, 0.5 + 0.24 * len(names)))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw_lines(axes: Any, grid: Grid, rows: Sequence[Row], numbers: Sequence[int]) -> None:
    for column in grid.columns:
        figures = zip(numbers, (row.figures[column] for row in rows), strict=True)
        points = [(n, f.value, f.deviation or 0.0) for n, f in figures if f.value is not None]
        if points:
            style = "o-" if column in grid.measured else "D:"
            axes.errorbar(*zip(*points, strict=True), fmt=style, label=column)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(numbers, list(map(str, numbers)))
    axes.set_xlabel("variables")
    axes.set_ylabel(grid.metric.label)
    axes.grid(color="0.92")


def _draw_marks(axes: Any, grid: Grid, rows: Sequence[Row]) -> None:
    """Errors as multiples of the least in their row, so that rows of any size share an axis."""
    relative = len(rows) > 1 and not grid.metric.higher_is_better and not grid.metric.scientific
    # Figures in other units have no place on this axis.
    columns = grid.columns if grid.table.comparable else grid.measured
    farthest = 1.0
    values = [[v for c in columns if (v := row.figures[c].value)] for row in rows]
    units = [min(each) if relative else 1.0 for each in values]
    for number, column in enumerate(columns):
        ours, paper = column in grid.measured, column == THE_PAPER
        marks = []
        for height, row in enumerate(rows):
            if value := row.figures[column].value:
                unit = units[height]
                farthest = max(farthest, value / unit)
                place = min(value / unit, FARTHEST) if relative else value
                marks.append((place, height, (row.figures[column].deviation or 0.0) / unit))
        if marks:
            at, heights, deviations = zip(*marks, strict=True)
            other = next((c for c in grid.published if c != THE_PAPER), "")
            axes.errorbar(
                at,
                heights,
                xerr=deviations,
                fmt="os"[number // 10 % 2] if ours else "D" if paper else "|",
                color=f"C{number}" if ours else "black" if paper else "0.7",
                label=column if ours or paper else "others, published" * (column == other),
                clip_on=False,
            )
    if grid.metric.scientific or len(rows) == 1:
        axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    multiple = ", as a multiple of the least in its row" if relative else ""
    beyond = f"; {FARTHEST} and more at the border" if relative and farthest > FARTHEST else ""
    axes.set_xlabel(grid.metric.label.replace("`", "") + multiple + beyond)
    axes.grid(axis="y", color="0.92")
