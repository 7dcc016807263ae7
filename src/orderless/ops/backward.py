"""Backward passes in full precision, whether or not they run inside of autocast.

One that is written out is not recorded, so its result has no derivative. Torch's
`once_differentiable` refuses one only where the incoming gradient depends on something: under a
linear loss, second derivatives by what the forward pass saved would be left out in silence. Here
they are refused by every argument.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def run_once(compute: Callable[..., tuple], *tensors: Tensor | None) -> tuple:
    """The gradients `compute(*tensors)`, which cannot be differentiated in turn."""
    device = next(tensor.device.type for tensor in tensors if tensor is not None)
    # The caller may be inside of autocast, which would round what is multiplied.
    with torch.autocast(device, enabled=False):
        # Gradients are recorded where someone may want to differentiate them.
        return _Once.apply(compute, *tensors) if torch.is_grad_enabled() else compute(*tensors)


def refuse(*_: object) -> None:
    """The backward pass of what has none."""
    raise RuntimeError(
        "vi_scan: this gradient can be taken once. For second derivatives use "
        "form='reference', by all arguments but the step and the generators."
    )


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, compute, *tensors):
        return compute(*tensors)

    @staticmethod
    def backward(ctx, *gradients):
        refuse()


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of the same batch axes, as often differentiable as one likes."""
    return _Product.apply(a, b)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, *gradients):
        (d,), (a, b) = gradients, ctx.saved_tensors
        with torch.autocast(d.device.type, enabled=False):
            by_a = matmul(d, b.mT) if ctx.needs_input_grad[0] else None
            by_b = matmul(a.mT, d) if ctx.needs_input_grad[1] else None
        return by_a, by_b
