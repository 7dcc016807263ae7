import re
import sys
import tracemalloc
import zipfile

import numpy as np
import polars as pl
import pytest

from orderless.bench.datasets import catalogue, readers
from orderless.bench.datasets.catalogue import (
    ANOMALY_SETS,
    CATALOGUE,
    LONG_TERM_SETS,
    M4_GROUPS,
    PAPER_UEA_SETS,
    Known,
    data_folder,
    files_there,
    find_entry,
)
from orderless.bench.datasets.download import MOST_BYTES, digest
from orderless.cli import main
from orderless.errors import DataError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path))
    for name in ("ltsf", "m4", "uea", "anomaly"):
        (tmp_path / name).mkdir()
    return tmp_path


def write_long(path, variables, rows, **changes):
    columns = {"date": [f"2020-01-01 {row}" for row in range(rows)]}
    columns |= {f"v{i}": np.arange(rows, dtype=float) + i for i in range(variables)}
    frame = pl.DataFrame(columns | changes)
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)


def write_ts(path, cases):
    lines = ["@problemName toy", "@timeStamps false", "@classLabel true a b", "@data"]
    for case, label in cases:
        lines.append(":".join([*(",".join(map(str, row)) for row in case), label]))
    path.write_text("\n".join(lines))


def test_every_set_of_the_paper_is_in_the_catalogue():
    assert len(LONG_TERM_SETS) == 8
    assert len(M4_GROUPS) == 6
    assert all(f"M4-{group}" in CATALOGUE for group in M4_GROUPS)
    assert len(PAPER_UEA_SETS) == 10
    assert {"EthanolConcentration", "PEMS-SF", "UWaveGestureLibrary"} <= set(PAPER_UEA_SETS)
    assert set(ANOMALY_SETS) == {"SMD", "MSL", "SMAP", "SWaT", "PSM"}


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_an_entry_says_whose_it_is_how_it_is_split_and_where_to_get_it(entry):
    assert entry.licence
    assert entry.split
    assert entry.permission or all(o.address.startswith("https://") for o in entry.originals)
    for original in entry.originals:
        known = original.known
        assert known is None or known.checksum.partition(":")[0] in ("sha256", "git")
        assert known is None or 0 < known.size < MOST_BYTES


def test_an_unknown_name_is_an_error_that_says_where_to_look():
    with pytest.raises(DataError, match="catalogue"):
        find_entry("ETTh3")
    assert find_entry("etth1").name == "ETTh1"


