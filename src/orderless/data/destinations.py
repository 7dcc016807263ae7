"""Places that a file can be written to."""

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from orderless.errors import DataError


def check_destination(path: str | PathLike[str], endings: Collection[str] = ()) -> None:
    """Refuse a path that no file can be written to, or whose ending does not say its format.

    Best asked before the work whose result is to be written there.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder. Name a file.")
    if _is_device(path):
        raise DataError(
            f"{path} is a device or a pipe, or leads to one, which a file would replace. Name a "
            "file; without one, `orderless` prints to standard output."
        )
    if endings and path.suffix.lower() not in endings:
        raise DataError(f"{path} must end in {', '.join(endings)} to say its format.")
    if not path.parent.is_dir():
        raise DataError(f"There is no folder {path.parent} to write {path.name} to. Make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(
            f"Nothing can be written to the folder {path.parent.absolute()}. Name another place "
            f"for {path.name}, or change the permissions."
        )


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A draft with the same ending, which takes the place of `path` once it is written.

    What the system refuses becomes an error that names `path`; what lies there stays then.
    """
    path = Path(path)
    draft = None
    try:
        handle, name = tempfile.mkstemp(suffix=path.suffix.lower(), dir=path.parent)
        draft = Path(name)
        os.close(handle)
        yield draft
        # mkstemp makes files that only their owner may read; a result is an ordinary file.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}. Make room, or name another file."
        ) from error
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, or a link that leads to one through whatever others.

    Standard output may be a file at the end of such links, and yet none of them is to be replaced.
    """
    seen = set()
    while path not in seen:
        seen.add(path)
        path = Path(os.path.realpath(path.parent), path.name)
        in_memory = path.is_relative_to("/dev/shm")
        if path.is_relative_to("/proc") or (path.is_relative_to("/dev") and not in_memory):
            return True
        if path.is_symlink():
            path = path.parent / path.readlink()
    return path.exists() and not path.is_file()
