"""What all variables share as operators: the pooled input, and states without a variable axis."""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from orderless.ops.triton import shared_kernels
from orderless.ops.triton.launch import (
    UNROLL,
    operator,
    precision,
    rows_contiguous,
    shapes_of,
    strides,
    sum_slices,
    with_gradients,
)


def _shared_tile(x: Tensor, states: int) -> dict[str, int]:
    padded = max(16, triton.next_power_of_2(states))
    width = min(64, max(16, triton.next_power_of_2(x.shape[-1])))
    return {"BLOCK": 16, "TIMES": 4, "WIDTH": width, "STATES": states, "PADDED": padded}


def _shared_grid(x: Tensor, tile: dict[str, int]) -> tuple[int]:
    batch, _, time, channels = x.shape
    return (batch * triton.cdiv(time, tile["TIMES"]) * triton.cdiv(channels, tile["WIDTH"]),)


def readout(
    weights: Tensor, z: Tensor, scale: Tensor | None, present: Tensor | None, y: Tensor
) -> None:
    """y = scale weights z, for every variable."""
    tile = _shared_tile(y, weights.shape[-1])
    shared_kernels.readout[_shared_grid(y, tile)](
        weights, z, scale, present, y, *y.shape[1:], *strides(weights), *strides(present),
        **tile, HAS_SCALE=scale is not None, HAS_PRESENT=present is not None,
        PRECISION=precision(y), num_warps=4,
    )  # fmt: skip


def pool(
    weights: Tensor,
    x: Tensor,
    scale: Tensor | None,
    present: Tensor | None,
    z: Tensor | None,
    back: Tensor | None = None,
    d_weights: Tensor | None = None,
) -> int:
    """z, d_weights or both; returns how many parts of d_weights, one a slice of channels, it wrote.

    Slices here are never more than in the scan, whose parts d_weights holds.
    """
    tile = _shared_tile(x, weights.shape[-1])
    shared_kernels.pool[_shared_grid(x, tile)](
        weights, x, scale, present, z, back, d_weights, *x.shape[1:],
        *strides(weights), *strides(x), *strides(present),
        **tile, HAS_SCALE=scale is not None, HAS_PRESENT=present is not None,
        POOL=z is not None, INNER=back is not None, PRECISION=precision(x), num_warps=4,
    )  # fmt: skip
    return triton.cdiv(x.shape[-1], tile["WIDTH"])


@operator
def pool_states(write: Tensor, x: Tensor, weight: Tensor, present: Tensor | None) -> Tensor:
    """The mean input of the states, [B,T,2,N,D] in float32: sum over c of weight write x."""
    batch, _, time, channels = x.shape
    x, write = rows_contiguous(x), rows_contiguous(write)
    present = None if present is None else present.expand(-1, -1, time)
    z = x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)
    pool(write, x, weight.contiguous(), present, z)
    return z


@shapes_of(pool_states)
def _(write, x, weight, present):
    batch, _, time, channels = x.shape
    return x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)


