# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""`scan_forward` and `scan_backward` once more, for 16 states, with layouts by hand.

The same arguments and results as in `kernels.py`, which is the version to read. Here a warp owns
one variable, and every tile is held so that the result of one matrix product is, register by
register, an operand of the next. In the layout of a 16 x 16 result a thread holds row i of columns
(2j, 2j+1); that is also how it holds a left operand, and the transpose of a right operand. So

    read, write [t, n]  as left operands give M [t, s] as a left operand of  y = M x
    the state is kept as [p, n]: a result of  x^T (write to end), and the right operand of  y

and only x itself, and what is summed over time, pass through shared memory.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

copy = async_copy.async_copy_global_to_shared


@gluon.jit
def _coarse(value):
    """The part of a float32 that the matrix units read: its first 10 bits after the point."""
    return (value.to(gl.int32, bitcast=True) & -8192).to(gl.float32, bitcast=True)


@gluon.jit
def _mma(a, b, total):
    """total + a b. In float32 by three products of parts, for the matrix units keep 11 bits."""
    if a.dtype == gl.bfloat16:
        return mma_v2(a, b, total)
    else:  # noqa: RET505
        big_a, big_b = _coarse(a), _coarse(b)
        total = mma_v2(a - big_a, big_b, total, input_precision="tf32")
        total = mma_v2(big_a, b - big_b, total, input_precision="tf32")
        return mma_v2(big_a, big_b, total, input_precision="tf32")


@gluon.jit
def _turned(value, layout: gl.constexpr):
    return gl.convert_layout(gl.permute(value, (0, 2, 1)), layout)


@gluon.jit
def _zeros(rows: gl.constexpr, columns: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr):
    return gl.zeros([BLOCK, rows, columns], gl.float32, layout)


@gluon.jit
def _axis(axis: gl.constexpr, size: gl.constexpr, layout: gl.constexpr):
    """0 ... size - 1 along one axis of a tile."""
    if axis == 0:
        return gl.arange(0, size, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    elif axis == 1:  # noqa: RET505
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    else:
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]


@gluon.jit
def _table(tables, kind: gl.constexpr, layout: gl.constexpr, FIRST: gl.constexpr = 0):
    """(e1, evh, e2), each [1, 16, 16], of one table in shared memory that starts at tile FIRST."""
    return (
        tables.slice(kind * 3 - FIRST, 1, dim=0).load(layout),
        tables.slice(kind * 3 + 1 - FIRST, 1, dim=0).load(layout),
        tables.slice(kind * 3 + 2 - FIRST, 1, dim=0).load(layout),
    )


@gluon.jit
def _split_table(rooms, kind: gl.constexpr, layout: gl.constexpr):
    """`_table`, where the first 16 tiles, the next 4 and the last one have rooms of their own."""
    many, more, last = rooms
    if kind < 5:
        return _table(many, kind, layout)
    elif kind == 5:  # noqa: RET505
        return (
            many.slice(15, 1, dim=0).load(layout),
            more.slice(0, 1, dim=0).load(layout),
            more.slice(1, 1, dim=0).load(layout),
        )
    else:
        return (
            more.slice(2, 1, dim=0).load(layout),
            more.slice(3, 1, dim=0).load(layout),
            last.load(layout),
        )


@gluon.jit
def _fetch_split(rooms, tables, WARPS: gl.constexpr):
    many, more, last = rooms
    lines: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1], [2, 1, 0])
    tile = _axis(1, 16, lines) * 16 + _axis(2, 16, lines)
    copy(many, tables + (_axis(0, 16, lines) * 256 + tile))
    copy(more, tables + (_axis(0, 4, lines) * 256 + tile + 16 * 256))
    copy(last, tables + (tile + 20 * 256))


@gluon.jit
def _fetch_pair(room_h, room_v, source, mask, thin: gl.constexpr):
    """Start to copy the h and v parts, [variables, 16, 16] each, of write or read."""
    copy(room_h, source + _axis(2, 16, thin), mask=mask)
    copy(room_v, source + (_axis(2, 16, thin) + 16), mask=mask)


