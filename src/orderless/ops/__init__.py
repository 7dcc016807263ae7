"""The scan and the pools: tensors in, tensors out. `reference.py` is the specification."""

from orderless.ops.pools import attention_pool, keep, mean_pool, presence, sum_pool
from orderless.ops.scan import VI_SCAN, vi_scan, vi_step
from orderless.ops.zero_order_hold import FullGenerator, Generator

__all__ = [
    "VI_SCAN",
    "FullGenerator",
    "Generator",
    "attention_pool",
    "keep",
    "mean_pool",
    "presence",
    "sum_pool",
    "vi_scan",
    "vi_step",
]
