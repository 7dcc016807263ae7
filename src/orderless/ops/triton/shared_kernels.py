# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""What all variables share: states without a variable axis, and their way in and out.

    trajectory     z[t] = exp(A step[t]) z[t-1] + hold drive[t], for a drive [B,T,2,N,D] or a field
    readout        y[c,t] = sum over (k, n) of read[c,t,k,n] z[t,k,n]
    pool           z[t,k,n] = sum over c of write[c,t,k,n] x[c,t], the reverse of readout

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

STEP_COLUMNS = 8


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
def _column(d_table, at, inside, parts, part_size, column: tl.constexpr):
    """One column of the gradient of a step table: the sum of what slices of channels left."""
    total = tl.zeros(inside.shape, tl.float32)
    for part in range(parts):
        total += tl.load(d_table + part * part_size + at + column, mask=inside, other=0.0)
    return total


@triton.jit(do_not_specialize=["towards"])
def steps_gradient(
    step, rate_h, rate_v, rate_vh, field_write, d_table, given_step, given_rates,
    d_step, d_rates, d_write,
    time, heads, batch, towards, step_batch, step_time, write_batch, write_time, parts, part_size,
    STATES: tl.constexpr, PADDED: tl.constexpr, TIMES: tl.constexpr, HAS_DRIVE: tl.constexpr,
    HAS_FIELD: tl.constexpr,
):  # fmt: skip
    """From what `trajectory_backward` summed to the gradients of steps, rates and field_write.

    d_step [B,T,H]; d_rates [block of times, B, 3,H,N]; d_write [H, B,T,2,N]. What is given, of
    steps [B,T,H] and rates [3,H,N], is added. One program per (block of times, batch, head).
    """
    pid = tl.program_id(0).to(tl.int64)
    head, b, block = pid % heads, pid // heads % batch, pid // heads // batch
    tick = block * TIMES + tl.arange(0, TIMES)[:, None]
    n = tl.arange(0, PADDED)[None, :]
    inside = (tick < time) & (n < STATES)
    t = time_of(tick, time, towards)
    span = tl.load(step + b * step_batch + t * step_time + head, mask=tick < time, other=0.0)
    span = span.to(tl.float32)
    of_rates = head * STATES + n
    h = tl.load(rate_h + of_rates, mask=n < STATES, other=-1.0)
    v = tl.load(rate_v + of_rates, mask=n < STATES, other=-1.0)
    vh = tl.load(rate_vh + of_rates, mask=n < STATES, other=0.0)
    at = (((b * heads + head) * STATES + n) * time + tick) * 8
    d_h, d_v, d_vh, d_span = transition_gradient(
        h, v, vh, span,
        _column(d_table, at, inside, parts, part_size, 0),
        _column(d_table, at, inside, parts, part_size, 1),
        _column(d_table, at, inside, parts, part_size, 2),
    )  # fmt: skip
    by_h = tl.zeros([TIMES, PADDED], tl.float32)
    by_v, by_vh = by_h, by_h
    if HAS_DRIVE:
        by_h = _column(d_table, at, inside, parts, part_size, 3)
        by_v = _column(d_table, at, inside, parts, part_size, 4)
        by_vh = _column(d_table, at, inside, parts, part_size, 5)
    if HAS_FIELD:
        of_h = _column(d_table, at, inside, parts, part_size, 6)
        of_v = _column(d_table, at, inside, parts, part_size, 7)
        at = field_write + b * write_batch + t * write_time + n
        w_h = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        w_v = tl.load(at + STATES, mask=inside, other=0.0).to(tl.float32)
        by_h, by_v, by_vh = by_h + w_h * of_h, by_v + w_v * of_v, by_vh + w_h * of_v
        phi_h, phi_v, phi_vh = hold(h, v, vh, span)
        at = d_write + ((head * batch + b) * time + t) * (2 * STATES) + n
        tl.store(at, phi_h * of_h + phi_vh * of_v, mask=inside)
        tl.store(at + STATES, phi_v * of_v, mask=inside)
    more_h, more_v, more_vh, more_span = hold_gradient(h, v, vh, span, by_h, by_v, by_vh)
    at = (b * time + t) * heads + head
    total = tl.sum(tl.where(inside, d_span + more_span, 0.0), 1)[:, None]
    if given_step is not None:
        total += tl.load(given_step + at, mask=tick < time, other=0.0)
    tl.store(d_step + at, total, mask=tick < time)
    # For the first program of a head to add.
    first = (pid < heads) & (n < STATES)
    at, size = of_rates, heads * STATES
    out = d_rates + (block * batch + b) * (3 * size)
    h_rate = tl.sum(tl.where(inside, d_h + more_h, 0.0), 0)[None, :]
    v_rate = tl.sum(tl.where(inside, d_v + more_v, 0.0), 0)[None, :]
    vh_rate = tl.sum(tl.where(inside, d_vh + more_vh, 0.0), 0)[None, :]
    if given_rates is not None:
        h_rate += tl.load(given_rates + at, mask=first, other=0.0)
        v_rate += tl.load(given_rates + size + at, mask=first, other=0.0)
        vh_rate += tl.load(given_rates + 2 * size + at, mask=first, other=0.0)
    tl.store(out + at, h_rate, mask=n < STATES)
    tl.store(out + size + at, v_rate, mask=n < STATES)
    tl.store(out + 2 * size + at, vh_rate, mask=n < STATES)


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
           STATES: tl.constexpr, COUNT: tl.constexpr, BEFORE: tl.constexpr = False):  # fmt: skip
    """(h, v) of some steps of [B,T,2,N,D], or BEFORE them; zero for a step at `stop` or after it.

    Nothing is before step 0, the first of its round.
    """
    pairs = ()
    at, size = _first_state(begin, b, n, d, time, channels, towards, STATES)
    if BEFORE:
        at -= size
    for i in tl.static_range(COUNT):
        real = inside & (begin + i < stop)
        if BEFORE and i == 0:
            real = real & (begin > 0)
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
def _fields(field, begin, first, stop, b, d, inside, time, channels, towards,
            HAS_FIELD: tl.constexpr, COUNT: tl.constexpr):  # fmt: skip
    """The field of some steps; zero before `first`, at `stop` and after it."""
    fields = ()
    if HAS_FIELD:
        for i in tl.static_range(COUNT):
            tick = begin + i
            t = time_of(tick, time, towards)
            real = inside & (tick >= first) & (tick < stop)
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
    UNROLL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """z at every time, or with ENDS the state after each segment from zero.

    HAS_OWN: less the trajectory of the drive alone by `own_table`, where the batch entry deviates.
    drive and z [B,T,2,N,D], field [B,T,D] and field_write [B,T,2,N] lie in the order of time; start
    and ends [B, segment, 2, N, D]; over_segments [B, H, segment, 3, PADDED] as in `fill_tables`.
    """
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
    # Rounds to come are on their way to shared memory while one is computed. Registers would not
    # do: few loads are told apart there, and a use waits for others that were made long after.
    # A field of bfloat16 can be too narrow for that way; it is small, and comes from a cache.
    fields = _fields(field, first, first, stop, b, d, inside, time, channels, towards, HAS_FIELD,
                     UNROLL)  # fmt: skip
    for begin in tl.range(first, stop, UNROLL, num_stages=STAGES):
        drives, weights = _load_round(drive, field_write, begin, stop, b, n, d, inside, time,
                                      channels, write_batch, write_time, towards, STATES, HAS_DRIVE,
                                      HAS_FIELD, UNROLL)  # fmt: skip
        table_rows = _rows(table, line, begin, UNROLL)
        if HAS_OWN:
            own_rows = _rows(own_table, line, begin, UNROLL)
        later = _fields(field, begin + UNROLL, first, stop, b, d, inside, time, channels, towards,
                        HAS_FIELD, UNROLL)  # fmt: skip
        at, size = _first_state(begin, b, n, d, time, channels, towards, STATES)
        for i in tl.static_range(UNROLL):
            u_h, u_v, f, w_h, w_v = _driven(drives, weights, fields, i, HAS_DRIVE,
                                            HAS_FIELD)  # fmt: skip
            if HAS_OWN:
                e_h, e_v, e_vh, phi_h, phi_v, phi_vh = _entries(own_rows, i)
                own_s = e_v * own_s + e_vh * own_h + phi_v * u_v + phi_vh * u_h
                own_h = e_h * own_h + phi_h * u_h
            if HAS_FIELD:
                u_h += w_h * f
                u_v += w_v * f
            e_h, e_v, e_vh, phi_h, phi_v, phi_vh = _entries(table_rows, i)
            s = e_v * s + e_vh * h + phi_v * u_v + phi_vh * u_h
            h = e_h * h + phi_h * u_h
            if ENDS:
                over_vh = e_v * over_vh + e_vh * over_h
                over_h = over_h * e_h
                over_v = over_v * e_v
            else:
                real = inside & (begin + i < stop)
                tl.store(z + at, h - share * own_h if HAS_OWN else h, mask=real)
                tl.store(z + at + row, s - share * own_s if HAS_OWN else s, mask=real)
                at += size
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


