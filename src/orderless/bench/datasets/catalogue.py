"""The public benchmark sets: where each lies, whose it is, how it is split, and what to mind.

This file holds facts; `download` fetches the files and `readers` reads them. The data folder is the
one named by the environment variable ORDERLESS_DATA, or a folder in the user's cache.
"""

import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from orderless.errors import DataError

LONG_TERM, SHORT_TERM = "long-term", "short-term"
CLASSIFICATION, ANOMALY = "classification", "anomaly"

MIRROR = "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/main"
ETT = (
    "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/"
    "1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small"
)
M4 = (
    "https://raw.githubusercontent.com/Mcompetitions/M4-methods/"
    "6c1067e5a57161249b17289a565178dc7a3fb3ca/Dataset"
)
UEA = "https://timeseriesclassification.com/aeon-toolkit"


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
        """Its size and checksum; None where nobody has told them."""
        return known_files().get(self.path)


@dataclass(frozen=True)
class Entry:
    """One set of the catalogue.

    split       the borders, in words
    prepared    paths of lossless conversions (parquet, npz), read where they lie in the folder;
                a parquet may lie there packed as npz instead
    originals   what `orderless data get` fetches, read where there is no conversion
    some        whether a part of `prepared` is a set too; what is read then says how much of it
    traps       what a reader of the raw files would stumble over, and what is done about it
    """

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


NO_LICENCE = "none stated by its publisher"
ETT_LICENCE = "CC BY-ND 4.0"
NASA_LICENCE = "Caltech, BSD-like"
ETT_HOURLY = (
    "rows 0:8640 train, 8640:11520 validation, 11520:14400 test (12, 4, 4 months of 30 days)"
)
ETT_QUARTERLY = "rows 0:34560 train, 34560:46080 validation, 46080:57600 test"
SHARES = "the first int(0.7 n) rows train, the last int(0.2 n) test, those between validation"
PADDING = "cases of different length: padded with NaN at the end, never with zeros"
FLOAT32 = "five train files of the prepared copies are float32: relative rounding of at most 6e-8"
FLOAT32_TEST = "the prepared test file is float32, exact to the printed digits"
WEATHER = (
    "-9999 stands for a missing reading (wv 1, max. PAR 30, OT 50): NaN when read, but kept in the "
    "tables, since every published figure has it; one time stamp is repeated, and one gap of 100 "
    "minutes is not filled"
)
EXCHANGE = "dates are labels of trading days, not a calendar"
ELECTRICITY_LICENCE = "none stated for this copy; origin: UCI data set 321"


@dataclass(frozen=True)
class M4Group:
    """How many steps of each series are forecast, after how many it repeats, how many there are."""

    horizon: int
    period: int
    count: int
    traps: str = FLOAT32


M4_GROUPS = {
    "Yearly": M4Group(6, 1, 23_000),
    "Quarterly": M4Group(8, 4, 24_000),
    "Monthly": M4Group(18, 12, 48_000),
    "Weekly": M4Group(13, 1, 359),
    "Daily": M4Group(14, 1, 4_227),
    "Hourly": M4Group(48, 24, 414, FLOAT32_TEST),
}
MACHINES = tuple(
    f"machine-{group}-{number}"
    for group, count in ((1, 8), (2, 9), (3, 11))
    for number in range(1, count + 1)
)


def _long_term(
    name: str, file: str, variables: int, split: str, licence: str, traps: str = ""
) -> Entry:
    address = f"{ETT}/{file}.csv" if name.startswith("ETT") else f"{MIRROR}/{file}/{file}.csv"
    original = Original(f"ltsf/{file}.csv", address)
    prepared = (f"ltsf/{file}.parquet",)
    return Entry(name, LONG_TERM, variables, licence, split, prepared, (original,), traps=traps)


def _m4(group: str) -> Entry:
    facts = M4_GROUPS[group]
    parts = {f"m4/{group}-{part.lower()}": part for part in ("Train", "Test")}
    return Entry(
        f"M4-{group}",
        SHORT_TERM,
        1,
        NO_LICENCE,
        f"{facts.count} series; the last {facts.horizon} steps of each are the test file",
        tuple(f"{path}.parquet" for path in parts),
        tuple(
            Original(f"{path}.csv", f"{M4}/{part}/{Path(path).name}.csv")
            for path, part in parts.items()
        ),
        traps=facts.traps,
    )


