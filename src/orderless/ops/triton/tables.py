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
"""

import triton
import triton.language as tl

from orderless.ops.triton.zero_order_hold import (
    hold,
    hold_gradient,
    transition,
    transition_gradient,
)

CHUNK = 16
TABLES = 7


@triton.jit
def _within(kind: tl.constexpr):
    """[t, s]: whether step s belongs to the span of time t in a table, and whether t reads."""
    t = tl.arange(0, 16)[:, None]
    s = tl.arange(0, 16)[None, :]
    if kind == 4:
        return s <= t, t >= 0
    if kind == 5:
        return s > t, t < 0
    size: tl.constexpr = 8 >> kind
    reads = (t & size) != 0
    same = (t // size) == (s // size)
    return same & ((reads & (s <= t)) | ((t & size) == 0) & (s > t)), reads


@triton.jit
def _steps(step, b, chunk, head, time, heads, step_batch, step_time, REVERSE: tl.constexpr):
    at = chunk * 16 + tl.arange(0, 16)
    inside = at < time
    if REVERSE:
        at = time - 1 - at
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
def fill_tables(
    step,
    rate_h,
    rate_v,
    rate_vh,
    tables,
    time,
    heads,
    chunks,
    step_batch,
    step_time,
    STATES: tl.constexpr,
    PADDED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """One program per (batch, head, chunk)."""
    pid = tl.program_id(0).to(tl.int64)
    chunk = pid % chunks
    head = (pid // chunks) % heads
    b = pid // (chunks * heads)
    steps = _steps(step, b, chunk, head, time, heads, step_batch, step_time, REVERSE)
    h, v, vh = _rates(rate_h, rate_v, rate_vh, head, STATES, PADDED)
    rows = tl.arange(0, 16)[:, None]
    tile = rows * PADDED + tl.arange(0, PADDED)[None, :]
    out = tables + pid * (7 * 3 * 16 * PADDED) + tile
    size: tl.constexpr = 16 * PADDED
    for kind in tl.static_range(6):
        within, reads = _within(kind)
        span = tl.sum(tl.where(within, steps[None, :], 0.0), 1)[:, None]
        e_h, e_v, e_vh = transition(h, v, vh, span)
        tl.store(out + (kind * 3) * size, tl.where(reads, e_h, e_v))
        tl.store(out + (kind * 3 + 1) * size, e_vh)
        tl.store(out + (kind * 3 + 2) * size, tl.where(reads, e_v, e_h))
    phi_h, phi_v, phi_vh = hold(h, v, vh, steps[:, None])
    tl.store(out + 18 * size, phi_h)
    tl.store(out + 19 * size, phi_v)
    tl.store(out + 20 * size, phi_vh)


@triton.jit
def tables_gradient(
    step,
    rate_h,
    rate_v,
    rate_vh,
    partial,
    d_step,
    d_rates,
    time,
    heads,
    chunks,
    step_batch,
    step_time,
    parts,
    part_size,
    STATES: tl.constexpr,
    PADDED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Sum the gradients of the tables over parts, and lead them to the steps and the rates.

    One program per (batch, head, chunk). d_step [B,T,H]; d_rates [B, chunk, 3, H, N].
    """
    pid = tl.program_id(0).to(tl.int64)
    chunk = pid % chunks
    head = (pid // chunks) % heads
    b = pid // (chunks * heads)
    steps = _steps(step, b, chunk, head, time, heads, step_batch, step_time, REVERSE)
    h, v, vh = _rates(rate_h, rate_v, rate_vh, head, STATES, PADDED)
    rows = tl.arange(0, 16)[:, None]
    tile = rows * PADDED + tl.arange(0, PADDED)[None, :]
    size: tl.constexpr = 16 * PADDED
    source = partial + pid * (7 * 3 * size) + tile
    d_h = tl.zeros([16, PADDED], tl.float32)
    d_v = tl.zeros([16, PADDED], tl.float32)
    d_vh = tl.zeros([16, PADDED], tl.float32)
    d_steps = tl.zeros([16], tl.float32)
    for kind in tl.static_range(7):
        d_first = tl.zeros([16, PADDED], tl.float32)
        d_coupling = tl.zeros([16, PADDED], tl.float32)
        d_second = tl.zeros([16, PADDED], tl.float32)
        at = source + (kind * 3) * size
        for _ in range(parts):
            d_first += tl.load(at)
            d_coupling += tl.load(at + size)
            d_second += tl.load(at + 2 * size)
            at += part_size
        if kind == 6:
            g_h, g_v, g_vh, g_span = hold_gradient(
                h, v, vh, steps[:, None], d_first, d_coupling, d_second
            )
            d_steps += tl.sum(g_span, 1)
        else:
            within, reads = _within(kind)
            span = tl.sum(tl.where(within, steps[None, :], 0.0), 1)[:, None]
            g_h, g_v, g_vh, g_span = transition_gradient(
                h,
                v,
                vh,
                span,
                tl.where(reads, d_first, d_second),
                tl.where(reads, d_second, d_first),
                d_coupling,
            )
            d_steps += tl.sum(tl.where(within, tl.sum(g_span, 1)[:, None], 0.0), 0)
        d_h += g_h
        d_v += g_v
        d_vh += g_vh
    t = chunk * 16 + tl.arange(0, 16)
    inside = t < time
    if REVERSE:
        t = time - 1 - t
    tl.store(d_step + (b * time + t) * heads + head, d_steps, mask=inside)
    n = tl.arange(0, PADDED)
    out = d_rates + ((b * chunks + chunk) * 3 * heads + head) * STATES + n
    tl.store(out, tl.sum(d_h, 0), mask=n < STATES)
    tl.store(out + heads * STATES, tl.sum(d_v, 0), mask=n < STATES)
    tl.store(out + 2 * heads * STATES, tl.sum(d_vh, 0), mask=n < STATES)
