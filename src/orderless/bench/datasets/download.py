"""Files from public addresses: resumed, verified, limited in size, and never half-written.

A file grows under the name `NAME.part` and takes its own name, in one step, only when it is whole
and its size and checksum are right. What an interrupted download leaves is continued by the next.
"""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from orderless.bench.datasets.catalogue import Entry, Known, data_folder
from orderless.errors import DownloadError

BLOCK = 1 << 20
TIMEOUT_SECONDS = 60
ATTEMPTS = 3
MOST_BYTES = 2 << 30
"""Of a file whose size is not known."""
Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and the bytes there will be, None where unknown."""


def get(
    entry: Entry,
    folder: Path | None = None,
    *,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[Path]:
    """Fetch the original files of a set that are not there yet; returns the path of each."""
    folder = data_folder() if folder is None else folder
    if entry.permission:
        files = ", ".join(str(folder / original.path) for original in entry.originals)
        raise DownloadError(
            f"{entry.name} cannot be downloaded: {entry.permission}, then put it at {files}."
        )
    paths = [folder / original.path for original in entry.originals]
    for path, original in zip(paths, entry.originals, strict=True):
        if not path.is_file():
            show = None if progress is None else _named(progress, path.name)
            fetch(original.address, path, original.known, progress=show)
    return paths


def fetch(
    address: str, path: Path, known: Known | None, *, progress: Progress | None = None
) -> None:
    """Download one file to `path`, continuing what an earlier call left.

    A file that has not the size and the checksum that are known is thrown away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    if part.is_symlink():
        part.unlink()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _continue(address, part, known, progress)
            break
        except DownloadError:
            _forget(part)
            raise
        except (OSError, http.client.HTTPException) as error:
            permanent = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if attempt == ATTEMPTS or permanent:
                raise DownloadError(
                    f"{address} could not be fetched: {error}. What has arrived is kept; the same "
                    "command continues it."
                ) from error
    if known is not None and not matches(part, known):
        _forget(part)
        raise DownloadError(
            f"What lies at {address} does not have the checksum {known.checksum}, so it was thrown "
            "away. It was damaged on the way, or its publisher has changed it."
        )
    part.replace(path)
    _forget(part)


def matches(path: Path, known: Known) -> bool:
    """Whether a file is the one that is known."""
    if path.stat().st_size != known.size:
        return False
    return digest(path, known.checksum.partition(":")[0]) == known.checksum


def digest(path: Path, kind: str = "sha256") -> str:
    """`sha256:...` of a file, or `git:...`, the id that git gives to a file with its contents."""
    maker = hashlib.sha256()
    if kind == "git":
        maker = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            maker.update(block)
    return f"{kind}:{maker.hexdigest()}"


def _continue(address: str, part: Path, known: Known | None, progress: Progress | None) -> None:
    """Let `part` grow until it is whole."""
    begin = part.stat().st_size if part.is_file() else 0
    tag = _tag_of(part).read_text() if _tag_of(part).is_file() else ""
    headers = {"User-Agent": "orderless"}
    # Without a checksum or a tag two versions of a file look alike: start again.
    if begin and (tag or known is not None):
        headers["Range"] = f"bytes={begin}-"
        if tag:
            headers["If-Range"] = tag
    request = urllib.request.Request(address, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and begin:
            # The part is as long as the file, or longer than a new version of it.
            whole = error.headers.get("Content-Range", "").rpartition("/")[2] == str(begin)
            if whole:
                return
            part.unlink()
        raise
    with response:
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        there = begin if resumed else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else there + int(length)
        _check_size(address, total or 0, known)
        _tag_of(part).write_text(response.headers.get("ETag", ""))
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(BLOCK):
                there += len(block)
                _check_size(address, there, known)
                file.write(block)
                if progress is not None:
                    progress(there, total)
    if total is not None and there < total:
        raise ConnectionError(f"the connection ended after {there} of {total} bytes")


def _check_size(address: str, size: int, known: Known | None) -> None:
    most = MOST_BYTES if known is None else known.size
    if size > most:
        raise DownloadError(
            f"What lies at {address} has {size:,} bytes or more, and at most {most:,} are "
            "expected, so it was thrown away. Its publisher has changed it, or it is another file."
        )


def _tag_of(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _forget(part: Path) -> None:
    for path in (part, _tag_of(part)):
        path.unlink(missing_ok=True)


def _named(progress: Callable[[str, int, int | None], None], name: str) -> Progress:
    return lambda there, total: progress(name, there, total)
