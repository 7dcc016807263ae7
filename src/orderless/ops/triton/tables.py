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

`quick` is what `fast` reads instead in bfloat16, in the order in which its threads hold a tile
of 16 times and 8 states: of row t % 8 and columns (n % 8) // 2 * 2 + (0, 1) a thread has times t
and t + 8. Its places are

    0..3    as above; for the forward pass a writing time is held as well
    4       from the start of the chunk to a time
    5       the hold: (v, vh, h)
    6       from a time to the end of the chunk: for the backward pass alone
    7       the same, held

and it has (e1, evh) of places 0 to 5, [place, half of the states, thread, 2, 2, 2], then e2 of
these, [place, thread, half of the states, 2, 2], then both of place 6 and both of place 7: so each
pass copies one of these two.
"""

import triton
import triton.language as tl

from orderless.ops.triton.order import time_of
from orderless.ops.triton.zero_order_hold import (
    exp,
    exprel,
    hold,
    hold_after,
    hold_gradient,
    transition,
)


@triton.jit
def _steps(step, b, chunk, head, time, step_batch, step_time, towards):
    """The steps of a chunk's times; 0 after the last."""
    at = chunk * 16 + tl.arange(0, 16)
    inside = at < time
    at = time_of(at, time, towards)
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
def _then(one, other):
    """Two transitions (h, v, vh), one after the other; the order does not matter."""
    h, v, vh = one
    other_h, other_v, other_vh = other
    return h * other_h, v * other_v, vh * other_h + v * other_vh


@triton.jit
def _if(condition, one):
    """A transition, or none."""
    h, v, vh = one
    return tl.where(condition, h, 1.0), tl.where(condition, v, 1.0), tl.where(condition, vh, 0.0)


@triton.jit
def _read(one):
    """A transition as a table has it for a reading time: (e1, evh, e2)."""
    h, v, vh = one
    return h, vh, v


@triton.jit
def _written(one, kept):
    """The same for a writing time, which also holds what it writes."""
    h, v, vh = one
    kept_h, kept_v, kept_vh = kept
    return v * kept_v, v * kept_vh + vh * kept_h, h * kept_h


@triton.jit
def _either(reads, one, other):
    """Entries of a table for a reading time or a writing one."""
    return (
        tl.where(reads, one[0], other[0]),
        tl.where(reads, one[1], other[1]),
        tl.where(reads, one[2], other[2]),
    )


@triton.jit
def _of_eight_times(h, v, vh, none, steps, beside, beyond, second_two, second_four):
    """How states move within eight times, for two of them that follow each other.

    steps: of both; beside: the sum of those of the other two of four, beyond: of the other four of
    eight; second_two, second_four: whether these come before. For each of both times transitions
    from the start of the two, four and eight to it, and from it to their end; and over all eight.
    """
    first, second = transition(h, v, vh, steps[0]), transition(h, v, vh, steps[1])
    two, four = transition(h, v, vh, beside), transition(h, v, vh, beyond)
    both = _then(first, second)
    before_two, after_two = _if(second_two, two), _if(second_two == 0, two)
    before_four, after_four = _if(second_four, four), _if(second_four == 0, four)
    from_first, from_both = _then(first, before_two), _then(both, before_two)
    to_first = _then(second, after_two)
    return (
        (
            (first, from_first, _then(from_first, before_four)),
            (second, to_first, _then(to_first, after_four)),
            first,
        ),
        (
            (both, from_both, _then(from_both, before_four)),
            (none, after_two, _then(after_two, after_four)),
            second,
        ),
        _then(_then(both, two), four),
    )


