"""Figures that others have printed, as they printed them; `sources.toml` says where."""

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FOLDER = files("orderless.bench.published")
THE_PAPER = "the paper"
AVERAGE = "average"
Figures = dict[tuple[str, str, str, str], float]


@dataclass(frozen=True)
class Published:
    """Printed figures by (dataset, setting, model, metric), the models in order, and the source."""

    figures: Figures
    models: tuple[str, ...]
    source: str


@cache
def read_published(table: str, protocol: str) -> Published:
    """What may be set beside a table of a protocol; nothing where nobody has printed any."""
    for name, about in sources().items():
        if (about["table"], about["protocol"]) == (table, protocol):
            figures = _read(name)
            models = dict.fromkeys(model for _, _, model, _ in figures)
            # The paper stands first.
            ordered = sorted(models, key=lambda model: model != THE_PAPER)
            return Published(figures, tuple(ordered), about["source"])
    return Published({}, (), "")


@cache
def sources() -> dict[str, dict[str, str]]:
    """For each file its table, its protocol, and where it is from."""
    return tomllib.loads((FOLDER / "sources.toml").read_text("utf-8"))


def read_main_table() -> Figures:
    """The averages in the text of the paper, which the appendix prints again."""
    return _read("long-term-main")


@cache
def _read(name: str) -> Figures:
    text = (FOLDER / f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["dataset"], row["setting"], row["model"], row["metric"]): float(row["value"])
        for row in csv.DictReader(text.splitlines())
    }
