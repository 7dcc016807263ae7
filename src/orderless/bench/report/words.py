"""What both pages say in the same words."""

from orderless.bench.grid import Figure, Grid

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
    return f"{grid.title}, protocol `{grid.protocol}`: {grid.metric.label}"


def words_of(figure: Figure, digits: int) -> str:
    """A figure as it is printed, without what stands behind it."""
    if figure.value is None:
        return figure.words
    text = f"{figure.value:.{digits}f}"
    return text if figure.spread is None else f"{text} ± {figure.spread:.{digits}f}"


def remarks(grid: Grid) -> list[str]:
    """Where a printed figure does not agree with itself, one line each."""
    return [
        f"{column}, {row.label}: printed {words_of(figure, grid.metric.digits)}, {figure.remark}"
        for row in grid.rows
        for column in grid.published
        if (figure := row.figures[column]).remark
    ]
