"""The catalogue of public benchmark sets, as `catalogue.toml` and `checksums.txt` have it.

`download` fetches the files, `readers` reads them. The data folder is the one named by the
environment variable ORDERLESS_DATA, or a folder in the user's cache.
"""

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from orderless.errors import DataError

LONG_TERM, SHORT_TERM = "long-term", "short-term"
CLASSIFICATION, ANOMALY = "classification", "anomaly"
FOLDER = files("orderless.bench.datasets")


@dataclass(frozen=True)
class Known:
    """What is known of a file before it is there: bytes, and `sha256:...` or `git:...`."""

    size: int
    checksum: str


@dataclass(frozen=True)
class Original:
    """A file as its publisher offers it, and its path in the data folder."""

    path: str
    address: str

    @property
    def known(self) -> Known | None:
        """Its size and checksum; None where they are not known."""
        return known_files().get(self.path)


@dataclass(frozen=True)
class Entry:
    """One set of the catalogue, which explains its fields."""

    name: str
    task: str
    variables: int
    licence: str
    split: str
    prepared: tuple[str, ...] = ()
    originals: tuple[Original, ...] = ()
    some: bool = False
    traps: str = ""
    permission: str = ""


@dataclass(frozen=True)
class M4Group:
    """How many steps of each series are forecast, after how many it repeats, how many there are."""

    horizon: int
    period: int
    count: int


def _read_entry(task: str, name: str, facts: dict[str, Any]) -> Entry:
    def filled(text: str) -> str:
        return text.format_map({"name": name, "file": name} | facts)

    return Entry(
        name,
        task,
        facts["variables"],
        facts["licence"],
        filled(facts["split"]),
        tuple(map(filled, facts["prepared"])),
        tuple(Original(filled(path), filled(at)) for path, at in facts["originals"].items()),
        facts.get("some", False),
        facts.get("traps", ""),
        facts.get("permission", ""),
    )


def _read_catalogue() -> tuple[dict[str, Entry], dict[str, M4Group]]:
    found = tomllib.loads((FOLDER / "catalogue.toml").read_text("utf-8"))
    entries = {}
    for task in (LONG_TERM, SHORT_TERM, CLASSIFICATION, ANOMALY):
        for name, own in found[task]["sets"].items():
            facts = found[task] | found.get(own.get("like"), {}) | own
            entries[name] = _read_entry(task, name, facts)
    sizes = ("horizon", "period", "count")
    groups = {
        own["group"]: M4Group(*(own[size] for size in sizes))
        for own in found[SHORT_TERM]["sets"].values()
    }
    return entries, groups


CATALOGUE, M4_GROUPS = _read_catalogue()
LONG_TERM_SETS, UEA_SETS, ANOMALY_SETS = (
    tuple(name for name, entry in CATALOGUE.items() if entry.task == task)
    for task in (LONG_TERM, CLASSIFICATION, ANOMALY)
)
PAPER_UEA_SETS = UEA_SETS[:10]


def find_entry(name: str) -> Entry:
    """The entry of that name, whatever the case of its letters."""
    for known, entry in CATALOGUE.items():
        if known.lower() == name.lower():
            return entry
    raise DataError(
        f"There is no set called {name!r} in the catalogue. `orderless data list` names them all."
    )


@cache
def known_files() -> dict[str, Known]:
    """Sizes and checksums of files, by their path in the data folder."""
    text = (FOLDER / "checksums.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {path: Known(int(size), checksum) for path, size, checksum in rows}


def data_folder() -> Path:
    """The folder in ORDERLESS_DATA, or one in the user's cache."""
    named = os.environ.get("ORDERLESS_DATA")
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "orderless" / "data"


def files_there(entry: Entry, folder: Path | None = None) -> tuple[Path, ...]:
    """The files from which the set would be read; none where the folder does not hold it."""
    folder = data_folder() if folder is None else folder
    places = tuple(folder / name for name in entry.prepared)
    for layout in (places, tuple(path.with_suffix(".npz") for path in places)):
        there = tuple(path for path in layout if path.is_file())
        if there and (entry.some or len(there) == len(layout)):
            return there
    originals = tuple(folder / original.path for original in entry.originals)
    return originals if all(path.is_file() for path in originals) else ()
