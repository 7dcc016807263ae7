"""Benchmark sets as arrays, from the prepared files of the data folder or from the originals.

Every set knows the checksum of the files it was read from, and a note where it is not the whole.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orderless.bench.datasets.archives import in_words, open_arrays, open_zip
from orderless.bench.datasets.catalogue import (
    ANOMALY,
    CLASSIFICATION,
    LONG_TERM,
    M4_GROUPS,
    SHORT_TERM,
    Entry,
    data_folder,
    files_there,
    find_entry,
)
from orderless.bench.datasets.packing import origin, read_rows, write_rows
from orderless.data.ts_files import read_ts
from orderless.errors import DataError

MISSING_READING = -9999.0
SEASONS = {"ETTh1": 24, "ETTh2": 24, "ETTm1": 96, "ETTm2": 96, "Weather": 144}
SEASONS |= {"Electricity": 24, "Traffic": 24, "Exchange": 1}
Named = tuple[tuple[str, ...], list[np.ndarray]]
"""Names and rows: the variables of a long series, or the series of a group of M4."""


@dataclass(frozen=True)
class Borders:
    """Half-open spans of rows: train [0, train), validation [train, validation), test to `test`."""

    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class LongSeries:
    """One long series: values [variable, time] with NaN where missing, and how it is split."""

    name: str
    values: np.ndarray
    variables: tuple[str, ...]
    borders: Borders
    season: int
    checksum: str
    note: str = ""


@dataclass(frozen=True)
class ShortSeries:
    """A group of M4: histories of different length, and what followed [series, horizon]."""

    name: str
    ids: tuple[str, ...]
    history: list[np.ndarray]
    future: np.ndarray
    period: int
    checksum: str
    note: str = ""


@dataclass(frozen=True)
class Cases:
    """Cases [case, variable, time] and their classes; NaN pads what is shorter than the longest."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    checksum: str
    note: str = ""


@dataclass(frozen=True)
class Monitored:
    """One system: train and test [time, variable], and whether each test time step is anomalous."""

    name: str
    train: np.ndarray
    test: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class MonitoredSet:
    """The systems of an anomaly set."""

    name: str
    systems: tuple[Monitored, ...]
    checksum: str
    note: str = ""


def long_term(
    name: str, folder: Path | None = None, *, keep_missing_readings: bool = False
) -> LongSeries:
    """A long-term forecasting set.

    -9999 becomes NaN in Weather, unless `keep_missing_readings`: the benchmark as it is published.
    """
    entry, paths = _find(name, LONG_TERM, folder)
    variables, rows = _read_long(paths[0])
    _check(entry, len(variables))
    values = np.stack(rows)
    if entry.name == "Weather" and not keep_missing_readings:
        values = np.where(values == MISSING_READING, np.nan, values)
    borders = find_borders(entry.name, values.shape[1])
    season = SEASONS[entry.name]
    return LongSeries(entry.name, values, variables, borders, season, checksum_of(paths))


def find_borders(name: str, rows: int) -> Borders:
    """Where train, validation and test end. Rows of ETT after the twentieth month are not used."""
    if not name.startswith("ETT"):
        return Borders(int(0.7 * rows), rows - int(0.2 * rows), rows)
    month = 30 * 24 * (4 if name.startswith("ETTm") else 1)
    borders = Borders(12 * month, 16 * month, 20 * month)
    if rows < borders.test:
        raise DataError(
            f"{name} has {rows} rows; its split needs {borders.test}. The file is cut short."
        )
    return borders


def m4_group(group: str, folder: Path | None = None) -> ShortSeries:
    """A group of M4: Yearly, Quarterly, Monthly, Weekly, Daily or Hourly."""
    entry, paths = _find(f"M4-{group}", SHORT_TERM, folder)
    (ids, history), (test_ids, future) = map(_read_m4, paths)
    if ids != test_ids:
        raise DataError(f"The train and test files of {entry.name} do not name the same series.")
    facts = M4_GROUPS[entry.name.removeprefix("M4-")]
    for one, values in zip(ids, future, strict=True):
        if len(values) != facts.horizon:
            raise DataError(
                f"Series {one} of {entry.name} is not followed by {facts.horizon} steps."
            )
    return ShortSeries(entry.name, ids, history, np.stack(future), facts.period, checksum_of(paths))


