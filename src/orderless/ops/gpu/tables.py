"""How states decay within a chunk of 16 times: tables without a variable axis, shared by all.

Within a chunk the way from time s to time t > s goes over a border between them: the last time
before the highest bit in which s and t differ turns on. Times with that bit set lead from the
border (they read), times without lead to it (they write). No exponent is ever positive, so nothing
overflows, and nothing is divided by a decayed number, so nothing cancels.

A table row belongs to one time of a chunk. The tables, each (e1, evh, e2), are

    0..3    bit 8, 4, 2, 1: from the border to a reading time, from a writing time to the border
    4       from the start of the chunk to a time: all read
    5       from a time to the end of the chunk: all write
    6       the hold of the time's own step: (h, v, vh)

where (e1, e2) = (e_h, e_v) for a reading time and (e_v, e_h) for a writing one.

`tables_bf16` is what the kernels read instead in bfloat16, in the order in which their threads hold
a tile of 16 times and 8 states: of row t % 8 and columns (n % 8) // 2 * 2 + (0, 1) a thread has
times t and t + 8. Its places are

    0..3    as above; for the forward pass a writing time is held as well
    4       from the start of the chunk to a time
    5       the hold: (v, vh, h)
    6       from a time to the end of the chunk: for the backward pass alone
    7       the same, held

and it has (e1, evh) of places 0 to 5, [place, half of the states, thread, 2, 2, 2], then e2 of
these, [place, thread, half of the states, 2, 2], then both of place 6 and both of place 7: so each
pass copies one of these two.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops.gpu.coefficients import exp, exprel, hold, hold_gradient, transition
from orderless.ops.gpu.launch import launch
from orderless.ops.gpu.plan import BF16_TABLES, CHUNK, MOST_STATES, TABLES, Plan, direction

Rates = tuple[Tensor, Tensor, Tensor]  # (h, v, vh), each [H,N]

FEW_PARTS = 8  # sums of parts that a program can take in passing
MANY_PROGRAMS = 128  # that together can take any sum of parts as fast as memory gives it


@triton.jit
def time_of(visited, time, direction):
    """The time at a place in the order of visits, of `time` in all. direction: 1, or -1 for back.

    Known when a kernel runs, not when it is compiled: both directions share what was compiled.
    """
    return tl.where(direction > 0, visited, time - 1 - visited)


@triton.jit
def _within(kind):
    """[kind, t, s]: whether step s belongs to the span of time t in a table, and whether t reads.

    Kinds 6 and 7 are kind 5 once more.
    """
    t = tl.arange(0, 16)[None, :, None]
    s = tl.arange(0, 16)[None, None, :]
    size = tl.where(kind < 4, 8 >> tl.minimum(kind, 3), 16)
    reads = (kind == 4) | ((t & size) != 0)
    return ((t ^ s) < size) & ((s <= t) == reads), reads


@triton.jit
def _steps(step, b, chunk, head, time, step_batch, step_time, direction):
    """The steps of a chunk's times; 0 after the last."""
    at = chunk * 16 + tl.arange(0, 16)
    inside = at < time
    at = time_of(at, time, direction)
    values = tl.load(step + b * step_batch + at * step_time + head, mask=inside, other=0.0)
    return values.to(tl.float32)


@triton.jit
def _rates(h, v, vh, head, STATES: tl.constexpr, PADDED: tl.constexpr):
    n = tl.arange(0, PADDED)
    at = head * STATES + n
    inside = n < STATES
    # Padded states decay like any other, and are never written to.
    return (
        tl.load(h + at, mask=inside, other=-1.0).to(tl.float32)[None, :],
        tl.load(v + at, mask=inside, other=-1.0).to(tl.float32)[None, :],
        tl.load(vh + at, mask=inside, other=0.0).to(tl.float32)[None, :],
    )


@triton.jit
def _by_thread(value):
    """[place, t, n] as [place, half of the states, thread, entry]."""
    value = tl.reshape(
        value, (8, 2, 8, 2, 4, 2)
    )  # half of the times, row, half, column, one of two
    return tl.reshape(tl.permute(value, (0, 3, 2, 4, 1, 5)), (8, 2, 32, 4))


