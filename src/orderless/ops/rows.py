"""What a layer does to the features of every entry: alone, or with the last few of its variable.

In plain PyTorch these are many small kernels. On a GPU each is one forward, and backward one and a
sum of what its programs leave.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad, silu
from torch.nn.functional import rms_norm as plain_rms_norm

from orderless.ops.triton import DTYPES, is_installed


def rms_norm(x: Tensor, weight: Tensor, dtype: torch.dtype, eps: float = 1e-6) -> Tensor:
    """`weight` times x over the root mean square of its last axis, in `dtype`.

    weight has the last axes of x: one for each group of features that is normalised by itself.
    """
    if _runs_fused(x) and dtype in DTYPES and weight.numel() // weight.shape[-1] in (1, 2, 4):
        from orderless.ops.triton import row_operators

        return row_operators.rms_norm(x, weight, dtype, eps)
    return (weight * plain_rms_norm(x, weight.shape[-1:], eps=eps)).to(dtype)


def causal_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The silu of the causal convolution of x [batch, variable, time, channel] along time.

    weight [kernel, channel]: every channel by itself, its last row for the time itself.
    """
    if _runs_fused(x) and len(weight) <= 8:
        from orderless.ops.triton import row_operators

        return row_operators.causal_silu(x, weight, bias)
    kernel, times = weight.shape[0], x.shape[-2]
    x = pad(x, (0, 0, kernel - 1, 0))
    # A few shifted products: on a CPU much faster than a grouped convolution of this size.
    shifted = (weight[i] * x[..., i : i + times, :] for i in range(kernel))
    return silu(sum(shifted, start=bias))


def _runs_fused(x: Tensor) -> bool:
    return x.is_cuda and x.dtype in DTYPES and is_installed()
