"""The state of a run in one file: tensors as safetensors, the rest as JSON in its header.

One file, so that one rename makes it whole: a reader sees the old state or the new one, whatever
happens to the writer. Nothing in it is ever executed.
"""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from orderless.errors import ModelFileError
from orderless.io import write_file

FILE_NAME = "checkpoint.safetensors"
FORMAT = "orderless-checkpoint-1"
ADVICE = "Give another folder as checkpoint, or make room."


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, object]) -> None:
    """Write the state of a run; a crash at any moment leaves the old or the new one."""
    # Copies, since weights that layers share have one memory, which safetensors refuses to write.
    whole = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    header = {"format": FORMAT, "facts": json.dumps(facts)}
    write_file(
        folder / FILE_NAME, save(whole, metadata=header), error=ModelFileError, advice=ADVICE
    )


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
