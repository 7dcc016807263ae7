"""Kernels that are brought to the device while those before them still run.

Between two kernels a GPU is idle for microseconds. From Hopper on, one launched with `launch_pdl`
is there as soon as every program of the kernel before has let it come, or has ended. So every
kernel begins with `after_others`, before it reads or writes anything: inputs may not be there yet,
and PyTorch gives memory that is still being read to whoever asks next.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def after_others(OVERLAP: tl.constexpr):
    """Let the next kernel come, and wait until all before have ended and left what they wrote.

    The one before has waited in the same way, with all of its programs: so none is passed over.
    """
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()


def overlap() -> dict[str, bool]:
    """What a launch on the current device says so that kernels overlap."""
    if triton.knobs.runtime.interpret or not _is_able(torch.cuda.current_device()):
        return {}
    return {"OVERLAP": True, "launch_pdl": True}


@cache
def _is_able(device: int) -> bool:
    if torch.version.hip is not None or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)
