"""The scan as fused GPU kernels. Nothing here needs Triton until a call runs."""

from importlib.util import find_spec

import torch
from torch import Tensor

from orderless.ops.call import FULL_MEAN, CallFacts, ScanCall


def refusal(facts: CallFacts) -> str | None:
    """Why the kernels cannot run a call, or None when they can."""
    if facts.device != "cuda":
        return f"it runs on a GPU, and x lies on {facts.device}"
    if find_spec("triton") is None:
        return "Triton is not installed"
    if facts.dtype not in (torch.float32, torch.bfloat16):
        return f"its kernels take float32 and bfloat16, and x is {facts.dtype}"
    if facts.empty:
        return "it has nothing to do for an empty batch"
    return FULL_MEAN if facts.full_mean else None


def kernels_on(device: int) -> str:
    """Which of the two sets of kernels runs on a GPU, in words; where Triton is missing, none."""
    if find_spec("triton") is None:
        return "none: Triton is not installed"
    from orderless.ops.triton.operators import why_not_fast

    reason = why_not_fast(device)
    if reason is None:
        return "those with layouts by hand"
    return f"plain ones, several times slower than those with layouts by hand: {reason}"


def run(call: ScanCall) -> tuple[Tensor, Tensor]:
    """Run a checked call that was not refused."""
    from orderless.ops.triton import form

    return form.run(call)
