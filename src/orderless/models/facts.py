"""What may stand in the facts of a saved member, and how its module is built from them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from orderless.errors import ModelFileError
from orderless.schema import assign, flag, listing, number, record, text, whole

Network = TypeVar("Network", bound=nn.Module)
STEPS = whole(1, 10**6)
"""A length in time."""
NAMES = listing(text(), distinct=True)
SIZE = whole(1, 2**20)
RANGE = listing(number(0, 1e6), 2)
LAYERS = whole(1, 1000)
NETWORK = record(
    dict.fromkeys(
        ("patch", "stride", "channels", "expansion", "states", "kernel", "head_rank"), SIZE
    )
    | dict.fromkeys(("long_steps", "short_steps", "spectral_steps"), RANGE)
    | dict.fromkeys(("spectral_layout", "gate", "pool", "coupling", "center"), text())
    | {"layers": LAYERS, "branches": NAMES, "scale": flag, "skip": flag, "dropout": number(0, 1)}
)
"""A `NetworkConfig`."""


def rebuild(build: Callable[[], Network], tensors: Mapping[str, Tensor], layers: int) -> Network:
    """A module of so many layers with these weights, none of which is drawn at random first.

    Another thread may be drawing.
    """
    if layers > len(tensors):
        raise ModelFileError(f"{layers} layers do not have {len(tensors)} tensors.")
    with torch.device("meta"):
        module = build().float()  # whatever torch's default is
    assign(module, tensors, "weight ")
    return module.eval().requires_grad_(False)
