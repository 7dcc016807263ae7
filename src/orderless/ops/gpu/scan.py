"""The scan of every variable, pass by pass: which kernels are launched, with what.

A pass forward fills the tables, finds the states before segments of time where there are several,
and scans. A pass back does the same, and its kernel finds the states before chunks again; then the
gradients of steps and rates are made from the sums that it leaves.

Kernels are imported where they are launched: to define one takes Triton milliseconds.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops.gpu.launch import launch
from orderless.ops.gpu.plan import Plan, aligned, direction, from_first, rows_contiguous
from orderless.ops.gpu.shared import carry, pool, readout
from orderless.ops.gpu.tables import (
    Rates,
    Tables,
    fill_tables,
    step_gradients,
    sum_parts,
    sum_slices,
)


class Signals(NamedTuple):
    """What a variable has of its own, as kernels can copy it: views where they can be."""

    x: Tensor
    write: Tensor
    read: Tensor
    mask: Tensor | None


def signals(x: Tensor, write: Tensor, read: Tensor, mask: Tensor | None) -> Signals:
    """The inputs of a variable, copied where kernels could not read them as they lie."""
    mask = None if mask is None else mask.expand(-1, -1, x.shape[2])
    x, write, read = (rows_contiguous(value, aligned=True) for value in (x, write, read))
    return Signals(x, write, read, mask)


def _before_segments(
    plan: Plan,
    tables: Tables,
    signal: Tensor,
    weights: Tensor,
    start: Tensor | None,
    mask: Tensor | None,
    adjoint: bool = False,
    field: Tensor | None = None,
) -> Tensor | None:
    """The state before every segment; adjoint, the gradient of the state after it."""
    if tables.over_segments is None:
        return start
    from orderless.ops.gpu.states import segment_states

    ends = tables.over_segments.new_empty(
        plan.batch, plan.variables, plan.segments, 2, plan.states, plan.channels
    )
    strides = plan.strides(signal, weights, mask)
    signal, weights, mask = plan.from_first(signal, weights, mask)
    # What is after the last segment moves nothing.
    launch(segment_states, (plan.rows * (plan.segments - 1),))(
        signal, weights, tables.of_chunks, tables.over_chunks, field, tables.factors, mask, ends,
        *plan.shape, *strides, direction(plan.reverse) * plan.channels, ADJOINT=adjoint,
        # Two warps own a variable: registers for sixteen warps.
        **plan.tile | {"num_warps": 2 * plan.block, "maxnreg": 128},
    )  # fmt: skip
    return carry(tables.over_segments, start, ends, adjoint)


def forward(
    plan: Plan,
    own: Signals,
    step: Tensor,
    rates: Rates,
    field: tuple[Tensor, Tensor] | None,
    shared: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Outputs, and the state of every variable in float32; see `autograd.scan`."""
    from orderless.ops.gpu.forward import scan_forward

    x, write, read, mask = own
    gate = None if gate is None else rows_contiguous(gate)
    signal = None
    if field is not None:
        signal = from_first(aligned(field[0].to(x.dtype)), plan.reverse, axis=1)
    tables = fill_tables(plan, step, rates, x.dtype, None if field is None else field[1])
    start = None if state is None else state.contiguous()
    start = _before_segments(plan, tables, x, write, start, mask, field=signal)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if shared is not None:
        readout(read, shared, None, mask, y)
    end = step.new_empty(plan.batch, plan.variables, 2, plan.states, plan.channels)
    strides = plan.strides(y)[1:] + plan.strides(x, write, read, mask, gate)
    x, write, read, mask, gate, out = plan.from_first(x, write, read, mask, gate, y)
    last_shared = from_first(shared, not plan.reverse, axis=1)
    launch(scan_forward, (plan.programs,))(
        x, write, read, tables.of_chunks, tables.over_chunks, start,
        None if shared is None else out, last_shared, signal, tables.factors, skip, gate, mask,
        out, end, *plan.shape, *strides, **plan.tile,
    )  # fmt: skip
    return y, end


def backward(
    plan: Plan,
    own: Signals,
    d_y: Tensor,
    d_end: Tensor | None,
    step: Tensor,
    rates: Rates,
    shared: Tensor | None,
    skip: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, step, rates [3,H,N], write, read, shared, skip and state, for no gate.

    Those of absent arguments are empty.
    """
    from orderless.ops.gpu.backward import scan_backward

    x, write, read, mask = own
    d_y = rows_contiguous(d_y.contiguous(), aligned=True)
    d_end = None if d_end is None else d_end.contiguous()
    tables = fill_tables(plan, step, rates, x.dtype, held=False)
    start = None if state is None else state.contiguous()
    start = _before_segments(plan, tables, x, write, start, mask)
    d_after = _before_segments(plan, tables, d_y, read, d_end, mask, adjoint=True)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    d_write, d_read = plan.weight_gradients(write), plan.weight_gradients(read)
    d_start = None if state is None else step.new_empty(state.shape)
    d_skip = step.new_empty(plan.programs, plan.width)
    sums, borders = plan.sums(x), plan.borders(step)
    from_x, from_write, from_read, from_mask, from_d_y, from_d_x = plan.from_first(
        x, write, read, mask, d_y, d_x
    )
    launch(scan_backward, (plan.programs,))(
        from_x, from_write, from_read, tables.of_chunks, tables.over_chunks, start,
        plan.kept_states(x), skip,
        from_mask, from_d_y, d_after, from_d_x, d_write, d_read, d_start, d_skip, sums, borders,
        *plan.shape, *plan.strides(d_x)[1:], *plan.strides(x, write, read, mask), **plan.tile,
    )  # fmt: skip
    if plan.reverse:  # as they were visited; strides that are not known would cost many registers
        d_write, d_read = _reversed_in_time(d_write), _reversed_in_time(d_read)
    d_shared = x.new_empty(0)
    if shared is not None:
        d_shared = torch.empty_like(shared)
        pool(read, d_y, None, mask, d_shared, back=shared, d_weights=d_read, add=True)
    d_step, d_rates = step_gradients(plan, step, rates, sums, borders, d_end is not None)
    d_skip = d_skip.view(-1, plan.heads, plan.slices_of_head * plan.width)
    d_skip, d_rates = sum_parts(d_skip[:0] if skip is None else d_skip, d_rates)
    return (
        d_x,
        d_step,
        d_rates,
        sum_slices(d_write),
        sum_slices(d_read),
        d_shared,
        x.new_empty(0) if skip is None else d_skip.reshape(plan.channels).to(skip.dtype),
        x.new_empty(0) if d_start is None else d_start,
    )


def _reversed_in_time(value: Tensor) -> Tensor:
    """[slice, B, V, T, 2, N] with its times from the last to the first.

    Where it can be, in numbers of 16 bytes: of shorter ones PyTorch moves as many a second.
    """
    rows = value.flatten(4)
    if rows.shape[-1] * value.element_size() % 16 == 0:
        rows = rows.view(torch.complex128)
    return rows.flip(3).view(value.dtype).view_as(value)
