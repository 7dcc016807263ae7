# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""The scan of every variable on its own: outputs, chunk states, and all gradients.

A program takes a block of variables, one slice of channels of one head, and a run of chunks of 16
times. With the tables of `tables.py`, for one variable and one chunk,

    y = M x + (read from start) state        M[t,s] = read[t] exp(A (S_t - S_s)) hold write[s]
    state = (over the chunk) state + (write to end)^T x

M is put together from four products of 16 x N factors, one for each bit of the time, and its
diagonal. The backward pass rebuilds M, and is complete within a program but for what all variables
share: sums from which `sums_gradient` finds the gradients of steps and rates.

Here and in `fast`, t counts times as they are visited. A scan that goes back is given its tensors
from the last time on, with negative strides: it is the same kernel.
"""

import triton
import triton.language as tl


@triton.jit
def _place(pid, slices, blocks):
    """(segment, batch, block of variables, slice): slices of one block run next to each other."""
    pid = pid.to(tl.int64)
    return pid // slices // blocks, (pid // slices) % blocks, pid % slices


@triton.jit
def _table(tables, kind: tl.constexpr, PADDED: tl.constexpr):
    """(e1, evh, e2), each [1, 16, N], of one table of a chunk."""
    at = tables + kind * 3 * 16 * PADDED
    at += tl.arange(0, 16)[None, :, None] * PADDED + tl.arange(0, PADDED)[None, None, :]
    return tl.load(at), tl.load(at + 16 * PADDED), tl.load(at + 32 * PADDED)


@triton.jit
def _over_chunk(tables, PADDED: tl.constexpr):
    """(e_h, e_vh, e_v) of the whole chunk, each [1, N, 1]: the last row of table 4."""
    at = tables + 12 * 16 * PADDED + 15 * PADDED + tl.arange(0, PADDED)[None, :, None]
    return tl.load(at), tl.load(at + 16 * PADDED), tl.load(at + 32 * PADDED)


@triton.jit
def _decay(first, second, table):
    """A reading pair (h, v) or a writing pair (v, h), led over the spans of a table."""
    e1, evh, e2 = table
    return first * e1 + second * evh, second * e2


@triton.jit
def _turn(tile):
    return tl.permute(tile, (0, 2, 1))


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _weights(weights, rows, keep, STATES: tl.constexpr, PADDED: tl.constexpr):
    """The pair (h, v) of write or read weights, each [variables, 16, N] in their own dtype."""
    n = tl.arange(0, PADDED)[None, None, :]
    if PADDED != STATES:
        keep = keep & (n < STATES)
    at = weights + rows + n
    return tl.load(at, mask=keep, other=0.0), tl.load(at + STATES, mask=keep, other=0.0)


@triton.jit
def _held(write_h, write_v, tables, PADDED: tl.constexpr):
    """What an input adds to the state at its own time: hold times write, in float32."""
    phi_h, phi_v, phi_vh = _table(tables, 6, PADDED)
    write_h, write_v = write_h.to(tl.float32), write_v.to(tl.float32)
    return phi_h * write_h, phi_v * write_v + phi_vh * write_h


@triton.jit
def _bit(kind: tl.constexpr):
    """[1, t, s]: whether a table leads from s to t; and [1, t, 1]: whether t reads in it."""
    size: tl.constexpr = 8 >> kind
    t = tl.arange(0, 16)
    differ = (t[:, None] ^ t[None, :]) // size == 1
    return differ[None, :, :], ((t & size) != 0)[None, :, None]


@triton.jit
def _matrix(b_h, b_v, c_h, c_v, tables, dtype, PADDED: tl.constexpr, PRECISION: tl.constexpr):
    """M with M[t,s] and M[s,t] both holding the response at the later time to the earlier one."""
    matrix = _dot(c_h.to(dtype), _turn(b_h.to(dtype)), PRECISION)
    matrix += _dot(c_v.to(dtype), _turn(b_v.to(dtype)), PRECISION)
    for kind in tl.static_range(4):
        differ, reads = _bit(kind)
        table = _table(tables, kind, PADDED)
        first, second = _decay(tl.where(reads, c_h, b_v), tl.where(reads, c_v, b_h), table)
        first, second = first.to(dtype), second.to(dtype)
        product = _dot(first, _turn(second), PRECISION) + _dot(second, _turn(first), PRECISION)
        matrix = tl.where(differ, product, matrix)
    return matrix


@triton.jit
def _state_at(b, block, segment, slice_, variables, segments, channels, head_size,
              BLOCK: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
              PADDED: tl.constexpr):  # fmt: skip
    """Offsets and mask of the h part in a [B, V, segment, 2, N, D] tensor; v lies N*D further."""
    per_head = tl.cdiv(head_size, WIDTH)
    v = block * BLOCK + tl.arange(0, BLOCK)[:, None, None]
    n = tl.arange(0, PADDED)[None, :, None]
    p = (slice_ % per_head) * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    d = (slice_ // per_head) * head_size + p
    at = ((b * variables + v) * segments + segment) * (2 * STATES * channels) + n * channels + d
    return at, (v < variables) & (n < STATES) & (p < head_size)


@triton.jit
def scan_forward(
    x, write, read, tables, start, base, shared, skip, gate, present, y, end,
    variables, time, channels, head_size, chunks, segments, per_segment, y_variable, y_time,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    gate_batch, gate_variable, gate_time,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_START: tl.constexpr, HAS_BASE: tl.constexpr, HAS_SKIP: tl.constexpr,
    HAS_GATE: tl.constexpr, HAS_PRESENT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y [B,V,T,D], and the state after the last segment. Grid: segment, B, blocks, slices.

    HAS_BASE: what is read of `shared` [B,T,2,N,D], the same for all variables, lies in `base`;
    `shared` is given from the time visited last.
    """
    per_head = tl.cdiv(head_size, WIDTH)
    slices = (channels // head_size) * per_head
    outer, block, slice_ = _place(tl.program_id(0), slices, tl.cdiv(variables, BLOCK))
    batch = tl.num_programs(0) // slices // tl.cdiv(variables, BLOCK) // segments
    b, segment = outer % batch, outer // batch
    head = slice_ // per_head
    dtype = x.dtype.element_ty
    v = block * BLOCK + tl.arange(0, BLOCK)[:, None, None]
    p = (slice_ % per_head) * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    d = head * head_size + p
    tables += ((b * (channels // head_size) + head) * chunks) * (21 * 16 * PADDED)
    if HAS_START:
        corner, inside = _state_at(b, block, segment, slice_, variables, segments, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
        h = tl.load(start + corner, mask=inside, other=0.0)
        s = tl.load(start + corner + STATES * channels, mask=inside, other=0.0)
    else:
        h = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
        s = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
    t_of_s = tl.arange(0, 16)
    lower = (t_of_s[:, None] >= t_of_s[None, :])[None, :, :]
    if HAS_SKIP:
        direct = tl.load(skip + d, mask=p < head_size, other=0.0).to(tl.float32)
    first_chunk = segment * per_segment
    for chunk in range(first_chunk, tl.minimum(first_chunk + per_segment, chunks)):
        here = tables + chunk * (21 * 16 * PADDED)
        t = chunk * 16 + tl.arange(0, 16)[None, :, None]
        keep = (t < time) & (v < variables)
        if HAS_PRESENT:
            at = b * present_batch + v * present_variable + t * present_time
            keep = keep & (tl.load(present + at, mask=keep, other=0) != 0)
        channel = keep & (p < head_size)
        at = b * x_batch + v * x_variable + t * x_time + d
        signal = tl.load(x + at, mask=channel, other=0.0)
        at = b * write_batch + v * write_variable + t * write_time
        w_h, w_v = _weights(write, at, keep, STATES, PADDED)
        at = b * read_batch + v * read_variable + t * read_time
        c_h, c_v = _weights(read, at, keep, STATES, PADDED)
        c_h, c_v = c_h.to(tl.float32), c_v.to(tl.float32)
        b_h, b_v = _held(w_h, w_v, here, PADDED)

        matrix = tl.where(lower, _matrix(b_h, b_v, c_h, c_v, here, dtype, PADDED, PRECISION), 0.0)
        out = _dot(matrix.to(dtype), signal, PRECISION)
        from_h, from_v = _decay(c_h, c_v, _table(here, 4, PADDED))
        out += _dot(from_h.to(dtype), h.to(dtype), PRECISION)
        out += _dot(from_v.to(dtype), s.to(dtype), PRECISION)
        to_v, to_h = _decay(b_v, b_h, _table(here, 5, PADDED))
        e_h, e_vh, e_v = _over_chunk(here, PADDED)
        s = e_v * s + e_vh * h + _dot(_turn(to_v.to(dtype)), signal, PRECISION)
        h = e_h * h + _dot(_turn(to_h.to(dtype)), signal, PRECISION)

        at_y = (b * variables + v) * y_variable + t * y_time + d
        stored = (t < time) & (v < variables) & (p < head_size)
        if HAS_BASE:
            out += tl.load(base + at_y, mask=channel, other=0.0).to(tl.float32)
        if HAS_SKIP:
            out += direct * signal.to(tl.float32)
        if HAS_GATE:
            at = b * gate_batch + v * gate_variable + t * gate_time + d
            opening = tl.load(gate + at, mask=channel, other=0.0).to(tl.float32)
            out = out * (opening / (1.0 + tl.exp(-opening)))
        tl.store(y + at_y, out.to(dtype), mask=stored)
    if segment == segments - 1:
        corner, inside = _state_at(b, block, 0, slice_, variables, 1, channels, head_size,
                                   BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
        if HAS_BASE:
            n = tl.arange(0, PADDED)[None, :, None]
            at = (b * time * 2 * STATES + n) * channels + d
            h += tl.load(shared + at, mask=inside, other=0.0)
            s += tl.load(shared + at + STATES * channels, mask=inside, other=0.0)
        tl.store(end + corner, h, mask=inside)
        tl.store(end + corner + STATES * channels, s, mask=inside)


@triton.jit
def scan_states(
    x, weights, tables, start, present, at_chunks, at_ends,
    variables, time, channels, head_size, chunks, segments, per_segment,
    x_batch, x_variable, x_time,
    weights_batch, weights_variable, weights_time,
    present_batch, present_variable, present_time,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_START: tl.constexpr, HAS_PRESENT: tl.constexpr, ADJOINT: tl.constexpr,
    EVERY_CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """States alone: at borders of chunks, [B,V,chunk + 1,2,N,D], or after segments from zero.

    ADJOINT runs from the last chunk to the first: x is then the gradient of y, the weights are
    `read`, and what comes out are gradients of states before segments. For what is after the last
    segment, or then before the first, there is no program.
    """
    per_head = tl.cdiv(head_size, WIDTH)
    slices = (channels // head_size) * per_head
    outer, block, slice_ = _place(tl.program_id(0), slices, tl.cdiv(variables, BLOCK))
    batch = tl.num_programs(0) // slices // tl.cdiv(variables, BLOCK)
    batch //= segments if EVERY_CHUNK else segments - 1
    b, segment = outer % batch, outer // batch
    if ADJOINT:
        segment += 1
    head = slice_ // per_head
    dtype = x.dtype.element_ty
    v = block * BLOCK + tl.arange(0, BLOCK)[:, None, None]
    p = (slice_ % per_head) * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    d = head * head_size + p
    tables += ((b * (channels // head_size) + head) * chunks) * (21 * 16 * PADDED)
    at_segment, inside = _state_at(b, block, segment, slice_, variables, segments, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
    if HAS_START:
        h = tl.load(start + at_segment, mask=inside, other=0.0)
        s = tl.load(start + at_segment + STATES * channels, mask=inside, other=0.0)
    else:
        h = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
        s = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
    first_chunk = segment * per_segment
    last_chunk = tl.minimum(first_chunk + per_segment, chunks)
    for visited in range(first_chunk, last_chunk):
        chunk = visited
        if ADJOINT:
            chunk = first_chunk + last_chunk - 1 - visited
        here = tables + chunk * (21 * 16 * PADDED)
        if EVERY_CHUNK:
            at, inside = _state_at(b, block, chunk, slice_, variables, chunks + 1, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
            tl.store(at_chunks + at, h.to(dtype), mask=inside)
            tl.store(at_chunks + at + STATES * channels, s.to(dtype), mask=inside)
        t = chunk * 16 + tl.arange(0, 16)[None, :, None]
        keep = (t < time) & (v < variables)
        if HAS_PRESENT:
            at = b * present_batch + v * present_variable + t * present_time
            keep = keep & (tl.load(present + at, mask=keep, other=0) != 0)
        at = b * x_batch + v * x_variable + t * x_time + d
        signal = tl.load(x + at, mask=keep & (p < head_size), other=0.0)
        at = b * weights_batch + v * weights_variable + t * weights_time
        w_h, w_v = _weights(weights, at, keep, STATES, PADDED)
        e_h, e_vh, e_v = _over_chunk(here, PADDED)
        if ADJOINT:
            w_h, w_v = w_h.to(tl.float32), w_v.to(tl.float32)
            to_h, to_v = _decay(w_h, w_v, _table(here, 4, PADDED))
            h = e_h * h + e_vh * s + _dot(_turn(to_h.to(dtype)), signal, PRECISION)
            s = e_v * s + _dot(_turn(to_v.to(dtype)), signal, PRECISION)
        else:
            b_h, b_v = _held(w_h, w_v, here, PADDED)
            to_v, to_h = _decay(b_v, b_h, _table(here, 5, PADDED))
            s = e_v * s + e_vh * h + _dot(_turn(to_v.to(dtype)), signal, PRECISION)
            h = e_h * h + _dot(_turn(to_h.to(dtype)), signal, PRECISION)
    if EVERY_CHUNK:
        if segment == segments - 1:
            at, inside = _state_at(b, block, chunks, slice_, variables, chunks + 1, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
            tl.store(at_chunks + at, h.to(dtype), mask=inside)
            tl.store(at_chunks + at + STATES * channels, s.to(dtype), mask=inside)
    else:
        tl.store(at_ends + at_segment, h, mask=inside)
        tl.store(at_ends + at_segment + STATES * channels, s, mask=inside)


@triton.jit
def _store_sums(partial, kind: tl.constexpr, first, second, third, STATES: tl.constexpr,
                PADDED: tl.constexpr):  # fmt: skip
    """Three sums over the variables of a block, [16, N] each."""
    n = tl.arange(0, PADDED)[None, :]
    at = partial + kind * 16 * STATES + tl.arange(0, 16)[:, None] * STATES + n
    tl.store(at, tl.sum(first, 0), mask=n < STATES)
    tl.store(at + 16 * STATES, tl.sum(second, 0), mask=n < STATES)
    tl.store(at + 32 * STATES, tl.sum(third, 0), mask=n < STATES)


@triton.jit
def _store_border(borders, g, u, h, s, STATES: tl.constexpr, PADDED: tl.constexpr):
    """Gradient times state, (h, h), (v, v) and (v, h), summed over variables and channels."""
    h, s = h.to(tl.float32), s.to(tl.float32)
    n = tl.arange(0, PADDED)
    tl.store(borders + n, tl.sum(tl.sum(g * h, 2), 0), mask=n < STATES)
    tl.store(borders + STATES + n, tl.sum(tl.sum(u * s, 2), 0), mask=n < STATES)
    tl.store(borders + 2 * STATES + n, tl.sum(tl.sum(u * h, 2), 0), mask=n < STATES)


@triton.jit
def _decay_gradient(d_first, d_second, table):
    """Gradients of a pair led over the spans of a table."""
    e1, evh, e2 = table
    return d_first * e1, d_first * evh + d_second * e2


@triton.jit
def scan_backward(
    x, write, read, tables, states, skip, present, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, partial, borders,
    variables, time, channels, head_size, chunks, segments, per_segment, y_variable, y_time,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr, PADDED: tl.constexpr,
    HAS_END: tl.constexpr, HAS_SKIP: tl.constexpr, HAS_PRESENT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """All gradients, from the last chunk of a segment to its first.

    d_y is contiguous. d_write, d_read [slice,B,V,T,2,N] are parts to be summed over slices, their
    times as they are visited. partial and borders, for a block of variables and a slice of a head
    each, are what `sums_gradient` takes; d_skip [program, WIDTH].
    """
    per_head = tl.cdiv(head_size, WIDTH)
    heads = channels // head_size
    slices = heads * per_head
    blocks = tl.cdiv(variables, BLOCK)
    outer, block, slice_ = _place(tl.program_id(0), slices, blocks)
    batch = tl.num_programs(0) // slices // blocks // segments
    b, segment = outer % batch, outer // batch
    head = slice_ // per_head
    dtype = x.dtype.element_ty
    v = block * BLOCK + tl.arange(0, BLOCK)[:, None, None]
    p = (slice_ % per_head) * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    d = head * head_size + p
    tables += ((b * heads + head) * chunks) * (21 * 16 * PADDED)
    part = block * per_head + slice_ % per_head
    partial += ((part * batch + b) * heads + head) * chunks * (6 * 16 * STATES)
    borders += ((part * batch + b) * heads + head) * (chunks + 1) * (3 * STATES)
    at_segment, inside = _state_at(b, block, segment, slice_, variables, segments, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
    if HAS_END:
        g = tl.load(d_end + at_segment, mask=inside, other=0.0)
        u = tl.load(d_end + at_segment + STATES * channels, mask=inside, other=0.0)
        if segment == segments - 1:
            at, inside = _state_at(b, block, chunks, slice_, variables, chunks + 1, channels,
                                   head_size, BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
            h = tl.load(states + at, mask=inside, other=0.0)
            s = tl.load(states + at + STATES * channels, mask=inside, other=0.0)
            _store_border(borders + chunks * (3 * STATES), g, u, h, s, STATES, PADDED)
    else:
        g = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
        u = tl.zeros([BLOCK, PADDED, WIDTH], tl.float32)
    if HAS_SKIP:
        direct = tl.load(skip + d, mask=p < head_size, other=0.0).to(tl.float32)
        d_direct = tl.zeros([WIDTH], tl.float32)
    t_of_s = tl.arange(0, 16)
    lower = (t_of_s[:, None] >= t_of_s[None, :])[None, :, :]
    n = tl.arange(0, PADDED)[None, None, :]
    first_chunk = segment * per_segment
    last_chunk = tl.minimum(first_chunk + per_segment, chunks)
    for visited in range(first_chunk, last_chunk):
        chunk = first_chunk + last_chunk - 1 - visited
        here = tables + chunk * (21 * 16 * PADDED)
        sums = partial + chunk * (6 * 16 * STATES)
        t = chunk * 16 + tl.arange(0, 16)[None, :, None]
        stored = (t < time) & (v < variables)
        keep = stored
        if HAS_PRESENT:
            at = b * present_batch + v * present_variable + t * present_time
            keep = keep & (tl.load(present + at, mask=keep, other=0) != 0)
        channel = keep & (p < head_size)
        row = (b * variables + v) * time + t
        at_y = (b * variables + v) * y_variable + t * y_time + d
        at = b * x_batch + v * x_variable + t * x_time + d
        signal = tl.load(x + at, mask=channel, other=0.0)
        d_out = tl.load(d_y + at_y, mask=channel, other=0.0)
        at = b * write_batch + v * write_variable + t * write_time
        w_h, w_v = _weights(write, at, keep, STATES, PADDED)
        at = b * read_batch + v * read_variable + t * read_time
        c_h, c_v = _weights(read, at, keep, STATES, PADDED)
        c_h, c_v = c_h.to(tl.float32), c_v.to(tl.float32)
        b_h, b_v = _held(w_h, w_v, here, PADDED)

        # Within the chunk: the diagonal, then bit by bit.
        product = d_out.to(tl.float32) * signal.to(tl.float32)
        d_diagonal = tl.sum(product, 2)[:, :, None]
        db_h, db_v = d_diagonal * c_h, d_diagonal * c_v
        dc_h, dc_v = d_diagonal * b_h, d_diagonal * b_v
        d_matrix = tl.where(
            lower,
            _dot(d_out, _turn(signal), PRECISION),
            _dot(signal, _turn(d_out), PRECISION),
        )
        matrix = _dot(b_h.to(dtype), _turn(c_h.to(dtype)), PRECISION)
        matrix += _dot(b_v.to(dtype), _turn(c_v.to(dtype)), PRECISION)
        for kind in tl.static_range(4):
            differ, reads = _bit(kind)
            table = _table(here, kind, PADDED)
            one, two = tl.where(reads, c_h, b_v), tl.where(reads, c_v, b_h)
            first, second = _decay(one, two, table)
            first, second = first.to(dtype), second.to(dtype)
            response = _dot(first, _turn(second), PRECISION)
            response += _dot(second, _turn(first), PRECISION)
            matrix = tl.where(differ, response, matrix)
            d_response = tl.where(differ, d_matrix, 0.0).to(dtype)
            d_first = _dot(d_response, second, PRECISION)
            d_second = _dot(d_response, first, PRECISION)
            d_one, d_two = _decay_gradient(d_first, d_second, table)
            dc_h += tl.where(reads, d_one, 0.0)
            dc_v += tl.where(reads, d_two, 0.0)
            db_v += tl.where(reads, 0.0, d_one)
            db_h += tl.where(reads, 0.0, d_two)
        # `matrix` is symmetric: for the input its later times matter.
        upper = tl.where(_turn(lower), matrix, 0.0).to(dtype)
        d_in = _dot(upper, d_out, PRECISION)

        # From the state before the chunk.
        at, inside = _state_at(b, block, chunk, slice_, variables, chunks + 1, channels, head_size,
                               BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
        h = tl.load(states + at, mask=inside, other=0.0)
        s = tl.load(states + at + STATES * channels, mask=inside, other=0.0)
        e_h, e_vh, e_v = _over_chunk(here, PADDED)
        table = _table(here, 4, PADDED)
        from_h, from_v = _decay(c_h, c_v, table)
        d_first = _dot(d_out, _turn(h), PRECISION)
        d_second = _dot(d_out, _turn(s), PRECISION)
        d_one, d_two = _decay_gradient(d_first, d_second, table)
        dc_h += d_one
        dc_v += d_two

        # To the state after the chunk.
        table = _table(here, 5, PADDED)
        to_v, to_h = _decay(b_v, b_h, table)
        g_low, u_low = g.to(dtype), u.to(dtype)
        d_in += _dot(to_h.to(dtype), g_low, PRECISION) + _dot(to_v.to(dtype), u_low, PRECISION)
        d_first = _dot(signal, _turn(u_low), PRECISION)
        d_second = _dot(signal, _turn(g_low), PRECISION)
        d_one, d_two = _decay_gradient(d_first, d_second, table)
        db_v += d_one
        db_h += d_two
        g = e_h * g + e_vh * u + _dot(_turn(from_h.to(dtype)), d_out, PRECISION)
        u = e_v * u + _dot(_turn(from_v.to(dtype)), d_out, PRECISION)
        _store_border(borders + chunk * (3 * STATES), g, u, h, s, STATES, PADDED)

        # What all variables share: steps and rates, by way of these sums.
        phi_h, phi_v, phi_vh = _table(here, 6, PADDED)
        w_h, w_v = w_h.to(tl.float32), w_v.to(tl.float32)
        _store_sums(sums, 0, w_h * db_h, w_v * db_v, w_h * db_v, STATES, PADDED)
        _store_sums(sums, 3, c_h * dc_h, c_v * dc_v, c_v * dc_h, STATES, PADDED)

        if HAS_SKIP:
            d_in += direct * d_out.to(tl.float32)
            d_direct += tl.sum(tl.sum(product, 1), 0)
        tl.store(d_x + at_y, d_in.to(dtype), mask=stored & (p < head_size))
        at = ((slice_ * batch * variables * time) + row) * (2 * STATES) + n
        stored = stored & (n < STATES)
        kind_of_weight = d_write.dtype.element_ty
        tl.store(d_write + at, (phi_h * db_h + phi_vh * db_v).to(kind_of_weight), mask=stored)
        tl.store(d_write + at + STATES, (phi_v * db_v).to(kind_of_weight), mask=stored)
        tl.store(d_read + at, dc_h.to(kind_of_weight), mask=stored)
        tl.store(d_read + at + STATES, dc_v.to(kind_of_weight), mask=stored)
    if d_start is not None:  # noqa: SIM102
        if segment == 0:  # known at run time only
            at, inside = _state_at(b, block, 0, slice_, variables, 1, channels, head_size,
                                   BLOCK, WIDTH, STATES, PADDED)  # fmt: skip
            tl.store(d_start + at, g, mask=inside)
            tl.store(d_start + at + STATES * channels, u, mask=inside)
    if HAS_SKIP:
        at = d_skip + tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
        tl.store(at, d_direct)
