"""The scan, the pools and small layers: tensors in and out. `reference.py` specifies the scan."""

from orderless.ops.pools import attention_pool, keep, mean_pool, presence, sum_pool
from orderless.ops.rows import causal_silu, rms_norm
from orderless.ops.scan import VI_SCAN, vi_scan, vi_step
from orderless.ops.zero_order_hold import FullGenerator, Generator

__all__ = [
    "VI_SCAN",
    "FullGenerator",
    "Generator",
    "attention_pool",
    "causal_silu",
    "keep",
    "mean_pool",
    "presence",
    "rms_norm",
    "sum_pool",
    "vi_scan",
    "vi_step",
]