@gluon.jit
def _over_chunk(tables, axis: gl.constexpr, layout: gl.constexpr):
    """(e_h, e_vh, e_v) over the whole chunk, with the states along `axis`."""
    at = tables + (_axis(axis, 16, layout) + 12 * 256 + 240)
    return gl.load(at), gl.load(at + 256), gl.load(at + 512)


@gluon.jit
def _decay(first, second, table):
    e1, evh, e2 = table
    return first * e1 + second * evh, second * e2


@gluon.jit
def _bit(kind: gl.constexpr, layout: gl.constexpr):
    """[1, t, s]: whether a table leads from s to t."""
    return ((_axis(1, 16, layout) ^ _axis(2, 16, layout)) >> (3 - kind)) == 1


@gluon.jit
def _response(first, second, BLOCK: gl.constexpr, mma: gl.constexpr):
    """first second^T + second first^T for left operands [t, n]."""
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    out = _mma(first, _turned(second, right), _zeros(16, 16, BLOCK, mma))
    return _mma(second, _turned(first, right), out)


@gluon.jit
def _matrix(b_h, b_v, c_h, c_v, tables, low: gl.constexpr, BLOCK: gl.constexpr, mma: gl.constexpr):
    """M, symmetric: the response at the later of two times to the earlier one."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    out = _mma(c_h.to(low), _turned(b_h.to(low), right), _zeros(16, 16, BLOCK, mma))
    out = _mma(c_v.to(low), _turned(b_v.to(low), right), out)
    t = _axis(1, 16, left)
    for kind in gl.static_range(4):
        reads = (t & (8 >> kind)) != 0
        first, second = _decay(
            gl.where(reads, c_h, b_v), gl.where(reads, c_v, b_h), _table(tables, kind, left)
        )
        response = _response(first.to(low), second.to(low), BLOCK, mma)
        out = gl.where(_bit(kind, mma), response, out)
    return out


@gluon.jit
def fast_forward(
    x, write, read, tables, start, base, skip, gate, present, y, end,
    variables, time, channels, head_size, chunks, segments, per_segment,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    gate_batch, gate_variable, gate_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr, PADDED: gl.constexpr,
    HAS_START: gl.constexpr, HAS_BASE: gl.constexpr, HAS_SKIP: gl.constexpr,
    HAS_GATE: gl.constexpr, HAS_PRESENT: gl.constexpr, REVERSE: gl.constexpr,
    PRECISION: gl.constexpr,
):  # fmt: skip
    """`scan_forward`, where WIDTH divides the size of a head."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])

    per_head = head_size // WIDTH
    heads = channels // head_size
    slices = heads * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0).to(gl.int64)
    slice_ = pid % slices
    block = (pid // slices) % blocks
    outer = pid // slices // blocks
    batch = gl.num_programs(0) // slices // blocks // segments
    b = outer % batch
    segment = outer // batch
    head = slice_ // per_head
    first_channel = head * head_size + (slice_ % per_head) * WIDTH
    tables += ((b * heads + head) * chunks) * (21 * 256)
    # Offsets within a block of variables and a chunk fit 32 bits; what moves is a scalar.
    first_variable = block * BLOCK
    left_variables = variables - first_variable
    v_rows, t_rows = _axis(0, BLOCK, rows), _axis(1, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    v_mma, t_mma = _axis(0, BLOCK, mma), _axis(1, 16, mma)
    towards = 1
    if REVERSE:
        towards = -1
    across = _axis(2, WIDTH, rows)
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_rows * x_variable + t_rows * (towards * x_time) + across
    write += b * write_batch + first_variable * write_variable
    row_write = v_thin * write_variable + t_thin * (towards * write_time)
    read += b * read_batch + first_variable * read_variable
    row_read = v_thin * read_variable + t_thin * (towards * read_time)
    from_y = (b * variables + first_variable) * time * channels + first_channel
    y += from_y
    row_y = v_rows * (time * channels) + t_rows * (towards * channels) + across
    if HAS_BASE:
        base += from_y
    if HAS_GATE:
        gate += b * gate_batch + first_variable * gate_variable + first_channel
        row_gate = v_rows * gate_variable + t_rows * (towards * gate_time) + across
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    states_at = _axis(1, WIDTH, mma) + _axis(2, 16, mma) * channels
    if HAS_START:
        corner = start + ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = corner + first_channel + (v_mma * (segments * 32 * channels) + states_at)
        h = gl.load(corner, mask=v_mma < left_variables, other=0.0)
        s = gl.load(corner + 16 * channels, mask=v_mma < left_variables, other=0.0)
    else:
        h = _zeros(WIDTH, 16, BLOCK, mma)
        s = _zeros(WIDTH, 16, BLOCK, mma)
    if HAS_SKIP:
        direct = gl.load(skip + first_channel + _axis(2, WIDTH, mma))
    lower = t_mma >= _axis(2, 16, mma)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_ch = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_cv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    many_tables = gl.allocate_shared_memory(gl.float32, [2, 16, 16, 16], table_room)
    more_tables = gl.allocate_shared_memory(gl.float32, [2, 4, 16, 16], table_room)
    last_table = gl.allocate_shared_memory(gl.float32, [2, 1, 16, 16], table_room)
    room_y = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    # One step ahead of the work: visit -1 only fetches.
    for visit in range(-1, last_chunk - first_chunk):
        ahead = first_chunk + visit + 1
        t_ahead = ahead.to(gl.int64) * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + t_ahead * present_time
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + 1) % 2
        if ahead < last_chunk:
            copy(rooms_x.index(room), x + t_ahead * x_time + row_x, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + t_ahead * write_time + row_write, keep_thin, thin)  # fmt: skip
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + t_ahead * read_time + row_read, keep_thin, thin)  # fmt: skip
            rooms = (many_tables.index(room), more_tables.index(room), last_table.index(room))
            _fetch_split(rooms, tables + ahead * (21 * 256), BLOCK)
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            chunk = first_chunk + visit
            room = visit % 2
            room_x = rooms_x.index(room)
            here = (many_tables.index(room), more_tables.index(room), last_table.index(room))
            e_h, e_vh, e_v = _over_chunk(tables + chunk * (21 * 256), 2, mma)
            left_times = time - chunk * 16
            t = chunk.to(gl.int64) * 16
            if REVERSE:
                t = time - 1 - t
            w_h = rooms_wh.index(room).load(left).to(gl.float32)
            w_v = rooms_wv.index(room).load(left).to(gl.float32)
            c_h = rooms_ch.index(room).load(left).to(gl.float32)
            c_v = rooms_cv.index(room).load(left).to(gl.float32)
            phi_h, phi_v, phi_vh = _split_table(here, 6, left)
            b_h, b_v = phi_h * w_h, phi_v * w_v + phi_vh * w_h

            matrix = gl.where(lower, _matrix(b_h, b_v, c_h, c_v, here[0], low, BLOCK, mma), 0.0)
            matrix = gl.convert_layout(matrix.to(low), left)
            signal = room_x.load(right)
            out = _mma(matrix, signal, _zeros(16, WIDTH, BLOCK, mma))
            from_h, from_v = _decay(c_h, c_v, _split_table(here, 4, left))
            out = _mma(from_h.to(low), _turned(h.to(low), right), out)
            out = _mma(from_v.to(low), _turned(s.to(low), right), out)

            to_v, to_h = _decay(b_v, b_h, _split_table(here, 5, left))
            turned = _turned(signal, left)
            s = _mma(turned, gl.convert_layout(to_v.to(low), right), e_v * s + e_vh * h)
            h = _mma(turned, gl.convert_layout(to_h.to(low), right), e_h * h)

            if HAS_SKIP:
                out += direct * room_x.load(mma).to(gl.float32)
            room_y.store(out.to(low))
            stored = (t_rows < left_times) & (v_rows < left_variables)
            result = room_y.load(rows)
            if HAS_BASE:
                add = gl.load(base + t * channels + row_y, mask=stored, other=0.0)
                result = (result.to(gl.float32) + add.to(gl.float32)).to(low)
            if HAS_GATE:
                keep = stored
                if HAS_PRESENT:
                    at = present + t * present_time
                    at = at + (v_rows * present_variable + t_rows * (towards * present_time))
                    keep = keep & (gl.load(at, mask=keep, other=0) != 0)
                opening = gl.load(gate + t * gate_time + row_gate, mask=keep, other=0.0)
                opening = opening.to(gl.float32)
                opening = opening / (1.0 + gl.exp(-opening))
                result = (result.to(gl.float32) * opening).to(low)
            gl.store(y + t * channels + row_y, result, mask=stored)
    if segment == segments - 1:
        corner = end + (b * variables + first_variable) * 32 * channels + first_channel
        corner = corner + (v_mma * (32 * channels) + states_at)
        gl.store(corner, h, mask=v_mma < left_variables)
        gl.store(corner + 16 * channels, s, mask=v_mma < left_variables)