def test_the_folder_is_the_named_one_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("ORDERLESS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "orderless" / "data"


def test_a_set_that_is_not_there_is_an_error_that_says_how_to_get_it(folder):
    with pytest.raises(DataError, match="data get"):
        readers.long_term("ETTh1")
    with pytest.raises(DataError, match="iTrust"):
        readers.anomaly("SWaT")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_prepared_and_the_original_file_of_a_long_series_read_alike(folder, ending):
    write_long(folder / "ltsf" / f"ETTh1.{ending}", 7, 14_500)
    series = readers.long_term("ETTh1")
    assert series.values.shape == (7, 14_500)
    assert (series.values[:, 3] == 3 + np.arange(7)).all()
    assert series.variables == tuple(f"v{i}" for i in range(7))
    assert series.borders == readers.Borders(8640, 11520, 14400)
    assert series.season == 24
    assert series.checksum.startswith("sha256:")


def test_originals_are_read_as_they_were_published(folder):
    write_long(folder / "ltsf" / "ETTh1.csv", 7, 14_500)
    series = readers.long_term("ETTh1")
    assert series.variables == tuple(f"v{i}" for i in range(7))
    assert (series.values[:, 3] == 3 + np.arange(7)).all()
    (folder / "m4" / "Yearly-train.csv").write_text('"V1","V2","V3"\n"Y1",1,2.5\n"Y2",4,\n')
    steps = ",".join(f"V{i}" for i in range(2, 8))
    (folder / "m4" / "Yearly-test.csv").write_text(f"V1,{steps}\nY1,1,1,1,1,1,1\nY2,2,2,2,2,2,2\n")
    group = readers.m4_group("Yearly")
    assert group.ids == ("Y1", "Y2")
    assert [one.tolist() for one in group.history] == [[1, 2.5], [4]]
    (folder / "anomaly" / "PSM").mkdir()
    names = ",".join(f"v{i}" for i in range(25))
    rows = f"timestamp,{names}\n0{',1.5' * 25}\n1{',' * 25}\n"
    for part in ("train", "test"):
        (folder / "anomaly" / "PSM" / f"{part}.csv").write_text(rows)
    (folder / "anomaly" / "PSM" / "test_label.csv").write_text("timestamp,label\n0,0\n1,1\n")
    (system,) = readers.anomaly("PSM").systems
    assert system.train.tolist() == [[1.5] * 25, [0.0] * 25]
    assert system.labels.tolist() == [False, True]


def test_an_extract_is_not_taken_for_the_set(folder):
    write_long(folder / "ltsf" / "electricity.parquet", 6, 100)
    with pytest.raises(DataError, match="321"):
        readers.long_term("Electricity")


def test_a_file_cut_short_is_refused():
    with pytest.raises(DataError, match="rows"):
        readers.find_borders("ETTm1", 57_599)


def test_other_sets_are_split_by_shares_that_are_rounded_down():
    assert readers.find_borders("Exchange", 7588) == readers.Borders(5311, 6071, 7588)


def test_missing_readings_of_weather_are_nan_unless_the_benchmark_is_asked_for(folder):
    broken = np.arange(50.0)
    broken[7] = -9999.0
    write_long(folder / "ltsf" / "weather.parquet", 21, 50, v20=broken)
    read = readers.long_term("Weather").values
    assert np.isnan(read[20, 7])
    assert np.isnan(read).sum() == 1
    kept = readers.long_term("Weather", keep_missing_readings=True).values
    assert kept[20, 7] == -9999.0


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_m4_series_of_different_length_are_read(folder, ending):
    history = [[1.0, 2.0, 3.0], [4.0, 5.0]]
    future = [[1.0] * 6, [2.0] * 6]
    for part, rows in (("train", history), ("test", future)):
        path = folder / "m4" / f"Yearly-{part}.{ending}"
        if ending == "parquet":
            pl.DataFrame({"id": ["Y1", "Y2"], "values": rows}).write_parquet(path)
        else:
            longest = max(map(len, rows))
            padded = [row + [None] * (longest - len(row)) for row in rows]
            columns = {"V1": ["Y1", "Y2"]}
            columns |= {f"V{i + 2}": [row[i] for row in padded] for i in range(longest)}
            pl.DataFrame(columns).write_csv(path)
    group = readers.m4_group("Yearly")
    assert readers.m4_group("yearly").name == group.name == "M4-Yearly"
    assert group.ids == ("Y1", "Y2")
    assert [one.tolist() for one in group.history] == history
    assert group.future.tolist() == future
    assert group.period == 1


def test_m4_files_that_name_different_series_are_refused(folder):
    for part, name in (("train", "Y1"), ("test", "Y2")):
        frame = pl.DataFrame({"id": [name], "values": [[1.0] * 6]})
        frame.write_parquet(folder / "m4" / f"Yearly-{part}.parquet")
    with pytest.raises(DataError, match="series"):
        readers.m4_group("Yearly")


def test_naive2_is_that_of_the_group(folder):
    for part in ("train", "test"):
        frame = pl.DataFrame({"id": ["Y1"], "values": [[1.0] * 6]})
        frame.write_parquet(folder / "m4" / f"Yearly-{part}.parquet")
    assert readers.naive2_forecasts("Yearly") is None
    path = folder / "m4" / "naive2.parquet"
    pl.DataFrame({"id": ["Y1", "Q1"], "values": [[2.0] * 6, [3.0] * 8]}).write_parquet(path)
    assert readers.naive2_forecasts("Yearly").tolist() == [[2.0] * 6]
    for part in ("train", "test"):
        frame = pl.DataFrame({"id": ["Y1", "Y2"], "values": [[1.0] * 6] * 2})
        frame.write_parquet(folder / "m4" / f"Yearly-{part}.parquet")
    with pytest.raises(DataError, match="Y2"):
        readers.naive2_forecasts("Yearly")
    pl.DataFrame({"id": ["Y2", "Y1"], "values": [[2.0] * 6, [1.0] * 6]}).write_parquet(path)
    assert readers.naive2_forecasts("Yearly")[:, 0].tolist() == [1.0, 2.0]


def test_short_cases_are_padded_with_nan_in_both_layouts(folder):
    train = [([[1, 2, 3]] * 3, "a"), ([[4, 5]] * 3, "b")]
    test = [([[6, 7, 8, 9]] * 3, "a")]
    with zipfile.ZipFile(folder / "uea" / "Handwriting.zip", "w") as archive:
        for part, cases in (("TRAIN", train), ("TEST", test)):
            write_ts(folder / "one.ts", cases)
            archive.write(folder / "one.ts", f"Handwriting_{part}.ts")
    original = readers.uea("Handwriting")
    assert original.train.shape == (2, 3, 4)
    assert np.isnan(original.train[1, 0]).tolist() == [False, False, True, True]
    assert original.train_labels.tolist() == ["a", "b"]
    np.savez(
        folder / "uea" / "Handwriting.npz",
        X_train=original.train,
        y_train=original.train_labels,
        X_test=original.test,
        y_test=original.test_labels,
    )
    prepared = readers.uea("Handwriting")
    np.testing.assert_array_equal(prepared.train, original.train)
    np.testing.assert_array_equal(prepared.test, original.test)


def save_monitored(path, variables, rows=10):
    values = np.zeros((rows, variables), np.float32)
    path.parent.mkdir(exist_ok=True)
    np.savez(path, train=values, test=values, label=np.arange(rows) % 2)


def test_a_part_of_the_machines_says_so(folder, capsys):
    save_monitored(folder / "anomaly" / "SMD" / "machine-1-2.npz", 38)
    assert readers.anomaly("SMD").note == "1 of 28 machines"
    assert main(["data", "list"]) == 0
    assert re.search("SMD +1 of 28", capsys.readouterr().out)
    save_monitored(folder / "anomaly" / "SMD" / "machine-1-3.npz", 38)
    machines = readers.anomaly("SMD")
    assert [system.name for system in machines.systems] == ["machine-1-2", "machine-1-3"]
    assert machines.note == "2 of 28 machines"
    assert machines.systems[0].labels.tolist() == [False, True] * 5


def test_labels_of_another_length_are_refused(folder):
    values = np.zeros((10, 55), np.float32)
    np.savez(folder / "anomaly" / "MSL.npz", train=values, test=values, label=np.zeros(9))
    with pytest.raises(DataError, match="labels"):
        readers.anomaly("MSL")


def test_originals_of_anomaly_sets_are_read(folder):
    for name, variables in (("SMAP", 25), ("SMD", 38)):
        (folder / "anomaly" / name).mkdir(exist_ok=True)
        for part in ("train", "test"):
            np.save(folder / "anomaly" / name / f"{name}_{part}.npy", np.ones((4, variables)))
        np.save(folder / "anomaly" / name / f"{name}_test_label.npy", np.array([0, 1, 1, 0]))
        (system,) = readers.anomaly(name).systems
        assert system.labels.tolist() == [False, True, True, False]
    assert readers.anomaly("SMAP").note == ""
    assert readers.anomaly("SMD").note == "28 machines joined to one series by its publisher"
    (folder / "anomaly" / "PSM").mkdir()
    for part in ("train", "test"):
        columns = {"timestamp": [0, 1]} | {f"v{i}": [1.0, None] for i in range(25)}
        pl.DataFrame(columns).write_csv(folder / "anomaly" / "PSM" / f"{part}.csv")
    pl.DataFrame({"timestamp": [0, 1], "label": [0, 1]}).write_csv(
        folder / "anomaly" / "PSM" / "test_label.csv"
    )
    (system,) = readers.anomaly("PSM").systems
    assert system.train.tolist() == [[1.0] * 25, [0.0] * 25]
    assert system.labels.tolist() == [False, True]


def test_the_checksum_follows_the_contents(folder):
    path = folder / "anomaly" / "SMD" / "machine-1-2.npz"
    save_monitored(path, 38)
    before = readers.anomaly("SMD").checksum
    save_monitored(path, 38, rows=11)
    after = readers.anomaly("SMD").checksum
    save_monitored(folder / "anomaly" / "SMD" / "machine-1-3.npz", 38)
    assert len({before, after, readers.anomaly("SMD").checksum}) == 3


def test_a_set_of_the_wrong_task_is_refused(folder):
    with pytest.raises(DataError, match="anomaly"):
        readers.long_term("SMD")


def test_list_shows_every_set_and_what_is_here(folder, capsys):
    write_long(folder / "ltsf" / "ETTh1.parquet", 7, 10)
    assert files_there(find_entry("ETTh1"))
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in CATALOGUE)
    assert main(["data", "list", "weather", "swat"]) == 0
    shown = capsys.readouterr().out
    assert "-9999" in shown
    assert "iTrust" in shown


