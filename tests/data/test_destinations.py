import errno
import os

import pytest

from orderless.data import files
from orderless.data.destinations import check_destination, whole_file
from orderless.errors import DataError


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
