"""What all variables share as operators: the pooled input, and states without a variable axis."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from orderless.ops.triton.launch import (
    CHUNK,
    MOST_STATES,
    STEP_COLUMNS,
    UNROLL,
    operator,
    precision,
    rows_contiguous,
    shapes_of,
    strides,
    sum_parts,
    sum_slices,
    towards,
    with_gradients,
    without_gradients,
)
from orderless.ops.triton.rehearsal import launch, on_demand

shared_kernels = on_demand("orderless.ops.triton.shared_kernels")

Rates = tuple[Tensor, Tensor, Tensor]

FEW_PATHS = 256  # programs of a trajectory that leave parts of a large GPU idle
PATHS = 2048  # that keep it busy: time is split into so many, if into any
STAGES = 4  # of a trajectory's rounds: while one is computed, others are loaded
SEGMENTS_AT_ONCE = 32  # whose states a warp loads at once


def _shared_tile(x: Tensor, states: int) -> dict[str, int]:
    width = min(64, max(16, triton.next_power_of_2(x.shape[-1])))
    # Variables and times that fit the 99 KB of shared memory of smaller GPUs; a warp has a time.
    block, times = (32, 4) if x.dtype == torch.bfloat16 else (16, 2)
    return {
        "BLOCK": block,
        "TIMES": times,
        "WIDTH": width,
        "STATES": states,
        "PADDED": MOST_STATES,
        "num_warps": times,
    }


def _shared_grid(x: Tensor, tile: dict[str, int]) -> tuple[int]:
    batch, _, time, channels = x.shape
    return (batch * triton.cdiv(time, tile["TIMES"]) * triton.cdiv(channels, tile["WIDTH"]),)


def readout(
    weights: Tensor, z: Tensor, scale: Tensor | None, present: Tensor | None, y: Tensor
) -> None:
    """y = scale weights z, for every variable."""
    tile = _shared_tile(y, weights.shape[-1])
    launch(shared_kernels.readout, _shared_grid(y, tile))(
        weights, z, scale, present, y, *y.shape[1:], *strides(weights), *strides(present),
        **tile, HAS_SCALE=scale is not None, HAS_PRESENT=present is not None,
        PRECISION=precision(y),
    )  # fmt: skip


def pool(
    weights: Tensor,
    x: Tensor,
    scale: Tensor | None,
    present: Tensor | None,
    z: Tensor | None,
    back: Tensor | None = None,
    d_weights: Tensor | None = None,
    add: bool = False,
) -> None:
    """z, d_weights or both. d_weights has a part for each slice of channels.

    With `add` it is added to what lies there: parts of the scan, of which there are never fewer.
    """
    tile = _shared_tile(x, weights.shape[-1])
    launch(shared_kernels.pool, _shared_grid(x, tile))(
        weights, x, scale, present, z, back, d_weights, *x.shape[1:],
        *strides(weights), *strides(x), *strides(present),
        **tile, HAS_SCALE=scale is not None, HAS_PRESENT=present is not None,
        POOL=z is not None, INNER=back is not None, ADD=add, PRECISION=precision(x),
    )  # fmt: skip


@operator
def pool_states(write: Tensor, x: Tensor, share: Tensor, present: Tensor | None) -> Tensor:
    """The mean input of the states, [B,T,2,N,D] in float32: share [B] times sum of write x."""
    batch, _, time, channels = x.shape
    x, write = rows_contiguous(x), rows_contiguous(write)
    present = None if present is None else present.expand(-1, -1, time)
    z = x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)
    pool(write, x, share, present, z)
    return z


@shapes_of(pool_states)
def _(write, x, share, present):
    batch, _, time, channels = x.shape
    return x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)


@operator
def pool_states_backward(
    d_z: Tensor, write: Tensor, x: Tensor, share: Tensor, present: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of write and x."""
    x, write = rows_contiguous(x), rows_contiguous(write)
    present = None if present is None else present.expand(-1, -1, x.shape[2])
    d_z = d_z.contiguous()
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    readout(write, d_z, share, present, d_x)
    wide = triton.cdiv(x.shape[-1], _shared_tile(x, write.shape[-1])["WIDTH"])
    d_write = x.new_empty(wide, *write.shape)
    pool(write, x, share, present, None, back=d_z, d_weights=d_write)
    return sum_slices(d_write), d_x


