"""The report as Markdown."""

from collections.abc import Sequence

from orderless.bench.grid import Grid
from orderless.bench.report.explanations import INTRODUCTION, TITLE, explain
from orderless.bench.report.overview import HEAD, standings
from orderless.bench.report.sections import sections
from orderless.bench.report.words import (
    heading,
    notes,
    rank_rows,
    remarks,
    words_of,
)
from orderless.bench.rows import Row


def write_markdown(grids: Sequence[Grid]) -> str:
    """All grids, each with its remarks, and what is true of several once."""
    parts = [f"# {TITLE}", *INTRODUCTION]
    lines = [_line(one.entries) for one in standings(grids)]
    if lines:
        parts.append("\n".join([_line(HEAD), _rule(len(HEAD)), *lines]))
    for section in sections(grids):
        parts += [f"## {heading(section[0])}", explain(section[0])]
        for grid in section:
            parts += [f"### {grid.metric.label}", _table(grid), _list(remarks(grid))]
        parts.append(_list(notes(section[0])))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(grid: Grid) -> str:
    rows = [[row.label, *_entries(grid, row)] for row in grid.rows]
    head = [_line(["", *grid.columns]), _rule(1 + len(grid.columns))]
    return "\n".join([*head, *map(_line, rows + rank_rows(grid))])


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


def _rule(columns: int) -> str:
    return _line(["---", *["---:"] * (columns - 1)])


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