def test_get_without_a_name_is_an_error(capsys):
    assert main(["data", "get"]) == 2
    assert "orderless data get ETTh1" in capsys.readouterr().err


def test_a_packed_set_needs_no_polars_and_gives_the_same_figures(
    folder, tmp_path, monkeypatch, capsys
):
    write_long(folder / "ltsf" / "exchange_rate.parquet", 8, 50)
    for part, length in (("train", 12), ("test", 13)):
        rows = {
            "id": ["W1", "W2"],
            "values": [[0.1] * length, [2.0] * (length if part == "test" else 7)],
        }
        pl.DataFrame(rows).write_parquet(folder / "m4" / f"Weekly-{part}.parquet")
    pl.DataFrame(rows).write_parquet(folder / "m4" / "naive2.parquet")
    save_monitored(folder / "anomaly" / "MSL.npz", 55)
    names = ("Exchange", "M4-Weekly", "MSL")
    assert main(["data", "pack", *names, "--to", str(tmp_path / "packed")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    before = [readers.long_term("Exchange"), readers.m4_group("Weekly")]
    naive2 = readers.naive2_forecasts("Weekly")
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path / "packed"))
    monkeypatch.setitem(sys.modules, "polars", None)
    after = [readers.long_term("Exchange"), readers.m4_group("Weekly")]
    np.testing.assert_array_equal(before[0].values, after[0].values)
    np.testing.assert_array_equal(before[1].future, after[1].future)
    for one, two in zip(before[1].history, after[1].history, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(naive2, readers.naive2_forecasts("Weekly"))
    assert [one.checksum for one in before] == [one.checksum for one in after]
    assert before[0].variables == after[0].variables
    assert readers.anomaly("MSL").systems[0].train.shape[1] == 55


def test_packing_says_what_it_lacks(folder, capsys):
    assert main(["data", "pack", "ETTh1"]) == 2
    assert "--to" in capsys.readouterr().err
    save_monitored(folder / "anomaly" / "MSL.npz", 55)
    assert main(["data", "pack", "MSL", "--to", str(folder)]) == 2
    assert "data folder itself" in capsys.readouterr().err


def test_a_file_that_differs_from_its_known_checksum_is_found(folder, capsys, monkeypatch):
    path = folder / "anomaly" / "MSL.npz"
    save_monitored(path, 55)
    assert main(["data", "check", "MSL"]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    known = {"anomaly/MSL.npz": Known(path.stat().st_size, digest(path))}
    monkeypatch.setattr(catalogue, "known_files", lambda: known)
    assert main(["data", "check", "MSL"]) == 0
    assert main(["data", "check", "PSM"]) == 1
    assert "not here" in capsys.readouterr().out


def test_without_polars_a_table_is_refused_in_words(folder, monkeypatch):
    write_long(folder / "ltsf" / "ETTh1.parquet", 7, 10)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(DataError, match="polars"):
        readers.long_term("ETTh1")


def make_parquet(folder):
    noise = np.random.default_rng(0).normal(size=14_500)
    path = folder / "ltsf" / "ETTh1.parquet"
    write_long(path, 7, 14_500, v1=noise)
    return path, lambda: readers.long_term("ETTh1")


def make_csv(folder):
    write_long(folder / "ltsf" / "ETTh1.csv", 7, 14_500)
    return folder / "ltsf" / "ETTh1.csv", lambda: readers.long_term("ETTh1")


def make_packed(folder):
    make_parquet(folder)
    (path,) = readers.pack("ETTh1", folder / "packed")
    return path, lambda: readers.long_term("ETTh1", folder / "packed")


def make_npz(folder):
    save_monitored(folder / "anomaly" / "MSL.npz", 55)
    return folder / "anomaly" / "MSL.npz", lambda: readers.anomaly("MSL")


def make_npy(folder):
    (folder / "anomaly" / "MSL").mkdir()
    for part in ("test_label", "test", "train"):
        path = folder / "anomaly" / "MSL" / f"MSL_{part}.npy"
        np.save(path, np.ones(50 if "label" in part else (50, 55)))
    return path, lambda: readers.anomaly("MSL")


def make_zip(folder):
    case = np.random.default_rng(0).normal(size=(24, 51)).tolist()
    write_ts(folder / "one.ts", [(case, "a")])
    with zipfile.ZipFile(folder / "uea" / "NATOPS.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in ("TRAIN", "TEST"):
            archive.write(folder / "one.ts", f"NATOPS_{part}.ts")
    return folder / "uea" / "NATOPS.zip", lambda: readers.uea("NATOPS")


KINDS = (make_parquet, make_csv, make_packed, make_npz, make_npy, make_zip)


@pytest.mark.parametrize("content", [b"", b"<html>", None], ids=["empty", "another", "cut"])
@pytest.mark.parametrize("make", KINDS)
def test_what_is_damaged_is_refused_in_words_that_name_the_file(folder, make, content):
    path, read = make(folder)
    read()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DataError, match=path.stem):
        read()


@pytest.mark.parametrize("make", [make_parquet, make_packed, make_npz, make_zip])
def test_any_byte_of_an_archive_may_be_another(folder, make):
    path, read = make(folder)
    whole, refused = path.read_bytes(), 0
    for at in np.random.default_rng(0).integers(len(whole), size=20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        try:
            read()
        except DataError:
            refused += 1
    assert refused


def test_an_archive_that_would_grow_without_bounds_is_refused_before_it_does(folder):
    path = folder / "uea" / "NATOPS.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NATOPS_TRAIN.ts", b"0" * (80 << 20))
    tracemalloc.start()
    with pytest.raises(DataError, match="NATOPS"):
        readers.uea("NATOPS")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_an_array_that_says_it_is_larger_than_its_file_takes_no_memory(folder):
    path, read = make_npy(folder)
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 55)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(DataError, match="MSL_train"):
        read()