@shapes_of(pool_states_backward)
def _(d_z, write, x, share, present):
    return (
        torch.empty_like(write, memory_format=torch.contiguous_format),
        torch.empty_like(x, memory_format=torch.contiguous_format),
    )


def _save_pool(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _pool_gradients(ctx, d_z):
    return *pool_states_backward(d_z, *ctx.saved_tensors), None, None


with_gradients(pool_states, _pool_gradients, _save_pool)
without_gradients(pool_states_backward)


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
    def padded(self) -> int:
        return triton.next_power_of_2(self.states)

    @property
    def programs(self) -> int:
        """Without splitting time."""
        return self.batch * self.heads * self.states * self.slices

    @property
    def rows(self) -> int:
        """Of a step table: the last round may reach over the last time."""
        return triton.cdiv(self.time, UNROLL) * UNROLL

    @property
    def shape(self) -> tuple[int, ...]:
        head_size = self.channels // self.heads
        return self.rows, self.time, self.channels, head_size, self.segments, self.per_segment

    @property
    def tile(self) -> dict[str, int]:
        return {"STATES": self.states, "WIDTH": self.width, "num_warps": 1}


def _path(batch: int, channels: int, states: int, step: Tensor) -> _Path:
    time, heads = step.shape[1:]
    width = min(64, triton.next_power_of_2(channels // heads))
    programs = batch * heads * states * triton.cdiv(channels // heads, width)
    # A segment pays a second pass over its inputs.
    segments = 1
    if programs < FEW_PATHS:
        segments = max(1, min(triton.cdiv(PATHS, programs), time // 64))
    per_segment = triton.cdiv(triton.cdiv(time, segments), UNROLL) * UNROLL
    return _Path(
        batch, time, states, channels, heads, width, triton.cdiv(time, per_segment),
        per_segment,
    )  # fmt: skip


@dataclass(frozen=True)
class _Input:
    """What drives a trajectory: a drive given whole, a field with its write, or both."""

    drive: Tensor | None
    field: Tensor | None
    field_write: Tensor | None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        return self.drive, self.field, self.field_write

    @property
    def strides(self) -> tuple[int, ...]:
        return (0, 0) if self.field_write is None else self.field_write.stride()[:2]

    @property
    def given(self) -> dict[str, bool]:
        return {"HAS_DRIVE": self.drive is not None, "HAS_FIELD": self.field is not None}


def _input(drive: Tensor | None, field: Tensor | None, field_write: Tensor | None) -> _Input:
    return _Input(
        None if drive is None else drive.contiguous(),
        None if field is None else field.contiguous(),
        None if field_write is None else field_write.flatten(2),
    )


def _step_tables(path: _Path, step: Tensor, *rates: Rates, reverse: bool) -> Tensor:
    """One for each of one or two sets of rates."""
    lines = path.batch * path.heads * path.states
    tables = step.new_empty(len(rates), lines, path.rows, STEP_COLUMNS)
    launch(shared_kernels.fill_steps, (len(rates) * lines * triton.cdiv(path.rows, 64),))(
        step, *rates[0], *rates[-1], tables, path.rows, path.time, path.heads, path.batch,
        towards(reverse), step.stride(0), step.stride(1),
        STATES=path.states, TIMES=64, HAS_OTHER=len(rates) > 1, num_warps=1,
    )  # fmt: skip
    return tables


def carry(over_segments: Tensor, start: Tensor | None, ends: Tensor, adjoint: bool) -> Tensor:
    """From states after segments from zero, [B,V,segment,2,N,D], the true states before them.

    over_segments [B, H, segment, 3, N padded]; adjoint: from the gradients before segments, those
    after them.
    """
    batch, variables, segments, _, states, channels = ends.shape
    heads, padded = over_segments.shape[1], over_segments.shape[-1]
    at_once = min(SEGMENTS_AT_ONCE, triton.next_power_of_2(segments))
    width = min(32, triton.next_power_of_2(channels // heads))
    before = torch.empty_like(ends)
    programs = batch * variables * heads * states * triton.cdiv(channels // heads, width)
    launch(shared_kernels.carry_segments, (programs,))(
        over_segments, start, ends, before, variables, channels, channels // heads, segments,
        AT_ONCE=at_once, WIDTH=width, STATES=states, PADDED=padded,
        HAS_START=start is not None, ADJOINT=adjoint, num_warps=1,
    )  # fmt: skip
    return before


def _before_segments(
    path: _Path, given: _Input, table: Tensor, start: Tensor | None, reverse: bool, adjoint: bool
) -> Tensor | None:
    """The state before every segment; adjoint, what comes back to the state after it."""
    if path.segments == 1:
        return start
    over_segments = table.new_empty(path.batch, path.heads, path.segments, 3, path.padded)
    ends = table.new_empty(path.batch, 1, path.segments, 2, path.states, path.channels)
    launch(shared_kernels.trajectory, (path.programs * path.segments,))(
        *given.tensors, table, None, None, None, None, ends, over_segments,
        *given.strides, *path.shape, towards(reverse), **path.tile, **given.given,
        PADDED=path.padded, HAS_START=False, HAS_OWN=False, ENDS=True, ADJOINT=adjoint,
        UNROLL=UNROLL, STAGES=STAGES,
    )  # fmt: skip
    return carry(over_segments, start, ends, adjoint)


def _follow(
    path: _Path,
    given: _Input,
    table: Tensor,
    before: Tensor | None,
    reverse: bool,
    own_table: Tensor | None = None,
    deviates: Tensor | None = None,
    d_start: Tensor | None = None,
) -> Tensor:
    """The states at every time; less those of the drive alone by `own_table`, if there is one.

    With `d_start`, where to leave it, what comes back to the states from the gradients given.
    """
    z = table.new_empty(path.batch, path.time, 2, path.states, path.channels)
    launch(shared_kernels.trajectory, (path.programs * path.segments,))(
        *given.tensors, table, own_table, deviates, before, z, d_start, None,
        *given.strides, *path.shape, towards(reverse), **path.tile, **given.given,
        PADDED=path.padded, HAS_START=before is not None, HAS_OWN=own_table is not None, ENDS=False,
        ADJOINT=d_start is not None, UNROLL=UNROLL, STAGES=STAGES,
    )  # fmt: skip
    return z


def _states(
    path: _Path, given: _Input, table: Tensor, start: Tensor | None, reverse: bool
) -> Tensor:
    before = _before_segments(path, given, table, start, reverse, adjoint=False)
    return _follow(path, given, table, before, reverse)


class _Gradients(NamedTuple):
    """Of what a trajectory follows; empty where that is absent."""

    drive: Tensor
    field: Tensor
    field_write: Tensor
    step: Tensor
    rates: Tensor
    start: Tensor


def _follow_back(
    path: _Path,
    given: _Input,
    table: Tensor,
    z: Tensor,
    d_z: Tensor,
    step: Tensor,
    rates: Rates,
    start: Tensor | None,
    reverse: bool,
    d_step: Tensor | None = None,
    d_rates: Tensor | None = None,
) -> _Gradients:
    """z: the trajectory. d_step and d_rates are added to."""
    of_states = _input(d_z, None, None)
    after = _before_segments(path, of_states, table, None, reverse, adjoint=True)
    d_start = table.new_empty(path.batch, 2, path.states, path.channels)
    back = _follow(path, of_states, table, after, reverse, d_start=d_start)
    d_drive = table.new_empty(0) if given.drive is None else torch.empty_like(given.drive)
    d_field, d_write = table.new_empty(0), table.new_empty(0)
    if given.field is not None and given.field_write is not None:
        d_field = torch.empty_like(given.field)
        d_write = given.field_write.new_empty(
            path.heads, path.batch, path.time, 2, path.states,
            dtype=None if path.heads == 1 else torch.float32,
        )  # fmt: skip
    sums = table.new_empty(path.batch, path.heads, path.time, 8, path.states)
    launch(shared_kernels.trajectory_gradients, (path.batch * path.time * path.heads,))(
        *given.tensors, table, start, z, back, d_drive, d_field, sums, *given.strides,
        *path.shape[:4], towards(reverse), HAS_START=start is not None, PADDED=path.padded,
        **path.tile | {"num_warps": max(1, path.padded // 4)}, **given.given,
    )  # fmt: skip
    blocks = triton.cdiv(path.time, CHUNK)
    new_step = torch.empty(step.shape, dtype=step.dtype, device=step.device)
    part_rates = step.new_empty(blocks * path.batch, 3, path.heads, path.states)
    launch(shared_kernels.steps_gradient, (blocks * path.batch * path.heads,))(
        step, *rates, given.field_write, sums, d_step, d_rates, new_step, part_rates, d_write,
        path.time, path.heads, path.batch, step.stride(0), step.stride(1), *given.strides,
        STATES=path.states, PADDED=path.padded, TIMES=CHUNK, **given.given, num_warps=4,
    )  # fmt: skip
    _, new_rates = sum_parts(part_rates[:0], part_rates)
    if given.field_write is not None:
        d_write = d_write[0] if path.heads == 1 else d_write.sum(0).to(given.field_write.dtype)
    return _Gradients(d_drive, d_field, d_write, new_step, new_rates, d_start)


@operator
def field_response(
    field: Tensor,
    field_write: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """What a field makes of every state, [B,T,2,N,D] in float32, and the table of its steps."""
    path = _path(field.shape[0], field.shape[-1], field_write.shape[-1], step)
    given = _input(None, field, field_write)
    (table,) = _step_tables(path, step, (rate_h, rate_v, rate_vh), reverse=reverse)
    return _states(path, given, table, None, reverse), table


@shapes_of(field_response)
def _(field, field_write, step, rate_h, rate_v, rate_vh, reverse):
    batch, time, channels = field.shape
    states = field_write.shape[-1]
    rows = (time + UNROLL - 1) // UNROLL * UNROLL
    return (
        step.new_empty(batch, time, 2, states, channels),
        step.new_empty(batch * step.shape[-1] * states, rows, STEP_COLUMNS),
    )


@operator
def field_response_backward(
    d_z: Tensor,
    z: Tensor,
    table: Tensor,
    field: Tensor,
    field_write: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    d_step: Tensor,
    d_rates: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of field, field_write, step and rates [3,H,N]; the last two are added to."""
    path = _path(field.shape[0], field.shape[-1], field_write.shape[-1], step)
    found = _follow_back(
        path, _input(None, field, field_write), table, z, d_z.contiguous(), step,
        (rate_h, rate_v, rate_vh), None, reverse, d_step, d_rates,
    )  # fmt: skip
    return found.field, found.field_write, found.step, found.rates


@shapes_of(field_response_backward)
def _(d_z, z, table, field, field_write, step, rate_h, rate_v, rate_vh, d_step, d_rates, reverse):
    return _like(field, field_write, d_step, d_rates)


def _where_deviating(value: Tensor, deviates: Tensor | None) -> Tensor:
    return value if deviates is None else value * deviates.view(-1, 1, 1, 1, 1)


@operator
def mean_mode(
    own: Tensor,
    field: Tensor | None,
    field_write: Tensor | None,
    step: Tensor,
    mean_h: Tensor,
    mean_v: Tensor,
    mean_vh: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    start: Tensor | None,
    deviates: Tensor | None,
    reverse: bool,
) -> Tensor:
    """Under feedback, what is the same in all states, [B,T,2,N,D]; see `ops/feedback.py`.

    own: the mean input of the states, like the result. deviates [B]: 1 where there are variables
    that can differ from their mean, 0 where not; if absent, there are.
    """
    path = _path(own.shape[0], own.shape[-1], own.shape[-2], step)
    given = _input(own, field, field_write)
    start = None if start is None else start.contiguous()
    table, own_table = _step_tables(
        path, step, (mean_h, mean_v, mean_vh), (rate_h, rate_v, rate_vh), reverse=reverse
    )
    if path.segments == 1:
        return _follow(path, given, table, start, reverse, own_table, deviates)
    mean = _states(path, given, table, start, reverse)
    of_own = _states(path, _input(own, None, None), own_table, start, reverse)
    return mean.sub_(_where_deviating(of_own, deviates))


@shapes_of(mean_mode)
def _(
    own, field, field_write, step, mean_h, mean_v, mean_vh, rate_h, rate_v, rate_vh, start,
    deviates, reverse,
):  # fmt: skip
    return torch.empty_like(own, memory_format=torch.contiguous_format)


@operator
def mean_mode_backward(
    d_z: Tensor,
    own: Tensor,
    field: Tensor | None,
    field_write: Tensor | None,
    step: Tensor,
    mean_h: Tensor,
    mean_v: Tensor,
    mean_vh: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    start: Tensor | None,
    deviates: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of own, field, field_write, step, the rates of the mean and of own, and start.

    Those of an absent field are empty.
    """
    path = _path(own.shape[0], own.shape[-1], own.shape[-2], step)
    d_z = d_z.contiguous()
    start = None if start is None else start.contiguous()
    mean_rates, rates = (mean_h, mean_v, mean_vh), (rate_h, rate_v, rate_vh)
    table, own_table = _step_tables(path, step, mean_rates, rates, reverse=reverse)
    given, alone = _input(own, field, field_write), _input(own, None, None)
    z = _states(path, given, table, start, reverse)
    mean = _follow_back(path, given, table, z, d_z, step, mean_rates, start, reverse)
    z = _states(path, alone, own_table, start, reverse)
    d_z = -_where_deviating(d_z, deviates)
    of_own = _follow_back(path, alone, own_table, z, d_z, step, rates, start, reverse, mean.step)
    return (
        of_own.drive + mean.drive,
        mean.field,
        mean.field_write,
        of_own.step,
        mean.rates,
        of_own.rates,
        of_own.start + mean.start,
    )


@shapes_of(mean_mode_backward)
def _(
    d_z, own, field, field_write, step, mean_h, mean_v, mean_vh, rate_h, rate_v, rate_vh, start,
    deviates, reverse,
):  # fmt: skip
    batch, _, _, states, channels = own.shape
    rates = (rate_h.new_empty(3, *rate_h.shape) for _ in range(2))
    of_field = (own.new_empty(0), own.new_empty(0))
    if field is not None:
        of_field = _like(field, field_write)
    return *_like(own), *of_field, *_like(step), *rates, own.new_empty(batch, 2, states, channels)


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors)


def _save_mean(ctx, inputs, output) -> None:
    *tensors, ctx.reverse = inputs
    ctx.save_for_backward(*tensors)


def _mean_gradients(ctx, d_z):
    d_own, d_field, d_write, d_step, d_mean_rates, d_rates, d_start = mean_mode_backward(
        d_z, *ctx.saved_tensors, ctx.reverse
    )
    _, field, *_, start, _ = ctx.saved_tensors
    return (
        d_own,
        None if field is None else d_field,
        None if field is None else d_write,
        d_step,
        *d_mean_rates.unbind(0),
        *d_rates.unbind(0),
        None if start is None else d_start,
        None,
        None,
    )


with_gradients(mean_mode, _mean_gradients, _save_mean)
for _response in (field_response, field_response_backward, mean_mode_backward):
    without_gradients(_response)