@triton.jit
def _fill_bf16_tables(tables_bf16, e1, evh, e2, held):
    """Each in the order in which it lies in memory: scattered stores take five times as long."""
    kept = tables_bf16.dtype.element_ty
    pairs = tl.join(_by_thread(e1.to(kept)), _by_thread(evh.to(kept)))
    pairs = tl.reshape(tl.permute(pairs, (0, 1, 2, 4, 3)), (8, 512))
    place = tl.arange(0, 8)[:, None]
    needed = (place != 6) | (held == 0)
    line = tl.where(place < 6, 2 * place, 3 * place)
    tl.store(tables_bf16 + line * 256 + tl.arange(0, 512)[None, :], pairs, mask=needed)
    singles = tl.reshape(tl.permute(_by_thread(e2.to(kept)), (0, 2, 1, 3)), (8, 256))
    line = tl.where(place < 6, 12 + place, 3 * place + 2)
    tl.store(tables_bf16 + line * 256 + tl.arange(0, 256)[None, :], singles, mask=needed)


@triton.jit
def _fill_factors(factors, w_h, w_v, kind, reads, e1, evh, e2, phi_h, phi_v, phi_vh):
    """What the write of the field becomes in each table, in the order in which it lies in memory.

    factors [6, 16, 32]: tables 0..3 (zero where a time reads), the held write itself, and table 5.
    A row has (h, v) of states 0..7, then of states 8..15.
    """
    b_h, b_v = phi_h * w_h, phi_v * w_v + phi_vh * w_h
    to_h = tl.where(kind == 4, b_h, b_h * e2)
    to_v = tl.where(kind == 4, b_v, b_v * e1 + b_h * evh)
    leads = (kind > 3) | (reads == 0)
    # Of the eight, 0 to 4 and 6 are needed, which becomes the last.
    needed = (tl.arange(0, 8) < 5) | (tl.arange(0, 8) == 6)
    kept = factors.dtype.element_ty
    both = tl.join(tl.where(leads, to_h, 0.0).to(kept), tl.where(leads, to_v, 0.0).to(kept))
    both = tl.permute(tl.reshape(both, (8, 16, 2, 8, 2)), (0, 1, 2, 4, 3))
    place = tl.minimum(tl.arange(0, 8), 5)[:, None]
    at = place * 512 + tl.arange(0, 512)[None, :]
    tl.store(factors + at, tl.reshape(both, (8, 512)), mask=needed[:, None])


@triton.jit
def _span(step, b, first, last, head, time, step_batch, step_time, direction):
    """The sum of the steps of times first to last - 1."""
    steps = tl.zeros([1024], tl.float32)
    for begin in range(first, last, 1024):
        at = begin + tl.arange(0, 1024).to(tl.int64)
        inside = at < last
        at = time_of(at, time, direction)
        steps += tl.load(step + b * step_batch + at * step_time + head, mask=inside, other=0.0)
    return tl.sum(steps, 0)


@triton.jit
def _fill_over(out, h, v, vh, span, PADDED: tl.constexpr):
    """(e_h, e_vh, e_v) over a span."""
    e_h, e_v, e_vh = transition(h, v, vh, span)
    out += tl.arange(0, PADDED)[None, :]
    tl.store(out, e_h)
    tl.store(out + PADDED, e_vh)
    tl.store(out + 2 * PADDED, e_v)


