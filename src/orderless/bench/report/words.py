"""What both pages say in the same words."""

from collections.abc import Sequence

from orderless.bench.grid import NOISE, Grid
from orderless.bench.registry import Metric
from orderless.bench.rows import Figure

RANK, FIRSTS = "mean rank", "firsts"


def heading(grid: Grid) -> str:
    """The name of a table under a protocol."""
    title = grid.table.title
    return title if grid.table.simulated else f"{title}, protocol `{grid.protocol}`"


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
    reference = grid.table.reference
    others = [
        (row.figures[reference], row.figures[column])
        for row in grid.rows
        if reference and not row.summary
        for column in grid.measured
        if column != reference
    ]
    # Without a spread nobody can tell.
    known = [(one, two) for one, two in others if None not in (one.spread, two.spread)]
    if known:
        lines.append(_tally(grid, known))
    return lines


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