@triton.jit
def _rows_of_tables(h, v, vh, steps, beside, beyond, second_two, second_four, held):
    """Of times 2g, 2g + 1, 2g + 8 and 2g + 9 the rows of all places of `quick`, and of the hold.

    Exponentials are taken of a time's own step and of two sums of steps beside it; all other
    transitions are products of these. Returns [half, one of two][place] and what is over the chunk.
    """
    ones = tl.full(h.shape, 1.0, tl.float32)
    none = (ones, ones, tl.zeros_like(ones))
    one, two, over_first = _of_eight_times(
        h, v, vh, none, steps[0], beside[0], beyond[0], second_two, second_four
    )
    three, four, over_last = _of_eight_times(
        h, v, vh, none, steps[1], beside[1], beyond[1], second_two, second_four
    )
    times = ((one, two), (three, four))
    rows = ()
    for half in tl.static_range(2):
        for i in tl.static_range(2):
            forth, back, own = times[half][i]
            step_h, step_v, step_vh = own
            phi = hold_after(h, v, vh, steps[half][i], step_h, step_v, step_vh)
            kept = (
                tl.where(held, phi[0], 1.0), tl.where(held, phi[1], 1.0),
                tl.where(held, phi[2], 0.0),
            )  # fmt: skip
            if half == 0:
                by_eight = _written(back[2], kept)
                from_start, to_end = forth[2], _then(back[2], over_last)
            else:
                by_eight = _read(forth[2])
                from_start, to_end = _then(forth[2], over_first), back[2]
            by_one = _read(own) if i == 1 else _written(none, kept)
            row = (
                by_eight,
                _either(second_four, _read(forth[1]), _written(back[1], kept)),
                _either(second_two, _read(forth[0]), _written(back[0], kept)),
                by_one,
                _read(from_start),
                (phi[1], phi[2], phi[0]),
                _written(to_end, none),
                _written(to_end, phi),
            )
            rows = rows + (row,)  # noqa: RUF005
    return rows, _then(over_first, over_last)


