"""The report as Markdown."""

from collections.abc import Sequence

from orderless.bench.grid import Grid, Row
from orderless.bench.report.overview import HEAD, standings
from orderless.bench.report.words import (
    FIRSTS,
    INTRODUCTION,
    RANK,
    TITLE,
    heading,
    lines_below,
    rule,
    words_of,
)


def write_markdown(grids: Sequence[Grid]) -> str:
    """All grids, each with its source and remarks."""
    parts = [f"# {TITLE}", INTRODUCTION]
    lines = [_line(one.entries) for one in standings(grids)]
    if lines:
        parts.append("\n".join([_line(HEAD), _line(["---", *["---:"] * (len(HEAD) - 1)]), *lines]))
    for grid in grids:
        parts += [f"## {heading(grid)}", rule(grid), _table(grid)]
        if grid.source:
            parts.append(f"Published columns: {grid.source}.")
        lines = lines_below(grid)
        if lines:
            parts.append("\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts) + "\n"


def _table(grid: Grid) -> str:
    lines = [
        _line(["", *grid.columns]),
        _line(["---", *["---:"] * len(grid.columns)]),
        *(_line([row.label, *_entries(grid, row)]) for row in grid.rows),
    ]
    if grid.ranks:
        ranks = [f"{grid.ranks[c]:.2f}" if c in grid.ranks else "-" for c in grid.columns]
        lines.append(_line([RANK, *ranks]))
        lines.append(_line([FIRSTS, *(str(grid.firsts.get(c, "-")) for c in grid.columns)]))
    return "\n".join(lines)


def _entries(grid: Grid, row: Row) -> list[str]:
    best = grid.best(row)
    entries = []
    for column in grid.columns:
        figure = row.figures[column]
        text = words_of(figure, grid.metric)
        text = f"**{text}**" if column in best else text
        entries.append(f"{text}*" if figure.remark else text)
    return entries


def _line(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"
