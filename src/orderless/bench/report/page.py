"""The report as one page of HTML that needs no other file: style and plots are inside."""

from collections.abc import Sequence
from html import escape

from orderless.bench.grid import Grid, Row
from orderless.bench.report.overview import HEAD, standings
from orderless.bench.report.plots import draw
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

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .2rem .55rem; text-align: right; border-bottom: 1px solid #e4e4e4;
  white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
thead th { border-bottom: 2px solid #888 }
.theirs { color: #666 }
.summary td { background: #f5f5f5 }
.none { color: #a0a0a0; font-style: italic }
svg { max-width: 100%; height: auto }
"""


def write_page(grids: Sequence[Grid]) -> str:
    """All grids, each with a plot."""
    parts = []
    for number, grid in enumerate(grids):
        parts.append(f'<h2 id="g{number}">{_text(heading(grid))}</h2>')
        parts.append(f"<p>{escape(rule(grid))}</p>")
        parts.append(draw(grid) or "<p>There is nothing to draw yet.</p>")
        parts.append(f'<div class="wide">{_table(grid)}</div>')
        if grid.source:
            parts.append(f"<p>Published columns: {escape(grid.source)}.</p>")
        lines = lines_below(grid)
        if lines:
            parts.append("<ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>")
    links = "".join(
        f'<li><a href="#g{number}">{_text(heading(grid))}</a></li>'
        for number, grid in enumerate(grids)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{TITLE}</title><style>{STYLE}</style></head>\n<body>\n<h1>{TITLE}</h1>\n"
        f"<p>{_text(INTRODUCTION)}</p>\n{_overview(grids)}<ul>{links}</ul>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _overview(grids: Sequence[Grid]) -> str:
    found = standings(grids)
    if not found:
        return ""
    head = "".join(f"<th>{word}</th>" for word in HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(entry)}</td>" for entry in one.entries) + "</tr>"
        for one in found
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _table(grid: Grid) -> str:
    head = "".join(
        f"<th{_theirs(grid, column)}>{escape(column)}</th>" for column in ("", *grid.columns)
    )
    body = "".join(_row(grid, row) for row in grid.rows)
    if grid.ranks:
        ranks = [f"{grid.ranks[c]:.2f}" if c in grid.ranks else "-" for c in grid.columns]
        firsts = [str(grid.firsts.get(column, "-")) for column in grid.columns]
        for label, entries in ((RANK, ranks), (FIRSTS, firsts)):
            cells = "".join(f"<td>{entry}</td>" for entry in entries)
            body += f'<tr class="summary"><td>{label}</td>{cells}</tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(grid: Grid, row: Row) -> str:
    best = grid.best(row)
    cells = []
    for column in grid.columns:
        figure = row.figures[column]
        text = escape(words_of(figure, grid.metric))
        text = f"<b>{text}</b>" if column in best else text
        if figure.remark:
            text = f'<span title="{escape(figure.remark)}">{text}*</span>'
        kind = ' class="none"' if figure.value is None else _theirs(grid, column)
        cells.append(f"<td{kind}>{text}</td>")
    summary = ' class="summary"' if row.summary else ""
    return f"<tr{summary}><td>{escape(row.label)}</td>{''.join(cells)}</tr>"


def _theirs(grid: Grid, column: str) -> str:
    return ' class="theirs"' if column in grid.published else ""


def _text(words: str) -> str:
    """Words with `code` in them."""
    pieces = escape(words).split("`")
    return "".join(f"<code>{one}</code>" if i % 2 else one for i, one in enumerate(pieces))
