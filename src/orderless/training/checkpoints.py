"""The state of a run in one file: tensors as safetensors, the rest as JSON in its header.

One file, so that one rename makes it whole: a reader sees the old state or the new one, whatever
happens to the writer. A checksum in the header covers every byte of it. Nothing is ever executed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from orderless import io
from orderless.errors import ModelFileError

FILE_NAME = "checkpoint.safetensors"
FORMAT = "orderless-checkpoint-2"
ADVICE = "Give another folder as checkpoint, or make room."
MOST_BYTES = 2**34
UNKNOWN = "0" * 64
"""Stands in the place of the checksum while it is taken."""


def save_checkpoint(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the state of a run; a crash at any time leaves the old or the new one."""
    # Copies, since weights that layers share have one memory, which safetensors refuses to write.
    whole = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    header = {"format": FORMAT, "sha256": UNKNOWN, "facts": json.dumps(facts)}
    content = save(whole, metadata=header)
    content = content.replace(_field(UNKNOWN), _field(io.sha256(content)), 1)
    io.write_file(folder / FILE_NAME, content, error=ModelFileError, advice=ADVICE)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict] | None:
    """The state of the run in this folder, or None if there is none."""
    path = folder / FILE_NAME
    try:
        content = io.read_file(path, most=MOST_BYTES)
        header = _header(content)
        if header["format"] != FORMAT:
            raise ModelFileError(
                f"{path} is not a checkpoint of this version (it says {header['format']!r}, "
                f"expected {FORMAT!r}). Choose another folder."
            )
        claimed = header["sha256"]
        if io.sha256(content.replace(_field(claimed), _field(UNKNOWN), 1)) != claimed:
            raise ValueError("its checksum differs")
        return load(content), json.loads(header["facts"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError, OSError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{path} is damaged or is no checkpoint ({error}). Delete it to start anew."
        ) from error


def _header(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])["__metadata__"]


def _field(checksum: str) -> bytes:
    """The checksum as it stands in the header; within `facts` its quotation marks are escaped."""
    return f'"sha256":"{checksum}"'.encode()
