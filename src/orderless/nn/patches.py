"""Time to patches and back: a token is a stretch of one variable's series.

The last patch always ends at the last time step. What the first one lacks counts as missing.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad


def count_patches(length: int, patch: int, stride: int) -> int:
    """How many patches cover `length` time steps."""
    return 1 + max(0, -(-(length - patch) // stride))


def cut_patches(x: Tensor, patch: int, stride: int) -> Tensor:
    """Cut [..., time] into [..., token, patch]; zeros, or False, stand for what came before."""
    return pad(x, (_lack(x.shape[-1], patch, stride), 0)).unfold(-1, patch, stride)


def join_patches(patches: Tensor, length: int, stride: int) -> Tensor:
    """Join [..., token, patch] to [..., time]: the mean of the patches that cover a time."""
    count, patch = patches.shape[-2:]
    covered = (count - 1) * stride + patch
    position = torch.arange(count, device=patches.device)[:, None] * stride
    position = (position + torch.arange(patch, device=patches.device)).flatten()
    total = patches.new_zeros(*patches.shape[:-2], covered)
    total = total.index_add(-1, position, patches.flatten(-2))
    times = patches.new_zeros(covered).index_add(
        0, position, torch.ones_like(position, dtype=patches.dtype)
    )
    return (total / times)[..., covered - length :]


def _lack(length: int, patch: int, stride: int) -> int:
    """Time steps missing before the first patch is full."""
    return (count_patches(length, patch, stride) - 1) * stride + patch - length
