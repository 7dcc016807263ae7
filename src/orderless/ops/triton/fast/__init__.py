"""`kernels.py` once more, for 8 and for 16 states, with layouts by hand.

The same arguments and results as in `kernels.py`, which is the version to read. A warp owns a
variable (in `fast_states` eight states of one), and every tile is held so that the result of one
matrix product is, register by register, an operand of the next. In the layout of a result a thread
holds row i of columns (2j, 2j+1); that is also how it holds a left operand, and the transpose of a
right operand. A pair (h, v) of [time, eight states] tiles is stacked to one operand [time, (h or v,
state)]: the two parts of a state lie in one thread, so stacking and unstacking move nothing.
"""

from importlib import import_module
from typing import Any

__all__ = ["fast_backward", "fast_forward", "fast_states"]


def __getattr__(name: str) -> Any:
    """A kernel is defined when it is asked for: that takes Triton tens of milliseconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.removeprefix('fast_')}"), name)
