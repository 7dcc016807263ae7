"""A grid as a plot: one line a row, one mark a column, as SVG that stands by itself."""

import io

from orderless.bench.grid import Grid
from orderless.bench.published import THE_PAPER

MOST_ROWS = 20


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
        figure = Figure(figsize=(9, 0.9 + 0.38 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        shown = set()
        for height, row in enumerate(rows):
            for number, column in enumerate(grid.columns):
                value = row.figures[column].value
                if value is None:
                    continue
                ours = column in grid.measured
                axes.plot(
                    value,
                    height,
                    marker="o" if ours else "D" if column == THE_PAPER else "|",
                    color=f"C{number}" if ours else "black" if column == THE_PAPER else "0.7",
                    fillstyle="full" if ours else "none",
                    linestyle="none",
                    zorder=2 if ours or column == THE_PAPER else 1,
                    label=_label(grid, column, shown),
                )
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(grid.metric.label)
        axes.grid(axis="y", color="0.92")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _label(grid: Grid, column: str, shown: set[str]) -> str:
    """The name in the legend, once; the others of the literature are one entry."""
    name = column if column in grid.measured or column == THE_PAPER else "others, published"
    if name in shown:
        return ""
    shown.add(name)
    return name
