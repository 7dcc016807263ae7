"""The scan as operators that autograd, the compiler and CUDA graphs know.

Backward passes get the inputs of the forward pass and nothing else; what they need of it they
compute again.
"""

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from orderless.ops.triton.launch import (
    CHUNK,
    MOST_STATES,
    QUICK,
    TABLES,
    from_a_line,
    from_first,
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
from orderless.ops.triton.rehearsal import launch, on_demand, rehearse
from orderless.ops.triton.shared_operators import (
    carry,
    field_response,
    field_response_backward,
    pool,
    readout,
)

table_kernels = on_demand("orderless.ops.triton.tables")
kernels = on_demand("orderless.ops.triton.kernels")

MOST_VARIABLES = 4  # in a program, which share its tables
PROGRAMS = 264  # run at once on a large GPU: where there are fewer, time is split
FEW_PARTS = 8  # sums of parts that a program can take in passing
MANY_PROGRAMS = 128  # that together can take any sum of parts as fast as memory gives it

# Layouts by hand need an experimental part of Triton, which changes from version to version.
fast_kernels: Any = None
if triton.__version__.startswith(("3.6.", "3.7.", "3.8.")):
    fast_kernels = on_demand("orderless.ops.triton.fast")
FAST = True
FAST_SHARED_MEMORY = {4: 142_080, 2: 92_928}  # bytes for a program of so many variables, at most


@dataclass(frozen=True)
class _Sizes:
    """The sizes of a scan, and how it is cut into programs: by shape alone, never by trial."""

    batch: int
    variables: int
    time: int
    channels: int
    heads: int
    states: int
    block: int
    width: int
    segments: int
    per_segment: int

    @property
    def head_size(self) -> int:
        return self.channels // self.heads

    @property
    def slices_of_head(self) -> int:
        return triton.cdiv(self.head_size, self.width)

    @property
    def slices(self) -> int:
        return self.heads * self.slices_of_head

    @property
    def blocks(self) -> int:
        return triton.cdiv(self.variables, self.block)

    @property
    def chunks(self) -> int:
        return triton.cdiv(self.time, CHUNK)

    @property
    def rows(self) -> int:
        """Programs that run side by side without splitting time."""
        return self.batch * self.blocks * self.slices

    def shape(self, fast: bool) -> tuple[int, ...]:
        """As kernels take it; those of `fast` also what they would have to divide for."""
        shape = (
            self.variables, self.time, self.channels, self.head_size, self.chunks,
            self.segments, self.per_segment,
        )  # fmt: skip
        return (*shape, self.heads, self.batch) if fast else shape

    @property
    def tile(self) -> dict[str, Any]:
        return {
            "BLOCK": self.block,
            "WIDTH": self.width,
            "STATES": self.states,
            "PADDED": MOST_STATES,
            "num_warps": self.block,
        }

    @property
    def fast_tile(self) -> dict[str, Any]:
        return {
            "BLOCK": self.block,
            "WIDTH": self.width,
            "STATES": self.states,
            "num_warps": self.block,
        }


def _sizes(x: Tensor, step: Tensor, write: Tensor) -> _Sizes:
    batch, variables, time, channels = x.shape
    heads, states = step.shape[-1], write.shape[-1]
    head_size = channels // heads
    most_variables = MOST_VARIABLES
    if _can_be_fast(x, states) and head_size % 16 == 0:
        width = min(64, head_size & -head_size)  # a power of two that divides it
        most_variables = min(most_variables, _fast_variables(x.device.index))
    else:
        # What a thread holds of the state must fit its registers, which float32 fills faster.
        widest = 64 if x.dtype == torch.bfloat16 else 32
        width = min(widest, max(16, triton.next_power_of_2(head_size)))
    chunks = triton.cdiv(time, CHUNK)
    slices = heads * triton.cdiv(head_size, width)
    # Few kinds of programs, for each is compiled: one variable, where it is the only one and more
    # would keep others waiting, or four, of which some may not exist.
    block = 1 if variables == 1 and batch * slices > PROGRAMS else most_variables
    rows = batch * slices * triton.cdiv(variables, block)
    # A segment pays a second pass over its inputs, so time is split only where it is long.
    most_segments = max(1, chunks // 8)
    segments = min(max(1, PROGRAMS // rows), most_segments)
    per_segment = triton.cdiv(chunks, segments)
    return _Sizes(
        batch, variables, time, channels, heads, states, block, width,
        triton.cdiv(chunks, per_segment), per_segment,
    )  # fmt: skip


@cache
def _shared_memory(device: int) -> int:
    """Bytes a program can have."""
    properties: Any = torch.cuda.get_device_properties(device)
    usual = properties.shared_memory_per_block
    return getattr(properties, "shared_memory_per_block_optin", usual)  # AMD knows of one alone


@cache
def why_not_fast(device: int) -> str | None:
    """Why kernels with layouts by hand cannot run there, or None where they can."""
    if fast_kernels is None:
        return f"they are for Triton 3.6 to 3.8, and this is {triton.__version__}"
    if torch.version.hip is not None:
        return "they are for NVIDIA GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    room, needed = _shared_memory(device), min(FAST_SHARED_MEMORY.values())
    if major < 8 or room < needed:
        return (
            f"they need compute capability 8.0 and {needed} bytes of shared memory, "
            f"and this has {major}.{minor} and {room}"
        )
    return None


def _fast_variables(device: int) -> int:
    """Of how many variables a program of `fast` can be there."""
    room = _shared_memory(device)
    return max(n for n, needed in FAST_SHARED_MEMORY.items() if needed <= room)


def _can_be_fast(x: Tensor, states: int) -> bool:
    """Whether the kernels with layouts by hand could run."""
    return FAST and x.is_cuda and states in (8, 16) and why_not_fast(x.device.index) is None


def _is_fast(x: Tensor, sizes: _Sizes) -> bool:
    """Whether they take the call."""
    return (
        _can_be_fast(x, sizes.states)
        and sizes.head_size % 16 == 0
        # Their offsets within a block of variables have 32 bits.
        and sizes.block * max(x.stride(1), sizes.time * sizes.channels) < 2**30
    )


class _Tables(NamedTuple):
    """Of `fill_tables`, as far as they are read."""

    tables: Tensor | None
    quick: Tensor | None
    over_chunks: Tensor
    over_segments: Tensor | None
    factors: Tensor | None

    @property
    def of_chunks(self) -> tuple[Tensor | None, ...]:
        """What all kernels of `fast` take."""
        return self.tables, self.quick, self.over_chunks


def _tables(
    sizes: _Sizes,
    step: Tensor,
    rates: tuple[Tensor, ...],
    low: torch.dtype,
    reverse: bool,
    fast: bool,
    field_write: Tensor | None = None,
    held: bool = True,
) -> _Tables:
    lines = (sizes.batch, sizes.heads, sizes.chunks)
    tables = quick = over_segments = factors = None
    if fast and low == torch.bfloat16:
        quick = step.new_empty(*lines, QUICK, dtype=low)
    else:
        tables = step.new_empty(*lines, 3 * TABLES, CHUNK, MOST_STATES)
    over_chunks = step.new_empty(*lines, 4, MOST_STATES)
    if sizes.segments > 1:
        over_segments = step.new_empty(*lines[:2], sizes.segments, 3, MOST_STATES)
    if field_write is not None:
        field_write = field_write.flatten(2)
        factors = step.new_empty(*lines, 6, CHUNK, 32, dtype=low)
    launch(table_kernels.fill_tables, (sizes.batch * sizes.heads * sizes.chunks,))(
        step, *rates, field_write, tables, quick, over_chunks, over_segments, factors,
        sizes.time, sizes.heads, sizes.chunks, sizes.per_segment, towards(reverse),
        *step.stride()[:2], *((0, 0) if field_write is None else field_write.stride()[:2]),
        int(held), STATES=sizes.states, PADDED=MOST_STATES, HAS_QUICK=quick is not None,
        HAS_SEGMENTS=over_segments is not None, HAS_FIELD=factors is not None, num_warps=4,
    )  # fmt: skip
    return _Tables(tables, quick, over_chunks, over_segments, factors)


def _segment_states(
    sizes: _Sizes,
    made: _Tables,
    fast: bool,
    signal: Tensor,
    weights: Tensor,
    start: Tensor | None,
    present: Tensor | None,
    reverse: bool,
    adjoint: bool = False,
    field: Tensor | None = None,
) -> Tensor | None:
    """The state before every segment; adjoint, the gradient of the state after it."""
    if made.over_segments is None:
        return start
    ends = made.over_segments.new_empty(
        sizes.batch, sizes.variables, sizes.segments, 2, sizes.states, sizes.channels
    )
    grid = (sizes.rows * (sizes.segments - 1),)  # what is after the last moves nothing
    inputs = (signal, weights, present)
    rest = (*sizes.shape(fast), *chain(*(strides(one, reverse) for one in inputs)))
    signal, weights, present = (from_first(one, reverse) for one in inputs)
    given: dict[str, Any] = {"HAS_PRESENT": present is not None, "ADJOINT": adjoint}
    if fast:
        launch(fast_kernels.fast_states, grid)(
            signal, weights, *made.of_chunks, field, made.factors, present, ends, *rest,
            towards(reverse) * sizes.channels, **given, HAS_FIELD=field is not None,
            # Two warps own a variable: registers for sixteen warps.
            **sizes.fast_tile | {"num_warps": 2 * sizes.block, "maxnreg": 128},
        )  # fmt: skip
    else:
        launch(kernels.scan_states, grid)(
            signal, weights, made.tables, None, present, None, ends, *rest, **sizes.tile, **given,
            HAS_START=False, EVERY_CHUNK=False, PRECISION=precision(signal),
        )  # fmt: skip
    return carry(made.over_segments, start, ends, adjoint)


@operator
def scan(
    x: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    write: Tensor,
    read: Tensor,
    field: Tensor | None,
    field_write: Tensor | None,
    shared: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    state: Tensor | None,
    present: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state of every variable [B,V,2,N,D], in float32.

    What is shared is added to all states: either the response to `field`, or `shared` [B,T,2,N,D],
    given whole. `present` is [B,V,T] or [B,V,1].
    """
    sizes = _sizes(x, step, write)
    rates = (rate_h, rate_v, rate_vh)
    fast = _is_fast(x, sizes)
    # As a second input the field costs little, but only `fast` knows of one.
    if field is not None and field_write is not None and not fast:
        shared, _ = field_response(field, field_write, step, *rates, reverse)
        field = field_write = None
    x, write, read = (rows_contiguous(value, aligned=fast) for value in (x, write, read))
    present = None if present is None else present.expand(-1, -1, sizes.time)
    gate = None if gate is None else rows_contiguous(gate)
    made = _tables(sizes, step, rates, x.dtype, reverse, fast, field_write)
    field = None if field is None else from_a_line(field.to(x.dtype))
    field = from_first(field, reverse, axis=1)
    start = None if state is None else state.contiguous()
    start = _segment_states(sizes, made, fast, x, write, start, present, reverse, field=field)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if shared is not None:
        readout(read, shared, None, present, y)
    end = step.new_empty(sizes.batch, sizes.variables, 2, sizes.states, sizes.channels)
    inputs = (x, write, read, present, gate)
    rest = (
        *sizes.shape(fast), *strides(y, reverse)[1:],
        *chain(*(strides(one, reverse) for one in inputs)),
    )  # fmt: skip
    x, write, read, present, gate = (from_first(one, reverse) for one in inputs)
    out = from_first(y, reverse)
    last_shared = from_first(shared, not reverse, axis=1)
    given: dict[str, Any] = {
        "HAS_START": start is not None,
        "HAS_BASE": shared is not None,
        "HAS_SKIP": skip is not None,
        "HAS_GATE": gate is not None,
        "HAS_PRESENT": present is not None,
    }
    grid = (sizes.rows * sizes.segments,)
    if fast:
        launch(fast_kernels.fast_forward, grid)(
            x, write, read, *made.of_chunks, start, out, last_shared, field, made.factors, skip,
            gate, present, out, end, *rest, **sizes.fast_tile, **given, HAS_FIELD=field is not None,
        )  # fmt: skip
    else:
        launch(kernels.scan_forward, grid)(
            x, write, read, made.tables, start, out, last_shared, skip, gate, present, out, end,
            *rest, **sizes.tile, **given, PRECISION=precision(x),
        )  # fmt: skip
    return y, end


@shapes_of(scan)
def _(
    x, step, rate_h, rate_v, rate_vh, write, read, field, field_write, shared, skip, gate, state,
    present, reverse,
):  # fmt: skip
    batch, variables, _, channels = x.shape
    end = x.new_empty(batch, variables, 2, write.shape[-1], channels, dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.contiguous_format), end


@operator
def scan_backward(
    d_y: Tensor,
    d_end: Tensor | None,
    x: Tensor,
    step: Tensor,
    rate_h: Tensor,
    rate_v: Tensor,
    rate_vh: Tensor,
    write: Tensor,
    read: Tensor,
    shared: Tensor | None,
    skip: Tensor | None,
    state: Tensor | None,
    present: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, step, rates [3,H,N], write, read, shared, skip and state, for no gate.

    Those of absent arguments are empty.
    """
    sizes = _sizes(x, step, write)
    rates = (rate_h, rate_v, rate_vh)
    fast = _is_fast(x, sizes)
    x, write, read = (rows_contiguous(value, aligned=fast) for value in (x, write, read))
    present = None if present is None else present.expand(-1, -1, sizes.time)
    d_y = rows_contiguous(d_y.contiguous(), aligned=fast)
    d_end = None if d_end is None else d_end.contiguous()
    made = _tables(sizes, step, rates, x.dtype, reverse, fast, held=False)
    start = None if state is None else state.contiguous()
    start = _segment_states(sizes, made, fast, x, write, start, present, reverse)
    shape = sizes.shape(fast)
    grid = (sizes.rows * sizes.segments,)
    masked: dict[str, Any] = {"HAS_PRESENT": present is not None}
    started = {"HAS_START": start is not None}
    if fast:
        # Of each program, which finds them itself; in bfloat16 those before pairs of chunks.
        kept = sizes.per_segment
        if x.dtype == torch.bfloat16:
            kept = triton.cdiv(kept, 2)
        states = x.new_empty(*grid, kept + 1, sizes.block * 2 * sizes.states * sizes.width)
    else:
        states = x.new_empty(
            sizes.batch, sizes.variables, sizes.chunks + 1, 2, sizes.states, sizes.channels
        )
        masked["PRECISION"] = precision(x)
        launch(kernels.scan_states, grid)(
            *(from_first(one, reverse) for one in (x, write)), made.tables, start,
            from_first(present, reverse), states, None, *shape,
            *chain(*(strides(one, reverse) for one in (x, write, present))),
            **sizes.tile, **masked, **started, EVERY_CHUNK=True, ADJOINT=False,
        )  # fmt: skip
    d_after = _segment_states(sizes, made, fast, d_y, read, d_end, present, reverse, adjoint=True)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    # Slices of channels share write and read: each leaves its part, summed below. In float32 they
    # would be a third of all traffic.
    d_write = x.new_empty(sizes.slices, *write.shape)
    d_read = x.new_empty(sizes.slices, *read.shape)
    d_start = None if state is None else step.new_empty(state.shape)
    d_skip = step.new_empty(sizes.rows * sizes.segments, sizes.width)
    parts = sizes.blocks * sizes.slices_of_head
    sums = step.new_empty(
        parts, sizes.batch, sizes.heads, sizes.chunks, 6, CHUNK, sizes.states,
        dtype=x.dtype if fast else step.dtype,  # a fast program rounds its own, like all results
    )  # fmt: skip
    if fast:
        parts = sizes.variables * sizes.slices_of_head
    borders = step.new_empty(parts, sizes.batch, sizes.heads, sizes.chunks + 1, 3, sizes.states)
    rest = (
        states, skip, *(from_first(one, reverse) for one in (present, d_y)), d_after,
        from_first(d_x, reverse), d_write, d_read, d_start, d_skip, sums, borders, *shape,
        *strides(d_x, reverse)[1:],
        *chain(*(strides(one, reverse) for one in (x, write, read, present))),
    )  # fmt: skip
    inputs = tuple(from_first(one, reverse) for one in (x, write, read))
    masked |= {"HAS_END": d_after is not None, "HAS_SKIP": skip is not None}
    if fast:
        launch(fast_kernels.fast_backward, grid)(
            *inputs, *made.of_chunks, start, *rest, **masked, **started, **sizes.fast_tile
        )
    else:
        # Loads ahead of their use would take registers that there are not.
        launch(kernels.scan_backward, grid)(
            *inputs, made.tables, *rest, **masked, **sizes.tile, num_stages=1
        )
    if reverse:  # as they were visited; strides that are not known would cost too many registers
        d_write, d_read = _turned_in_time(d_write), _turned_in_time(d_read)
    d_shared = x.new_empty(0)
    if shared is not None:
        d_shared = torch.empty_like(shared)
        pool(read, d_y, None, present, d_shared, back=shared, d_weights=d_read, add=True)
    programs = sizes.batch * sizes.heads * sizes.chunks
    if len(borders) > FEW_PARTS and programs < MANY_PROGRAMS:
        sums, borders = (total.unsqueeze(0) for total in sum_parts(sums, borders))
    d_step = torch.empty(step.shape, dtype=step.dtype, device=step.device)
    d_rates = step.new_empty(sizes.batch * sizes.chunks, 3, sizes.heads, sizes.states)
    launch(table_kernels.sums_gradient, (programs,))(
        step, *rates, sums, borders, d_step, d_rates, sizes.time, sizes.heads, sizes.chunks,
        towards(reverse), step.stride(0), step.stride(1), len(sums), sums[0].numel(), len(borders),
        borders[0].numel(), HAS_END=d_end is not None, STATES=sizes.states, PADDED=MOST_STATES,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    d_skip = d_skip.view(-1, sizes.heads, sizes.slices_of_head * sizes.width)
    d_skip, d_rates = sum_parts(d_skip[:0] if skip is None else d_skip, d_rates)
    d_skip = d_skip[:, : sizes.head_size].reshape(sizes.channels)
    return (
        d_x,
        d_step,
        d_rates,
        sum_slices(d_write),
        sum_slices(d_read),
        d_shared,
        x.new_empty(0) if skip is None else d_skip.to(skip.dtype),
        x.new_empty(0) if d_start is None else d_start,
    )


def _turned_in_time(value: Tensor) -> Tensor:
    """[slice, B, V, T, 2, N] with its times from the last to the first.

    Where it can be, in numbers of 16 bytes: of shorter ones PyTorch moves as many a second.
    """
    rows = value.flatten(4)
    if rows.shape[-1] * value.element_size() % 16 == 0:
        rows = rows.view(torch.complex128)
    return rows.flip(3).view(value.dtype).view_as(value)


@shapes_of(scan_backward)
def _(
    d_y, d_end, x, step, rate_h, rate_v, rate_vh, write, read, shared, skip, state, present, reverse
):
    def like(value):
        if value is None:
            return x.new_empty(0)
        return torch.empty_like(value, memory_format=torch.contiguous_format)

    d_rates = rate_h.new_empty(3, *rate_h.shape)
    return (
        like(x), like(step), d_rates, like(write), like(read), like(shared), like(skip),
        like(state),
    )  # fmt: skip


def _save_scan(ctx, inputs, output) -> None:
    *tensors, ctx.reverse = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _scan_gradients(ctx, d_y, d_end):
    if d_y is None:
        d_y = torch.zeros_like(ctx.saved_tensors[0])
    arguments = (d_y, d_end, *ctx.saved_tensors, ctx.reverse)
    rehearse(_gradients, arguments)  # of several operators, all at once
    return _gradients(*arguments)


def _gradients(
    d_y, d_end, x, step, h, v, vh, write, read, field, field_write, shared, skip, gate, state,
    present, reverse,
):  # fmt: skip
    own = (x, step, h, v, vh, write, read)
    d_gate = None
    if gate is not None:
        before, _ = scan(*own, field, field_write, shared, skip, None, state, present, reverse)
        d_y, d_gate = _gate_gradients(d_y, before, gate, present)
    table = None
    if field is not None:
        shared, table = field_response(field, field_write, step, h, v, vh, reverse)
    d_x, d_step, d_rates, d_write, d_read, d_shared, d_skip, d_state = scan_backward(
        d_y, d_end, *own, shared, skip, state, present, reverse
    )
    if shared is not None and d_end is not None:
        last = 0 if reverse else -1
        d_shared = d_shared.clone()
        d_shared[:, last] += d_end.sum(1)
    d_field = d_field_write = None
    if field is not None:
        d_field, d_field_write, d_step, d_rates = field_response_backward(
            d_shared, shared, table, field, field_write, step, h, v, vh, d_step, d_rates, reverse
        )
        d_shared = None
    return (
        d_x,
        d_step,
        *d_rates.unbind(0),
        d_write,
        d_read,
        d_field,
        d_field_write,
        None if shared is None else d_shared,
        None if skip is None else d_skip,
        d_gate,
        None if state is None else d_state,
        None,
        None,
    )


def _gate_gradients(
    d_y: Tensor, before: Tensor, gate: Tensor, present: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of what the gate multiplies, and of the gate."""
    opening = gate.float()
    if present is not None:
        opening = torch.where(present.unsqueeze(-1), opening, 0.0)
    share = torch.sigmoid(opening)
    d_before = d_y * (opening * share)
    d_gate = d_y * before * (share * (1 + opening * (1 - share)))
    if present is not None:
        d_before = torch.where(present.unsqueeze(-1), d_before, 0.0)
        d_gate = torch.where(present.unsqueeze(-1), d_gate, 0.0)
    return d_before.to(before.dtype), d_gate.to(gate.dtype)


with_gradients(scan, _scan_gradients, _save_scan)
without_gradients(scan_backward)
