"""The state of a run in one file: tensors as safetensors, the rest as JSON in its header.

One file, so that one rename makes it whole: a reader sees the old state or the new one, whatever
happens to the writer. Nothing in it is ever executed.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from orderless.errors import ModelFileError

FILE_NAME = "checkpoint.safetensors"
FORMAT = "orderless-checkpoint-1"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file as a whole, durably: temporary file, fsync, rename, fsync of the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_folder(folder: Path) -> None:
    """Make the folder, and see that it can be written to, before there is work to lose.

    The system is asked by trying: what it says of permissions is not all that it may refuse. What
    it refuses is an OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, object]) -> None:
    """Write the state of a run; a crash at any moment leaves the old or the new one."""
    # Copies, since weights that layers share have one memory, which safetensors refuses to write.
    whole = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    header = {"format": FORMAT, "facts": json.dumps(facts)}
    with refusal_in_words(folder):
        write_atomically(folder / FILE_NAME, save(whole, metadata=header))


@contextmanager
def refusal_in_words(folder: Path) -> Iterator[None]:
    """What the system refuses in here was the state of a run in this folder."""
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"The state of the run cannot be written to {folder}: {error.strerror}. Give another "
            "folder as checkpoint."
        ) from error


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict] | None:
    """The state of the run in this folder, or None if there is none."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise ModelFileError(
                    f"{path} is not a checkpoint of this version (it says "
                    f"{header.get('format')!r}, expected {FORMAT!r}). Choose another folder."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(header["facts"])
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise ModelFileError(
            f"{path} is damaged or is no checkpoint ({error}). Delete it to start anew."
        ) from error
