# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""`kernels.py` once more, for 16 states, with layouts by hand.

The same arguments and results as in `kernels.py`, which is the version to read. A warp owns a
variable (in `fast_states` eight states of one), and every tile is held so that the result of one
matrix product is, register by register, an operand of the next. In the layout of a result a thread
holds row i of columns (2j, 2j+1); that is also how it holds a left operand, and the transpose of a
right operand. A pair (h, v) of [time, eight states] tiles is stacked to one operand [time, (h or v,
state)]: the two parts of a state lie in one thread, so stacking and unstacking move nothing.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

copy = async_copy.async_copy_global_to_shared
# Its name since Triton 3.7 is the second.
barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier


@gluon.constexpr_function
def _bits(size, axis, rank, first=1):
    """The bases of an axis: one for each bit of its index, from `first` on."""
    bases = []
    while first < size:
        bases.append([first if i == axis else 0 for i in range(rank)])
        first *= 2
    return bases


@gluon.constexpr_function
def _pair_layout(block):
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = [[0, 0, 8], *_bits(block, 0, 3)]
    return gl.DistributedLinearLayout([[0, 0, 1], [0, 8, 0]], lanes, warps, [], [block, 16, 16])


@gluon.constexpr_function
def _right_layout(block, width):
    """[variable, warp, time, channel] as right operands over times, the same for both warps."""
    registers = [[0, 0, 1, 0], [0, 0, 8, 0], *_bits(width, 3, 4, 8)]
    lanes = [[0, 0, 2, 0], [0, 0, 4, 0], [0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 4]]
    warps = [[0, 1, 0, 0], *_bits(block, 0, 4)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [block, 2, 16, width])


@gluon.constexpr_function
def _half_layout(block, width):
    """[(variable, warp), state, channel]: the h or the v part of a state."""
    registers = [[0, 0, 1], *_bits(width, 2, 3, 8)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = _bits(2 * block, 0, 3)
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [2 * block, 8, width])


@gluon.jit
def _wide(value):
    """To float32. Two bfloat16 of one register take an instruction each, which is not the rule."""
    if value.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=r,=r,r", [value],
            dtype=gl.float32, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return value


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
def _axis(axis: gl.constexpr, size: gl.constexpr, layout: gl.constexpr):
    """0 ... size - 1 along one axis of a tile."""
    if axis == 0:
        return gl.arange(0, size, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    elif axis == 1:  # noqa: RET505
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    else:
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]


@gluon.jit
def _axis_of_four(axis: gl.constexpr, size: gl.constexpr, layout: gl.constexpr):
    if axis == 0:
        flat: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, gl.SliceLayout(3, layout)))
        return gl.arange(0, size, flat)[:, None, None, None]
    elif axis == 2:  # noqa: RET505
        flat: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(3, layout)))
        return gl.arange(0, size, flat)[None, None, :, None]
    else:
        flat: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, layout)))
        return gl.arange(0, size, flat)[None, None, None, :]


@gluon.jit
def _stack(first, second, BLOCK: gl.constexpr):
    """A pair of [variable, time, state] as [(variable, warp), time, (part, state of the warp)]."""
    both = gl.reshape(gl.join(first, second), [BLOCK, 16, 2, 8, 2])
    return gl.reshape(gl.permute(both, (0, 2, 1, 4, 3)), [2 * BLOCK, 16, 16])


@gluon.jit
def _unstack(both, BLOCK: gl.constexpr, pair: gl.constexpr):
    both = gl.permute(gl.reshape(both, [BLOCK, 2, 16, 2, 8]), (0, 2, 1, 4, 3))
    first, second = gl.split(gl.reshape(both, [BLOCK, 16, 16, 2]))
    return gl.convert_layout(first, pair), gl.convert_layout(second, pair)


@gluon.jit
def _whole(h, v, BLOCK: gl.constexpr, WIDTH: gl.constexpr, mma: gl.constexpr):
    """The two parts of a state as [(variable, warp), (part, state), channel]."""
    both = gl.reshape(gl.permute(gl.join(h, v), (0, 3, 1, 2)), [2 * BLOCK, 16, WIDTH])
    return gl.convert_layout(both, mma)