@triton.jit(do_not_specialize=["time", "heads", "chunks", "per_segment", "direction", "held"])
def fill_tables_kernel(
    step, rate_h, rate_v, rate_vh, field_write, tables, tables_bf16, over_chunks, over_segments,
    factors, time, heads, chunks, per_segment, direction, step_batch, step_time, write_batch,
    write_time, held,
    STATES: tl.constexpr, PADDED: tl.constexpr,
    IS_BF16: tl.constexpr, HAS_SEGMENTS: tl.constexpr, HAS_FIELD: tl.constexpr,
):  # fmt: skip
    """One program per (batch, head, chunk). held: whether writing times in `tables_bf16` are.

    Either `tables_bf16` or `tables`. over_chunks [B, H, chunk, 4, N]: (e_h, e_vh, e_v) over the
    whole chunk, and a row of no use; over_segments [B, H, segment, 3, N]: over whole segments.
    factors [B, H, chunk, 6, 16, 32]: see `_fill_factors`.

    All places of `tables_bf16` are made at once, [place, t, n], for nothing but waiting for one
    after the other would fill the time.
    """
    pid = tl.program_id(0)
    chunk = (pid % chunks).to(tl.int64)
    head = (pid // chunks) % heads
    b = (pid // chunks // heads).to(tl.int64)
    pid = pid.to(tl.int64)
    steps = _steps(step, b, chunk, head, time, step_batch, step_time, direction)
    h, v, vh = _rates(rate_h, rate_v, rate_vh, head, STATES, PADDED)
    _fill_over(over_chunks + pid * (4 * PADDED), h, v, vh, tl.sum(steps, 0), PADDED)
    if HAS_SEGMENTS:  # noqa: SIM102
        if chunk % per_segment == 0:  # known at run time only
            last = tl.minimum((chunk + per_segment) * 16, time)
            span = _span(step, b, chunk * 16, last, head, time, step_batch, step_time, direction)
            segment = (b * heads + head) * tl.cdiv(chunks, per_segment) + chunk // per_segment
            _fill_over(over_segments + segment * (3 * PADDED), h, v, vh, span, PADDED)
    phi_h, phi_v, phi_vh = hold(h, v, vh, steps[:, None])
    phi_h, phi_v, phi_vh = phi_h[None, :, :], phi_v[None, :, :], phi_vh[None, :, :]
    kind = tl.arange(0, 8)[:, None, None]
    within, reads = _within(kind)
    span = tl.sum(tl.where(within, steps[None, None, :], 0.0), 2)[:, :, None]
    e_h, e_v, evh = transition(h[None, :, :], v[None, :, :], vh[None, :, :], span)
    is_hold = kind == 5
    e1 = tl.where(is_hold, phi_v, tl.where(reads, e_h, e_v))
    evh = tl.where(is_hold, phi_vh, evh)
    e2 = tl.where(is_hold, phi_h, tl.where(reads, e_v, e_h))
    if not IS_BF16:
        size: tl.constexpr = 16 * PADDED
        tile = tl.arange(0, 16)[None, :, None] * PADDED + tl.arange(0, PADDED)[None, None, :]
        # The hold comes last, (h, v, vh) in this order.
        place = tl.where(kind < 5, kind, tl.where(is_hold, 6, 5))
        out = tables + pid * (21 * size) + place * (3 * size) + tile
        tl.store(out, tl.where(is_hold, phi_h, e1), mask=kind < 7)
        tl.store(out + size, tl.where(is_hold, phi_v, evh), mask=kind < 7)
        tl.store(out + 2 * size, tl.where(is_hold, phi_vh, e2), mask=kind < 7)
    else:
        plain = reads | is_hold | (kind == 6) | ((held == 0) & (kind < 5))
        _fill_bf16_tables(
            tables_bf16 + pid * 6144,
            tl.where(plain, e1, e1 * phi_v),
            tl.where(plain, evh, e1 * phi_vh + evh * phi_h),
            tl.where(plain, e2, e2 * phi_h),
            held,
        )
    if HAS_FIELD:
        row = tl.arange(0, 16)[None, :, None]
        t = chunk * 16 + row
        inside = t < time
        t = time_of(t, time, direction)
        n = tl.arange(0, PADDED)[None, None, :]
        inside = inside & (n < STATES)
        at = field_write + b * write_batch + t * write_time + n
        w_h = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        w_v = tl.load(at + STATES, mask=inside, other=0.0).to(tl.float32)
        _fill_factors(
            factors + pid * 3072, w_h, w_v, kind, reads, e1, evh, e2, phi_h, phi_v, phi_vh
        )


@triton.jit
def _sum_block(parts, total, count, size, block, BLOCK: tl.constexpr):
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    at_once: tl.constexpr = 16384 // BLOCK
    part = tl.arange(0, at_once)[:, None]
    result = tl.zeros([at_once, BLOCK], tl.float32)
    for first in range(0, count, at_once):
        inside = (first + part < count) & (at < size)
        where = parts + (first + part).to(tl.int64) * size + at
        result += tl.load(where, mask=inside, other=0.0)
    tl.store(total + at, tl.sum(result, 0)[None, :], mask=at < size)


@triton.jit(do_not_specialize=["count", "other_count"])
def sum_parts_kernel(
    parts, total, count, size, other_parts, other_total, other_count, other_size,
    BLOCK: tl.constexpr, OTHER_BLOCK: tl.constexpr,
):  # fmt: skip
    """total = the sum of `count` arrays of `size`, always in the same order; and of others."""
    pid = tl.program_id(0)
    blocks = tl.cdiv(size, BLOCK)
    if pid < blocks:
        _sum_block(parts, total, count, size, pid, BLOCK)
    else:
        _sum_block(other_parts, other_total, other_count, other_size, pid - blocks, OTHER_BLOCK)


@triton.jit
def _one_after_another(decay, value, next_decay, next_value):
    """Two steps of value <- decay value + something as one."""
    return decay * next_decay, value * next_decay + next_value


@triton.jit
def _rows(value, index, PADDED: tl.constexpr):
    """Row index[t] of a value [16, N] for every time t.

    Triton lays out a gather so that a warp has all of a column, and all that is made of it as well:
    so what runs along time goes from lane to lane, without shared memory and barriers.
    """
    value = tl.broadcast_to(value, (16, PADDED))
    return tl.gather(value, index + tl.zeros([16, PADDED], tl.int32), 0)


@triton.jit(do_not_specialize=["time", "heads", "chunks", "direction", "parts", "border_parts"])
def sums_gradient_kernel(
    step, rate_h, rate_v, rate_vh, sums, borders, d_step, d_rates,
    time, heads, chunks, direction, step_batch, step_time, parts, sums_size, border_parts,
    borders_size, HAS_END: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """The gradients of steps and rates, from sums over variables and channels.

    Let g be the gradient of the state h. With u = write x, all that steps and rates need are the
    entries of g[t] h[t-1]' and g[t] u[t]'. The second are among the sums. The first follow from
    what flows past time t: of

        g h' before step t  =  exp(A' step) g[t] h[t-1]'
        g h' after step t   =  g[t] (exp(A step) h[t-1] + hold u[t])'

    the second, less (gradient of read) read', is the first of the next time. So one entry after
    the other is a running sum, which starts anew at every border between chunks, where g h' is
    known. The entry (v, h) is also multiplied by exp((h - v) step) from time to time, so it runs
    in the direction in which that shrinks.

    sums [part, B, H, chunk, 6, 16, N]: (write_h, write_v, write_h) times gradients of held writes
    (h, v, v), then (read_h, read_v, read_v) times gradients of reads (h, v, h). borders [part, B,
    H, chunk + 1, 3, N]: (h, h), (v, v), (v, h) of g h' before each chunk, and after the last if
    HAS_END. d_step [B,T,H]; d_rates [B, chunk, 3, H, N]. One program per (batch, head, chunk).
    """
    pid = tl.program_id(0)
    chunk = (pid % chunks).to(tl.int64)
    head = (pid // chunks) % heads
    b = (pid // chunks // heads).to(tl.int64)
    pid = pid.to(tl.int64)
    steps = _steps(step, b, chunk, head, time, step_batch, step_time, direction)
    h, v, vh = _rates(rate_h, rate_v, rate_vh, head, STATES, PADDED)
    row = tl.arange(0, 16)[:, None]
    size: tl.constexpr = 16 * STATES
    write_hh = tl.zeros([16, PADDED], tl.float32)
    write_vv, write_vh, read_hh, read_vv, read_vh = write_hh, write_hh, write_hh, write_hh, write_hh
    n = tl.arange(0, PADDED)
    inside = n[None, :] < STATES
    at = sums + pid * (6 * size) + row * STATES + n[None, :]
    # (hh, vv, vh) before the chunk and after it, and two rows of no use: of a quarter of the parts.
    border = tl.zeros([4, 8 * PADDED], tl.float32)
    quarter, column = tl.cdiv(border_parts, 4), tl.arange(0, 8 * PADDED)[None, :]
    first = tl.arange(0, 4)[:, None] * quarter
    known = column < tl.where((chunk < chunks - 1) | HAS_END, 6 * PADDED, 3 * PADDED)
    at_border = borders + (pid + b * heads + head) * (3 * STATES)
    if STATES < PADDED:
        known = known & (column % PADDED < STATES)
        column = column // PADDED * STATES + column % PADDED
    of_borders = tl.where(known, tl.minimum(border_parts - first, quarter), 0)
    at_border += first.to(tl.int64) * borders_size + column
    # All in one loop and several parts at once: so loads do not wait for each other.
    for done in range(0, tl.maximum(parts, quarter), 4):
        for part in tl.static_range(4):
            exists = done + part < parts
            if STATES < PADDED:
                exists = exists & inside
            write_hh += tl.load(at, mask=exists, other=0.0)
            write_vv += tl.load(at + size, mask=exists, other=0.0)
            write_vh += tl.load(at + 2 * size, mask=exists, other=0.0)
            read_hh += tl.load(at + 3 * size, mask=exists, other=0.0)
            read_vv += tl.load(at + 4 * size, mask=exists, other=0.0)
            read_vh += tl.load(at + 5 * size, mask=exists, other=0.0)
            at += sums_size
            border += tl.load(at_border, mask=done + part < of_borders, other=0.0)
            at_border += borders_size
    write_hh, read_hh = _rows(write_hh, row, PADDED), _rows(read_hh, row, PADDED)
    write_vv, read_vv = _rows(write_vv, row, PADDED), _rows(read_vv, row, PADDED)
    write_vh, read_vh = _rows(write_vh, row, PADDED), _rows(read_vh, row, PADDED)
    border = tl.broadcast_to(tl.sum(border, 0)[None, :], (2, 8 * PADDED))
    border = tl.reshape(border, (16, PADDED))
    before_hh, after_hh = _rows(border, 0, PADDED), _rows(border, 3, PADDED)
    before_vv, after_vv = _rows(border, 1, PADDED), _rows(border, 4, PADDED)
    before_vh, after_vh = _rows(border, 2, PADDED), _rows(border, 5, PADDED)
    h, v, vh = _rows(h, row, PADDED), _rows(v, row, PADDED), _rows(vh, row, PADDED)
    span = _rows(steps[:, None], row, PADDED)

    phi_h, phi_v, phi_vh = hold(h, v, vh, span)
    flow_hh = phi_h * write_hh - read_hh
    flow_vv = phi_v * write_vv + phi_vh * write_vh - read_vv
    flow_vh = phi_h * write_vh - read_vh

    # The larger of exp(h step) and exp(v step) times the entry (v, h) of g[t] h[t-1]'. Forth it
    # starts from the border before the chunk, back from the one after it.
    goes_forth = h <= v
    gap = -tl.abs(h - v) * span
    decay = exp(gap)
    earlier, later = tl.maximum(row - 1, 0), tl.minimum(row + 1, 15)
    so_far, forth = tl.associative_scan(
        (
            tl.where(row == 0, 1.0, _rows(decay, earlier, PADDED)),
            tl.where(row == 0, before_vh, _rows(flow_vh, earlier, PADDED)),
        ),
        0,
        _one_after_another,
    )
    to_come, back = tl.associative_scan(
        (
            tl.where(row == 15, 1.0, _rows(decay, later, PADDED)),
            tl.where(row == 15, after_vh, 0.0) - flow_vh,
        ),
        0,
        _one_after_another,
        reverse=True,
    )
    # Rounding leaves a rest at the far border, which is spread over the chunk, here and below.
    place = row.to(tl.float32) / 16
    crossing = tl.where(
        goes_forth,
        forth + place * to_come * decay * (after_vh - _rows(decay * forth + flow_vh, 15, PADDED)),
        back + (1 - place) * so_far * decay * (before_vh - _rows(decay * back, 0, PADDED)),
    )

    # exp[h step, v step] and its derivatives, divided by the larger of the exponentials.
    difference, slope = exprel(gap)
    by_x = tl.where(goes_forth, slope, difference - slope)
    by_y = difference - by_x
    moved = vh * span * difference * crossing
    flow_hh -= moved
    so_far = tl.cumsum(flow_hh, 0)
    rest = after_hh - before_hh - _rows(so_far, 15, PADDED)
    kept_h = before_hh + (so_far - flow_hh) - moved + place * rest
    flow_vv += moved
    so_far = tl.cumsum(flow_vv, 0)
    rest = after_vv - before_vv - _rows(so_far, 15, PADDED)
    kept_v = before_vv + (so_far - flow_vv) + place * rest

    d_h, d_v, d_vh, d_span = hold_gradient(h, v, vh, span, write_hh, write_vv, write_vh)
    d_h += span * (kept_h + vh * span * by_x * crossing)
    d_v += span * (kept_v + vh * span * by_y * crossing)
    d_vh += span * difference * crossing
    of_v = tl.where(goes_forth, 1.0, decay)  # exp(v step), divided like the others
    d_span += h * kept_h + v * kept_v + (h * span * difference + of_v) * vh * crossing
    d_span = tl.where(inside, d_span, 0.0)
    t = chunk * 16 + tl.arange(0, 16)
    exists = t < time
    t = time_of(t, time, direction)
    tl.store(d_step + (b * time + t) * heads + head, tl.sum(d_span, 1), mask=exists)
    out = d_rates + ((b * chunks + chunk) * 3 * heads + head) * STATES + n
    tl.store(out, tl.sum(d_h, 0), mask=n < STATES)
    tl.store(out + heads * STATES, tl.sum(d_v, 0), mask=n < STATES)
    tl.store(out + 2 * heads * STATES, tl.sum(d_vh, 0), mask=n < STATES)


class Tables(NamedTuple):
    """Of `fill_tables`."""

    of_chunks: Tensor
    over_chunks: Tensor
    over_segments: Tensor | None
    factors: Tensor | None


def fill_tables(
    plan: Plan,
    step: Tensor,
    rates: Rates,
    low: torch.dtype,
    field_write: Tensor | None = None,
    held: bool = True,
) -> Tables:
    """Tables of all chunks. held: whether writing times in those of bfloat16 are."""
    lines = (plan.batch, plan.heads, plan.chunks)
    over_segments = factors = None
    is_bf16 = low == torch.bfloat16
    size = (BF16_TABLES,) if is_bf16 else (3 * TABLES, CHUNK, MOST_STATES)
    tables = step.new_empty(*lines, *size, dtype=low)
    over_chunks = step.new_empty(*lines, 4, MOST_STATES)
    if plan.segments > 1:
        over_segments = step.new_empty(*lines[:2], plan.segments, 3, MOST_STATES)
    if field_write is not None:
        field_write = field_write.flatten(2)
        factors = step.new_empty(*lines, 6, CHUNK, 32, dtype=low)
    launch(fill_tables_kernel, (plan.batch * plan.heads * plan.chunks,))(
        step, *rates, field_write, None if is_bf16 else tables, tables if is_bf16 else None,
        over_chunks, over_segments, factors,
        plan.time, plan.heads, plan.chunks, plan.chunks_per_segment, direction(plan.reverse),
        *step.stride()[:2], *((0, 0) if field_write is None else field_write.stride()[:2]),
        int(held), STATES=plan.states, PADDED=MOST_STATES, IS_BF16=is_bf16,
        HAS_SEGMENTS=over_segments is not None, HAS_FIELD=factors is not None, num_warps=4,
    )  # fmt: skip
    return Tables(tables, over_chunks, over_segments, factors)


def step_gradients(
    plan: Plan, step: Tensor, rates: Rates, sums: Tensor, borders: Tensor, has_end: bool
) -> tuple[Tensor, Tensor]:
    """The gradient of steps, and that of rates in parts."""
    programs = plan.batch * plan.heads * plan.chunks
    if len(borders) > FEW_PARTS and programs < MANY_PROGRAMS:
        sums, borders = (total.unsqueeze(0) for total in sum_parts(sums, borders))
    d_step = torch.empty(step.shape, dtype=step.dtype, device=step.device)
    d_rates = step.new_empty(plan.batch * plan.chunks, 3, plan.heads, plan.states)
    launch(sums_gradient_kernel, (programs,))(
        step, *rates, sums, borders, d_step, d_rates, plan.time, plan.heads, plan.chunks,
        direction(plan.reverse), *step.stride()[:2], len(sums), sums[0].numel(), len(borders),
        borders[0].numel(), HAS_END=has_end, STATES=plan.states, PADDED=MOST_STATES,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    return d_step, d_rates


def sum_slices(slices: Tensor) -> Tensor:
    """The sum of what slices of channels left."""
    if len(slices) == 1:
        return slices[0]
    # Two are the rule, and adding is much faster than summing over a leading axis.
    return slices[0] + slices[1] if len(slices) == 2 else slices.sum(0)


def sum_parts(parts: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """One part in place of many, of two arrays at once, by a kernel that fills the device."""
    both = (parts, others)
    totals = [part.new_empty(part.shape[1:], dtype=torch.float32) for part in both]
    # Small sums are cut into more programs, which then load more parts at once.
    blocks = [min(256, max(8, triton.next_power_of_2(total.numel()) // 1024)) for total in totals]
    programs = sum(
        triton.cdiv(total.numel(), block) for total, block in zip(totals, blocks, strict=True)
    )
    arguments = [
        argument
        for part, total in zip(both, totals, strict=True)
        for argument in (part, total, len(part), total.numel())
    ]
    launch(sum_parts_kernel, (programs,))(*arguments, *blocks, num_warps=8)
    return totals[0], totals[1]
