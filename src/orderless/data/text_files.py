"""UTF-8 text by path."""

from pathlib import Path

from orderless.errors import DataError


def read_text(path: Path, *, most: int = -1, newline: str | None = None) -> str:
    """What a file says, or the first `most` characters of it, without a mark of the byte order."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            return file.read(most)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name} is not UTF-8 text ({error.reason}). Save it as such."
        ) from error