@triton.jit
def _in_order(values):
    """[thread, state] tensors, as many as a power of two, as [thread, (tensor, state)]."""
    count: tl.constexpr = len(values)
    if count == 1:
        threads: tl.constexpr = values[0].shape[0]
        each: tl.constexpr = values[0].numel // (2 * threads)
        value = tl.permute(tl.reshape(values[0], (threads, 2, each)), (0, 2, 1))
        return tl.reshape(value, (threads, 2 * each))
    else:  # noqa: RET505
        joined = ()
        for i in tl.static_range(count // 2):
            joined = joined + (tl.join(values[i], values[i + count // 2]),)  # noqa: RUF005
        return _in_order(joined)


@triton.jit
def _store_quick(quick, rows, g, pair, exists, held):
    """All places. A thread has 16 bytes that lie together."""
    low = quick.dtype.element_ty
    pairs = ()
    singles = ()
    for place in tl.static_range(8):
        for i in tl.static_range(2):
            for entry in tl.static_range(3):
                both = rows[i][place][entry].to(low), rows[2 + i][place][entry].to(low)
                if entry < 2:
                    pairs = pairs + both
                else:
                    singles = singles + both
    at = quick + (8 * g + pair % 4) * 8
    k = tl.arange(0, 128)[None, :]
    place = k // 16
    line = tl.where(place < 6, 2 * place, 3 * place) * 256
    to = at + pair // 4 * 256 + (line + k // 8 % 2 * 32 + k % 8)
    tl.store(to, _in_order(pairs), mask=exists & ((place != 6) | (held == 0)))
    k = tl.arange(0, 64)[None, :]
    place = k // 8
    line = tl.where(place < 6, 12 + place, 3 * place + 2) * 256
    to = at + pair // 4 * 4 + (line + k // 4 % 2 * 32 + k % 4)
    tl.store(to, _in_order(singles), mask=exists & ((place != 6) | (held == 0)))


@triton.jit
def _store_tables(tables, rows, g, pair, exists, PADDED: tl.constexpr):
    """All tables; the hold comes last, (h, v, vh) in this order."""
    k = tl.arange(0, 64)[None, :]
    table, entry = k // 8, k // 2 % 4
    for row in tl.static_range(4):
        values = ()
        for i in tl.static_range(8):
            for j in tl.static_range(4):
                # What is no table is not stored.
                one = rows[row][i if i < 5 else (6 if i == 5 else 5)]
                values = values + (one[j % 3 if i < 6 else (j + 2) % 3],)  # noqa: RUF005
        to = tables + (row // 2 * 8 + row % 2 + 2 * g) * PADDED + 2 * pair
        to += (3 * table + entry) * (16 * PADDED) + k % 2
        tl.store(to, _in_order(values), mask=exists & (table < 7) & (entry < 3))


@triton.jit
def _factor(places, w_h, w_v, t, place: tl.constexpr, HAS_QUICK: tl.constexpr):
    """(h, v) of a place of `factors`, for a time of a chunk."""
    phi_v, phi_vh, phi_h = places[5]
    b_h, b_v = phi_h * w_h, phi_v * w_v + phi_vh * w_h
    if place == 4:
        return b_h, b_v
    else:  # noqa: RET505
        if HAS_QUICK:  # its tables hold what is written
            b_h, b_v = w_h, w_v
        if place < 4:
            e1, evh, e2 = places[place]
        else:
            e1, evh, e2 = places[7 if HAS_QUICK else 6]
        h, v = b_h * e2, b_v * e1 + b_h * evh
        if place < 4:
            writes = (t & (8 >> place)) == 0
            h, v = tl.where(writes, h, 0.0), tl.where(writes, v, 0.0)
        return h, v


@triton.jit
def _store_factors(
    factors, field_write, rows, first, time, towards, write_time, g, pair, exists,
    STATES: tl.constexpr, HAS_QUICK: tl.constexpr,
):  # fmt: skip
    """What the write of the field becomes in each table, in the order in which it lies in memory.

    factors [6, 16, 32]: tables 0..3 (zero where a time reads), the held write itself, and table 5.
    A row has (h, v) of states 0..7, then of states 8..15.
    """
    low = factors.dtype.element_ty
    n = 2 * pair + tl.arange(0, 2)[None, :]
    k = tl.arange(0, 32)[None, :]
    for row in tl.static_range(4):
        t = row // 2 * 8 + row % 2 + 2 * g
        inside = (first + t < time) & (n < STATES)
        at = field_write + time_of(first + t, time, towards) * write_time + n
        w_h = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        w_v = tl.load(at + STATES, mask=inside, other=0.0).to(tl.float32)
        values = ()
        for place in tl.static_range(8):
            h, v = _factor(rows[row], w_h, w_v, t, place, HAS_QUICK)
            values = values + (h.to(low), v.to(low))  # noqa: RUF005
        to = factors + t * 32 + pair // 4 * 16 + pair % 4 * 2
        to += k // 4 * 512 + k // 2 % 2 * 8 + k % 2
        tl.store(to, _in_order(values), mask=exists & (k < 24))


@triton.jit
def _span(step, first, last, time, step_time, towards):
    """The sum of the steps of times first to last - 1."""
    steps = tl.zeros([1024], tl.float32)
    for begin in range(first, last, 1024):
        at = begin + tl.arange(0, 1024).to(tl.int64)
        inside = at < last
        at = time_of(at, time, towards)
        steps += tl.load(step + at * step_time, mask=inside, other=0.0)
    return tl.sum(steps, 0)


@triton.jit
def _fill_over(out, h, v, vh, span, PADDED: tl.constexpr):
    """(e_h, e_vh, e_v) over a span."""
    e_h, e_v, e_vh = transition(h, v, vh, span)
    out += tl.arange(0, PADDED)[None, :]
    tl.store(out, e_h)
    tl.store(out + PADDED, e_vh)
    tl.store(out + 2 * PADDED, e_v)


@triton.jit
def _sum(values):
    """Of [threads, 2, 2] or [threads, 2]."""
    one, other = tl.split(values)
    if len(values.shape) == 2:
        return one + other
    else:  # noqa: RET505
        return _sum(one + other)


@triton.jit
def _steps_beside(steps):
    """[threads, (one of two, beside, beyond)] as the steps of both, and sums of those beside."""
    near, far = tl.split(tl.reshape(steps, (steps.shape[0], 2, 2, 2)))
    own, other = tl.split(near)
    one, two = tl.split(own)
    return (one[:, None], two[:, None]), _sum(other)[:, None], _sum(far)[:, None]


@triton.jit
def _fill_chunks(
    step, rate_h, rate_v, rate_vh, field_write, tables, quick, over_chunks, factors,
    first_chunk, chunks, time, towards, step_time, write_time, held,
    LINES: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_QUICK: tl.constexpr, HAS_FIELD: tl.constexpr,
):  # fmt: skip
    """A warp has a chunk, and a thread four times and two states of it: see `_rows_of_tables`."""
    thread = tl.arange(0, LINES * 2 * PADDED)[:, None]
    pair, g = thread % (PADDED // 2), thread // (PADDED // 2) % 4
    chunk = (first_chunk + thread // (2 * PADDED)).to(tl.int64)
    exists = chunk < chunks
    first = chunk * 16
    # Half of the chunk, the other four of eight, the other two of four, one of both.
    k = tl.arange(0, 16)[None, :]
    t = first + (8 * (k & 1) + (2 * g ^ (2 * (k & 2) + (k & 4) // 2)) + k // 8)
    at = time_of(t, time, towards)
    steps = tl.load(step + at * step_time, mask=t < time, other=0.0).to(tl.float32)
    early, late = tl.split(tl.reshape(steps, (LINES * 2 * PADDED, 8, 2)))
    early, beside, beyond = _steps_beside(early)
    late, late_beside, late_beyond = _steps_beside(late)
    n = 2 * pair + tl.arange(0, 2)[None, :]
    # Padded states decay like any other, and are never written to.
    h = tl.load(rate_h + n, mask=n < STATES, other=-1.0).to(tl.float32)
    v = tl.load(rate_v + n, mask=n < STATES, other=-1.0).to(tl.float32)
    vh = tl.load(rate_vh + n, mask=n < STATES, other=0.0).to(tl.float32)
    rows, over = _rows_of_tables(
        h, v, vh, (early, late), (beside, late_beside), (beyond, late_beyond),
        (g & 1) != 0, (g & 2) != 0, (held != 0) & HAS_QUICK,
    )  # fmt: skip
    k = tl.arange(0, 8)[None, :]
    to = over_chunks + chunk * (4 * PADDED) + 2 * pair + (k // 2 * PADDED + k % 2)
    over_h, over_v, over_vh = over
    tl.store(to, _in_order((over_h, over_vh, over_v, over_v)), mask=exists & (g == 0))
    if HAS_QUICK:
        _store_quick(quick + chunk * 6144, rows, g, pair, exists, held)
    else:
        _store_tables(tables + chunk * (21 * 16 * PADDED), rows, g, pair, exists, PADDED)
    if HAS_FIELD:
        _store_factors(
            factors + chunk * 3072, field_write, rows, first, time, towards, write_time,
            g, pair, exists, STATES, HAS_QUICK,
        )  # fmt: skip


@triton.jit(
    do_not_specialize=["time", "heads", "chunks", "segments", "per_segment", "towards", "held"]
)
def fill_tables(
    step, rate_h, rate_v, rate_vh, field_write, tables, quick, over_chunks, over_segments, factors,
    time, heads, chunks, segments, per_segment, towards, step_batch, step_time, write_batch,
    write_time, held,
    LINES: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_QUICK: tl.constexpr, HAS_FIELD: tl.constexpr,
):  # fmt: skip
    """One program per (batch, head, LINES chunks), and one per (batch, head, segment of time).

    held: whether writing times in `quick` are. Either `quick` or `tables`. over_chunks
    [B, H, chunk, 4, N]: (e_h, e_vh, e_v) over the whole chunk, and a row of no use; over_segments
    [B, H, segment, 3, N]: over whole segments of time. factors [B, H, chunk, 6, 16, 32]: see
    `_store_factors`; like `quick` for up to 16 states.
    """
    blocks = tl.cdiv(chunks, LINES)
    pid = tl.program_id(0)
    line, block = pid // (blocks + segments), pid % (blocks + segments)
    head = line % heads
    b, line = (line // heads).to(tl.int64), line.to(tl.int64)
    step += b * step_batch + head
    rate_h += head * STATES
    rate_v += head * STATES
    rate_vh += head * STATES
    if block < blocks:
        if HAS_QUICK:
            quick += line * chunks * 6144
        else:
            tables += line * chunks * (21 * 16 * PADDED)
        if HAS_FIELD:
            field_write += b * write_batch
            factors += line * chunks * 3072
        _fill_chunks(
            step, rate_h, rate_v, rate_vh, field_write, tables, quick,
            over_chunks + line * chunks * (4 * PADDED), factors, block * LINES, chunks, time,
            towards, step_time, write_time, held, LINES, STATES, PADDED, HAS_QUICK, HAS_FIELD,
        )  # fmt: skip
    elif over_segments is not None:
        segment = block - blocks
        first = segment * per_segment * 16
        last = tl.minimum(first + per_segment * 16, time)
        h, v, vh = _rates(rate_h, rate_v, rate_vh, 0, STATES, PADDED)
        span = _span(step, first, last, time, step_time, towards)
        out = over_segments + (line * segments + segment) * (3 * PADDED)
        _fill_over(out, h, v, vh, span, PADDED)


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
def sum_parts(
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


@triton.jit(do_not_specialize=["time", "heads", "chunks", "towards", "parts", "border_parts"])
def sums_gradient(
    step, rate_h, rate_v, rate_vh, sums, borders, d_step, d_rates,
    time, heads, chunks, towards, step_batch, step_time, parts, sums_size, border_parts,
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
    steps = _steps(step, b, chunk, head, time, step_batch, step_time, towards)
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
    t = time_of(t, time, towards)
    tl.store(d_step + (b * time + t) * heads + head, tl.sum(d_span, 1), mask=exists)
    out = d_rates + ((b * chunks + chunk) * 3 * heads + head) * STATES + n
    tl.store(out, tl.sum(d_h, 0), mask=n < STATES)
    tl.store(out + heads * STATES, tl.sum(d_v, 0), mask=n < STATES)
    tl.store(out + 2 * heads * STATES, tl.sum(d_vh, 0), mask=n < STATES)
