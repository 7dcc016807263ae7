# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""What all variables share, host and kernels: states without a variable axis, their way in and out.

    trajectory     z[t] = exp(A step[t]) z[t-1] + hold drive[t], for a drive [B,T,2,N,D] or a field
    readout        y[c,t] = sum over (k, n) of read[c,t,k,n] z[t,k,n]
    pool           z[t,k,n] = sum over c of write[c,t,k,n] x[c,t], the reverse of readout

`trajectory_gradients` and `steps_gradient` find the gradients of what a trajectory follows;
`carry_segments` goes from segment to segment of time, also for the scan of every variable.

A step table [B,H,N,T,8] holds the entries of exp(A step) and of its integral, each (h, v, vh), for
every time; its last two columns are unused.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops.gpu.coefficients import hold, hold_gradient, transition, transition_gradient
from orderless.ops.gpu.launch import launch
from orderless.ops.gpu.plan import (
    CHUNK,
    MOST_STATES,
    STEP_COLUMNS,
    UNROLL,
    Path,
    direction,
    plan_path,
    rows_contiguous,
    strides,
)
from orderless.ops.gpu.tables import Rates, sum_parts, sum_slices, time_of

STAGES = 4  # of a trajectory's rounds: while one is computed, others are loaded
SEGMENTS_AT_ONCE = 32  # whose states a warp loads at once


@triton.jit
def _rate(h, v, vh, at):
    return tl.load(h + at), tl.load(v + at), tl.load(vh + at)


