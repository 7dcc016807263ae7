"""The kernels for the features of every entry, as operators."""

import torch
import triton
from torch import Tensor

from orderless.ops.triton.launch import (
    operator,
    rows_contiguous,
    shapes_of,
    strides,
    with_gradients,
    without_gradients,
)
from orderless.ops.triton.rehearsal import launch, on_demand

kernels = on_demand("orderless.ops.triton.row_kernels")

PERIOD = 4  # rows after which weights of a norm repeat themselves: there are 1, 2 or 4
TILE = 1024  # entries a program takes at once
MOST_PROGRAMS = 1024  # of which each leaves a sum of its own


@operator
def rms_norm(x: Tensor, weight: Tensor, dtype: torch.dtype, eps: float) -> Tensor:
    """`weight` times x over the root mean square of its last axis, in `dtype`."""
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty_like(x, dtype=dtype)
    size, rows, sizes = _rows(x)
    launch(kernels.rms_forward, (triton.cdiv(rows, sizes["ROWS"]),))(
        x, weight, y, rows, weight.numel() // size, eps, **sizes, num_warps=4
    )
    return y


@shapes_of(rms_norm)
def _(x, weight, dtype, eps):
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


@operator
def rms_norm_backward(d_y: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of x and weight."""
    d_y, x, weight = d_y.contiguous(), x.contiguous(), weight.contiguous()
    d_x = torch.empty_like(x)
    size, rows, sizes = _rows(x)
    programs = min(triton.cdiv(rows, sizes["ROWS"]), MOST_PROGRAMS)
    groups = weight.numel() // size
    partial = torch.empty(programs, PERIOD, size, dtype=torch.float32, device=x.device)
    launch(kernels.rms_backward, (programs,))(
        d_y, x, weight, d_x, partial, rows, groups, eps, **sizes, PERIOD=PERIOD, num_warps=4
    )
    d_weight = partial.view(-1, groups, size).sum(0).view(weight.shape)
    return d_x, d_weight.to(weight.dtype)


@shapes_of(rms_norm_backward)
def _(d_y, x, weight, eps):
    return tuple(
        torch.empty_like(value, memory_format=torch.contiguous_format) for value in (x, weight)
    )


def _rows(x: Tensor) -> tuple[int, int, dict[str, int]]:
    """The last axis of x, how many there are of it, and what kernels know when compiled."""
    size = x.shape[-1]
    padded = triton.next_power_of_2(size)
    at_once = max(PERIOD, TILE // padded)
    return size, x.numel() // size, {"SIZE": size, "PADDED": padded, "ROWS": at_once}


@operator
def causal_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The silu of a causal convolution of x [B,V,T,D] by weight [kernel, D]."""
    _, variables, time, channels = x.shape
    x, weight, bias = rows_contiguous(x), weight.contiguous(), bias.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, wide, sizes = _tiles(x, weight)
    launch(kernels.causal_silu_forward, (triton.cdiv(rows, sizes["ROWS"]) * wide,))(
        x, weight, bias, y, rows, variables, time, channels, *strides(x), **sizes, num_warps=4
    )
    return y


@shapes_of(causal_silu)
def _(x, weight, bias):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@operator
def causal_silu_backward(
    d_y: Tensor, x: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias."""
    _, variables, time, channels = x.shape
    x, weight, bias = rows_contiguous(x), weight.contiguous(), bias.contiguous()
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, wide, sizes = _tiles(x, weight)
    programs = min(triton.cdiv(rows, sizes["ROWS"]), MOST_PROGRAMS)
    kept = weight.shape[0] + 1
    partial = torch.empty(programs, kept, channels, dtype=torch.float32, device=x.device)
    launch(kernels.causal_silu_backward, (programs * wide,))(
        d_y.contiguous(), x, weight, bias, d_x, partial, rows, variables, time, channels,
        *strides(x), **sizes, num_warps=4,
    )  # fmt: skip
    total = partial.sum(0)
    return d_x, total[:-1].to(weight.dtype), total[-1].to(bias.dtype, copy=True)


@shapes_of(causal_silu_backward)
def _(d_y, x, weight, bias):
    return tuple(
        torch.empty_like(value, memory_format=torch.contiguous_format)
        for value in (x, weight, bias)
    )


def _tiles(x: Tensor, weight: Tensor) -> tuple[int, int, dict[str, int]]:
    """Entries of x, tiles side by side for its channels, and what kernels know when compiled."""
    channels = x.shape[-1]
    width = min(64, triton.next_power_of_2(channels))
    sizes = {"KERNEL": weight.shape[0], "WIDTH": width, "ROWS": TILE // width}
    return x.numel() // channels, triton.cdiv(channels, width), sizes


@operator
def gate_gradients(
    d_y: Tensor, before: Tensor, gate: Tensor, present: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of what a gate of the scan multiplies, and of the gate."""
    _, variables, time, channels = gate.shape
    d_y, gate = d_y.contiguous(), rows_contiguous(gate)
    present = None if present is None else present.expand(-1, -1, time)
    d_before, d_gate = torch.empty_like(before), gate.new_empty(gate.shape)
    width = min(128, triton.next_power_of_2(channels))
    rows, at_once = gate.numel() // channels, 4096 // width
    programs = triton.cdiv(rows, at_once) * triton.cdiv(channels, width)
    launch(kernels.gate_gradients, (programs,))(
        d_y, before, gate, present, d_before, d_gate, rows, variables, time, channels,
        *strides(gate), *strides(present), ROWS=at_once, WIDTH=width,
        HAS_PRESENT=present is not None, num_warps=8,
    )  # fmt: skip
    return d_before, d_gate


@shapes_of(gate_gradients)
def _(d_y, before, gate, present):
    return torch.empty_like(before), torch.empty_like(gate, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output) -> None:
    tensors = [value for value in inputs if torch.is_tensor(value)]
    ctx.save_for_backward(*tensors)
    ctx.rest = inputs[len(tensors) :]


def _rms_gradients(ctx, d_y):
    _, eps = ctx.rest
    return *rms_norm_backward(d_y, *ctx.saved_tensors, eps), None, None


def _causal_gradients(ctx, d_y):
    return causal_silu_backward(d_y, *ctx.saved_tensors)


with_gradients(rms_norm, _rms_gradients, _save)
with_gradients(causal_silu, _causal_gradients, _save)
without_gradients(rms_norm_backward)
without_gradients(causal_silu_backward)
without_gradients(gate_gradients)