@operator
def pool_states_backward(
    d_z: Tensor, write: Tensor, x: Tensor, weight: Tensor, present: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of write and x."""
    x, write = rows_contiguous(x), rows_contiguous(write)
    present = None if present is None else present.expand(-1, -1, x.shape[2])
    d_z, weight = d_z.contiguous(), weight.contiguous()
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    readout(write, d_z, weight, present, d_x)
    wide = triton.cdiv(x.shape[-1], _shared_tile(x, write.shape[-1])["WIDTH"])
    d_write = x.new_empty(wide, *write.shape)
    pool(write, x, weight, present, None, back=d_z, d_weights=d_write)
    return sum_slices(d_write), d_x


@shapes_of(pool_states_backward)
def _(d_z, write, x, weight, present):
    return (
        torch.empty_like(write, memory_format=torch.contiguous_format),
        torch.empty_like(x, memory_format=torch.contiguous_format),
    )


def _save_pool(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _pool_gradients(ctx, d_z):
    return *pool_states_backward(d_z, *ctx.saved_tensors), None, None


with_gradients(pool_states, _pool_gradients, _save_pool)


@dataclass(frozen=True)
class _Path:
    """How a trajectory without a variable axis is cut into programs."""

    batch: int
    time: int
    states: int
    channels: int
    heads: int
    width: int
    segments: int
    per_segment: int

    @property
    def slices(self) -> int:
        return triton.cdiv(self.channels // self.heads, self.width)

    @property
    def rows(self) -> int:
        return self.batch * self.heads * self.states * self.slices

    @property
    def shape(self) -> tuple[int, ...]:
        head_size = self.channels // self.heads
        return self.time, self.channels, head_size, self.segments, self.per_segment

    @property
    def tile(self) -> dict[str, int]:
        return {"WIDTH": self.width, "STATES": self.states}


def _path(drive: Tensor, step: Tensor) -> _Path:
    batch, time, _, states, channels = drive.shape
    heads = step.shape[-1]
    width = min(64, triton.next_power_of_2(channels // heads))
    rows = batch * heads * states * triton.cdiv(channels // heads, width)
    # Twice the work, but so much less waiting that it pays early.
    segments = max(1, min(triton.cdiv(4096, rows), time // 64))
    per_segment = triton.cdiv(triton.cdiv(time, segments), UNROLL) * UNROLL
    segments = triton.cdiv(time, per_segment)
    return _Path(batch, time, states, channels, heads, width, segments, per_segment)


def _step_table(path: _Path, step: Tensor, rates: tuple[Tensor, ...], reverse: bool) -> Tensor:
    lines = path.batch * path.heads * path.states
    table = step.new_empty(lines, path.time, shared_kernels.STEP_COLUMNS)
    shared_kernels.fill_steps[(lines * triton.cdiv(path.time, 64),)](
        step, *rates, table, path.time, path.heads, step.stride(0), step.stride(1),
        STATES=path.states, REVERSE=reverse, TIMES=64, num_warps=1,
    )  # fmt: skip
    return table


def _before_segments(
    path: _Path, drive: Tensor, table: Tensor, start: Tensor | None, reverse: bool
) -> tuple[Tensor | None, Tensor]:
    """The state before every segment, and what a segment multiplies it by."""
    if path.segments == 1:
        return start, table
    ends = drive.new_empty(path.batch, path.segments, 2, path.states, path.channels)
    decays = drive.new_empty(path.batch, path.heads, path.states, path.segments, 3)
    shared_kernels.trajectory[(path.rows * path.segments,)](
        drive, table, drive, drive, ends, decays, *path.shape,
        **path.tile, HAS_START=False, ENDS=True, REVERSE=reverse, UNROLL=UNROLL, num_warps=1,
    )  # fmt: skip
    shared_kernels.carry_trajectory[(path.rows,)](
        decays, start, ends, path.channels, path.channels // path.heads, path.segments,
        **path.tile, HAS_START=start is not None, ADJOINT=False, num_warps=1,
    )  # fmt: skip
    return ends, decays


def _follow(
    path: _Path, drive: Tensor, table: Tensor, before: Tensor | None, reverse: bool
) -> Tensor:
    z = torch.empty_like(drive)
    shared_kernels.trajectory[(path.rows * path.segments,)](
        drive, table, before, z, drive, drive, *path.shape,
        **path.tile, HAS_START=before is not None, ENDS=False, REVERSE=reverse, UNROLL=UNROLL,
        num_warps=1,
    )  # fmt: skip
    return z


@operator
def trajectory(
    drive: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    start: Tensor | None,
    reverse: bool,
) -> Tensor:
    """The states [B,T,2,N,D] of one system per batch row, from `start` [B,2,N,D]; all float32."""
    path = _path(drive, step)
    drive = drive.contiguous()
    table = _step_table(path, step, (rate_h, rate_v, rate_vh), reverse)
    start = None if start is None else start.contiguous()
    before, _ = _before_segments(path, drive, table, start, reverse)
    return _follow(path, drive, table, before, reverse)


@shapes_of(trajectory)
def _(drive, step, rate_h, rate_v, rate_vh, start, reverse):
    return torch.empty_like(drive, memory_format=torch.contiguous_format)


@operator
def trajectory_backward(
    d_z: Tensor,
    drive: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    start: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of drive, step, rates [3,H,N] and start."""
    path = _path(drive, step)
    rates = (rate_h, rate_v, rate_vh)
    drive, d_z = drive.contiguous(), d_z.contiguous()
    table = _step_table(path, step, rates, reverse)
    start = None if start is None else start.contiguous()
    before, decays = _before_segments(path, drive, table, start, reverse)
    z = _follow(path, drive, table, before, reverse)
    kernel = shared_kernels.trajectory_backward[(path.rows * path.segments,)]
    after = None
    if path.segments > 1:
        after = drive.new_empty(path.batch, path.segments, 2, path.states, path.channels)
        kernel(
            drive, table, start, z, d_z, drive, drive, drive, after, *path.shape,
            **path.tile, HAS_START=False, HAS_AFTER=False, ENDS=True, REVERSE=reverse,
            UNROLL=UNROLL, num_warps=1,
        )  # fmt: skip
        shared_kernels.carry_trajectory[(path.rows,)](
            decays, drive, after, path.channels, path.channels // path.heads, path.segments,
            **path.tile, HAS_START=False, ADJOINT=True, num_warps=1,
        )  # fmt: skip
    d_drive = torch.empty_like(drive)
    d_table = table.new_empty(path.slices, *table.shape)
    d_start = drive.new_empty(path.batch, 2, path.states, path.channels)
    kernel(
        drive, table, start, z, d_z, after, d_drive, d_table, d_start, *path.shape,
        **path.tile, HAS_START=start is not None, HAS_AFTER=after is not None, ENDS=False,
        REVERSE=reverse, UNROLL=UNROLL, num_warps=1,
    )  # fmt: skip
    blocks = triton.cdiv(path.time, 64)
    d_step = step.new_empty(path.batch, path.time, path.heads, path.states)
    d_rates = step.new_empty(3, path.batch, path.heads, path.states, blocks)
    shared_kernels.steps_gradient[(table.shape[0] * blocks,)](
        step, *rates, d_table, d_step, d_rates, path.time, path.heads,
        step.stride(0), step.stride(1), path.slices, table.numel(),
        STATES=path.states, REVERSE=reverse, TIMES=64, num_warps=1,
    )  # fmt: skip
    return d_drive, d_step.sum(-1), d_rates.sum((1, 4)), d_start


@shapes_of(trajectory_backward)
def _(d_z, drive, step, rate_h, rate_v, rate_vh, start, reverse):
    batch, _, _, states, channels = drive.shape
    return (
        torch.empty_like(drive, memory_format=torch.contiguous_format),
        torch.empty_like(step, memory_format=torch.contiguous_format),
        rate_h.new_empty(3, *rate_h.shape),
        drive.new_empty(batch, 2, states, channels),
    )


def _save_trajectory(ctx, inputs, output) -> None:
    *tensors, ctx.reverse = inputs
    ctx.save_for_backward(*tensors)


def _trajectory_gradients(ctx, d_z):
    d_drive, d_step, d_rates, d_start = trajectory_backward(d_z, *ctx.saved_tensors, ctx.reverse)
    started = ctx.saved_tensors[-1] is not None
    return d_drive, d_step, *d_rates.unbind(0), d_start if started else None, None


with_gradients(trajectory, _trajectory_gradients, _save_trajectory)
