"""The report as one page of HTML that needs no other file: style and plots are inside."""

from collections.abc import Sequence
from html import escape

from orderless.bench.grid import Grid
from orderless.bench.report.explanations import INTRODUCTION, TITLE, explain
from orderless.bench.report.overview import HEAD, standings
from orderless.bench.report.plots import draw
from orderless.bench.report.sections import sections
from orderless.bench.report.words import (
    heading,
    notes,
    rank_rows,
    remarks,
    words_of,
)
from orderless.bench.rows import Row

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff }
p, ul { max-width: 52rem }
nav ul { columns: 2; max-width: none }
h2 { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid #ccc }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .2rem .55rem; text-align: right; border-bottom: 1px solid #e4e4e4;
  white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
thead th { border-bottom: 2px solid #888 }
.theirs { color: #666 }
.summary td, .summary td:first-child { background: #f5f5f5 }
.none { color: #a0a0a0; font-style: italic }
.small { font-size: 13px; color: #444 }
svg { max-width: 100%; height: auto }
"""


def write_page(grids: Sequence[Grid]) -> str:
    """All grids, each with a plot."""
    found = sections(grids)
    links = "".join(
        f'<li><a href="#s{number}">{_text(heading(section[0]))}</a></li>'
        for number, section in enumerate(found)
    )
    parts = [
        f"<h1>{TITLE}</h1>",
        *(f"<p>{_text(words)}</p>" for words in INTRODUCTION),
        f"<nav><ul>{links}</ul></nav>",
        _overview(grids),
    ]
    for number, section in enumerate(found):
        parts.append(f'<h2 id="s{number}">{_text(heading(section[0]))}</h2>')
        parts.append(f"<p>{_text(explain(section[0]))}</p>")
        for grid in section:
            parts.append(f"<h3>{_text(grid.metric.label)}</h3>")
            parts.append(draw(grid))
            parts.append(_table(["", *grid.columns], _rows(grid), grid.published))
            parts.append(_list(remarks(grid)))
        parts.append(_list(notes(section[0])))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{TITLE}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _overview(grids: Sequence[Grid]) -> str:
    rows = [
        "<tr>" + "".join(f"<td>{_text(entry)}</td>" for entry in one.entries) + "</tr>"
        for one in standings(grids)
    ]
    return f"<h2>Overview</h2>\n{_table(HEAD, rows)}" if rows else ""


def _table(head: Sequence[str], rows: Sequence[str], theirs: Sequence[str] = ()) -> str:
    names = "".join(f"<th{_class(name in theirs)}>{_text(name)}</th>" for name in head)
    body = "\n".join(rows)
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _rows(grid: Grid) -> list[str]:
    ranks = ("".join(f"<td>{entry}</td>" for entry in entries) for entries in rank_rows(grid))
    return [
        *(_row(grid, row) for row in grid.rows),
        *(f'<tr class="summary">{cells}</tr>' for cells in ranks),
    ]


def _row(grid: Grid, row: Row) -> str:
    best = grid.best(row)
    cells = []
    for column in grid.columns:
        figure = row.figures[column]
        text = escape(words_of(figure, grid.metric))
        text = f"<b>{text}</b>" if column in best else text
        if figure.remark:
            text = f'<span title="{escape(figure.remark)}">{text}*</span>'
        kind = ' class="none"' if figure.value is None else _class(column in grid.published)
        cells.append(f"<td{kind}>{text}</td>")
    summary = ' class="summary"' if row.summary else ""
    return f"<tr{summary}><td>{escape(row.label)}</td>{''.join(cells)}</tr>"


def _class(theirs: bool) -> str:
    return ' class="theirs"' if theirs else ""


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<ul class="small">{items}</ul>' if lines else ""


def _text(words: str) -> str:
    """Words with `code` in them."""
    pieces = escape(words).split("`")
    return "".join(f"<code>{one}</code>" if i % 2 else one for i, one in enumerate(pieces))
