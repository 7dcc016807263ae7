"""The scans of mamba-ssm, where it is installed: each variable a sequence of its own.

They couple nothing. Its source distribution builds for a GPU in about two minutes; it is no
dependency of this project.
"""

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor


def installed() -> str | None:
    """Its version."""
    try:
        return version("mamba-ssm")
    except PackageNotFoundError:
        return None


def selective_scan(sizes: tuple[int, ...], dtype: torch.dtype) -> Callable[[], None]:
    """Forward and backward of Mamba's scan, in CUDA; a step and a decay for every channel."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    batch, variables, time, channels, states = sizes
    rows = batch * variables
    inputs = (
        _normal(rows, channels, time, dtype=dtype),
        _normal(rows, channels, time, dtype=dtype),
        -torch.rand(channels, states, device="cuda") - 0.1,
        _normal(rows, 1, states, time, dtype=dtype),
        _normal(rows, 1, states, time, dtype=dtype),
        _normal(channels, dtype=torch.float32),
    )
    return _both_ways(lambda *given: selective_scan_fn(*given, delta_softplus=True), inputs)


def state_space_dual(
    sizes: tuple[int, ...], dtype: torch.dtype, head_size: int, chunk: int
) -> Callable[[], None]:
    """Forward and backward of Mamba-2's scan, in Triton; a step and a decay for every head."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    batch, variables, time, channels, states = sizes
    rows, heads = batch * variables, channels // head_size
    inputs = (
        _normal(rows, time, heads, head_size, dtype=dtype),
        _normal(rows, time, heads, dtype=dtype),
        -torch.rand(heads, device="cuda") - 0.1,
        _normal(rows, time, 1, states, dtype=dtype),
        _normal(rows, time, 1, states, dtype=dtype),
    )
    skip = _normal(heads, dtype=torch.float32)
    return _both_ways(
        lambda *given: mamba_chunk_scan_combined(*given, chunk, D=skip, dt_softplus=True), inputs
    )


# By the sizes of heads and chunks. Each tunes its kernels anew, which takes minutes.
DUALS = {
    "Mamba-2 SSD": partial(state_space_dual, head_size=32, chunk=64),
    "Mamba-2 SSD, heads of 64, chunks of 64": partial(state_space_dual, head_size=64, chunk=64),
    "Mamba-2 SSD, heads of 64, chunks of 128": partial(state_space_dual, head_size=64, chunk=128),
    "Mamba-2 SSD, heads of 64, chunks of 256": partial(state_space_dual, head_size=64, chunk=256),
}


def _normal(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def _both_ways(scan: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[[], None]:
    inputs = tuple(value.requires_grad_() for value in inputs)
    with torch.no_grad():
        d_y = torch.randn_like(scan(*inputs))

    def run() -> None:
        torch.autograd.grad(scan(*inputs), inputs, d_y)

    return run
