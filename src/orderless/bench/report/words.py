"""What both pages say in the same words."""

from orderless.bench.grid import Figure, Grid
from orderless.bench.registry import Metric

TITLE = "Tables"
INTRODUCTION = (
    "Figures of our own are means over seeds, with their standard deviation where there is more "
    "than one seed. Bold is the best of a row at the printed precision, over all its columns. The "
    "mean rank counts rows that are not averages; equals share their places. Nothing here is "
    "typed: `orderless bench report` writes this page from the files in `cells/`."
)
PROTOCOL_WORDS = {
    "fair": "Every test window is scored; everything is chosen on validation data; scales and "
    "thresholds come from training data.",
    "paper": "What the published tables did, as far as it can be inferred. To be set beside their "
    "figures, and beside nothing else.",
}
RANK, FIRSTS = "mean rank", "firsts"


def heading(grid: Grid) -> str:
    """The name of a grid."""
    protocol = "" if grid.simulated else f", protocol `{grid.protocol}`"
    return f"{grid.title}{protocol}: {grid.metric.label}"


def rule(grid: Grid) -> str:
    """How its figures were made, in a sentence."""
    if grid.simulated:
        return "On simulated series; seeds are the same for all columns."
    return PROTOCOL_WORDS[grid.protocol]


def words_of(figure: Figure, metric: Metric) -> str:
    """A figure as it is printed, without what stands behind it."""
    if figure.value is None:
        return figure.words
    form = f".{metric.digits}{'e' if metric.scientific else 'f'}"
    text = f"{figure.value:{form}}"
    text = text if figure.spread is None else f"{text} ± {figure.spread:{form}}"
    return f"≈ {text}" if figure.alike else text


def lines_below(grid: Grid) -> list[str]:
    """What is said below a table, one line each."""
    lines = [*grid.notes, *remarks(grid)]
    if any(figure.alike for row in grid.rows for figure in row.figures.values()):
        lines.append(
            f"≈ marks what differs from `{grid.reference}` by less than two standard errors over "
            "the seeds: no difference was shown."
        )
    if not grid.comparable and grid.published:
        lines.append("Published figures stand beside ours and are not ranked against them.")
    return lines


def remarks(grid: Grid) -> list[str]:
    """Where a printed figure does not agree with itself, one line each."""
    return [
        f"{column}, {row.label}: printed {words_of(figure, grid.metric)}, {figure.remark}"
        for row in grid.rows
        for column in grid.published
        if (figure := row.figures[column]).remark
    ]
