"""The order in which times are visited: forth, or from the last to the first."""

import triton
import triton.language as tl


@triton.jit
def time_of(visited, time, towards):
    """The time at a place in the order of visits, of `time` in all. towards: 1, or -1 for back.

    Known when a kernel runs, not when it is compiled: both directions share what was compiled.
    """
    return tl.where(towards > 0, visited, time - 1 - visited)