def naive2_forecasts(group: str, folder: Path | None = None) -> np.ndarray | None:
    """The forecasts [series, horizon] of the competition's Naive2, where m4/naive2.parquet lies."""
    path = (data_folder() if folder is None else folder) / "m4" / "naive2.parquet"
    path = path if path.is_file() else path.with_suffix(".npz")
    if not path.is_file():
        return None
    found = dict(zip(*_read_m4(path), strict=True))
    wanted = m4_group(group, folder).ids
    if missing := [one for one in wanted if one not in found]:
        raise DataError(f"{path} has no forecast of series {missing[0]}: the file is cut short.")
    return np.stack([found[one] for one in wanted])


def uea(name: str, folder: Path | None = None) -> Cases:
    """A classification set of the UEA archive, with the archive's own split."""
    entry, paths = _find(name, CLASSIFICATION, folder)
    if paths[0].suffix == ".npz":
        with open_arrays(paths[0]) as file:
            cases = [file["X_train"], file["X_test"]]
            labels = [file["y_train"], file["y_test"]]
    else:
        read, labels = zip(*_read_ts_pair(paths[0], entry.name), strict=True)
        longest = max(case.shape[1] for part in read for case in part)
        cases = [_pad(part, longest) for part in read]
    _check(entry, cases[0].shape[1])
    names = [each.astype(str) for each in labels]
    return Cases(entry.name, cases[0], names[0], cases[1], names[1], checksum_of(paths))


def anomaly(name: str, folder: Path | None = None) -> MonitoredSet:
    """An anomaly detection set: one system, or one for each machine of SMD."""
    entry, paths = _find(name, ANOMALY, folder)
    note = ""
    if paths[0].suffix == ".npz":
        systems = tuple(_read_monitored(path) for path in paths)
        if entry.some and len(systems) < len(entry.prepared):
            note = f"{len(systems)} of {len(entry.prepared)} machines"
    else:
        systems = (_read_original_monitored(entry.name, paths),)
        if entry.some:
            note = f"{len(entry.prepared)} machines joined to one series by its publisher"
    for system in systems:
        _check(entry, system.train.shape[1])
        _check(entry, system.test.shape[1])
        if len(system.labels) != len(system.test):
            raise DataError(
                f"{system.name} has {len(system.test)} test rows and {len(system.labels)} labels."
            )
    return MonitoredSet(entry.name, systems, checksum_of(paths), note)


def pack(name: str, target: Path) -> list[Path]:
    """Write a set below another folder, in files that NumPy alone can read; the same figures."""
    folder = data_folder()
    if target.resolve() == folder.resolve():
        raise DataError(f"{target} is the data folder itself; name another with --to.")
    entry, paths = _find(name, find_entry(name).task, None)
    if entry.task == SHORT_TERM and (naive2 := folder / "m4" / "naive2.parquet").is_file():
        paths = (*paths, naive2)
    read = {LONG_TERM: _read_long, SHORT_TERM: _read_m4}.get(entry.task)
    packed = []
    for path in paths:
        copy = target / path.relative_to(folder)
        if read is not None:
            copy = copy.with_suffix(".npz")
            write_rows(copy, *read(path), path)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        packed.append(copy)
    return packed


def checksum_of(paths: Sequence[Path]) -> str:
    """One checksum of the contents and names of several files; packed ones count as unpacked."""
    origins = [origin(path) for path in paths]
    if len(origins) == 1:
        return origins[0][1]
    lines = "".join(f"{name} {checksum}\n" for name, checksum in origins)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _find(name: str, task: str, folder: Path | None) -> tuple[Entry, tuple[Path, ...]]:
    entry = find_entry(name)
    if entry.task != task:
        raise DataError(f"{entry.name} is a set for {entry.task}, not for {task}.")
    paths = files_there(entry, folder)
    if not paths:
        where = data_folder() if folder is None else folder
        how = entry.permission or f"`orderless data get {entry.name}` fetches it"
        raise DataError(f"{entry.name} is not in {where}; {how}.")
    return entry, paths


