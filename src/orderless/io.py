"""Files and folders on disk: the only writer, and a reader that trusts nothing.

What is written appears in one switch: whoever reads sees the old or the new, whatever happens to
the writer. A draft has a random name that nobody else has, and is locked by its writer for as long
as it is not in place. So whoever can lock a draft may remove it: its writer is dead. The proof is
in docs/decisions/0018-saving-with-one-switch.md.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from orderless.errors import DataError, OrderlessError

Read = TypeVar("Read")
RANDOM = "[0-9a-f]{16}"
DRAFT = rf"\.orderless-{RANDOM}(\.[^.]*)?"
"""The name of a draft, with the ending of what it is a draft of."""
SECONDS_OF_A_DRAFT = 86_400.0
"""Where a file system has no locks, a draft older than this is taken for one of a dead writer."""
BINARY = getattr(os, "O_BINARY", 0)
CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def sha256(content: bytes) -> str:
    """The checksum of what a file holds."""
    return hashlib.sha256(content).hexdigest()


def write_file(
    path: Path, content: bytes, *, error: type[OrderlessError] = DataError, advice: str = ""
) -> None:
    """Put a file in the place of another, or where there is none, as a whole and durably."""
    with in_words(path, error, advice):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _draft_of(path) as draft:
            draft.write_bytes(content)
            _put_in_place(draft, path)


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A draft with the same ending, which takes the place of `path` once it is written.

    What the system refuses becomes an error that names `path`; what lies there stays then.
    """
    path = Path(path)
    with in_words(path, DataError), _draft_of(path) as draft:
        yield draft
        _put_in_place(draft, path)


def fresh_name(name: str) -> str:
    """A name for a part of a folder that was never used: `model-5d0c….safetensors`, say."""
    stem, ending = os.path.splitext(name)  # noqa: PTH122
    return f"{stem}-{secrets.token_hex(8)}{ending}"


def write_folder(
    folder: Path,
    *,
    parts: Mapping[str, bytes],
    manifest: tuple[str, bytes],
    beside: Mapping[str, bytes],
    error: type[OrderlessError] = DataError,
    advice: str = "",
) -> None:
    """Write files that belong together; the manifest, replaced last, is the switch.

    parts       files with a `fresh_name`, which the manifest names
    manifest    its own name never changes
    beside      files for people, which no reader needs; replaced right after the switch
    """
    order = {**parts, manifest[0]: manifest[1], **beside}
    switch = folder / manifest[0]
    with in_words(folder, error, advice):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with ExitStack() as locks:
                drafts = {name: locks.enter_context(_draft_of(folder / name)) for name in order}
                for name, content in order.items():
                    drafts[name].write_bytes(content)
                for name in order:
                    _put_in_place(drafts[name], folder / name)
        finally:
            for name in parts:
                alike = f"-{RANDOM}".join(map(re.escape, re.split(f"-{RANDOM}", name)))
                _remove_the_dead(folder, alike, named_in=switch)


def read_folder(manifest: Path, read: Callable[[bytes], Read], *, most: int) -> Read:
    """What `read` makes of a manifest and the parts that it names.

    A part may be gone by then, since a writer has put another manifest in the place of this one:
    then that is read instead.
    """
    text = read_file(manifest, most=most)
    while True:
        try:
            return read(text)
        except (OrderlessError, OSError):
            before, text = text, read_file(manifest, most=most)
            if before == text:
                raise


def read_file(path: Path, *, most: int) -> bytes:
    """A regular file of at most `most` bytes. Pipes and devices are an OSError, and never wait."""
    handle = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as file:  # noqa: PTH123
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"its {about.st_size} bytes are more than {most}")
        return file.read(most)


def make_folder(folder: Path) -> None:
    """Make the folder, and see that it can be written to, before there is work to lose.

    The system is asked by trying: what it says of permissions is not all that it may refuse. What
    it refuses is an OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


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
def in_words(path: Path, error: type[OrderlessError], advice: str = "") -> Iterator[None]:
    """What the system refuses in here was to write `path`."""
    try:
        yield
    except OSError as refusal:
        advice = advice or "Make room, or name another file."
        raise error(
            f"{path} cannot be written: {refusal.strerror or refusal}. {advice}"
        ) from refusal


@contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """An empty file beside `path`, locked until the end; the drafts of dead writers are removed."""
    _remove_the_dead(path.parent, DRAFT)
    while True:
        draft = path.with_name(f".orderless-{secrets.token_hex(8)}{path.suffix.lower()}")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY | CAREFUL, 0o666)
        # Somebody who cleans up may have been faster than the lock.
        if _lock(handle) is not False and _is_at(handle, draft):
            break
        os.close(handle)
    if fcntl is None:  # an open file could not be renamed
        os.close(handle)
    try:
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if fcntl is not None:
            _unlock(handle)


def _put_in_place(draft: Path, path: Path) -> None:
    """Replace `path` by a draft that is written, so that it lasts."""
    _synchronize(draft, os.O_RDWR)
    for _ in range(100):
        try:
            draft.replace(path)
            break
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(0.01)  # a reader has it open
    else:
        draft.replace(path)
    if os.name == "posix":
        _synchronize(path.parent, os.O_RDONLY)


def _synchronize(path: Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_the_dead(folder: Path, pattern: str, named_in: Path | None = None) -> None:
    """Remove the files whose whole name has this pattern, which nobody writes and nobody names."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in entries if re.fullmatch(pattern, entry.name)]
    for name in found:
        # What may not be removed is the matter of its owner.
        with suppress(OSError):
            handle = os.open(folder / name, os.O_RDWR | BINARY | CAREFUL)
            try:
                if _is_dead(handle) and not (named_in and _is_named(name, named_in)):
                    (folder / name).unlink()
            finally:
                _unlock(handle)


def _is_dead(handle: int) -> bool:
    """Whether the writer of a file that is not in place is no more; if so, the file is locked."""
    locked = _lock(handle)
    age = time.time() - os.fstat(handle).st_mtime
    return age > SECONDS_OF_A_DRAFT if locked is None else locked


def _is_named(name: str, manifest: Path) -> bool:
    try:
        return name.encode() in manifest.read_bytes()
    except FileNotFoundError:
        return False


def _lock(handle: int) -> bool | None:
    """Whether this is now the only one with a lock; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _unlock(handle: int) -> None:
    """Also for a forked child, which holds the same lock."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


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
