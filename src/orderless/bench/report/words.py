"""What both pages say in the same words."""

from orderless.bench.grid import Figure, Grid
from orderless.bench.registry import Metric

RANK, FIRSTS = "mean rank", "firsts"


def heading(grid: Grid) -> str:
    """The name of a table under a protocol."""
    return grid.title if grid.simulated else f"{grid.title}, protocol `{grid.protocol}`"


def words_of(figure: Figure, metric: Metric) -> str:
    """A figure as it is printed, without what stands behind it."""
    if figure.value is None:
        return figure.words
    text = f"{figure.value:{metric.form}}"
    text = text if figure.spread is None else f"{text} ± {figure.spread:{metric.form}}"
    return f"≈ {text}" if figure.alike else text


def rank_rows(grid: Grid) -> list[list[str]]:
    """The lines below the rows that count places; none where nobody is ranked."""
    if not grid.ranks:
        return []
    ranks = [f"{grid.ranks[c]:.2f}" if c in grid.ranks else "-" for c in grid.columns]
    return [[RANK, *ranks], [FIRSTS, *(str(grid.firsts.get(c, "-")) for c in grid.columns)]]


def remarks(grid: Grid) -> list[str]:
    """What is said below a table: what ≈ means, and where a printed figure contradicts itself."""
    lines = [
        f"{column}, {row.label}: printed {words_of(figure, grid.metric)}, {figure.remark}"
        for row in grid.rows
        for column in grid.published
        if (figure := row.figures[column]).remark
    ]
    if any(figure.alike for row in grid.rows for figure in row.figures.values()):
        lines.append(
            f"≈ is within the noise of the seeds: it differs from `{grid.reference}` by less than "
            "two standard errors, so no difference was shown."
        )
    return lines


def notes(grid: Grid) -> list[str]:
    """What is said once about all figures of a table under a protocol."""
    lines = list(grid.notes)
    if grid.source:
        lines.append(f"Published columns: {grid.source}.")
    if not grid.comparable and grid.published:
        lines.append("Published figures stand beside ours and are not ranked against them.")
    return lines