@gluon.jit
def _places(right_or_mma: gl.constexpr, n_axis: gl.constexpr, WIDTH: gl.constexpr):
    """Where (n, p) lies in a stored state: blocks of 8 x 8, so that a warp moves whole lines."""
    if n_axis == 1:
        n, p = _axis(1, 16, right_or_mma), _axis(2, WIDTH, right_or_mma)
    else:
        n, p = _axis(2, 16, right_or_mma), _axis(1, WIDTH, right_or_mma)
    return ((p // 8) * 2 + n // 8) * 64 + (n % 8) * 8 + p % 8


@gluon.jit
def fast_states(
    x, write, tables, start, present, at_chunks,
    variables, time, channels, head_size, chunks, segments, per_segment,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_START: gl.constexpr, HAS_PRESENT: gl.constexpr, REVERSE: gl.constexpr,
):  # fmt: skip
    """The state before every chunk, [slice,B,V,chunk,2,N*WIDTH] like x, for `fast_backward`."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])

    per_head = head_size // WIDTH
    heads = channels // head_size
    slices = heads * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0).to(gl.int64)
    slice_ = pid % slices
    block = (pid // slices) % blocks
    outer = pid // slices // blocks
    batch = gl.num_programs(0) // slices // blocks // segments
    b = outer % batch
    segment = outer // batch
    head = slice_ // per_head
    first_channel = head * head_size + (slice_ % per_head) * WIDTH
    tables += ((b * heads + head) * chunks) * (21 * 256)
    # Offsets within a block of variables and a chunk fit 32 bits; what moves is a scalar.
    first_variable = block * BLOCK
    left_variables = variables - first_variable
    v_rows, t_rows = _axis(0, BLOCK, rows), _axis(1, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    v_mma = _axis(0, BLOCK, mma)
    towards = 1
    if REVERSE:
        towards = -1
    across = _axis(2, WIDTH, rows)
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_rows * x_variable + t_rows * (towards * x_time) + across
    write += b * write_batch + first_variable * write_variable
    row_write = v_thin * write_variable + t_thin * (towards * write_time)
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    states_at = _axis(1, 16, mma) * channels + _axis(2, WIDTH, mma)
    if HAS_START:
        corner = start + ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = corner + first_channel + (v_mma * (segments * 32 * channels) + states_at)
        h = gl.load(corner, mask=v_mma < left_variables, other=0.0)
        s = gl.load(corner + 16 * channels, mask=v_mma < left_variables, other=0.0)
    else:
        h = _zeros(16, WIDTH, BLOCK, mma)
        s = _zeros(16, WIDTH, BLOCK, mma)
    at_chunks += ((slice_ * batch + b) * variables + first_variable) * chunks * (32 * WIDTH)
    row_chunks = v_mma * (chunks * 32 * WIDTH) + _places(mma, 1, WIDTH)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_tables = gl.allocate_shared_memory(gl.float32, [2, 8, 16, 16], table_room)
    many: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [BLOCK, 1, 1], [2, 1, 0])
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    for visit in range(-1, last_chunk - first_chunk):
        ahead = first_chunk + visit + 1
        t_ahead = ahead.to(gl.int64) * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + t_ahead * present_time
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + 1) % 2
        if ahead < last_chunk:
            copy(rooms_x.index(room), x + t_ahead * x_time + row_x, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + t_ahead * write_time + row_write, keep_thin, thin)  # fmt: skip
            # Tables 5 and 6 are the last six tiles of a chunk.
            tile = _axis(0, 8, many) * 256 + _axis(1, 16, many) * 16 + _axis(2, 16, many)
            copy(rooms_tables.index(room), tables + ahead * (21 * 256) + (tile + 13 * 256))
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            chunk = first_chunk + visit
            room = visit % 2
            here = rooms_tables.index(room)
            e_h, e_vh, e_v = _over_chunk(tables + chunk * (21 * 256), 1, mma)
            to_chunk = at_chunks + chunk.to(gl.int64) * (32 * WIDTH) + row_chunks
            gl.store(to_chunk, h.to(low), mask=v_mma < left_variables)
            gl.store(to_chunk + 16 * WIDTH, s.to(low), mask=v_mma < left_variables)
            w_h = rooms_wh.index(room).load(left).to(gl.float32)
            w_v = rooms_wv.index(room).load(left).to(gl.float32)
            phi_h, phi_v, phi_vh = _table(here, 6, left, 13)
            to_v, to_h = _decay(phi_v * w_v + phi_vh * w_h, phi_h * w_h, _table(here, 5, left, 13))
            signal = rooms_x.index(room).load(right)
            s = _mma(_turned(to_v.to(low), left), signal, e_v * s + e_vh * h)
            h = _mma(_turned(to_h.to(low), left), signal, e_h * h)


@gluon.jit
def _sum_variables(sums, out, kind: gl.constexpr, first, coupling, second, BLOCK: gl.constexpr):
    """Sum the gradient of one table over the variables of the block, and store it."""
    spread: gl.constexpr = gl.BlockedLayout([BLOCK, 1, 2], [1, 4, 8], [1, BLOCK, 1], [2, 1, 0])
    flat: gl.constexpr = gl.SliceLayout(0, spread)
    room_first, room_coupling, room_second = sums
    room_first.store(first)
    room_coupling.store(coupling)
    room_second.store(second)
    i = gl.arange(0, 16, gl.SliceLayout(1, flat))[:, None]
    j = gl.arange(0, 16, gl.SliceLayout(0, flat))[None, :]
    at = out + (i * 16 + j + kind * 768)
    kept: gl.constexpr = out.dtype.element_ty
    gl.store(at, gl.sum(room_first.load(spread), 0).to(kept))
    gl.store(at + 256, gl.sum(room_coupling.load(spread), 0).to(kept))
    gl.store(at + 512, gl.sum(room_second.load(spread), 0).to(kept))


@gluon.jit
def _diagonal(product, left: gl.constexpr, mma: gl.constexpr):
    """The diagonal of [n, n] as a row: what each state contributes to a sum over channels."""
    on = _axis(1, 16, mma) == _axis(2, 16, mma)
    row = gl.sum(gl.where(on, product, 0.0), 1)
    return gl.convert_layout(row, gl.SliceLayout(1, left))[:, None, :]


@gluon.jit
def fast_backward(
    x, write, read, tables, states, skip, present, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, partial,
    variables, time, channels, head_size, chunks, segments, per_segment, base_parts,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_END: gl.constexpr, HAS_SKIP: gl.constexpr, HAS_PRESENT: gl.constexpr,
    HAS_BASE: gl.constexpr, REVERSE: gl.constexpr,
):  # fmt: skip
    """`scan_backward`, where WIDTH divides the size of a head, with the states of `fast_states`."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])

    per_head = head_size // WIDTH
    heads = channels // head_size
    slices = heads * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0).to(gl.int64)
    slice_ = pid % slices
    block = (pid // slices) % blocks
    outer = pid // slices // blocks
    batch = gl.num_programs(0) // slices // blocks // segments
    b = outer % batch
    segment = outer // batch
    head = slice_ // per_head
    first_channel = head * head_size + (slice_ % per_head) * WIDTH
    tables += ((b * heads + head) * chunks) * (21 * 256)
    # Offsets within a block of variables and a chunk fit 32 bits; what moves is a scalar.
    first_variable = block * BLOCK
    left_variables = variables - first_variable
    v_rows, t_rows = _axis(0, BLOCK, rows), _axis(1, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    v_mma, t_mma = _axis(0, BLOCK, mma), _axis(1, 16, mma)
    towards = 1
    if REVERSE:
        towards = -1
    across = _axis(2, WIDTH, rows)
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_rows * x_variable + t_rows * (towards * x_time) + across
    write += b * write_batch + first_variable * write_variable
    row_write = v_thin * write_variable + t_thin * (towards * write_time)
    read += b * read_batch + first_variable * read_variable
    row_read = v_thin * read_variable + t_thin * (towards * read_time)
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    part = block * per_head + slice_ % per_head
    partial += ((part * batch + b) * heads + head) * chunks * (21 * 256)
    line = (b * variables + first_variable) * time
    d_y += line * channels + first_channel
    d_x += line * channels + first_channel
    d_write += (slice_ * batch * variables * time + line) * 32
    d_read += (slice_ * batch * variables * time + line) * 32
    row_y = v_rows * (time * channels) + t_rows * (towards * channels) + across
    row_weights = v_thin * (time * 32) + t_thin * (towards * 32) + _axis(2, 16, thin)
    t_left = _axis(1, 16, left)
    v_right = _axis(0, BLOCK, right)
    states += ((slice_ * batch + b) * variables + first_variable) * chunks * (32 * WIDTH)
    row_states = v_right * (chunks * 32 * WIDTH) + _places(right, 2, WIDTH)
    ends_at = _axis(1, 16, mma) * channels + _axis(2, WIDTH, mma)
    if HAS_END:
        corner = d_end + ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = corner + first_channel + (v_mma * (segments * 32 * channels) + ends_at)
        g = gl.load(corner, mask=v_mma < left_variables, other=0.0)
        u = gl.load(corner + 16 * channels, mask=v_mma < left_variables, other=0.0)
    else:
        g = _zeros(16, WIDTH, BLOCK, mma)
        u = _zeros(16, WIDTH, BLOCK, mma)
    if HAS_SKIP:
        direct = gl.load(skip + first_channel + _axis(2, WIDTH, mma))
        d_direct = gl.zeros([BLOCK, 8, WIDTH], gl.float32, gl.SliceLayout(1, gl.BlockedLayout(
            [1, 2, 1, 2], [1, 1, 8, 4], [BLOCK, 1, 1, 1], [3, 2, 1, 0])))  # fmt: skip
    lower = t_mma >= _axis(2, 16, mma)
    upper = t_mma <= _axis(2, 16, mma)
    diagonal = t_mma == _axis(2, 16, mma)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_ch = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_cv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    # One room for the tables: a second one would cost the place of a second program.
    many_tables = gl.allocate_shared_memory(gl.float32, [16, 16, 16], table_room)
    more_tables = gl.allocate_shared_memory(gl.float32, [4, 16, 16], table_room)
    last_table = gl.allocate_shared_memory(gl.float32, [1, 16, 16], table_room)
    here = (many_tables, more_tables, last_table)
    room_g = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    room_u = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    # Rooms of their own, not parts of one: between parts the compiler would put barriers.
    sums = (
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
    )
    other_sums = sums
    if low == gl.bfloat16:  # float32 has no space for two
        other_sums = (
            gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
            gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
            gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
        )
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    _fetch_split(here, tables + (last_chunk - 1) * (21 * 256), BLOCK)
    async_copy.commit_group()
    for visit in range(-1, last_chunk - first_chunk):
        ahead = last_chunk - 2 - visit
        t_ahead = ahead.to(gl.int64) * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + t_ahead * present_time
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + 1) % 2
        if ahead >= first_chunk:
            copy(rooms_x.index(room), x + t_ahead * x_time + row_x, mask=keep_rows)
            copy(rooms_y.index(room), d_y + t_ahead * channels + row_y, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + t_ahead * write_time + row_write, keep_thin, thin)  # fmt: skip
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + t_ahead * read_time + row_read, keep_thin, thin)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            chunk = last_chunk - 1 - visit
            room = visit % 2
            room_x, room_y = rooms_x.index(room), rooms_y.index(room)
            out = partial + chunk * (21 * 256)
            left_times = time - chunk * 16
            t = chunk.to(gl.int64) * 16
            if REVERSE:
                t = time - 1 - t
            at_states = states + chunk.to(gl.int64) * (32 * WIDTH) + row_states
            h = gl.load(at_states, mask=v_right < left_variables, other=0.0)
            s = gl.load(at_states + 16 * WIDTH, mask=v_right < left_variables, other=0.0)
            e_h, e_vh, e_v = _over_chunk(tables + chunk * (21 * 256), 1, mma)

            # From the state before the chunk.
            y_left = room_y.load(left)
            c_h = rooms_ch.index(room).load(left).to(gl.float32)
            c_v = rooms_cv.index(room).load(left).to(gl.float32)
            table = _split_table(here, 4, left)
            d_first = _mma(y_left, h, _zeros(16, 16, BLOCK, mma))
            d_second = _mma(y_left, s, _zeros(16, 16, BLOCK, mma))
            d_first = gl.convert_layout(d_first, left)
            d_second = gl.convert_layout(d_second, left)
            dc_h = d_first * table[0]
            dc_v = d_first * table[1] + d_second * table[2]
            g_low, u_low = g.to(low), u.to(low)
            g_left, u_left = gl.convert_layout(g_low, left), gl.convert_layout(u_low, left)
            over_h = _diagonal(_mma(g_left, h, _zeros(16, 16, BLOCK, mma)), left, mma)
            over_v = _diagonal(_mma(u_left, s, _zeros(16, 16, BLOCK, mma)), left, mma)
            over_vh = _diagonal(_mma(u_left, h, _zeros(16, 16, BLOCK, mma)), left, mma)
            last = t_left == 15
            _sum_variables(
                sums,
                out,
                4,
                d_first * c_h + gl.where(last, over_h, 0.0),
                d_first * c_v + gl.where(last, over_vh, 0.0),
                d_second * c_v + gl.where(last, over_v, 0.0),
                BLOCK,
            )

            # To the state after the chunk.
            room_g.store(g_low)
            room_u.store(u_low)
            w_h = rooms_wh.index(room).load(left).to(gl.float32)
            w_v = rooms_wv.index(room).load(left).to(gl.float32)
            phi_h, phi_v, phi_vh = _split_table(here, 6, left)
            b_h, b_v = phi_h * w_h, phi_v * w_v + phi_vh * w_h
            x_left = room_x.load(left)
            d_first = _mma(x_left, _turned(u_low, right), _zeros(16, 16, BLOCK, mma))
            d_second = _mma(x_left, _turned(g_low, right), _zeros(16, 16, BLOCK, mma))
            d_first = gl.convert_layout(d_first, left)
            d_second = gl.convert_layout(d_second, left)

            # The state itself moves on to the chunk before.
            from_h, from_v = _decay(c_h, c_v, table)
            y_right = room_y.load(right)
            g = _mma(_turned(from_h.to(low), left), y_right, e_h * g + e_vh * u)
            u = _mma(_turned(from_v.to(low), left), y_right, e_v * u)

            table = _split_table(here, 5, left)
            db_v = d_first * table[0]
            db_h = d_first * table[1] + d_second * table[2]
            _sum_variables(other_sums, out, 5, d_first * b_v, d_first * b_h, d_second * b_h, BLOCK)

            # Within the chunk: the diagonal, then bit by bit.
            forth = _mma(y_left, _turned(x_left, right), _zeros(16, 16, BLOCK, mma))
            back = _mma(x_left, _turned(y_left, right), _zeros(16, 16, BLOCK, mma))
            d_matrix = gl.where(lower, forth, back)
            d_same = gl.sum(gl.where(diagonal, forth, 0.0), 2)
            d_same = gl.convert_layout(d_same, gl.SliceLayout(2, left))[:, :, None]
            if HAS_SKIP:
                product = x_left.to(gl.float32) * y_left.to(gl.float32)
                product = gl.sum(gl.reshape(product, [BLOCK, 2, 8, WIDTH]), 1)
                d_direct += gl.convert_layout(product, d_direct.type.layout)
            db_h += d_same * c_h
            db_v += d_same * c_v
            dc_h += d_same * b_h
            dc_v += d_same * b_v
            matrix = _mma(c_h.to(low), _turned(b_h.to(low), right), _zeros(16, 16, BLOCK, mma))
            matrix = _mma(c_v.to(low), _turned(b_v.to(low), right), matrix)
            for kind in gl.static_range(4):
                differ = _bit(kind, mma)
                reads = (t_left & (8 >> kind)) != 0
                table = _split_table(here, kind, left)
                one, two = gl.where(reads, c_h, b_v), gl.where(reads, c_v, b_h)
                first, second = _decay(one, two, table)
                first, second = first.to(low), second.to(low)
                matrix = gl.where(differ, _response(first, second, BLOCK, mma), matrix)
                d_response = gl.where(differ, d_matrix, 0.0).to(low)
                d_response = gl.convert_layout(d_response, left)
                second = gl.convert_layout(second, right)
                first = gl.convert_layout(first, right)
                d_first = _mma(d_response, second, _zeros(16, 16, BLOCK, mma))
                d_second = _mma(d_response, first, _zeros(16, 16, BLOCK, mma))
                d_first = gl.convert_layout(d_first, left)
                d_second = gl.convert_layout(d_second, left)
                d_one, d_two = d_first * table[0], d_first * table[1] + d_second * table[2]
                dc_h += gl.where(reads, d_one, 0.0)
                dc_v += gl.where(reads, d_two, 0.0)
                db_v += gl.where(reads, 0.0, d_one)
                db_h += gl.where(reads, 0.0, d_two)
                turn = sums if kind % 2 == 0 else other_sums
                _sum_variables(turn, out, kind, d_first * one, d_first * two, d_second * two, BLOCK)

            # `matrix` is symmetric up to its diagonal: for the input its later times matter.
            later = gl.convert_layout(gl.where(upper, matrix, 0.0).to(low), left)
            d_in = _mma(later, room_y.load(right), _zeros(16, WIDTH, BLOCK, mma))
            to_v, to_h = _decay(b_v, b_h, _split_table(here, 5, left))
            d_in = _mma(to_h.to(low), room_g.load(right), d_in)
            d_in = _mma(to_v.to(low), room_u.load(right), d_in)
            if HAS_SKIP:
                d_in += direct * room_y.load(mma).to(gl.float32)
            room_g.store(d_in.to(low))
            stored = (t_rows < left_times) & (v_rows < left_variables)
            gl.store(d_x + t * channels + row_y, room_g.load(rows), mask=stored)

            w_h = rooms_wh.index(room).load(left).to(gl.float32)
            w_v = rooms_wv.index(room).load(left).to(gl.float32)
            phi_h, phi_v, phi_vh = _split_table(here, 6, left)
            _sum_variables(sums, out, 6, db_h * w_h, db_v * w_v, db_v * w_h, BLOCK)
            stored_thin = (t_thin < left_times) & (v_thin < left_variables)
            to_write = d_write + t * 32 + row_weights
            to_read = d_read + t * 32 + row_weights
            kind_of_weight: gl.constexpr = d_write.dtype.element_ty
            d_w_h, d_w_v = phi_h * db_h + phi_vh * db_v, phi_v * db_v
            d_w_h = gl.convert_layout(d_w_h.to(kind_of_weight), thin)
            d_w_v = gl.convert_layout(d_w_v.to(kind_of_weight), thin)
            gl.store(to_write, d_w_h, mask=stored_thin)
            gl.store(to_write + 16, d_w_v, mask=stored_thin)
            d_c_h = gl.convert_layout(dc_h.to(kind_of_weight), thin)
            d_c_v = gl.convert_layout(dc_v.to(kind_of_weight), thin)
            if HAS_BASE:  # noqa: SIM102
                if slice_ < base_parts:  # known at run time only
                    d_c_h += gl.load(to_read, mask=stored_thin, other=0.0)
                    d_c_v += gl.load(to_read + 16, mask=stored_thin, other=0.0)
            gl.store(to_read, d_c_h, mask=stored_thin)
            gl.store(to_read + 16, d_c_v, mask=stored_thin)
            if chunk > first_chunk:
                _fetch_split(here, tables + (chunk - 1) * (21 * 256), BLOCK)
            async_copy.commit_group()
    if segment == 0:
        corner = d_start + (b * variables + first_variable) * 32 * channels + first_channel
        corner = corner + (v_mma * (32 * channels) + ends_at)
        gl.store(corner, g, mask=v_mma < left_variables)
        gl.store(corner + 16 * channels, u, mask=v_mma < left_variables)
    if HAS_SKIP:
        total = gl.sum(gl.sum(d_direct, 1), 0)
        gl.store(d_skip + pid * WIDTH + gl.arange(0, WIDTH, total.type.layout), total)