def _uea(name: str, variables: int, traps: str = "") -> Entry:
    return Entry(
        name,
        CLASSIFICATION,
        variables,
        "the UEA archive states no single licence",
        "the archive's own TRAIN and TEST files",
        (f"uea/{name}.npz",),
        (Original(f"uea/{name}.zip", f"{UEA}/{name}.zip"),),
        traps=traps,
    )


def _anomaly(
    name: str, variables: int, licence: str, *originals: str, traps: str = "", permission: str = ""
) -> Entry:
    machines = name == "SMD"
    files = originals or (f"{name}_train.npy", f"{name}_test.npy", f"{name}_test_label.npy")
    return Entry(
        name,
        ANOMALY,
        variables,
        licence,
        "the publisher's own train and test files; anomalies are labelled in the test file",
        tuple(f"anomaly/SMD/{one}.npz" for one in MACHINES)
        if machines
        else (f"anomaly/{name}.npz",),
        tuple(
            Original(f"anomaly/{name}/{file}", "" if permission else f"{MIRROR}/{name}/{file}")
            for file in files
        ),
        machines,
        traps,
        permission,
    )


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        _long_term("ETTh1", "ETTh1", 7, ETT_HOURLY, ETT_LICENCE),
        _long_term("ETTh2", "ETTh2", 7, ETT_HOURLY, ETT_LICENCE),
        _long_term("ETTm1", "ETTm1", 7, ETT_QUARTERLY, ETT_LICENCE),
        _long_term("ETTm2", "ETTm2", 7, ETT_QUARTERLY, ETT_LICENCE),
        _long_term("Weather", "weather", 21, SHARES, NO_LICENCE, WEATHER),
        _long_term("Exchange", "exchange_rate", 8, SHARES, NO_LICENCE, EXCHANGE),
        _long_term("Electricity", "electricity", 321, SHARES, ELECTRICITY_LICENCE),
        _long_term("Traffic", "traffic", 862, SHARES, NO_LICENCE),
        *map(_m4, M4_GROUPS),
        _uea("EthanolConcentration", 3),
        _uea("FaceDetection", 144),
        _uea("Handwriting", 3),
        _uea("Heartbeat", 61),
        _uea("JapaneseVowels", 12, PADDING),
        _uea("PEMS-SF", 963),
        _uea("SelfRegulationSCP1", 6),
        _uea("SelfRegulationSCP2", 7),
        _uea("SpokenArabicDigits", 13, PADDING),
        _uea("UWaveGestureLibrary", 3),
        _uea("ArticularyWordRecognition", 9),
        _uea("BasicMotions", 6),
        _uea("FingerMovements", 28),
        _uea("LSST", 6),
        _uea("NATOPS", 24),
        _anomaly(
            "SMD",
            38,
            "MIT",
            traps="28 machines that are 28 systems; with fewer of them a figure says so "
            "('23 of 28 machines')",
        ),
        _anomaly(
            "MSL",
            55,
            NASA_LICENCE,
            traps="27 channels joined one after the other: a window may cross from one to the next",
        ),
        _anomaly(
            "SMAP",
            25,
            NASA_LICENCE,
            traps="53 channels joined one after the other (P-2 left out, as customary)",
        ),
        _anomaly(
            "SWaT",
            51,
            "by permission of iTrust, Singapore University of Technology and Design",
            "swat_train2.csv",
            "swat2.csv",
            permission="ask iTrust for it at https://itrust.sutd.edu.sg/itrust-labs_datasets/",
        ),
        _anomaly(
            "PSM",
            25,
            "CC BY 4.0 (eBay)",
            "train.csv",
            "test.csv",
            "test_label.csv",
            traps="the train file has missing values: 0, as customary",
        ),
    )
}

LONG_TERM_SETS = tuple(name for name, entry in CATALOGUE.items() if entry.task == LONG_TERM)
ANOMALY_SETS = tuple(name for name, entry in CATALOGUE.items() if entry.task == ANOMALY)
UEA_SETS = tuple(name for name, entry in CATALOGUE.items() if entry.task == CLASSIFICATION)
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
    text = (files("orderless.bench.datasets") / "checksums.txt").read_text("utf-8")
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
