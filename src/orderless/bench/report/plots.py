"""A grid as a plot, as SVG that stands by itself.

Numbers of variables are an axis, with a line for each column; otherwise each row has a height, and
each column a mark on it.
"""

import io
from collections.abc import Sequence
from typing import Any

from orderless.bench.grid import Grid, Row
from orderless.bench.published import THE_PAPER

MOST_ROWS = 20
FARTHEST = 1.6


def draw(grid: Grid) -> str:
    """The plot as an <svg> element; empty where nothing was measured."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = [row for row in grid.rows if row.summary] if grid.table == "long-term" else []
    rows = rows or [row for row in grid.rows if not row.summary]
    rows = [row for row in rows if any(row.figures[c].value is not None for c in grid.measured)]
    rows = rows[:MOST_ROWS]
    if not rows:
        return ""
    # A fixed salt makes the same figures the same file.
    with matplotlib.rc_context({"svg.hashsalt": "orderless", "svg.fonttype": "none"}):
        height = 3.6 if grid.against_numbers else 0.9 + 0.38 * len(rows)
        figure = Figure(figsize=(9, height), layout="constrained")
        axes = figure.add_subplot()
        (_draw_lines if grid.against_numbers else _draw_marks)(axes, grid, rows)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw_lines(axes: Any, grid: Grid, rows: Sequence[Row]) -> None:
    numbers = [int(row.label.split()[-1]) for row in rows]
    for column in grid.columns:
        values = [row.figures[column].value for row in rows]
        points = [(n, v) for n, v in zip(numbers, values, strict=True) if v is not None]
        if points:
            ours = column in grid.measured
            axes.plot(
                *zip(*points, strict=True),
                marker="o" if ours else "D",
                linestyle="-" if ours else ":",
                fillstyle="full" if ours else "none",
                label=column,
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.minorticks_off()
    axes.set_xlabel("variables")
    axes.set_ylabel(grid.metric.label)
    axes.grid(color="0.92")


def _draw_marks(axes: Any, grid: Grid, rows: Sequence[Row]) -> None:
    """Errors as multiples of the least in their row, so that rows of any size share an axis."""
    errors = not grid.metric.higher_is_better
    shown = set()
    for height, row in enumerate(rows):
        values = {c: v for c in grid.columns if (v := row.figures[c].value) is not None}
        least = min(values.values())
        relative = errors and least > 0
        for column, value in values.items():
            place = min(value / least, FARTHEST) if relative else value
            ours, paper = column in grid.measured, column == THE_PAPER
            beyond = relative and place == FARTHEST
            axes.plot(
                place,
                height,
                marker=">" if beyond else "o" if ours else "D" if paper else "|",
                color=f"C{grid.columns.index(column)}" if ours else "black" if paper else "0.7",
                fillstyle="full" if ours else "none",
                linestyle="none",
                zorder=2 if ours or paper else 1,
                label=_label(grid, column, shown),
                clip_on=False,
            )
    if errors:
        axes.set_xlim(0.98, FARTHEST)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    beyond = f", as a multiple of the least in its row; triangles lie beyond {FARTHEST}"
    axes.set_xlabel(grid.metric.label + (beyond if errors else ""))
    axes.grid(axis="y", color="0.92")


def _label(grid: Grid, column: str, shown: set[str]) -> str:
    """The name in the legend, once; the others of the literature are one entry."""
    name = column if column in grid.measured or column == THE_PAPER else "others, published"
    if name in shown:
        return ""
    shown.add(name)
    return name