@triton.jit(do_not_specialize=["direction"])
def fill_steps(
    step, rate_h, rate_v, rate_vh, other_h, other_v, other_vh, table,
    rows, time, heads, batch, direction, step_batch, step_time,
    STATES: tl.constexpr, TIMES: tl.constexpr, HAS_OTHER: tl.constexpr,
):  # fmt: skip
    """One program per (batch, head, state, block of rows); after them, those of other rates.

    There are more rows than times: a step after the last has no length, and does nothing.
    """
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(rows, TIMES)
    outer = pid // blocks
    n, head, b = outer % STATES, (outer // STATES) % heads, outer // STATES // heads
    is_other = b >= batch
    b = b % batch
    tick = (pid % blocks) * TIMES + tl.arange(0, TIMES)
    inside = tick < rows
    t = time_of(tick, time, direction)
    span = tl.load(step + b * step_batch + t * step_time + head, mask=tick < time, other=0.0)
    span = span.to(tl.float32)
    h, v, vh = _rate(rate_h, rate_v, rate_vh, head * STATES + n)
    if HAS_OTHER:  # noqa: SIM102
        if is_other:
            h, v, vh = _rate(other_h, other_v, other_vh, head * STATES + n)
    e_h, e_v, e_vh = transition(h, v, vh, span)
    phi_h, phi_v, phi_vh = hold(h, v, vh, span)
    # Side by side before they are stored, in whole lines; two of the eight have no meaning.
    even = tl.join(tl.join(e_h, phi_v), tl.join(e_vh, phi_v))
    odd = tl.join(tl.join(e_v, phi_vh), tl.join(phi_h, phi_vh))
    columns = tl.reshape(tl.join(even, odd), (TIMES, 8))
    out = table + (outer * rows + tick[:, None]) * 8 + tl.arange(0, 8)[None, :]
    tl.store(out, columns, mask=inside[:, None])


@triton.jit
def _segment(channels, head_size, segments, STATES: tl.constexpr, WIDTH: tl.constexpr):
    """Batch entry, segment, head, state, channels, the first beyond the head, slice of channels."""
    pid = tl.program_id(0).to(tl.int64)
    slices, heads = tl.cdiv(head_size, WIDTH), channels // head_size
    slice_, n = pid % slices, (pid // slices) % STATES
    head = (pid // slices // STATES) % heads
    outer = pid // slices // STATES // heads
    d = head * head_size + slice_ * WIDTH + tl.arange(0, WIDTH)
    return outer // segments, outer % segments, head, n, d, (head + 1) * head_size, slice_


@triton.jit
def _rows(table, line, begin, COUNT: tl.constexpr):
    """Rows of a step table, four side by side: a lane of a warp keeps a number of each four.

    They are the same for all channels. A lane that kept all of them would have no registers left
    for what it loads ahead.
    """
    rows = ()
    for i in tl.static_range(COUNT // 4):
        rows = rows + (tl.load(table + (line + begin + 4 * i) * 8 + tl.arange(0, 32)),)  # noqa: RUF005
    return rows


@triton.jit
def _broadcast_lane(values, at: tl.constexpr):
    """One of the values, [1]: a lane hands it to the others."""
    return tl.gather(values, tl.full([1], at, tl.int32), 0)


@triton.jit
def _entries(rows, i: tl.constexpr):
    """(h, v, vh) of exp(A step) and of its integral, each [1], of step i of some rows."""
    four = rows[i // 4]
    at: tl.constexpr = i % 4 * 8
    return (
        _broadcast_lane(four, at), _broadcast_lane(four, at + 1), _broadcast_lane(four, at + 2),
        _broadcast_lane(four, at + 3), _broadcast_lane(four, at + 4), _broadcast_lane(four, at + 5),
    )  # fmt: skip


@triton.jit
def _first_state(tick, b, n, d, time, channels, direction, STATES: tl.constexpr):
    """Where the state of a step lies in [B,T,2,N,D], and how far that of the next."""
    at = ((b * time + time_of(tick, time, direction)) * 2 * STATES + n) * channels + d
    return at, direction * (2 * STATES * channels)


@triton.jit
def _pairs(source, begin, stop, b, n, d, inside, time, channels, direction,
           STATES: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """(h, v) of some steps of [B,T,2,N,D]; zero for a step at `stop` or after it."""
    pairs = ()
    at, size = _first_state(begin, b, n, d, time, channels, direction, STATES)
    for i in tl.static_range(COUNT):
        real = inside & (begin + i < stop)
        h = tl.load(source + at, mask=real, other=0.0)
        v = tl.load(source + at + STATES * channels, mask=real, other=0.0)
        pairs = pairs + ((h, v),)  # noqa: RUF005
        at += size
    return pairs


@triton.jit
def _weights(field_write, begin, stop, b, n, time, write_batch, write_time, direction,
             STATES: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """Weights (h, v) of the field, each [COUNT]: a lane keeps those of a step."""
    tick = begin + tl.arange(0, COUNT)
    t = time_of(tick, time, direction)
    at = field_write + b * write_batch + t * write_time + n
    real = tick < stop
    return tl.load(at, mask=real, other=0.0), tl.load(at + STATES, mask=real, other=0.0)


@triton.jit
def _fields(field, begin, stop, b, d, inside, time, channels, direction,
            HAS_FIELD: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """The field of some steps; zero for a step at `stop` or after it."""
    fields = ()
    if HAS_FIELD:
        for i in tl.static_range(COUNT):
            tick = begin + i
            t = time_of(tick, time, direction)
            real = inside & (tick < stop)
            at = field + (b * time + t) * channels + d
            fields = fields + (tl.load(at, mask=real, other=0.0),)  # noqa: RUF005
    return fields


@triton.jit
def _driven(drives, weights, fields, i: tl.constexpr, HAS_DRIVE: tl.constexpr,
            HAS_FIELD: tl.constexpr):  # fmt: skip
    """The drive of step i as it was given, and what the field adds: the field, its weights."""
    u_h, u_v, f, w_h, w_v = 0.0, 0.0, 0.0, 0.0, 0.0
    if HAS_DRIVE:
        u_h, u_v = drives[i]
    if HAS_FIELD:
        f = fields[i].to(tl.float32)
        w_h = _broadcast_lane(weights[0], i).to(tl.float32)
        w_v = _broadcast_lane(weights[1], i).to(tl.float32)
    return u_h, u_v, f, w_h, w_v


@triton.jit(do_not_specialize=["direction"])
def trajectory(
    drive, field, field_write, table, own_table, deviates, start, z, ends, over_segments,
    write_batch, write_time, rows, time, channels, head_size, segments, per_segment, direction,
    STATES: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, HAS_DRIVE: tl.constexpr,
    HAS_FIELD: tl.constexpr, HAS_START: tl.constexpr, HAS_OWN: tl.constexpr, ENDS: tl.constexpr,
    ADJOINT: tl.constexpr, UNROLL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """z at every time, or with ENDS the state after each segment from zero.

    HAS_OWN: less the trajectory of the drive alone by `own_table`, where the batch entry deviates.
    ADJOINT: from the gradients of z, given as the drive, what comes back to the state at every
    time, going back; with ENDS that before each segment. What comes back to the start is left in
    `ends`.

    drive and z [B,T,2,N,D], field [B,T,D] and field_write [B,T,2,N] lie in the order of time; start
    and ends [B, segment, 2, N, D]; over_segments [B, H, segment, 3, PADDED] as in `fill_tables`.
    """
    FIRST: tl.constexpr = UNROLL - 1 if ADJOINT else 0  # of a round
    LAST: tl.constexpr = UNROLL - 1 - FIRST
    STRIDE: tl.constexpr = -1 if ADJOINT else 1
    b, segment, head, n, d, last, slice_ = _segment(channels, head_size, segments, STATES, WIDTH)
    inside = d < last
    heads = channels // head_size
    state = ((b * segments + segment) * 2 * STATES + n) * channels + d
    row = STATES * channels
    h = tl.zeros([WIDTH], tl.float32)
    s = tl.zeros([WIDTH], tl.float32)
    if HAS_START:
        h = tl.load(start + state, mask=inside, other=0.0)
        s = tl.load(start + state + row, mask=inside, other=0.0)
    own_h, own_s, share = h, s, 1.0
    if deviates is not None:
        share = tl.load(deviates + b)
    line = ((b * heads + head) * STATES + n) * rows
    over_h = tl.full([1], 1.0, tl.float32)
    over_v = tl.full([1], 1.0, tl.float32)
    over_vh = tl.zeros([1], tl.float32)
    first = segment * per_segment
    stop = tl.minimum(first + per_segment, time)
    last_round = first + (tl.cdiv(stop - first, UNROLL) - 1) * UNROLL
    # Rounds to come are on their way to shared memory while one is computed. Registers would not
    # do: few loads are told apart there, and a use waits for others that were made long after.
    # A field of bfloat16 can be too narrow for that way; it is small, and comes from a cache.
    fields = _fields(field, first, stop, b, d, inside, time, channels, direction, HAS_FIELD,
                     UNROLL)  # fmt: skip
    for visited in tl.range(first, stop, UNROLL, num_stages=STAGES):
        # Steps after the last time do nothing, also where they come first.
        begin = last_round + first - visited if ADJOINT else visited
        drives, weights = (), ()
        if HAS_DRIVE:
            drives = _pairs(drive, begin, stop, b, n, d, inside, time, channels, direction, STATES,
                            UNROLL)  # fmt: skip
        if HAS_FIELD:
            weights = _weights(field_write, begin, stop, b, n, time, write_batch, write_time,
                               direction, STATES, UNROLL)  # fmt: skip
        table_rows = _rows(table, line, begin, UNROLL)
        if HAS_OWN:
            own_rows = _rows(own_table, line, begin, UNROLL)
        later = _fields(field, begin + UNROLL, stop, b, d, inside, time, channels, direction,
                        HAS_FIELD, UNROLL)  # fmt: skip
        at, size = _first_state(begin, b, n, d, time, channels, direction, STATES)
        for i in tl.static_range(FIRST, LAST + STRIDE, STRIDE):
            u_h, u_v, f, w_h, w_v = _driven(drives, weights, fields, i, HAS_DRIVE,
                                            HAS_FIELD)  # fmt: skip
            e_h, e_v, e_vh, phi_h, phi_v, phi_vh = _entries(table_rows, i)
            if ADJOINT:
                h, s = h + u_h, s + u_v
            else:
                if HAS_OWN:
                    a_h, a_v, a_vh, held_h, held_v, held_vh = _entries(own_rows, i)
                    own_s = a_v * own_s + a_vh * own_h + held_v * u_v + held_vh * u_h
                    own_h = a_h * own_h + held_h * u_h
                if HAS_FIELD:
                    u_h += w_h * f
                    u_v += w_v * f
                s = e_v * s + e_vh * h + phi_v * u_v + phi_vh * u_h
                h = e_h * h + phi_h * u_h
            if not ENDS:
                real = inside & (begin + i < stop)
                tl.store(z + at + i * size, h - share * own_h if HAS_OWN else h, mask=real)
                tl.store(z + at + i * size + row, s - share * own_s if HAS_OWN else s, mask=real)
            if ADJOINT:
                h, s = e_h * h + e_vh * s, e_v * s
            if ENDS:
                if ADJOINT:
                    over_vh = over_v * e_vh + over_vh * e_h
                else:
                    over_vh = e_v * over_vh + e_vh * over_h
                over_h = over_h * e_h
                over_v = over_v * e_v
        fields = later
    if ENDS:
        tl.store(ends + state, h, mask=inside)
        tl.store(ends + state + row, s, mask=inside)
        if slice_ == 0:
            out = over_segments + ((b * heads + head) * segments + segment) * 3 * PADDED + n
            out += tl.arange(0, 1)  # like the entries of a table
            tl.store(out, over_h)
            tl.store(out + PADDED, over_vh)
            tl.store(out + 2 * PADDED, over_v)
    elif ADJOINT:  # noqa: SIM102
        if segment == 0:
            out = ends + (b * 2 * STATES + n) * channels + d
            tl.store(out, h, mask=inside)
            tl.store(out + row, s, mask=inside)


@triton.jit
def _state(source, at, inside, row):
    """(h, v) of a time of [B,T,2,N,D], each [N, WIDTH]."""
    h = tl.load(source + at, mask=inside, other=0.0)
    return h, tl.load(source + at + row, mask=inside, other=0.0)


@triton.jit(do_not_specialize=["direction"])
def trajectory_gradients(
    drive, field, field_write, table, start, z, back, d_drive, d_field, sums,
    write_batch, write_time, rows, time, channels, head_size, direction,
    STATES: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, HAS_DRIVE: tl.constexpr,
    HAS_FIELD: tl.constexpr, HAS_START: tl.constexpr,
):  # fmt: skip
    """Gradients of what a trajectory z follows, from what comes back to its states at every time.

    d_drive and d_field are like what they are gradients of. sums [B,H,T,8,N] has sums over channels
    for `steps_gradient`. With (g, u) for what comes back to (h, v): g h, u v and u h of the state
    before, then of the drive, then g and u times the field. One program per (batch, time, head).
    """
    pid = tl.program_id(0).to(tl.int64)
    heads = channels // head_size
    head, t, b = pid % heads, pid // heads % time, pid // heads // time
    tick = time_of(t, time, direction)
    row = STATES * channels
    n = tl.arange(0, PADDED)[:, None]
    exists = n < STATES
    entry = table + (((b * heads + head) * STATES + n) * rows + tick) * 8
    phi_h = tl.load(entry + 3, mask=exists, other=0.0)
    phi_v = tl.load(entry + 4, mask=exists, other=0.0)
    phi_vh = tl.load(entry + 5, mask=exists, other=0.0)
    if HAS_FIELD:
        weights = field_write + b * write_batch + t * write_time + n
        w_h = tl.load(weights, mask=exists, other=0.0).to(tl.float32)
        w_v = tl.load(weights + STATES, mask=exists, other=0.0).to(tl.float32)
    zero = tl.zeros([PADDED], tl.float32)
    g_h, u_v, u_h, g_field, u_field = zero, zero, zero, zero, zero
    g_drive, u_drive, u_drive_h = zero, zero, zero
    for slice_ in range(0, head_size, WIDTH):
        p = slice_ + tl.arange(0, WIDTH)[None, :]
        inside = exists & (p < head_size)
        d = head * head_size + p
        at = ((b * time + t) * 2 * STATES + n) * channels + d
        g, u = _state(back, at, inside, row)
        h, v = _state(z, at - direction * (2 * row), inside & (tick > 0), row)
        if HAS_START:
            at_start = (b * 2 * STATES + n) * channels + d
            start_h, start_v = _state(start, at_start, inside & (tick == 0), row)
            h, v = h + start_h, v + start_v
        g_h += tl.sum(g * h, 1)
        u_v += tl.sum(u * v, 1)
        u_h += tl.sum(u * h, 1)
        by_h, by_v = phi_h * g + phi_vh * u, phi_v * u
        if HAS_DRIVE:
            of_h, of_v = _state(drive, at, inside, row)
            g_drive += tl.sum(g * of_h, 1)
            u_drive += tl.sum(u * of_v, 1)
            u_drive_h += tl.sum(u * of_h, 1)
            tl.store(d_drive + at, by_h, mask=inside)
            tl.store(d_drive + at + row, by_v, mask=inside)
        if HAS_FIELD:
            of_field = (b * time + t) * channels + d
            real = p < head_size
            f = tl.load(field + of_field, mask=real, other=0.0).to(tl.float32)
            g_field += tl.sum(g * f, 1)
            u_field += tl.sum(u * f, 1)
            by_field = tl.sum(w_h * by_h + w_v * by_v, 0)[None, :]
            tl.store(d_field + of_field, by_field, mask=real)
    n = tl.arange(0, PADDED)
    exists = n < STATES
    out = sums + ((b * heads + head) * time + t) * (8 * STATES) + n
    tl.store(out, g_h, mask=exists)
    tl.store(out + STATES, u_v, mask=exists)
    tl.store(out + 2 * STATES, u_h, mask=exists)
    if HAS_DRIVE:
        tl.store(out + 3 * STATES, g_drive, mask=exists)
        tl.store(out + 4 * STATES, u_drive, mask=exists)
        tl.store(out + 5 * STATES, u_drive_h, mask=exists)
    if HAS_FIELD:
        tl.store(out + 6 * STATES, g_field, mask=exists)
        tl.store(out + 7 * STATES, u_field, mask=exists)


@triton.jit
def steps_gradient(
    step, rate_h, rate_v, rate_vh, field_write, sums, given_step, given_rates,
    d_step, d_rates, d_write, time, heads, batch, step_batch, step_time, write_batch, write_time,
    STATES: tl.constexpr, PADDED: tl.constexpr, TIMES: tl.constexpr, HAS_DRIVE: tl.constexpr,
    HAS_FIELD: tl.constexpr,
):  # fmt: skip
    """From the sums of `trajectory_gradients` to the gradients of steps, rates and field_write.

    d_step [B,T,H]; d_rates [block of times, B, 3,H,N]; d_write [H, B,T,2,N]. What is given, of
    steps [B,T,H] and rates [3,H,N], is added. One program per (block of times, batch, head).
    """
    pid = tl.program_id(0).to(tl.int64)
    head, b, block = pid % heads, pid // heads % batch, pid // heads // batch
    t = block * TIMES + tl.arange(0, TIMES)[:, None]
    n = tl.arange(0, PADDED)[None, :]
    exists = n < STATES
    inside = (t < time) & exists
    span = tl.load(step + b * step_batch + t * step_time + head, mask=t < time, other=0.0)
    span = span.to(tl.float32)
    of_rates, size = head * STATES + n, heads * STATES
    h = tl.load(rate_h + of_rates, mask=exists, other=-1.0)
    v = tl.load(rate_v + of_rates, mask=exists, other=-1.0)
    vh = tl.load(rate_vh + of_rates, mask=exists, other=0.0)
    sums += ((b * heads + head) * time + t) * (8 * STATES) + n
    g_h = tl.load(sums, mask=inside, other=0.0)
    u_v = tl.load(sums + STATES, mask=inside, other=0.0)
    u_h = tl.load(sums + 2 * STATES, mask=inside, other=0.0)
    d_h, d_v, d_vh, d_span = transition_gradient(h, v, vh, span, g_h, u_v, u_h)
    g_drive = tl.zeros([TIMES, PADDED], tl.float32)
    u_drive, u_drive_h = g_drive, g_drive
    if HAS_DRIVE:
        g_drive = tl.load(sums + 3 * STATES, mask=inside, other=0.0)
        u_drive = tl.load(sums + 4 * STATES, mask=inside, other=0.0)
        u_drive_h = tl.load(sums + 5 * STATES, mask=inside, other=0.0)
    if HAS_FIELD:
        g_field = tl.load(sums + 6 * STATES, mask=inside, other=0.0)
        u_field = tl.load(sums + 7 * STATES, mask=inside, other=0.0)
        weights = field_write + b * write_batch + t * write_time + n
        w_h = tl.load(weights, mask=inside, other=0.0).to(tl.float32)
        w_v = tl.load(weights + STATES, mask=inside, other=0.0).to(tl.float32)
        g_drive += w_h * g_field
        u_drive += w_v * u_field
        u_drive_h += w_h * u_field
        phi_h, phi_v, phi_vh = hold(h, v, vh, span)
        out = d_write + ((head * batch + b) * time + t) * (2 * STATES) + n
        tl.store(out, phi_h * g_field + phi_vh * u_field, mask=inside)
        tl.store(out + STATES, phi_v * u_field, mask=inside)
    held_h, held_v, held_vh, held = hold_gradient(h, v, vh, span, g_drive, u_drive, u_drive_h)
    of_step = (b * time + t) * heads + head
    total = tl.sum(tl.where(inside, d_span + held, 0.0), 1)[:, None]
    if given_step is not None:
        total += tl.load(given_step + of_step, mask=t < time, other=0.0)
    tl.store(d_step + of_step, total, mask=t < time)
    total_h = tl.sum(tl.where(inside, d_h + held_h, 0.0), 0)[None, :]
    total_v = tl.sum(tl.where(inside, d_v + held_v, 0.0), 0)[None, :]
    total_vh = tl.sum(tl.where(inside, d_vh + held_vh, 0.0), 0)[None, :]
    if given_rates is not None:  # for the first program of a head to add
        mine = exists & (pid < heads)
        total_h += tl.load(given_rates + of_rates, mask=mine, other=0.0)
        total_v += tl.load(given_rates + size + of_rates, mask=mine, other=0.0)
        total_vh += tl.load(given_rates + 2 * size + of_rates, mask=mine, other=0.0)
    d_rates += (block * batch + b) * (3 * size) + of_rates
    tl.store(d_rates, total_h, mask=exists)
    tl.store(d_rates + size, total_v, mask=exists)
    tl.store(d_rates + 2 * size, total_vh, mask=exists)


@triton.jit
def carry_segments(
    over_segments, start, ends, before,
    variables, channels, head_size, segments,
    AT_ONCE: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_START: tl.constexpr, ADJOINT: tl.constexpr,
):  # fmt: skip
    """From the state after each segment from zero, the true state before each segment.

    ADJOINT: from the gradient before each, that after each. One program per (batch, variable, head,
    state, WIDTH channels). It loads AT_ONCE segments before it uses the first of them.
    """
    per_head, heads = tl.cdiv(head_size, WIDTH), channels // head_size
    pid = tl.program_id(0).to(tl.int64)
    p = (pid % per_head) * WIDTH + tl.arange(0, WIDTH)
    n = pid // per_head % STATES
    head = pid // per_head // STATES % heads
    outer = pid // per_head // STATES // heads
    inside = p < head_size
    size, line = 2 * STATES * channels, 3 * PADDED
    # The part of a state that moves the other one: h moves v, but for gradients.
    to_a = n * channels + head * head_size + p
    to_b = to_a + STATES * channels
    over_a = over_segments + (outer // variables * heads + head) * segments * line + n
    over_ab = over_a + PADDED
    over_b = over_ab + PADDED
    if ADJOINT:
        to_a, to_b = to_b, to_a
        over_a, over_b = over_b, over_a
    a = tl.zeros([WIDTH], tl.float32)
    b = tl.zeros([WIDTH], tl.float32)
    if HAS_START:
        a = tl.load(start + outer * size + to_a, mask=inside, other=0.0)
        b = tl.load(start + outer * size + to_b, mask=inside, other=0.0)
    for first in range(0, segments, AT_ONCE):
        visited = first + tl.arange(0, AT_ONCE)
        real = visited < segments
        at = (segments - 1 - visited if ADJOINT else visited) * line
        # A lane keeps those of a segment, and hands them to the others.
        keep_a = tl.load(over_a + at, mask=real, other=0.0)
        a_to_b = tl.load(over_ab + at, mask=real, other=0.0)
        keep_b = tl.load(over_b + at, mask=real, other=0.0)
        at = (outer * segments + (segments - 1 - first if ADJOINT else first)) * size
        further = -size if ADJOINT else size
        own = ()
        for i in tl.static_range(AT_ONCE):
            # What is after the last moves nothing.
            real = inside & (first + i < segments - 1)
            own_a = tl.load(ends + at + i * further + to_a, mask=real, other=0.0)
            own_b = tl.load(ends + at + i * further + to_b, mask=real, other=0.0)
            own = own + ((own_a, own_b),)  # noqa: RUF005
        for i in tl.static_range(AT_ONCE):
            real = inside & (first + i < segments)
            tl.store(before + at + i * further + to_a, a, mask=real)
            tl.store(before + at + i * further + to_b, b, mask=real)
            own_a, own_b = own[i]
            b = _broadcast_lane(keep_b, i) * b + _broadcast_lane(a_to_b, i) * a + own_b
            a = _broadcast_lane(keep_a, i) * a + own_a


@triton.jit
def _times(pid, blocks, TIMES: tl.constexpr):
    """[TIMES, 1, 1] times of a block."""
    return (pid % blocks) * TIMES + tl.arange(0, TIMES)[:, None, None]


@triton.jit
def readout_kernel(
    weights, z, scale, mask, y,
    variables, time, channels,
    weights_batch, weights_variable, weights_time,
    mask_batch, mask_variable, mask_time,
    BLOCK: tl.constexpr, TIMES: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
    PADDED: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_MASK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """y [B,V,T,D] = scale sum over (k, n) of weights[c,t,k,n] z[t,k,n,d], with scale [B].

    One program per (batch, block of times, block of channels); it loops over the variables.
    """
    pid = tl.program_id(0).to(tl.int64)
    wide = tl.cdiv(channels, WIDTH)
    blocks = tl.cdiv(time, TIMES)
    d = (pid % wide) * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    t = _times(pid // wide, blocks, TIMES)
    b = pid // wide // blocks
    dtype = y.dtype.element_ty
    row_n = tl.arange(0, PADDED)[None, :, None]
    place = ((b * time + t) * 2 * STATES + row_n) * channels + d
    inside = (t < time) & (row_n < STATES) & (d < channels)
    z_h = tl.load(z + place, mask=inside, other=0.0).to(dtype)
    z_v = tl.load(z + place + STATES * channels, mask=inside, other=0.0).to(dtype)
    n = tl.arange(0, PADDED)[None, None, :]
    for first in range(0, variables, BLOCK):
        v = first + tl.arange(0, BLOCK)[None, :, None]
        real = (v < variables) & (t < time)
        keep = real
        if HAS_MASK:
            at = b * mask_batch + v * mask_variable + t * mask_time
            keep = keep & (tl.load(mask + at, mask=keep, other=0) != 0)
        at = b * weights_batch + v * weights_variable + t * weights_time + n
        keep = keep & (n < STATES)
        c_h = tl.load(weights + at, mask=keep, other=0.0).to(dtype)
        c_v = tl.load(weights + at + STATES, mask=keep, other=0.0).to(dtype)
        out = tl.dot(c_h, z_h, input_precision=PRECISION)
        out += tl.dot(c_v, z_v, input_precision=PRECISION)
        if HAS_SCALE:
            out *= tl.load(scale + b)
        at = ((b * variables + v) * time + t) * channels + d
        tl.store(y + at, out.to(dtype), mask=real & (d < channels))


@triton.jit
def _parts_of(source, row, v, t, n, variables, time, STATES: tl.constexpr):
    """(h, v) of [.., V,T,2,N] for some variables of a row."""
    at = source + ((row * variables + v) * time + t) * 2 * STATES + n
    real = (v < variables) & (t < time) & (n < STATES)
    return tl.load(at, mask=real, other=0.0), tl.load(at + STATES, mask=real, other=0.0)


@triton.jit
def pool_kernel(
    weights, x, scale, mask, z, back, d_weights,
    variables, time, channels,
    weights_batch, weights_variable, weights_time,
    x_batch, x_variable, x_time,
    mask_batch, mask_variable, mask_time,
    BLOCK: tl.constexpr, TIMES: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
    PADDED: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_MASK: tl.constexpr,
    POOL: tl.constexpr, INNER: tl.constexpr, ADD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """POOL: z [B,T,2,N,D] = scale times the sum over c of weights[c,t] x[c,t], with scale [B].

    INNER: d_weights [block of channels, B,V,T,2,N] = scale sum over d of back[t,k,n,d] x[c,t,d];
    ADD, added to what lies there.
    """
    pid = tl.program_id(0).to(tl.int64)
    wide = tl.cdiv(channels, WIDTH)
    blocks = tl.cdiv(time, TIMES)
    slice_ = pid % wide
    d = slice_ * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    t = _times(pid // wide, blocks, TIMES)
    b = pid // wide // blocks
    batch = tl.num_programs(0) // wide // blocks
    dtype = x.dtype.element_ty
    row_n = tl.arange(0, PADDED)[None, :, None]
    place = ((b * time + t) * 2 * STATES + row_n) * channels + d
    inside = (t < time) & (row_n < STATES) & (d < channels)
    if INNER:
        back_h = tl.load(back + place, mask=inside, other=0.0).to(dtype)
        back_v = tl.load(back + place + STATES * channels, mask=inside, other=0.0).to(dtype)
    if POOL:
        z_h = tl.zeros([TIMES, PADDED, WIDTH], tl.float32)
        z_v = tl.zeros([TIMES, PADDED, WIDTH], tl.float32)
    share = 1.0
    if HAS_SCALE:
        share = tl.load(scale + b)
    n = tl.arange(0, PADDED)[None, None, :]
    row = slice_ * batch + b
    if ADD:
        v = tl.arange(0, BLOCK)[None, :, None]
        given_h, given_v = _parts_of(d_weights, row, v, t, n, variables, time, STATES)
    for first in range(0, variables, BLOCK):
        v = first + tl.arange(0, BLOCK)[None, :, None]
        real = (v < variables) & (t < time)
        keep = real
        if HAS_MASK:
            at = b * mask_batch + v * mask_variable + t * mask_time
            keep = keep & (tl.load(mask + at, mask=keep, other=0) != 0)
        at = b * x_batch + v * x_variable + t * x_time + d
        signal = tl.load(x + at, mask=keep & (d < channels), other=0.0)
        if POOL:
            at = b * weights_batch + v * weights_variable + t * weights_time + n
            weighed = keep & (n < STATES)
            c_h = tl.load(weights + at, mask=weighed, other=0.0)
            c_v = tl.load(weights + at + STATES, mask=weighed, other=0.0)
            z_h += tl.dot(tl.permute(c_h, (0, 2, 1)), signal, input_precision=PRECISION)
            z_v += tl.dot(tl.permute(c_v, (0, 2, 1)), signal, input_precision=PRECISION)
        if INNER:
            d_h = tl.dot(signal, tl.permute(back_h, (0, 2, 1)), input_precision=PRECISION)
            d_v = tl.dot(signal, tl.permute(back_v, (0, 2, 1)), input_precision=PRECISION)
            d_h, d_v = share * d_h, share * d_v
            if ADD:  # loaded while the variables before were on
                d_h += given_h
                d_v += given_v
                given_h, given_v = _parts_of(
                    d_weights, row, v + BLOCK, t, n, variables, time, STATES
                )
            at = ((row * variables + v) * time + t) * 2 * STATES + n
            stored = real & (n < STATES)
            kind = d_weights.dtype.element_ty
            tl.store(d_weights + at, d_h.to(kind), mask=stored)
            tl.store(d_weights + at + STATES, d_v.to(kind), mask=stored)
    if POOL:
        tl.store(z + place, share * z_h, mask=inside)
        tl.store(z + place + STATES * channels, share * z_v, mask=inside)


def _tile(x: Tensor, states: int) -> dict[str, int]:
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


def _grid(x: Tensor, tile: dict[str, int]) -> tuple[int]:
    batch, _, time, channels = x.shape
    return (batch * triton.cdiv(time, tile["TIMES"]) * triton.cdiv(channels, tile["WIDTH"]),)


def _precision(x: Tensor) -> str:
    """How products of float32 are made: of parts where the inputs are float32."""
    return "tf32x3" if x.dtype == torch.float32 else "tf32"


def readout(
    weights: Tensor, z: Tensor, scale: Tensor | None, mask: Tensor | None, y: Tensor
) -> None:
    """y = scale weights z, for every variable."""
    tile = _tile(y, weights.shape[-1])
    launch(readout_kernel, _grid(y, tile))(
        weights, z, scale, mask, y, *y.shape[1:], *strides(weights), *strides(mask),
        **tile, HAS_SCALE=scale is not None, HAS_MASK=mask is not None, PRECISION=_precision(y),
    )  # fmt: skip


def pool(
    weights: Tensor,
    x: Tensor,
    scale: Tensor | None,
    mask: Tensor | None,
    z: Tensor | None,
    back: Tensor | None = None,
    d_weights: Tensor | None = None,
    add: bool = False,
) -> None:
    """z, d_weights or both. d_weights has a part for each slice of channels.

    With `add` it is added to what lies there: parts of the scan, of which there are never fewer.
    """
    tile = _tile(x, weights.shape[-1])
    launch(pool_kernel, _grid(x, tile))(
        weights, x, scale, mask, z, back, d_weights, *x.shape[1:],
        *strides(weights), *strides(x), *strides(mask),
        **tile, HAS_SCALE=scale is not None, HAS_MASK=mask is not None,
        POOL=z is not None, INNER=back is not None, ADD=add, PRECISION=_precision(x),
    )  # fmt: skip


def pooled_states(write: Tensor, x: Tensor, share: Tensor, mask: Tensor | None) -> Tensor:
    """The mean input of the states, [B,T,2,N,D] in float32: share [B] times sum of write x."""
    batch, _, time, channels = x.shape
    x, write = rows_contiguous(x), rows_contiguous(write)
    mask = None if mask is None else mask.expand(-1, -1, time)
    z = x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)
    pool(write, x, share, mask, z)
    return z


def pooled_states_back(
    d_z: Tensor, write: Tensor, x: Tensor, share: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of write and x."""
    x, write = rows_contiguous(x), rows_contiguous(write)
    mask = None if mask is None else mask.expand(-1, -1, x.shape[2])
    d_z = d_z.contiguous()
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    readout(write, d_z, share, mask, d_x)
    slices = triton.cdiv(x.shape[-1], _tile(x, write.shape[-1])["WIDTH"])
    d_write = x.new_empty(slices, *write.shape)
    pool(write, x, share, mask, None, back=d_z, d_weights=d_write)
    return sum_slices(d_write), d_x


@dataclass(frozen=True)
class Drive:
    """What drives a trajectory: states given whole, a field with its write, or both."""

    states: Tensor | None
    field: Tensor | None = None
    field_write: Tensor | None = None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All three."""
        return self.states, self.field, self.field_write

    @property
    def strides(self) -> tuple[int, ...]:
        """Of batch and time of the field's write."""
        return (0, 0) if self.field_write is None else self.field_write.stride()[:2]

    @property
    def given(self) -> dict[str, bool]:
        """Switches of the kernels."""
        return {"HAS_DRIVE": self.states is not None, "HAS_FIELD": self.field is not None}


def drive(states: Tensor | None, field: Tensor | None, field_write: Tensor | None) -> Drive:
    """As kernels read it."""
    return Drive(
        None if states is None else states.contiguous(),
        None if field is None else field.contiguous(),
        None if field_write is None else field_write.flatten(2),
    )


def _step_tables(path: Path, step: Tensor, *rates: Rates) -> Tensor:
    """One for each of one or two sets of rates."""
    lines = path.batch * path.heads * path.states
    tables = step.new_empty(len(rates), lines, path.rows, STEP_COLUMNS)
    launch(fill_steps, (len(rates) * lines * triton.cdiv(path.rows, 64),))(
        step, *rates[0], *rates[-1], tables, path.rows, path.time, path.heads, path.batch,
        direction(path.reverse), *step.stride()[:2],
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
    launch(carry_segments, (programs,))(
        over_segments, start, ends, before, variables, channels, channels // heads, segments,
        AT_ONCE=at_once, WIDTH=width, STATES=states, PADDED=padded,
        HAS_START=start is not None, ADJOINT=adjoint, num_warps=1,
    )  # fmt: skip
    return before


def _before_segments(
    path: Path, given: Drive, table: Tensor, start: Tensor | None, adjoint: bool
) -> Tensor | None:
    """The state before every segment; adjoint, what comes back to the state after it."""
    if path.segments == 1:
        return start
    over_segments = table.new_empty(path.batch, path.heads, path.segments, 3, path.padded)
    ends = table.new_empty(path.batch, 1, path.segments, 2, path.states, path.channels)
    launch(trajectory, (path.programs * path.segments,))(
        *given.tensors, table, None, None, None, None, ends, over_segments,
        *given.strides, *path.shape, direction(path.reverse), **path.tile, **given.given,
        PADDED=path.padded, HAS_START=False, HAS_OWN=False, ENDS=True, ADJOINT=adjoint,
        UNROLL=UNROLL, STAGES=STAGES,
    )  # fmt: skip
    return carry(over_segments, start, ends, adjoint)


def _follow(
    path: Path,
    given: Drive,
    table: Tensor,
    before: Tensor | None,
    own_table: Tensor | None = None,
    deviates: Tensor | None = None,
    d_start: Tensor | None = None,
) -> Tensor:
    """The states at every time; less those of the drive alone by `own_table`, if there is one.

    With `d_start`, where to leave it, what comes back to the states from the gradients given.
    """
    z = table.new_empty(path.batch, path.time, 2, path.states, path.channels)
    launch(trajectory, (path.programs * path.segments,))(
        *given.tensors, table, own_table, deviates, before, z, d_start, None,
        *given.strides, *path.shape, direction(path.reverse), **path.tile, **given.given,
        PADDED=path.padded, HAS_START=before is not None, HAS_OWN=own_table is not None, ENDS=False,
        ADJOINT=d_start is not None, UNROLL=UNROLL, STAGES=STAGES,
    )  # fmt: skip
    return z


def _states(path: Path, given: Drive, table: Tensor, start: Tensor | None) -> Tensor:
    return _follow(path, given, table, _before_segments(path, given, table, start, adjoint=False))


class Gradients(NamedTuple):
    """Of what a trajectory follows; empty where that is absent."""

    states: Tensor
    field: Tensor
    field_write: Tensor
    step: Tensor
    rates: Tensor
    start: Tensor


def _follow_back(
    path: Path,
    given: Drive,
    table: Tensor,
    z: Tensor,
    d_z: Tensor,
    step: Tensor,
    rates: Rates,
    start: Tensor | None,
    d_step: Tensor | None = None,
    d_rates: Tensor | None = None,
) -> Gradients:
    """z: the trajectory. d_step and d_rates are added to."""
    of_states = Drive(d_z)
    after = _before_segments(path, of_states, table, None, adjoint=True)
    d_start = table.new_empty(path.batch, 2, path.states, path.channels)
    back = _follow(path, of_states, table, after, d_start=d_start)
    d_drive = table.new_empty(0) if given.states is None else torch.empty_like(given.states)
    d_field, d_write = table.new_empty(0), table.new_empty(0)
    if given.field is not None and given.field_write is not None:
        d_field = torch.empty_like(given.field)
        d_write = given.field_write.new_empty(
            path.heads, path.batch, path.time, 2, path.states,
            dtype=None if path.heads == 1 else torch.float32,
        )  # fmt: skip
    sums = table.new_empty(path.batch, path.heads, path.time, 8, path.states)
    launch(trajectory_gradients, (path.batch * path.time * path.heads,))(
        *given.tensors, table, start, z, back, d_drive, d_field, sums, *given.strides,
        *path.shape[:4], direction(path.reverse), HAS_START=start is not None, PADDED=path.padded,
        **path.tile | {"num_warps": max(1, path.padded // 4)}, **given.given,
    )  # fmt: skip
    blocks = triton.cdiv(path.time, CHUNK)
    new_step = torch.empty(step.shape, dtype=step.dtype, device=step.device)
    part_rates = step.new_empty(blocks * path.batch, 3, path.heads, path.states)
    launch(steps_gradient, (blocks * path.batch * path.heads,))(
        step, *rates, given.field_write, sums, d_step, d_rates, new_step, part_rates, d_write,
        path.time, path.heads, path.batch, *step.stride()[:2], *given.strides,
        STATES=path.states, PADDED=path.padded, TIMES=CHUNK, **given.given, num_warps=4,
    )  # fmt: skip
    _, new_rates = sum_parts(part_rates[:0], part_rates)
    if given.field_write is not None:
        d_write = d_write[0] if path.heads == 1 else d_write.sum(0).to(given.field_write.dtype)
    return Gradients(d_drive, d_field, d_write, new_step, new_rates, d_start)


def response(
    field: Tensor, field_write: Tensor, step: Tensor, rates: Rates, reverse: bool
) -> tuple[Tensor, Tensor]:
    """What a field makes of every state, [B,T,2,N,D] in float32, and the table of its steps."""
    path = plan_path(field.shape[-1], field_write.shape[-1], step, reverse)
    (table,) = _step_tables(path, step, rates)
    return _states(path, drive(None, field, field_write), table, None), table


def response_back(
    d_z: Tensor,
    z: Tensor,
    table: Tensor,
    field: Tensor,
    field_write: Tensor,
    step: Tensor,
    rates: Rates,
    d_step: Tensor,
    d_rates: Tensor,
    reverse: bool,
) -> Gradients:
    """Gradients of a response; those of steps and rates are added to."""
    path = plan_path(field.shape[-1], field_write.shape[-1], step, reverse)
    given = drive(None, field, field_write)
    return _follow_back(
        path, given, table, z, d_z.contiguous(), step, rates, None, d_step, d_rates
    )  # fmt: skip


def _where_deviating(value: Tensor, deviates: Tensor | None) -> Tensor:
    return value if deviates is None else value * deviates.view(-1, 1, 1, 1, 1)


def mean_states(
    given: Drive,
    step: Tensor,
    mean_rates: Rates,
    rates: Rates,
    start: Tensor | None,
    deviates: Tensor | None,
    reverse: bool,
) -> Tensor:
    """Under feedback, what is the same in all states, [B,T,2,N,D]; see `autograd.mean_mode`."""
    assert given.states is not None
    path = plan_path(given.states.shape[-1], given.states.shape[-2], step, reverse)
    start = None if start is None else start.contiguous()
    table, own_table = _step_tables(path, step, mean_rates, rates)
    if path.segments == 1:
        return _follow(path, given, table, start, own_table, deviates)
    mean = _states(path, given, table, start)
    own = _states(path, Drive(given.states), own_table, start)
    return mean.sub_(_where_deviating(own, deviates))


def mean_states_back(
    d_z: Tensor,
    given: Drive,
    step: Tensor,
    mean_rates: Rates,
    rates: Rates,
    start: Tensor | None,
    deviates: Tensor | None,
    reverse: bool,
) -> tuple[Gradients, Gradients]:
    """Gradients by way of the mean's trajectory, and of that of the drive alone.

    Those of the step by both are in the second.
    """
    assert given.states is not None
    path = plan_path(given.states.shape[-1], given.states.shape[-2], step, reverse)
    d_z = d_z.contiguous()
    start = None if start is None else start.contiguous()
    table, own_table = _step_tables(path, step, mean_rates, rates)
    z = _states(path, given, table, start)
    mean = _follow_back(path, given, table, z, d_z, step, mean_rates, start)
    alone = Drive(given.states)
    z = _states(path, alone, own_table, start)
    d_z = -_where_deviating(d_z, deviates)
    own = _follow_back(path, alone, own_table, z, d_z, step, rates, start, mean.step)
    return mean, own
