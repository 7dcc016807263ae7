# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""What all variables share: states without a variable axis, and their way in and out.

    trajectory     z[t] = exp(A step[t]) z[t-1] + hold drive[t], for a drive [B,T,2,N,D] or a field
    readout        y[c,t] = sum over (k, n) of read[c,t,k,n] z[t,k,n]
    pool           z[t,k,n] = sum over c of write[c,t,k,n] x[c,t], the reverse of readout

`trajectory_gradients` and `steps_gradient` find the gradients of what a trajectory follows;
`carry_segments` goes from segment to segment of time, also for the scan of every variable.

A step table [B,H,N,T,8] holds the entries of exp(A step) and of its integral, each (h, v, vh), for
every time; its last two columns are unused.
"""

import triton
import triton.language as tl

from orderless.ops.triton.order import time_of
from orderless.ops.triton.zero_order_hold import (
    hold,
    hold_gradient,
    transition,
    transition_gradient,
)


@triton.jit
def _rate(h, v, vh, at):
    return tl.load(h + at), tl.load(v + at), tl.load(vh + at)


@triton.jit(do_not_specialize=["towards"])
def fill_steps(
    step, rate_h, rate_v, rate_vh, other_h, other_v, other_vh, table,
    rows, time, heads, batch, towards, step_batch, step_time,
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
    t = time_of(tick, time, towards)
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
def _one(values, at: tl.constexpr):
    """One of the values, [1]: a lane hands it to the others."""
    return tl.gather(values, tl.full([1], at, tl.int32), 0)


@triton.jit
def _entries(rows, i: tl.constexpr):
    """(h, v, vh) of exp(A step) and of its integral, each [1], of step i of some rows."""
    four = rows[i // 4]
    at: tl.constexpr = i % 4 * 8
    return (
        _one(four, at), _one(four, at + 1), _one(four, at + 2),
        _one(four, at + 3), _one(four, at + 4), _one(four, at + 5),
    )  # fmt: skip


@triton.jit
def _first_state(tick, b, n, d, time, channels, towards, STATES: tl.constexpr):
    """Where the state of a step lies in [B,T,2,N,D], and how far that of the next."""
    at = ((b * time + time_of(tick, time, towards)) * 2 * STATES + n) * channels + d
    return at, towards * (2 * STATES * channels)


@triton.jit
def _pairs(source, begin, stop, b, n, d, inside, time, channels, towards,
           STATES: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """(h, v) of some steps of [B,T,2,N,D]; zero for a step at `stop` or after it."""
    pairs = ()
    at, size = _first_state(begin, b, n, d, time, channels, towards, STATES)
    for i in tl.static_range(COUNT):
        real = inside & (begin + i < stop)
        h = tl.load(source + at, mask=real, other=0.0)
        v = tl.load(source + at + STATES * channels, mask=real, other=0.0)
        pairs = pairs + ((h, v),)  # noqa: RUF005
        at += size
    return pairs


@triton.jit
def _weights(field_write, begin, stop, b, n, time, write_batch, write_time, towards,
             STATES: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """Weights (h, v) of the field, each [COUNT]: a lane keeps those of a step."""
    tick = begin + tl.arange(0, COUNT)
    t = time_of(tick, time, towards)
    at = field_write + b * write_batch + t * write_time + n
    real = tick < stop
    return tl.load(at, mask=real, other=0.0), tl.load(at + STATES, mask=real, other=0.0)


@triton.jit
def _fields(field, begin, stop, b, d, inside, time, channels, towards,
            HAS_FIELD: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """The field of some steps; zero for a step at `stop` or after it."""
    fields = ()
    if HAS_FIELD:
        for i in tl.static_range(COUNT):
            tick = begin + i
            t = time_of(tick, time, towards)
            real = inside & (tick < stop)
            at = field + (b * time + t) * channels + d
            fields = fields + (tl.load(at, mask=real, other=0.0),)  # noqa: RUF005
    return fields


@triton.jit
def _load_round(drive, field_write, begin, stop, b, n, d, inside, time, channels, write_batch,
                write_time, towards, STATES: tl.constexpr, HAS_DRIVE: tl.constexpr,
                HAS_FIELD: tl.constexpr, UNROLL: tl.constexpr):  # fmt: skip
    """Drives of some steps, and weights of the field."""
    drives, weights = (), ()
    if HAS_DRIVE:
        drives = _pairs(drive, begin, stop, b, n, d, inside, time, channels, towards, STATES,
                        UNROLL)  # fmt: skip
    if HAS_FIELD:
        weights = _weights(field_write, begin, stop, b, n, time, write_batch, write_time, towards,
                           STATES, UNROLL)  # fmt: skip
    return drives, weights


@triton.jit
def _driven(drives, weights, fields, i: tl.constexpr, HAS_DRIVE: tl.constexpr,
            HAS_FIELD: tl.constexpr):  # fmt: skip
    """The drive of step i as it was given, and what the field adds: the field, its weights."""
    u_h, u_v, f, w_h, w_v = 0.0, 0.0, 0.0, 0.0, 0.0
    if HAS_DRIVE:
        u_h, u_v = drives[i]
    if HAS_FIELD:
        f = fields[i].to(tl.float32)
        w_h = _one(weights[0], i).to(tl.float32)
        w_v = _one(weights[1], i).to(tl.float32)
    return u_h, u_v, f, w_h, w_v


@triton.jit(do_not_specialize=["towards"])
def trajectory(
    drive, field, field_write, table, own_table, deviates, start, z, ends, over_segments,
    write_batch, write_time, rows, time, channels, head_size, segments, per_segment, towards,
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
    TURN: tl.constexpr = -1 if ADJOINT else 1
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
    fields = _fields(field, first, stop, b, d, inside, time, channels, towards, HAS_FIELD,
                     UNROLL)  # fmt: skip
    for visited in tl.range(first, stop, UNROLL, num_stages=STAGES):
        # Steps after the last time do nothing, also where they come first.
        begin = last_round + first - visited if ADJOINT else visited
        drives, weights = _load_round(drive, field_write, begin, stop, b, n, d, inside, time,
                                      channels, write_batch, write_time, towards, STATES, HAS_DRIVE,
                                      HAS_FIELD, UNROLL)  # fmt: skip
        table_rows = _rows(table, line, begin, UNROLL)
        if HAS_OWN:
            own_rows = _rows(own_table, line, begin, UNROLL)
        later = _fields(field, begin + UNROLL, stop, b, d, inside, time, channels, towards,
                        HAS_FIELD, UNROLL)  # fmt: skip
        at, size = _first_state(begin, b, n, d, time, channels, towards, STATES)
        for i in tl.static_range(FIRST, LAST + TURN, TURN):
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


@triton.jit(do_not_specialize=["towards"])
def trajectory_gradients(
    drive, field, field_write, table, start, z, back, d_drive, d_field, sums,
    write_batch, write_time, rows, time, channels, head_size, towards,
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
    tick = time_of(t, time, towards)
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
        h, v = _state(z, at - towards * (2 * row), inside & (tick > 0), row)
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
            b = _one(keep_b, i) * b + _one(a_to_b, i) * a + own_b
            a = _one(keep_a, i) * a + own_a


@triton.jit
def _times(pid, blocks, TIMES: tl.constexpr):
    """[TIMES, 1, 1] times of a block."""
    return (pid % blocks) * TIMES + tl.arange(0, TIMES)[:, None, None]


@triton.jit
def readout(
    weights, z, scale, present, y,
    variables, time, channels,
    weights_batch, weights_variable, weights_time,
    present_batch, present_variable, present_time,
    BLOCK: tl.constexpr, TIMES: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
    PADDED: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_PRESENT: tl.constexpr,
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
        if HAS_PRESENT:
            at = b * present_batch + v * present_variable + t * present_time
            keep = keep & (tl.load(present + at, mask=keep, other=0) != 0)
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
def pool(
    weights, x, scale, present, z, back, d_weights,
    variables, time, channels,
    weights_batch, weights_variable, weights_time,
    x_batch, x_variable, x_time,
    present_batch, present_variable, present_time,
    BLOCK: tl.constexpr, TIMES: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
    PADDED: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_PRESENT: tl.constexpr,
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
        if HAS_PRESENT:
            at = b * present_batch + v * present_variable + t * present_time
            keep = keep & (tl.load(present + at, mask=keep, other=0) != 0)
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
