import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderless import io
from orderless.data import files
from orderless.errors import DataError
from orderless.io import check_destination, whole_file


@pytest.mark.parametrize("name", ["none/t.csv", "folder.csv", "t.xlsx"])
def test_a_place_for_a_table_can_be_refused_before_there_is_one(name, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError):
        check_destination(tmp_path / name, files.TABLES)
    check_destination(tmp_path / "t.csv", files.TABLES)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match="permissions"):
            check_destination(tmp_path / "t.csv", files.TABLES)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("before")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(DataError, match=r"t\.csv cannot be written: No space left"):
        _write_half(path, full)
    with pytest.raises(KeyError):
        _write_half(path, KeyError())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(path) as draft:
        draft.write_text("after")
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def _write_half(path, error):
    with whole_file(path) as draft:
        draft.write_text("half")
        raise error


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "t.csv").symlink_to(tmp_path / "secret")
    io.write_file(tmp_path / "t.csv", b"new")
    assert (tmp_path / "secret").read_text() == "mine"
    assert (tmp_path / "t.csv").read_bytes() == b"new"
    assert not (tmp_path / "t.csv").is_symlink()


def test_the_next_writer_removes_the_draft_of_a_dead_one_and_not_that_of_a_living(tmp_path):
    code = "import sys, orderless.io as io\nwith io.whole_file(sys.argv[1]):\n print(flush=True)\n"
    code += " sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "a.csv")]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    io.write_file(tmp_path / "b.csv", b"b")
    assert len(drafts(tmp_path)) == 1
    other.kill()
    other.communicate()
    io.write_file(tmp_path / "b.csv", b"c")
    assert drafts(tmp_path) == []


def test_a_draft_without_locks_is_that_of_a_dead_writer_after_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "fcntl", None)
    for name, age in (("young", 0), ("old", 2 * io.SECONDS_OF_A_DRAFT)):
        draft = tmp_path / f".orderless-{'0' * 15}{len(name) % 10}.csv"
        draft.write_text(name)
        os.utime(draft, (time.time() - age,) * 2)
    io.write_file(tmp_path / "t.csv", b"new")
    assert [draft.read_text() for draft in drafts(tmp_path)] == ["young"]


def test_files_of_others_stay(tmp_path):
    names = {".orderless-1", ".orderless-notes.csv", ".t.csv.swp", "model-1.safetensors"}
    for name in names:
        (tmp_path / name).write_text("mine")
    save(tmp_path, b"one")
    assert names < {path.name for path in tmp_path.iterdir()}


def save(folder, content):
    part = io.fresh_name("model.bin")
    io.write_folder(
        folder,
        parts={part: content},
        manifest=("list", f"{part} {io.sha256(content)}".encode()),
        beside={"NOTE": content},
    )
    return part


def read(folder):
    def parts(text):
        name, checksum = text.decode().split()
        content = io.read_file(folder / name, most=1 << 20)
        assert io.sha256(content) == checksum
        return content

    return io.read_folder(folder / "list", parts, most=1 << 10)


def test_a_folder_holds_its_last_version_alone(tmp_path):
    for content in (b"one", b"two"):
        part = save(tmp_path, content)
        assert read(tmp_path) == content
    assert {path.name for path in tmp_path.iterdir()} == {"list", "NOTE", part}


@pytest.mark.parametrize("place", range(4))
def test_a_save_that_fails_anywhere_leaves_the_old_version_or_the_new(tmp_path, place, monkeypatch):
    save(tmp_path, b"old")
    calls = iter(range(9))
    replace = type(tmp_path).replace

    def refuse(*paths):
        if next(calls) == place:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(*paths)

    monkeypatch.setattr(type(tmp_path), "replace", refuse)
    if place < 3:
        with pytest.raises(DataError, match="No space left"):
            save(tmp_path, b"new")
    else:
        save(tmp_path, b"new")
    assert read(tmp_path) == (b"old" if place < 2 else b"new")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("locks", [True, False])
def test_readers_and_writers_side_by_side_see_whole_versions(tmp_path, locks, monkeypatch):
    if not locks:
        monkeypatch.setattr(io, "fcntl", None)
    save(tmp_path, b"0" * 999)
    contents = {bytes([letter]) * 999 for letter in b"0abc"}
    with ThreadPoolExecutor(4) as pool:
        writers = [
            pool.submit(lambda one=one: [save(tmp_path, one) for _ in range(20)])
            for one in sorted(contents)[1:]
        ]
        while not all(writer.done() for writer in writers):
            assert read(tmp_path) in contents
        for writer in writers:
            writer.result()
    assert read(tmp_path) in contents


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "large"])
def test_what_is_no_regular_file_of_the_size_expected_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"12345")
    with pytest.raises(OSError, match=r"regular|more than|directory"):
        io.read_file(path, most=4)


def drafts(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".orderless-")]
