"""The most memory a stretch of work took: of the GPU where one is used, else of the process."""

from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_THE_PEAK = "5"


def start_measuring() -> None:
    """Forget what came before, as far as the system can."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif RESET.exists():
        try:
            RESET.write_text(FORGET_THE_PEAK)
        except OSError:
            # Some containers forbid it; the peak is then that of the process so far.
            return


def peak_bytes() -> int | None:
    """The peak since `start_measuring`; None on a system that does not tell."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