def _check(entry: Entry, variables: int) -> None:
    if variables != entry.variables:
        raise DataError(
            f"The file of {entry.name} has {variables} variables instead of {entry.variables}: it "
            "is an extract or another set, and no figure of it could be compared."
        )


def _read_long(path: Path) -> Named:
    if path.suffix == ".npz":
        return read_rows(path)
    columns = _columns_of(path)
    columns.pop("date", None)
    return tuple(columns), [one.astype(np.float64) for one in columns.values()]


def _read_m4(path: Path) -> Named:
    if path.suffix == ".npz":
        return read_rows(path)
    columns = _columns_of(path)
    if path.suffix == ".parquet":
        rows = [np.asarray(row, np.float64) for row in columns["values"]]
        return tuple(columns["id"].tolist()), rows
    # The originals have one column a step, named V1 (the id), V2 ..., and empty cells at the end.
    ids, *steps = columns.values()
    table = np.stack(steps, 1).astype(np.float64)
    lengths = (~np.isnan(table)).sum(1)
    rows = [row[:length] for row, length in zip(table, lengths, strict=True)]
    return tuple(map(str, ids.tolist())), rows


def _read_ts_pair(path: Path, name: str) -> list[tuple[list[np.ndarray], np.ndarray]]:
    pair = []
    with open_zip(path) as archive, tempfile.TemporaryDirectory() as folder:
        for part in ("TRAIN", "TEST"):
            wanted = f"{name}_{part}.ts"
            member = next((one for one in archive.namelist() if one.endswith(wanted)), None)
            if member is None:
                raise DataError(f"{path.name} does not hold {wanted}. Is it the archive of {name}?")
            cases, labels = read_ts(archive.extract(member, folder))
            if labels is None:
                raise DataError(f"{wanted} has no classes.")
            pair.append((cases, labels))
    return pair


def _pad(cases: Sequence[np.ndarray], longest: int) -> np.ndarray:
    padded = np.full((len(cases), cases[0].shape[0], longest), np.nan, np.float32)
    for number, case in enumerate(cases):
        padded[number, :, : case.shape[1]] = case
    return padded


def _read_monitored(path: Path) -> Monitored:
    with open_arrays(path) as file:
        return Monitored(path.stem, file["train"], file["test"], file["label"].astype(bool))


def _read_original_monitored(name: str, paths: Sequence[Path]) -> Monitored:
    if name == "SWaT":
        train, test = map(_read_numbers, paths)
        return Monitored(name, train[:, :-1], test[:, :-1], test[:, -1].astype(bool))
    if paths[0].suffix == ".csv":
        # The first column is a time stamp, and what is missing counts as 0.
        train, test, labels = (np.nan_to_num(_read_numbers(path)[:, 1:]) for path in paths)
        return Monitored(name, train, test, labels[:, -1].astype(bool))
    train, test, labels = map(_read_array, paths)
    return Monitored(name, train, test, labels.reshape(-1).astype(bool))


def _read_array(path: Path) -> np.ndarray:
    with in_words(path):
        # A map refuses a file that is shorter than it says, before any memory is taken for it.
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


def _read_numbers(path: Path) -> np.ndarray:
    return np.stack(list(_columns_of(path).values()), 1).astype(np.float64)


def _columns_of(path: Path) -> dict[str, np.ndarray]:
    """The columns of a parquet or CSV file by name."""
    try:
        import polars as pl
    except ImportError as error:
        raise DataError(
            f"{path} is read with polars, which is not here: `pip install polars`, or take "
            "the set along packed, with `orderless data pack` where it is installed."
        ) from error
    with in_words(path, pl.exceptions.PolarsError):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
        else:
            frame = pl.read_csv(path, infer_schema_length=None, encoding="utf8-lossy")
    return {name: frame[name].to_numpy() for name in frame.columns}