@triton.jit(do_not_specialize=["towards"])
def trajectory_backward(
    drive, field, field_write, table, start, z, d_z, d_after,
    d_drive, d_field, d_table, d_start,
    write_batch, write_time, rows, time, channels, head_size, segments, per_segment, towards,
    STATES: tl.constexpr, WIDTH: tl.constexpr, HAS_DRIVE: tl.constexpr,
    HAS_FIELD: tl.constexpr, HAS_START: tl.constexpr, HAS_AFTER: tl.constexpr, ENDS: tl.constexpr,
    UNROLL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Gradients of `trajectory`; with ENDS, only the gradient before each segment, from zero.

    d_after [B, segment, 2, N, D]: the gradient of the state after each segment. start [B,2,N,D].
    d_field [N,B,T,D]. d_table [slice, B,H,N,T,8]: sums over channels from which `steps_gradient`
    finds all that has no channels. With (g, u) the gradients of (h, v): g h, u v and u h of the
    state before, then g h, u v and u h of the drive, then g and u times the field.
    """
    b, segment, head, n, d, last, slice_ = _segment(channels, head_size, segments, STATES, WIDTH)
    inside = d < last
    heads = channels // head_size
    slices = tl.cdiv(head_size, WIDTH)
    batch = tl.num_programs(0).to(tl.int64) // slices // STATES // heads // segments
    row = STATES * channels
    state = ((b * segments + segment) * 2 * STATES + n) * channels + d
    g = tl.zeros([WIDTH], tl.float32)
    u = tl.zeros([WIDTH], tl.float32)
    if HAS_AFTER:
        g = tl.load(d_after + state, mask=inside, other=0.0)
        u = tl.load(d_after + state + row, mask=inside, other=0.0)
    line = ((b * heads + head) * STATES + n) * time
    line_of_table = ((b * heads + head) * STATES + n) * rows
    part = slice_ * batch * heads * STATES * time
    at_start = (b * 2 * STATES + n) * channels + d
    first = segment * per_segment
    stop = tl.minimum(first + per_segment, time)
    if HAS_START:
        start_h = tl.load(start + at_start, mask=inside, other=0.0)
        start_s = tl.load(start + at_start + row, mask=inside, other=0.0)
    # Loads as in `trajectory`; steps after the last time are visited first, and do nothing.
    last_round = first + (tl.cdiv(stop - first, UNROLL) - 1) * UNROLL
    fields = ()
    if not ENDS:
        fields = _fields(field, last_round, first, stop, b, d, inside, time, channels, towards,
                         HAS_FIELD, UNROLL)  # fmt: skip
    for visited in tl.range(first, stop, UNROLL, num_stages=STAGES):
        begin = last_round + first - visited
        table_rows = _rows(table, line_of_table, begin, UNROLL)
        backs = _pairs(d_z, begin, stop, b, n, d, inside, time, channels, towards, STATES,
                       UNROLL)  # fmt: skip
        if not ENDS:
            before = _pairs(z, begin, stop, b, n, d, inside, time, channels, towards, STATES,
                            UNROLL, BEFORE=True)  # fmt: skip
            drives, weights = _load_round(drive, field_write, begin, stop, b, n, d, inside, time,
                                          channels, write_batch, write_time, towards, STATES,
                                          HAS_DRIVE, HAS_FIELD, UNROLL)  # fmt: skip
            later = _fields(field, begin - UNROLL, first, stop, b, d, inside, time, channels,
                            towards, HAS_FIELD, UNROLL)  # fmt: skip
        for i in tl.static_range(UNROLL - 1, -1, -1):
            tick = begin + i
            real = tick < stop
            t = time_of(tick, time, towards)
            e_h, e_v, e_vh, phi_h, phi_v, phi_vh = _entries(table_rows, i)
            g += backs[i][0]
            u += backs[i][1]
            if not ENDS:
                h, s = before[i]
                if HAS_START and i == 0:
                    h = tl.where(begin == 0, start_h, h)
                    s = tl.where(begin == 0, start_s, s)
                u_h, u_v, f, w_h, w_v = _driven(drives, weights, fields, i, HAS_DRIVE,
                                                HAS_FIELD)  # fmt: skip
                by_h, by_v = phi_h * g + phi_vh * u, phi_v * u
                out = d_table + (part + line + tick) * 8
                tl.store(out, tl.sum(g * h, 0), mask=real)
                tl.store(out + 1, tl.sum(u * s, 0), mask=real)
                tl.store(out + 2, tl.sum(u * h, 0), mask=real)
                if HAS_DRIVE:
                    at = ((b * time + t) * 2 * STATES + n) * channels + d
                    tl.store(d_drive + at, by_h, mask=inside & real)
                    tl.store(d_drive + at + row, by_v, mask=inside & real)
                    tl.store(out + 3, tl.sum(g * u_h, 0), mask=real)
                    tl.store(out + 4, tl.sum(u * u_v, 0), mask=real)
                    tl.store(out + 5, tl.sum(u * u_h, 0), mask=real)
                if HAS_FIELD:
                    at = ((n * batch + b) * time + t) * channels + d
                    tl.store(d_field + at, w_h * by_h + w_v * by_v, mask=inside & real)
                    tl.store(out + 6, tl.sum(g * f, 0), mask=real)
                    tl.store(out + 7, tl.sum(u * f, 0), mask=real)
            g = e_h * g + e_vh * u
            u = e_v * u
        if not ENDS:
            fields = later
    if ENDS:
        tl.store(d_start + state, g, mask=inside)
        tl.store(d_start + state + row, u, mask=inside)
    else:
        if segment == 0:
            tl.store(d_start + at_start, g, mask=inside)
            tl.store(d_start + at_start + row, u, mask=inside)


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
