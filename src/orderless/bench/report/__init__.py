"""The results as a page of Markdown and a page of HTML, made of the files in a folder alone."""

from pathlib import Path

from orderless.bench.grid import build_grid
from orderless.bench.protocols import PROTOCOLS
from orderless.bench.registry import ANALYSES, TABLES
from orderless.bench.report.markdown import write_markdown
from orderless.bench.report.page import write_page
from orderless.io import write_file


def write_report(results: Path) -> list[Path]:
    """Write report.md and report.html beside the results; returns both paths."""
    grids = [
        build_grid(table, protocol, metric, results)
        for table in (*TABLES.values(), *ANALYSES.values())
        for protocol in PROTOCOLS
        for metric in table.metrics.get(protocol, ())
    ]
    texts = {"report.md": write_markdown(grids), "report.html": write_page(grids)}
    for name, text in texts.items():
        write_file(results / name, text.encode())
    return [results / name for name in texts]