@gluon.jit
def _parts(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, half: gl.constexpr):
    both = gl.permute(gl.reshape(both, [2 * BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1))
    h, v = gl.split(both)
    return gl.convert_layout(h, half), gl.convert_layout(v, half)


@gluon.jit
def _for_both(room, layout: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """[variable, 1, time, channel] in shared memory, for both warps of a variable."""
    value = room.load(layout)
    value, _ = gl.broadcast(value, gl.zeros([BLOCK, 2, 16, WIDTH], value.dtype, layout))
    return gl.reshape(value, [2 * BLOCK, 16, WIDTH])


@gluon.jit
def _to_scratch(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, flat: gl.constexpr):
    """A state as each thread holds it, so that it goes to memory and back in whole lines."""
    value = gl.reshape(both, [2 * BLOCK, 2, 8, WIDTH // 16, 2, 4, 2])
    value = gl.reshape(gl.permute(value, (0, 3, 2, 5, 1, 4, 6)), [2 * BLOCK, 16 * WIDTH])
    return gl.convert_layout(value, flat)


@gluon.jit
def _scratch_at(BLOCK: gl.constexpr, WIDTH: gl.constexpr, row, flat: gl.constexpr):
    """Offsets of [(variable, warp), 16 * WIDTH], for variables that lie `row` apart."""
    w = gl.arange(0, 2 * BLOCK, gl.SliceLayout(1, flat))[:, None]
    i = gl.arange(0, 16 * WIDTH, gl.SliceLayout(0, flat))[None, :]
    return (w // 2) * row + (w % 2) * (16 * WIDTH) + i, w // 2


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
    tables = tables + tile
    copy(many, tables + _axis(0, 16, lines) * 256)
    copy(more, tables + (_axis(0, 4, lines) + 16) * 256)
    copy(last, tables + 20 * 256)


@gluon.jit
def _fetch_pair(room_h, room_v, source, mask, thin: gl.constexpr):
    """Start to copy the h and v parts, [variables, 16, 16] each, of write or read."""
    copy(room_h, source + _axis(2, 16, thin), mask=mask)
    copy(room_v, source + (_axis(2, 16, thin) + 16), mask=mask)


@gluon.jit
def _over_chunk(tables, BLOCK: gl.constexpr, half: gl.constexpr):
    """(e_h, e_vh, e_v) over the whole chunk, for the states of each warp."""
    at = tables + ((_axis(0, 2 * BLOCK, half) % 2) * 8 + _axis(1, 8, half) + 12 * 256 + 240)
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
def _held(w_h, w_v, table):
    phi_h, phi_v, phi_vh = table
    return phi_h * w_h, phi_v * w_v + phi_vh * w_h


@gluon.jit
def _program(variables, channels, head_size, segments, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """(batch row, number of rows, first variable, slice, head, first channel, segment)."""
    per_head = head_size // WIDTH
    slices = (channels // head_size) * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0).to(gl.int64)
    slice_ = pid % slices
    outer = pid // slices // blocks
    batch = gl.num_programs(0) // slices // blocks // segments
    head = slice_ // per_head
    first_channel = head * head_size + (slice_ % per_head) * WIDTH
    first_variable = ((pid // slices) % blocks) * BLOCK
    return outer % batch, batch, first_variable, slice_, head, first_channel, outer // batch


@gluon.jit
def _load_state(source, b, first_variable, first_channel, variables, segments, segment, channels,
                BLOCK: gl.constexpr, WIDTH: gl.constexpr, half: gl.constexpr):  # fmt: skip
    """The two parts of the state in a [B, V, segment, 2, 16, D] tensor."""
    at, inside = _state_at(b, first_variable, first_channel, variables, segments, segment, channels,
                           BLOCK, WIDTH, half)  # fmt: skip
    h = gl.load(source + at, mask=inside, other=0.0)
    v = gl.load(source + at + 16 * channels, mask=inside, other=0.0)
    return h, v


@gluon.jit
def _state_at(b, first_variable, first_channel, variables, segments, segment, channels,
              BLOCK: gl.constexpr, WIDTH: gl.constexpr, half: gl.constexpr):  # fmt: skip
    w = _axis(0, 2 * BLOCK, half)
    corner = ((b * variables + first_variable) * segments + segment) * 32 * channels + first_channel
    within = (w // 2) * (segments * 32 * channels) + ((w % 2) * 8 + _axis(1, 8, half)) * channels
    at = corner + (within + _axis(2, WIDTH, half))
    return at, w // 2 < variables - first_variable


@gluon.constexpr_function
def _column_part_layout(block, width):
    """[variable, channel, state], the h or the v part of a state, where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0], [0, 0, 8], *_bits(width, 1, 3, 16)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, _bits(block, 0, 3), [], [block, width, 16])


@gluon.jit
def _stack_all(first, second, BLOCK: gl.constexpr):
    """A pair of [variable, time, state] as [variable, time, (half, part, state of the half)]."""
    both = gl.reshape(gl.join(first, second), [BLOCK, 16, 2, 8, 2])
    return gl.reshape(gl.permute(both, (0, 1, 2, 4, 3)), [BLOCK, 16, 32])


@gluon.jit
def _columns_of(h, v, BLOCK: gl.constexpr, WIDTH: gl.constexpr, mma: gl.constexpr):
    """The two parts of a state as [variable, channel, (half, part, state of the half)]."""
    both = gl.reshape(gl.join(h, v), [BLOCK, WIDTH, 2, 8, 2])
    both = gl.reshape(gl.permute(both, (0, 1, 2, 4, 3)), [BLOCK, WIDTH, 32])
    return gl.convert_layout(both, mma)


@gluon.jit
def _parts_of_columns(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, part: gl.constexpr):
    both = gl.permute(gl.reshape(both, [BLOCK, WIDTH, 2, 2, 8]), (0, 1, 2, 4, 3))
    h, v = gl.split(gl.reshape(both, [BLOCK, WIDTH, 16, 2]))
    return gl.convert_layout(h, part), gl.convert_layout(v, part)


@gluon.jit
def _for_all(value, BLOCK: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
             layout: gl.constexpr):  # fmt: skip
    """[1, rows, columns] for every variable."""
    value, _ = gl.broadcast(value, gl.zeros([BLOCK, ROWS, COLUMNS], value.dtype, layout))
    return value


@gluon.jit
def fast_forward(
    x, write, read, tables, start, base, field, factors, skip, gate, present, y, end,
    variables, time, channels, head_size, chunks, segments, per_segment,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    gate_batch, gate_variable, gate_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_START: gl.constexpr, HAS_BASE: gl.constexpr, HAS_FIELD: gl.constexpr,
    HAS_SKIP: gl.constexpr, HAS_GATE: gl.constexpr, HAS_PRESENT: gl.constexpr,
    REVERSE: gl.constexpr,
):  # fmt: skip
    """`scan_forward`, where WIDTH divides the size of a head; a warp owns a variable.

    field [B,T,D] like x, and what `fill_factors` made of its write: with HAS_FIELD it is a second
    input, the same for all variables.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = _whole_pair_layout(BLOCK)
    part: gl.constexpr = _column_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    # Results in float32 lie in whole sectors as they are.
    out_rows: gl.constexpr = _whole_rows_layout(BLOCK, WIDTH, lanes) if wide == 8 else mma
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    common: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [1, BLOCK, 1],
                                            [2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    tiles: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // (2 * few), 2 * few],
                                           [BLOCK, 1, 1], [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    twin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 2, 2 * few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])

    b, _, first_variable, _, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    tables += (b * (channels // head_size) + head) * chunks * (21 * 256)
    # Offsets within a block of variables and a chunk fit 32 bits; what moves is a scalar.
    left_variables = variables - first_variable
    v_rows, t_rows = _axis(0, BLOCK, rows), _axis(1, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    v_out, t_out = _axis(0, BLOCK, out_rows), _axis(1, 16, out_rows)
    v_part = _axis(0, BLOCK, part)
    p_rows, p_out = _axis(2, WIDTH, rows), _axis(2, WIDTH, out_rows)
    towards = 1
    if REVERSE:
        towards = -1
    # A pointer for each row: what a thread takes of it then lies at distances known beforehand.
    x += b * x_batch + first_variable * x_variable + first_channel
    x = x + (v_rows * x_variable + t_rows * (towards * x_time))
    write += b * write_batch + first_variable * write_variable
    write = write + (v_thin * write_variable + t_thin * (towards * write_time))
    read += b * read_batch + first_variable * read_variable
    read = read + (v_thin * read_variable + t_thin * (towards * read_time))
    from_y = (b * variables + first_variable) * time * channels + first_channel
    row_y = v_out * (time * channels) + t_out * (towards * channels)
    y = y + from_y + row_y
    if HAS_BASE:
        base = base + from_y + row_y
    if HAS_FIELD:
        t_common = _axis(1, 16, common)
        field += b * time * channels + first_channel
        field = field + t_common * (towards * channels)
        factors += (b * (channels // head_size) + head) * chunks * (6 * 512)
        tile = _axis(1, 16, tiles) * 32 + _axis(2, 32, tiles)
        factors = factors + tile
        rooms_field = gl.allocate_shared_memory(low, [2, 1, 16, WIDTH], wide_room)
        rooms_four = gl.allocate_shared_memory(low, [2, 4, 16, 32], twin_room)
        rooms_two = gl.allocate_shared_memory(low, [2, 2, 16, 32], twin_room)
    if HAS_GATE:
        gate += b * gate_batch + first_variable * gate_variable + first_channel
        gate = gate + (v_out * gate_variable + t_out * (towards * gate_time))
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    row_state = _axis(1, WIDTH, part) + _axis(2, 16, part) * channels
    if HAS_START:
        corner = start + ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = corner + first_channel + (v_part * (segments * 32 * channels) + row_state)
        h = gl.load(corner, mask=v_part < left_variables, other=0.0)
        s = gl.load(corner + 16 * channels, mask=v_part < left_variables, other=0.0)
    else:
        h = gl.zeros([BLOCK, WIDTH, 16], gl.float32, part)
        s = gl.zeros([BLOCK, WIDTH, 16], gl.float32, part)
    lower = _axis(1, 16, mma) >= _axis(2, 16, mma)
    t_pair = _axis(1, 16, pair)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_ch = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_cv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    many_tables = gl.allocate_shared_memory(gl.float32, [2, 16, 16, 16], table_room)
    more_tables = gl.allocate_shared_memory(gl.float32, [2, 4, 16, 16], table_room)
    last_table = gl.allocate_shared_memory(gl.float32, [2, 1, 16, 16], table_room)
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
            copy(rooms_x.index(room), x + t_ahead * x_time + p_rows, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + t_ahead * write_time, keep_thin, thin)  # fmt: skip
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + t_ahead * read_time, keep_thin, thin)  # fmt: skip
            rooms = (many_tables.index(room), more_tables.index(room), last_table.index(room))
            _fetch_split(rooms, tables + ahead * (21 * 256), BLOCK)
            if HAS_FIELD:
                copy(rooms_field.index(room), field + t_ahead * channels + _axis(2, WIDTH, common),
                     mask=t_common < ahead_times)  # fmt: skip
                at = factors + ahead * (6 * 512)
                copy(rooms_four.index(room), at + _axis(0, 4, tiles) * 512)
                copy(rooms_two.index(room), at + (_axis(0, 2, tiles) + 4) * 512)
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            chunk = first_chunk + visit
            room = visit % 2
            room_x = rooms_x.index(room)
            here = (many_tables.index(room), more_tables.index(room), last_table.index(room))
            over = tables + chunk * (21 * 256) + (_axis(2, 16, part) + 12 * 256 + 240)
            e_h, e_vh, e_v = gl.load(over), gl.load(over + 256), gl.load(over + 512)
            left_times = time - chunk * 16
            t = chunk.to(gl.int64) * 16
            if REVERSE:
                t = time - 1 - t
            w_h = _wide(rooms_wh.index(room).load(pair))
            w_v = _wide(rooms_wv.index(room).load(pair))
            c_h = _wide(rooms_ch.index(room).load(pair))
            c_v = _wide(rooms_cv.index(room).load(pair))
            b_h, b_v = _held(w_h, w_v, _split_table(here, 6, pair))
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            if HAS_FIELD:
                psi = _for_all(rooms_field.index(room).load(right), BLOCK, 16, WIDTH, right)
                four, two = rooms_four.index(room), rooms_two.index(room)

            # M: the response at the later of two times to the earlier one, bit by bit.
            reads_now = gl.convert_layout(_stack_all(c_h.to(low), c_v.to(low), BLOCK), left)
            matrix = _mma(
                reads_now, _turned(_stack_all(b_h.to(low), b_v.to(low), BLOCK), right), none
            )
            if HAS_FIELD:
                factor = two.slice(0, 1, dim=0).permute((0, 2, 1)).load(right)
                field_matrix = _mma(reads_now, _for_all(factor, BLOCK, 32, 16, right), none)
            for kind in gl.static_range(4):
                reads = (t_pair & (8 >> kind)) != 0
                first, second = _decay(
                    gl.where(reads, c_h, b_v),
                    gl.where(reads, c_v, b_h),
                    _split_table(here, kind, pair),
                )
                first, second = first.to(low), second.to(low)
                stacked = gl.convert_layout(_stack_all(first, second, BLOCK), left)
                swapped = _turned(_stack_all(second, first, BLOCK), right)
                matrix = gl.where(_bit(kind, mma), _mma(stacked, swapped, none), matrix)
                if HAS_FIELD:
                    factor = four.slice(kind, 1, dim=0).permute((0, 2, 1)).load(right)
                    response = _mma(stacked, _for_all(factor, BLOCK, 32, 16, right), none)
                    field_matrix = gl.where(_bit(kind, mma), response, field_matrix)
            matrix = gl.convert_layout(gl.where(lower, matrix, 0.0).to(low), left)
            signal = room_x.load(right)
            out = _mma(matrix, signal, gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma))
            if HAS_FIELD:
                field_matrix = gl.where(lower, field_matrix, 0.0).to(low)
                out = _mma(gl.convert_layout(field_matrix, left), psi, out)

            # The state before the chunk is read by all times, and moves on.
            from_h, from_v = _decay(c_h, c_v, _split_table(here, 4, pair))
            from_start = gl.convert_layout(_stack_all(from_h.to(low), from_v.to(low), BLOCK), left)
            state = _columns_of(h.to(low), s.to(low), BLOCK, WIDTH, mma)
            out = _mma(from_start, _turned(state, right), out)
            to_v, to_h = _decay(b_v, b_h, _split_table(here, 5, pair))
            to_end = gl.convert_layout(_stack_all(to_h.to(low), to_v.to(low), BLOCK), right)
            state = _columns_of(e_h * h, e_v * s + e_vh * h, BLOCK, WIDTH, mma)
            state = _mma(_turned(signal, left), to_end, state)
            if HAS_FIELD:
                factor = _for_all(two.slice(1, 1, dim=0).load(right), BLOCK, 16, 32, right)
                state = _mma(_turned(psi, left), factor, state)
            h, s = _parts_of_columns(state, BLOCK, WIDTH, part)

            if HAS_SKIP:
                direct = gl.load(skip + first_channel + _axis(2, WIDTH, mma))
                out += direct * _wide(room_x.load(mma))
            result = gl.convert_layout(out.to(low), out_rows)
            stored = (t_out < left_times) & (v_out < left_variables)
            keep = stored
            if HAS_PRESENT:
                at = present + t * present_time
                at = at + (v_out * present_variable + t_out * (towards * present_time))
                keep = keep & (gl.load(at, mask=keep, other=0) != 0)
            if HAS_BASE:
                add = gl.load(base + t * channels + p_out, mask=stored, other=0.0)
                result = (result.to(gl.float32) + add.to(gl.float32)).to(low)
            if HAS_GATE:
                opening = gl.load(gate + t * gate_time + p_out, mask=keep, other=0.0)
                opening = opening.to(gl.float32)
                opening = opening / (1.0 + gl.exp(-opening))
                result = (result.to(gl.float32) * opening).to(low)
            gl.store(y + t * channels + p_out, result, mask=stored)
    if segment == segments - 1:
        corner = end + (b * variables + first_variable) * 32 * channels + first_channel
        corner = corner + (v_part * (32 * channels) + row_state)
        gl.store(corner, h, mask=v_part < left_variables)
        gl.store(corner + 16 * channels, s, mask=v_part < left_variables)


@gluon.jit
def fast_states(
    x, write, tables, start, present, states,
    variables, time, channels, head_size, chunks, segments, per_segment,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_START: gl.constexpr, HAS_PRESENT: gl.constexpr, REVERSE: gl.constexpr,
):  # fmt: skip
    """The state before every chunk and after the last, like x, for `fast_backward`.

    states [slice, B, V, chunk + 1, warp, 16 * WIDTH], in the order in which threads hold them.
    """
    WARPS: gl.constexpr = 2 * BLOCK
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = _pair_layout(BLOCK)
    half: gl.constexpr = _half_layout(BLOCK, WIDTH)
    over_times: gl.constexpr = _right_layout(BLOCK, WIDTH)
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    lines: gl.constexpr = gl.BlockedLayout([1, 1, 1, wide], [1, 1, 32 // lanes, lanes],
                                           [BLOCK, 1, 2, 1], [3, 2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 2, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [3, 2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])

    b, batch, first_variable, slice_, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    tables += (b * (channels // head_size) + head) * chunks * (21 * 256)
    left_variables = variables - first_variable
    v_lines, t_lines = _axis_of_four(0, BLOCK, lines), _axis_of_four(2, 16, lines)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    towards = 1
    if REVERSE:
        towards = -1
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_lines * x_variable + t_lines * (towards * x_time) + _axis_of_four(3, WIDTH, lines)
    write += b * write_batch + first_variable * write_variable
    row_write = v_thin * write_variable + t_thin * (towards * write_time)
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    if HAS_START:
        h, s = _load_state(start, b, first_variable, first_channel, variables, segments, segment,
                           channels, BLOCK, WIDTH, half)  # fmt: skip
    else:
        h = gl.zeros([WARPS, 8, WIDTH], gl.float32, half)
        s = gl.zeros([WARPS, 8, WIDTH], gl.float32, half)
    states += ((slice_ * batch + b) * variables + first_variable) * (chunks + 1) * (32 * WIDTH)
    row_states, v_flat = _scratch_at(BLOCK, WIDTH, (chunks + 1) * (32 * WIDTH), flat)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 1, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_tables = gl.allocate_shared_memory(gl.float32, [2, 8, 16, 16], table_room)
    many: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1], [2, 1, 0])
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    for visit in range(-1, last_chunk - first_chunk):
        ahead = first_chunk + visit + 1
        t_ahead = ahead.to(gl.int64) * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_lines = (t_lines < ahead_times) & (v_lines < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + t_ahead * present_time
            at_lines = now + (v_lines * present_variable + t_lines * (towards * present_time))
            keep_lines = keep_lines & (gl.load(at_lines, mask=keep_lines, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + 1) % 2
        if ahead < last_chunk:
            copy(rooms_x.index(room), x + t_ahead * x_time + row_x, mask=keep_lines)
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
            e_h, e_vh, e_v = _over_chunk(tables + chunk * (21 * 256), BLOCK, half)
            kept = _to_scratch(_whole(h.to(low), s.to(low), BLOCK, WIDTH, mma), BLOCK, WIDTH, flat)
            gl.store(states + chunk.to(gl.int64) * (32 * WIDTH) + row_states, kept,
                     mask=v_flat < left_variables)  # fmt: skip
            w_h = _wide(rooms_wh.index(room).load(pair))
            w_v = _wide(rooms_wv.index(room).load(pair))
            b_h, b_v = _held(w_h, w_v, _table(here, 6, pair, 13))
            to_v, to_h = _decay(b_v, b_h, _table(here, 5, pair, 13))
            to_end = _turned(_stack(to_h.to(low), to_v.to(low), BLOCK), left)
            signal = gl.convert_layout(_for_both(rooms_x.index(room), over_times, BLOCK, WIDTH),
                                       right)  # fmt: skip
            state = _whole(e_h * h, e_v * s + e_vh * h, BLOCK, WIDTH, mma)
            h, s = _parts(_mma(to_end, signal, state), BLOCK, WIDTH, half)
    if segment == segments - 1:
        kept = _to_scratch(_whole(h.to(low), s.to(low), BLOCK, WIDTH, mma), BLOCK, WIDTH, flat)
        gl.store(states + chunks.to(gl.int64) * (32 * WIDTH) + row_states, kept,
                 mask=v_flat < left_variables)  # fmt: skip


@gluon.constexpr_function
def _eight_layout(block):
    """[variable, time, state] for eight states where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0]]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, _bits(block, 0, 3), [], [block, 16, 8])


@gluon.constexpr_function
def _whole_pair_layout(block):
    """[variable, time, state] for all states where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0], [0, 0, 8]]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, _bits(block, 0, 3), [], [block, 16, 16])


@gluon.constexpr_function
def _whole_part_layout(block, width):
    """[variable, state, channel], the h or the v part of eight states."""
    registers = [[0, 0, 1], *_bits(width, 2, 3, 8)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, _bits(block, 0, 3), [], [block, 8, width])


@gluon.constexpr_function
def _whole_rows_layout(block, width, across):
    """[variable, time, channel] where a warp owns a variable: `across` lanes share a row."""
    lanes = _bits(min(width, 8 * across), 2, 3, 8)
    lanes = lanes + _bits(2 ** (5 - len(lanes)), 1, 3)
    own = _bits(width, 2, 3) + _bits(16, 1, 3)
    registers = [base for base in own if base not in lanes]
    warps = _bits(block, 0, 3)
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [block, 16, width])


@gluon.constexpr_function
def _whole_sums_layout(block, width):
    """[variable, time by lane, channel]: what is left when a thread has summed over its times."""
    registers = _bits(width, 2, 3, 8)
    lanes = [[0, 1, 0], [0, 2, 0], [0, 0, 1], [0, 0, 2], [0, 0, 4]]
    return gl.DistributedLinearLayout(registers, lanes, _bits(block, 0, 3), [], [block, 4, width])


@gluon.jit
def _eight(value, HALF: gl.constexpr, eight: gl.constexpr):
    """Eight of the states of a [variable, time, state] tile."""
    value = gl.reshape(value, [value.shape[0], 16, 2, 8])
    first, second = gl.split(gl.permute(value, (0, 1, 3, 2)))
    if HALF == 0:
        return gl.convert_layout(first, eight)
    else:  # noqa: RET505
        return gl.convert_layout(second, eight)


@gluon.jit
def _eight_of_table(rooms, kind: gl.constexpr, HALF: gl.constexpr, pair: gl.constexpr,
                    eight: gl.constexpr):  # fmt: skip
    one, two, three = _split_table(rooms, kind, pair)
    return _eight(one, HALF, eight), _eight(two, HALF, eight), _eight(three, HALF, eight)


@gluon.jit
def _stack_eight(first, second, BLOCK: gl.constexpr):
    """A pair of [variable, time, eight states] as [variable, time, (part, state)]."""
    return gl.reshape(gl.permute(gl.join(first, second), (0, 1, 3, 2)), [BLOCK, 16, 16])


@gluon.jit
def _unstack_eight(both, BLOCK: gl.constexpr, eight: gl.constexpr):
    first, second = gl.split(gl.permute(gl.reshape(both, [BLOCK, 16, 2, 8]), (0, 1, 3, 2)))
    return gl.convert_layout(first, eight), gl.convert_layout(second, eight)


@gluon.jit
def _whole_eight(h, v, BLOCK: gl.constexpr, WIDTH: gl.constexpr, mma: gl.constexpr):
    """The two parts of eight states as [variable, (part, state), channel]."""
    both = gl.reshape(gl.permute(gl.join(h, v), (0, 3, 1, 2)), [BLOCK, 16, WIDTH])
    return gl.convert_layout(both, mma)


@gluon.jit
def _parts_eight(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, part: gl.constexpr):
    h, v = gl.split(gl.permute(gl.reshape(both, [BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1)))
    return gl.convert_layout(h, part), gl.convert_layout(v, part)


@gluon.jit
def _eight_from_scratch(value, BLOCK: gl.constexpr, WIDTH: gl.constexpr, right: gl.constexpr):
    """What `_to_scratch` stored for a warp, as a right operand over channels."""
    value = gl.reshape(value, [BLOCK, WIDTH // 16, 8, 4, 2, 2, 2])
    value = gl.reshape(gl.permute(value, (0, 1, 5, 3, 6, 4, 2)), [BLOCK, WIDTH, 16])
    return gl.convert_layout(value, right)


@gluon.jit
def _leave_sums(rooms, one, two, three, four, five, six, BLOCK: gl.constexpr):
    """Leave six tiles of [variable, time, eight states], side by side."""
    four_of_them = gl.join(gl.join(one, three), gl.join(two, four))  # ... state, first, second bit
    four_of_them = gl.reshape(gl.permute(four_of_them, (0, 1, 3, 4, 2)), [BLOCK, 16, 32])
    room_four, room_two = rooms
    room_four.store(four_of_them)
    room_two.store(gl.reshape(gl.permute(gl.join(five, six), (0, 1, 3, 2)), [BLOCK, 16, 16]))


@gluon.jit
def _sum_of_room(room, out, WIDE: gl.constexpr, BLOCK: gl.constexpr):
    spread: gl.constexpr = gl.BlockedLayout(
        [BLOCK, 1, WIDE // 8], [1, 4, 8], [1, BLOCK, 1], [2, 1, 0]
    )
    total = gl.sum(room.load(spread), 0)
    flat: gl.constexpr = gl.SliceLayout(0, spread)
    i = gl.arange(0, 16, gl.SliceLayout(1, flat))[:, None]
    j = gl.arange(0, WIDE, gl.SliceLayout(0, flat))[None, :]
    gl.store(out + ((j // 8) * 256 + i * 16 + j % 8), total)


@gluon.jit
def _store_sums(rooms, out, BLOCK: gl.constexpr):
    """Sum what the variables of the block left, and store it."""
    room_four, room_two = rooms
    _sum_of_room(room_four, out, 32, BLOCK)
    _sum_of_room(room_two, out + 1024, 16, BLOCK)


@gluon.constexpr_function
def _block_layout(block):
    """[variable, 8, 8]: a quarter of a result."""
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout([[0, 0, 1]], lanes, _bits(block, 0, 3), [], [block, 8, 8])


@gluon.jit
def _diagonal(product, layout: gl.constexpr):
    """The diagonal of [variable, 8, 8]."""
    product = gl.convert_layout(product, layout)
    return gl.sum(gl.where(_axis(1, 8, layout) == _axis(2, 8, layout), product, 0.0), 2)


@gluon.jit
def _store_border(g, h, out, keep, BLOCK: gl.constexpr, mma: gl.constexpr):
    """Gradient times state, (h, h), (v, v) and (v, h), summed over channels; rows 16 apart."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    quarter: gl.constexpr = _block_layout(BLOCK)
    product = _mma(gl.convert_layout(g, left), h, gl.zeros([BLOCK, 16, 16], gl.float32, mma))
    product = gl.permute(gl.reshape(product, [BLOCK, 2, 8, 2, 8]), (0, 2, 4, 3, 1))
    from_h, from_v = gl.split(product)
    hh, _ = gl.split(from_h)
    vh, vv = gl.split(from_v)
    gl.store(out, _diagonal(hh, quarter), mask=keep)
    gl.store(out + 16, _diagonal(vv, quarter), mask=keep)
    gl.store(out + 32, _diagonal(vh, quarter), mask=keep)


@gluon.jit
def _half_of_chunk(
    HALF: gl.constexpr, room_x, room_y, weights, here, kept, following, keep_following, over, g, u,
    d_matrix, d_same, matrix, room_state, border, keep_border, sums, to_write, to_read, stored,
    slice_, base_parts,
    HAS_BASE: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """What eight states have to do with a chunk.

    Returns their moved gradient, M so far, how inputs reach the end of the chunk, and the state
    that is needed next.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = _whole_pair_layout(BLOCK)
    eight: gl.constexpr = _eight_layout(BLOCK)
    part: gl.constexpr = _whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = room_x.dtype
    room_wh, room_wv, room_ch, room_cv = weights
    t = _axis(1, 16, eight)
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)

    # Gradients of what reads the state before the chunk, and of what writes that after.
    before = _eight_from_scratch(kept, BLOCK, WIDTH, right)
    from_h, from_v = _unstack_eight(_mma(room_y.load(left), before, none), BLOCK, eight)
    g_low = _whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma)
    room_state.store(g_low)
    to_h, to_v = _unstack_eight(_mma(room_x.load(left), _turned(g_low, right), none), BLOCK, eight)

    # The gradient of the state itself moves on to the chunk before.
    c_h = _wide(_eight(room_ch.load(pair), HALF, eight))
    c_v = _wide(_eight(room_cv.load(pair), HALF, eight))
    table = _eight_of_table(here, 4, HALF, pair, eight)
    dc_h = from_h * table[0]
    dc_v = from_h * table[1] + from_v * table[2]
    from_h, from_v = _decay(c_h, c_v, table)
    from_start = _turned(_stack_eight(from_h.to(low), from_v.to(low), BLOCK), left)
    over = over + (_axis(1, 8, part) + HALF * 8)
    e_h, e_vh, e_v = gl.load(over), gl.load(over + 256), gl.load(over + 512)
    state = _whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    g, u = _parts_eight(_mma(from_start, room_y.load(right), state), BLOCK, WIDTH, part)
    _store_border(_whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma), before, border,
                  keep_border, BLOCK, mma)  # fmt: skip

    kept = gl.load(following, mask=keep_following, other=0.0)
    w_h = _wide(_eight(room_wh.load(pair), HALF, eight))
    w_v = _wide(_eight(room_wv.load(pair), HALF, eight))
    b_h, b_v = _held(w_h, w_v, _eight_of_table(here, 6, HALF, pair, eight))
    table = _eight_of_table(here, 5, HALF, pair, eight)
    db_v = to_v * table[0] + d_same * c_v
    db_h = to_v * table[1] + to_h * table[2] + d_same * c_h
    dc_h += d_same * b_h
    dc_v += d_same * b_v
    to_v, to_h = _decay(b_v, b_h, table)
    to_end = gl.convert_layout(_stack_eight(to_h.to(low), to_v.to(low), BLOCK), left)

    # Within the chunk, bit by bit.
    own = _mma(
        gl.convert_layout(_stack_eight(c_h.to(low), c_v.to(low), BLOCK), left),
        _turned(_stack_eight(b_h.to(low), b_v.to(low), BLOCK), right),
        none,
    )
    for kind in gl.static_range(4):
        differ = _bit(kind, mma)
        reads = (t & (8 >> kind)) != 0
        table = _eight_of_table(here, kind, HALF, pair, eight)
        first, second = _decay(gl.where(reads, c_h, b_v), gl.where(reads, c_v, b_h), table)
        first, second = first.to(low), second.to(low)
        swapped = _stack_eight(second, first, BLOCK)
        response = _mma(
            gl.convert_layout(_stack_eight(first, second, BLOCK), left),
            _turned(swapped, right),
            none,
        )
        own = gl.where(differ, response, own)
        d_response = gl.convert_layout(gl.where(differ, d_matrix, 0.0).to(low), left)
        d_first, d_second = _unstack_eight(
            _mma(d_response, gl.convert_layout(swapped, right), none), BLOCK, eight
        )
        d_one, d_two = d_first * table[0], d_first * table[1] + d_second * table[2]
        if kind == 0:  # which registers read is known beforehand
            dc_h = gl.where(reads, dc_h + d_one, dc_h)
            dc_v = gl.where(reads, dc_v + d_two, dc_v)
            db_v = gl.where(reads, db_v, db_v + d_one)
            db_h = gl.where(reads, db_h, db_h + d_two)
        else:
            reading = gl.where(reads, 1.0, 0.0)
            writing = gl.where(reads, 0.0, 1.0)
            dc_h += reading * d_one
            dc_v += reading * d_two
            db_v += writing * d_one
            db_h += writing * d_two

    phi_h, phi_v, phi_vh = _eight_of_table(here, 6, HALF, pair, eight)
    kind_of_weight: gl.constexpr = to_write.dtype.element_ty
    gl.store(to_write, (phi_h * db_h + phi_vh * db_v).to(kind_of_weight), mask=stored)
    gl.store(to_write + 16, (phi_v * db_v).to(kind_of_weight), mask=stored)
    w_h = _wide(_eight(room_wh.load(pair), HALF, eight))
    w_v = _wide(_eight(room_wv.load(pair), HALF, eight))
    _leave_sums(sums, w_h * db_h, w_v * db_v, w_h * db_v, c_h * dc_h, c_v * dc_v, c_v * dc_h,
                BLOCK)  # fmt: skip
    if HAS_BASE:  # noqa: SIM102
        if slice_ < base_parts:  # known at run time only
            dc_h += gl.load(to_read, mask=stored, other=0.0).to(gl.float32)
            dc_v += gl.load(to_read + 16, mask=stored, other=0.0).to(gl.float32)
    gl.store(to_read, dc_h.to(kind_of_weight), mask=stored)
    gl.store(to_read + 16, dc_v.to(kind_of_weight), mask=stored)
    return g, u, matrix + own, to_end, kept


@gluon.jit
def fast_backward(
    x, write, read, tables, states, skip, present, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, partial, borders,
    variables, time, channels, head_size, chunks, segments, per_segment, base_parts,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_END: gl.constexpr, HAS_SKIP: gl.constexpr, HAS_PRESENT: gl.constexpr,
    HAS_BASE: gl.constexpr, REVERSE: gl.constexpr,
):  # fmt: skip
    """`scan_backward`, where WIDTH divides the size of a head, with the states of `fast_states`.

    Here a warp owns a variable whole: the matrices it shares with no other would cost two warps
    more to build twice than their registers gain.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    eight: gl.constexpr = _eight_layout(BLOCK)
    half: gl.constexpr = _whole_part_layout(BLOCK, WIDTH)
    by_lane: gl.constexpr = _whole_sums_layout(BLOCK, WIDTH)
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    # Results in float32 lie in whole sectors as they are.
    out_rows: gl.constexpr = _whole_rows_layout(BLOCK, WIDTH, 4) if wide == 8 else mma
    # Two rows a thread, at the price of half lines: pointers to four would not fit the registers.
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 8, 4], [BLOCK, 1, 1], [2, 1, 0])
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
    sums_room: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 4, [2, 1, 0])

    b, batch, first_variable, slice_, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    heads = channels // head_size
    tables += (b * heads + head) * chunks * (21 * 256)
    left_variables = variables - first_variable
    v_rows, t_rows = _axis(0, BLOCK, rows), _axis(1, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    v_out, t_out = _axis(0, BLOCK, out_rows), _axis(1, 16, out_rows)
    v_eight, t_eight = _axis(0, BLOCK, eight), _axis(1, 16, eight)
    v_half = _axis(0, BLOCK, half)
    towards = 1
    if REVERSE:
        towards = -1
    x += b * x_batch + first_variable * x_variable + first_channel
    # A pointer for each row: what a thread takes of it then lies at distances known beforehand.
    p_rows = _axis(2, WIDTH, rows)
    x = x + (v_rows * x_variable + t_rows * (towards * x_time))
    write += b * write_batch + first_variable * write_variable
    write = write + (v_thin * write_variable + t_thin * (towards * write_time))
    read += b * read_batch + first_variable * read_variable
    read = read + (v_thin * read_variable + t_thin * (towards * read_time))
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    per_head = head_size // WIDTH
    part = (first_variable // BLOCK) * per_head + slice_ % per_head
    partial += ((part * batch + b) * heads + head) * chunks * (6 * 256)
    # Borders have a part for each variable, not for each block.
    quarter: gl.constexpr = gl.SliceLayout(2, _block_layout(BLOCK))
    v_border = gl.arange(0, BLOCK, gl.SliceLayout(1, quarter))[:, None]
    keep_border = v_border < left_variables
    borders += ((first_variable * per_head + slice_ % per_head) * batch + b) * heads * (
        chunks + 1
    ) * 48 + head * (chunks + 1) * 48
    borders = borders + v_border * (per_head * batch * heads * (chunks + 1) * 48)
    borders = borders + gl.arange(0, 8, gl.SliceLayout(0, quarter))[None, :]
    line = (b * variables + first_variable) * time
    d_y += line * channels + first_channel
    d_y = d_y + (v_rows * (time * channels) + t_rows * (towards * channels))
    d_x += line * channels + first_channel
    d_x = d_x + (v_out * (time * channels) + t_out * (towards * channels))
    d_write += (slice_ * batch * variables * time + line) * 32
    d_write = d_write + v_eight * (time * 32)
    d_read += (slice_ * batch * variables * time + line) * 32
    d_read = d_read + v_eight * (time * 32)
    row_weights = t_eight * (towards * 32) + _axis(2, 8, eight)
    row_end = _axis(1, 8, half) * channels + _axis(2, WIDTH, half)
    states += ((slice_ * batch + b) * variables + first_variable) * (chunks + 1) * (32 * WIDTH)
    v_flat = gl.arange(0, BLOCK, gl.SliceLayout(1, flat))[:, None]
    states = states + v_flat * ((chunks + 1) * (32 * WIDTH))
    row_states = gl.arange(0, 16 * WIDTH, gl.SliceLayout(0, flat))[None, :]
    keep_flat = v_flat < left_variables
    if HAS_SKIP:
        d_direct = gl.zeros([BLOCK, 4, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = _axis(1, 16, mma), _axis(2, 16, mma)
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
    # Rooms of their own, not parts of one: between parts the compiler would put barriers.
    room_g = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    room_u = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    sums = (
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 32], sums_room),
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
    )
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    if HAS_END:
        corner = ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = d_end + corner + first_channel + (v_half * (segments * 32 * channels) + row_end)
        inside = v_half < left_variables
        g = gl.load(corner, mask=inside, other=0.0)
        u = gl.load(corner + 16 * channels, mask=inside, other=0.0)
        other_g = gl.load(corner + 8 * channels, mask=inside, other=0.0)
        other_u = gl.load(corner + 24 * channels, mask=inside, other=0.0)
        last = states + chunks.to(gl.int64) * (32 * WIDTH) + row_states
        kept = gl.load(last, mask=keep_flat, other=0.0)
        last_border = borders + chunks * 48
        keep_last = keep_border & (segment == segments - 1)
        _store_border(_whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma),
                      _eight_from_scratch(kept, BLOCK, WIDTH, right), last_border, keep_last,
                      BLOCK, mma)  # fmt: skip
        kept = gl.load(last + 16 * WIDTH, mask=keep_flat, other=0.0)
        _store_border(_whole_eight(other_g.to(low), other_u.to(low), BLOCK, WIDTH, mma),
                      _eight_from_scratch(kept, BLOCK, WIDTH, right), last_border + 8, keep_last,
                      BLOCK, mma)  # fmt: skip
    else:
        g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
    _fetch_split(here, tables + (last_chunk - 1) * (21 * 256), BLOCK)
    async_copy.commit_group()
    kept = gl.load(states + (last_chunk - 1).to(gl.int64) * (32 * WIDTH) + row_states,
                   mask=keep_flat, other=0.0)  # fmt: skip
    for visit in range(-1, last_chunk - first_chunk):
        ahead = last_chunk - 2 - visit
        t_ahead = ahead.to(gl.int64) * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        # Before the first chunk there is nothing to fetch, and no mask to look at.
        real = ahead >= first_chunk
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables) & real
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables) & real
        if HAS_PRESENT:
            now = present + t_ahead * present_time
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + 1) % 2
        if ahead >= first_chunk:
            copy(rooms_x.index(room), x + t_ahead * x_time + p_rows, mask=keep_rows)
            copy(rooms_y.index(room), d_y + t_ahead * channels + p_rows, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + t_ahead * write_time, keep_thin, thin)  # fmt: skip
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + t_ahead * read_time, keep_thin, thin)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            chunk = last_chunk - 1 - visit
            at_states = states + chunk.to(gl.int64) * (32 * WIDTH) + row_states
            async_copy.wait_group(1)
            room = visit % 2
            room_x, room_y = rooms_x.index(room), rooms_y.index(room)
            weights = (rooms_wh.index(room), rooms_wv.index(room), rooms_ch.index(room),
                       rooms_cv.index(room))  # fmt: skip
            left_times = time - chunk * 16
            t = chunk.to(gl.int64) * 16
            if REVERSE:
                t = time - 1 - t
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            y_left = room_y.load(left)
            x_left = room_x.load(left)
            forth = _mma(y_left, _turned(x_left, right), none)
            back = _mma(x_left, _turned(y_left, right), none)
            d_matrix = gl.where(i_mma >= j_mma, forth, back)
            d_same = gl.sum(gl.where(i_mma == j_mma, forth, 0.0), 2)
            d_same = gl.convert_layout(d_same, gl.SliceLayout(2, eight))[:, :, None]
            over = tables + chunk * (21 * 256) + (12 * 256 + 240)
            stored = (t_eight < left_times) & (v_eight < left_variables)
            to_write = d_write + t * 32 + row_weights
            to_read = d_read + t * 32 + row_weights
            out = partial + chunk * (6 * 256)
            border = borders + chunk * 48
            g, u, matrix, to_end, kept = _half_of_chunk(
                0, room_x, room_y, weights, here, kept, at_states + 16 * WIDTH, keep_flat, over,
                g, u, d_matrix, d_same, none, room_g, border, keep_border, sums, to_write, to_read,
                stored, slice_, base_parts, HAS_BASE, BLOCK, WIDTH,
            )  # fmt: skip
            barrier()  # keeps the halves apart, whose registers would not fit together
            _store_sums(sums, out, BLOCK)
            other_g, other_u, matrix, other_to_end, kept = _half_of_chunk(
                1, room_x, room_y, weights, here, kept, at_states - 32 * WIDTH,
                keep_flat & (chunk > first_chunk), over, other_g, other_u, d_matrix, d_same, matrix,
                room_u, border + 8, keep_border, sums, to_write + 8, to_read + 8, stored,
                slice_, base_parts, HAS_BASE, BLOCK, WIDTH,
            )  # fmt: skip

            # `matrix` is symmetric up to its diagonal: for the input its later times matter.
            later = gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0).to(low), left)
            d_out = room_y.load(right)
            d_in = _mma(later, d_out, gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma))
            d_in = _mma(to_end, room_g.load(right), d_in)
            d_in = _mma(other_to_end, room_u.load(right), d_in)
            if HAS_SKIP:
                direct = gl.load(skip + first_channel + _axis(2, WIDTH, mma))
                d_in += direct * _wide(room_y.load(mma))
                product = _wide(room_x.load(right) * d_out)
                product = gl.sum(gl.sum(gl.reshape(product, [BLOCK, 2, 4, 2, WIDTH]), 3), 1)
                d_direct += gl.convert_layout(product, by_lane)
            stored = (t_out < left_times) & (v_out < left_variables)
            gl.store(d_x + t * channels + _axis(2, WIDTH, out_rows),
                     gl.convert_layout(d_in.to(low), out_rows), mask=stored)  # fmt: skip

            # What all variables share, steps and rates, by way of six sums.
            _store_sums(sums, out + 8, BLOCK)
            if chunk > first_chunk:
                _fetch_split(here, tables + (chunk - 1) * (21 * 256), BLOCK)
            async_copy.commit_group()
    if segment == 0:
        corner = d_start + (b * variables + first_variable) * 32 * channels + first_channel
        corner = corner + (v_half * (32 * channels) + row_end)
        inside = v_half < left_variables
        gl.store(corner, g, mask=inside)
        gl.store(corner + 16 * channels, u, mask=inside)
        gl.store(corner + 8 * channels, other_g, mask=inside)
        gl.store(corner + 24 * channels, other_u, mask=inside)
    if HAS_SKIP:
        total = gl.sum(gl.sum(d_direct, 1), 0)
        gl.store(d_skip + gl.program_id(0).to(gl.int64) * WIDTH
                 + gl.arange(0, WIDTH, total.type.layout), total)  # fmt: skip
