"""The scan as fused GPU kernels. Nothing here needs Triton until a call runs."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from orderless.ops.call import FULL_MEAN, CallFacts, ScanCall

# Bytes of shared memory that a program of so many variables takes at most.
SHARED_MEMORY = {4: 142_080, 2: 92_928}
HEAD_MULTIPLE = 16  # channels: what a product of matrix units takes
LARGEST_OFFSET = 2**30  # entries within a block of variables, counted in 32 bits


def refusal(facts: CallFacts) -> str | None:
    """Why the kernels cannot run a call, or None when they can."""
    if facts.device.type != "cuda":
        return f"it runs on a GPU, and x lies on {facts.device.type}"
    reason = unsupported(facts.device.index)
    if reason is not None:
        return reason
    if facts.dtype not in (torch.float32, torch.bfloat16):
        return f"its kernels take float32 and bfloat16, and x is {facts.dtype}"
    if facts.empty:
        return "it has nothing to do for an empty batch"
    if facts.head_size % HEAD_MULTIPLE:
        return (
            f"its kernels take heads of a multiple of {HEAD_MULTIPLE} channels, "
            f"and these have {facts.head_size}"
        )
    if max(SHARED_MEMORY) * facts.variable_stride >= LARGEST_OFFSET:
        return f"a variable has {facts.variable_stride} entries, more than its kernels can address"
    return FULL_MEAN if facts.full_mean else None


@cache
def unsupported(device: int) -> str | None:
    """Why no kernel can run on a CUDA device, or None where they can."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    import triton

    # The kernels are written in Gluon, an experimental part of Triton, which changes.
    if not triton.__version__.startswith(("3.6.", "3.7.", "3.8.")):
        return f"its kernels are for Triton 3.6 to 3.8, and this is {triton.__version__}"
    if torch.version.hip is not None:
        return "its kernels are for NVIDIA GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    available, needed = shared_memory(device), min(SHARED_MEMORY.values())
    if major < 8 or available < needed:
        return (
            f"its kernels need compute capability 8.0 and {needed} bytes of shared memory, "
            f"and this GPU has {major}.{minor} and {available}"
        )
    return None


def shared_memory(device: int) -> int:
    """Bytes of shared memory that a program can have on a CUDA device."""
    properties: Any = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_block_optin


def run(call: ScanCall) -> tuple[Tensor, Tensor]:
    """Run a checked call that was not refused."""
    from orderless.ops.gpu import form

    return form.run(call)
