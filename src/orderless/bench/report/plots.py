"""A grid as a plot, as SVG that stands by itself.

Numbers of variables are an axis, with a line for each column. Of a grid with one row every column
is a bar. Otherwise each row has a height, and each column a mark on it.
"""

import io
from collections.abc import Sequence
from typing import Any

from orderless.bench.grid import Grid
from orderless.bench.published import THE_PAPER
from orderless.bench.rows import Row

MOST_ROWS = 20
FARTHEST = 1.6
LOGARITHMIC_FROM = 8.0
"""The ratio of the largest to the least figure from which an axis is logarithmic."""


def draw(grid: Grid) -> str:
    """The plot as an <svg> element; empty where nothing was measured."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = [row for row in grid.rows if row.summary] if grid.table.name == "long-term" else []
    rows = rows or [row for row in grid.rows if not row.summary]
    rows = [row for row in rows if any(row.figures[c].value for c in grid.measured)]
    rows = rows[:MOST_ROWS]
    if not rows:
        return ""
    # A fixed salt makes the same figures the same file.
    with matplotlib.rc_context({"svg.hashsalt": "orderless", "svg.fonttype": "none"}):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        if grid.against_numbers:
            _draw_lines(axes, grid, rows)
            height = 3.6
        elif len(grid.rows) == 1:
            height = 0.7 + 0.3 * _draw_bars(axes, grid, rows[0])
        else:
            _draw_marks(axes, grid, rows)
            height = 0.9 + 0.38 * len(rows)
        names = axes.get_legend_handles_labels()[1]
        if names:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        figure.set_size_inches(9, max(height, 0.5 + 0.24 * len(names)))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw_lines(axes: Any, grid: Grid, rows: Sequence[Row]) -> None:
    numbers = [int(row.label.split()[0]) for row in rows]
    drawn: list[float] = []
    for column in grid.columns:
        figures = [(n, row.figures[column]) for n, row in zip(numbers, rows, strict=True)]
        points = [(n, one.value, one.spread or 0.0) for n, one in figures if one.value is not None]
        if points:
            at, values, spreads = zip(*points, strict=True)
            ours = column in grid.measured
            axes.errorbar(
                at,
                values,
                spreads if any(spreads) else None,
                marker="o" if ours else "D",
                linestyle="-" if ours else ":",
                fillstyle="full" if ours else "none",
                label=column,
            )
            drawn += values
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    if max(drawn) > LOGARITHMIC_FROM * min(drawn) > 0:
        _make_logarithmic(axes, "y")
    axes.minorticks_off()
    axes.set_xlabel("variables")
    axes.set_ylabel(grid.metric.label)
    axes.grid(color="0.92")


def _draw_bars(axes: Any, grid: Grid, row: Row) -> int:
    """Returns how many there are."""
    values = {c: v for c in grid.columns if (v := row.figures[c].value) is not None}
    colors = ["C0" if column in grid.measured else "0.75" for column in values]
    bars = axes.barh(range(len(values)), list(values.values()), color=colors)
    axes.bar_label(bars, [f"{value:{grid.metric.form}}" for value in values.values()], padding=3)
    names = [c if c in grid.measured else f"{c}, published" for c in values]
    axes.set_yticks(range(len(values)), names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(grid.metric.label)
    return len(values)


def _draw_marks(axes: Any, grid: Grid, rows: Sequence[Row]) -> None:
    """Errors as multiples of the least in their row, so that rows of any size share an axis."""
    relative = not grid.metric.higher_is_better and not grid.metric.scientific
    # Figures in other units have no place on this axis.
    columns = grid.columns if grid.table.comparable else grid.measured
    shown: set[str] = set()
    least, farthest = 1.0, 1.0
    for height, row in enumerate(rows):
        figures = {c: row.figures[c] for c in columns if row.figures[c].value is not None}
        values = {c: float(figure.value) for c, figure in figures.items() if figure.value}
        unit = min(values.values(), default=1.0) if relative else 1.0
        for column, value in values.items():
            place = value / unit
            beyond = relative and place > FARTHEST
            spread = None if beyond else figures[column].spread
            reach = (spread or 0.0) / unit
            least, farthest = min(least, place - reach), max(farthest, place + reach)
            ours, paper = column in grid.measured, column == THE_PAPER
            number = grid.columns.index(column)
            axes.errorbar(
                FARTHEST if beyond else place,
                height,
                xerr=None if spread is None else reach,
                marker=">" if beyond else "os"[number // 10 % 2] if ours else "D" if paper else "|",
                color=f"C{number}" if ours else "black" if paper else "0.7",
                fillstyle="full" if ours else "none",
                linestyle="none",
                zorder=3 if ours or paper else 2,
                label=_label(grid, column, shown),
                clip_on=False,
            )
    cut = relative and farthest > FARTHEST
    if relative:
        axes.set_xlim(least - 0.01, FARTHEST if cut else farthest + 0.01)
    if grid.metric.scientific:
        axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    multiple = ", as a multiple of the least in its row" if relative else ""
    triangles = f"; triangles lie beyond {FARTHEST}" if cut else ""
    axes.set_xlabel(grid.metric.label.replace("`", "") + multiple + triangles)
    axes.grid(axis="y", color="0.92")


def _make_logarithmic(axes: Any, which: str) -> None:
    from matplotlib.ticker import LogLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, place: f"{value:g}")


def _label(grid: Grid, column: str, shown: set[str]) -> str:
    """The name in the legend, once; the others of the literature are one entry."""
    name = column if column in grid.measured or column == THE_PAPER else "others, published"
    if name in shown:
        return ""
    shown.add(name)
    return name
