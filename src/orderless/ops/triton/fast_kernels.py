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

# Places of tables in `quick`, after those of the four bits: as in `tables.py`.
FROM_START = gl.constexpr(4)
TO_END_UNHELD = gl.constexpr(5)
TO_END = gl.constexpr(6)
HOLD = gl.constexpr(7)
QUICK = gl.constexpr(24 * 256)  # entries of a chunk

# Of these a kernel gains nothing by knowing that they are 1 or a multiple of 16: so it is not
# compiled once more for it.
SIZES = ("variables", "chunks", "per_segment", "base_parts")

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
def _single_layout(block):
    """A line of `quick` with one entry for 16 states, where two warps own a variable."""
    warps = [[0, 4], *([0, 0] for _ in _bits(block, 0, 2))]
    lanes = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]]
    return gl.DistributedLinearLayout([[0, 1], [0, 2]], lanes, warps, [], [1, 256])


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
def _wide(value, layout: gl.constexpr):
    """To float32, where a thread holds rows (i, i + 8) of columns (2j, 2j + 1) in turn.

    Times the identity: so four entries take one instruction, where the rule is one each. An
    infinite entry spoils the eight of its row.
    """
    if value.dtype == gl.bfloat16:
        same = _axis(1, value.shape[1], layout) % 8 == _axis(2, value.shape[2], layout) % 8
        return gl.inline_asm_elementwise(
            "{ .reg .f32 z; mov.f32 z, 0f00000000; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16"
            ".f32 {$0, $1, $2, $3}, {$4, $5}, {$6}, {z, z, z, z}; }",
            "=f,=f,=f,=f,r,r,r,r", [value, gl.where(same, 1.0, 0.0).to(gl.bfloat16)],
            dtype=gl.float32, is_pure=True, pack=4,
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
def _times(a, b):
    """a b. In bfloat16 two products are one instruction, where entries lie in pairs."""
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "mul.rn.bf16x2 $0, $1, $2;", "=r,r,r", [a, b],
            dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return a * b


@gluon.jit
def _times_plus(a, b, c):
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", [a, b, c],
            dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return a * b + c


@gluon.jit
def _choose(flag, a, b):
    """a where a flag is not zero. In bfloat16 the two entries of a pair have the same flag."""
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $3, 0; selp.b32 $0, $1, $2, p; }", "=r,r,r,r,r",
            [a, b, flag], dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return gl.where(flag != 0, a, b)


@gluon.jit
def _masked(condition, a, b):
    """a where a condition holds, of bfloat16 in pairs."""
    return gl.inline_asm_elementwise(
        "lop3.b32 $0, $3, $1, $2, 0xCA;", "=r,r,r,r",
        [a, b, gl.where(condition, -1, 0).to(gl.int16)],
        dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _flip(value):
    """The transpose of each [8, 8] block, of two bytes an entry and held like a result."""
    return gl.inline_asm_elementwise(
        "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", [value],
        dtype=value.dtype, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _again(index):
    """The same in a way that the compiler cannot see through.

    So what follows from an index is computed anew where it is needed, instead of being kept, or
    spilled, throughout a loop.
    """
    return gl.inline_asm_elementwise(
        "mov.s32 $0, $1;", "=r,r", [index], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _far(time, stride):
    """Where a time lies, in 64 bits."""
    return time.to(gl.int64) * stride


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
def _rooms_for_tables(low: gl.constexpr, COPIES: gl.constexpr):
    """Shared memory for the tables of a chunk: `quick` in bfloat16, `tables` in float32.

    Rooms of their own, not parts of one: between parts the compiler would put barriers.
    """
    if low == gl.bfloat16:
        lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 1, [1, 0])
        return (
            gl.allocate_shared_memory(low, [COPIES, 16, 256], lines),
            gl.allocate_shared_memory(low, [COPIES, 8, 256], lines),
        )
    else:  # noqa: RET505
        tiles: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
        return (
            gl.allocate_shared_memory(low, [COPIES, 16, 16, 16], tiles),
            gl.allocate_shared_memory(low, [COPIES, 4, 16, 16], tiles),
            gl.allocate_shared_memory(low, [COPIES, 1, 16, 16], tiles),
        )


@gluon.jit
def _copy_of(rooms, i, low: gl.constexpr):
    if low == gl.bfloat16:
        return rooms[0].index(i), rooms[1].index(i)
    else:  # noqa: RET505
        return rooms[0].index(i), rooms[1].index(i), rooms[2].index(i)


@gluon.jit
def _fetch_lines(room, source, ROWS: gl.constexpr, WARPS: gl.constexpr):
    lines: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
    row = _again(gl.arange(0, ROWS, gl.SliceLayout(1, lines))[:, None])
    copy(room, source + (row * 256 + gl.arange(0, 256, gl.SliceLayout(0, lines))[None, :]))


@gluon.jit
def _fetch_tables(rooms, tables, quick, chunk, low: gl.constexpr, WARPS: gl.constexpr):
    if low == gl.bfloat16:
        quick = quick + chunk * QUICK
        _fetch_lines(rooms[0], quick, 16, WARPS)
        _fetch_lines(rooms[1], quick + 16 * 256, 8, WARPS)
    else:
        many, more, last = rooms
        lines: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1], [2, 1, 0])
        tile = _axis(1, 16, lines) * 16 + _axis(2, 16, lines)
        tables = tables + chunk * (21 * 256) + tile
        copy(many, tables + _axis(0, 16, lines) * 256)
        copy(more, tables + (_axis(0, 4, lines) + 16) * 256)
        copy(last, tables + 20 * 256)


@gluon.jit
def _split_table(rooms, kind: gl.constexpr, layout: gl.constexpr):
    """(e1, evh, e2), each [1, 16, 16], of a table in float32 by its place in `quick`."""
    many, more, last = rooms
    if kind < 5:
        return (
            many.slice(kind * 3, 1, dim=0).load(layout),
            many.slice(kind * 3 + 1, 1, dim=0).load(layout),
            many.slice(kind * 3 + 2, 1, dim=0).load(layout),
        )
    elif kind == TO_END:  # noqa: RET505
        return (
            many.slice(15, 1, dim=0).load(layout),
            more.slice(0, 1, dim=0).load(layout),
            more.slice(1, 1, dim=0).load(layout),
        )
    else:
        gl.static_assert(kind == HOLD)
        return (
            more.slice(3, 1, dim=0).load(layout),
            last.load(layout),
            more.slice(2, 1, dim=0).load(layout),
        )


@gluon.jit
def _pairs_of_lines(value, HALVES: gl.constexpr, layout: gl.constexpr):
    """(e1, evh), each [1, 16, states], from lines of `quick`."""
    value = gl.reshape(value, [HALVES, 8, 4, 2, 2, 2])  # half, row, column, entry, row, column
    value = gl.reshape(gl.permute(value, (4, 1, 0, 2, 5, 3)), [1, 16, 8 * HALVES, 2])
    e1, evh = gl.split(value)
    return gl.convert_layout(e1, layout), gl.convert_layout(evh, layout)


@gluon.jit
def _singles_of_lines(value, HALVES: gl.constexpr, layout: gl.constexpr):
    """e2, [1, 16, states], from a line of `quick`."""
    value = gl.permute(gl.reshape(value, [8, 4, HALVES, 2, 2]), (3, 0, 2, 1, 4))
    return gl.convert_layout(gl.reshape(value, [1, 16, 8 * HALVES]), layout)


@gluon.jit
def _whole_table(rooms, kind: gl.constexpr, low: gl.constexpr, BLOCK: gl.constexpr):
    """(e1, evh, e2) for all states where a warp owns a variable."""
    pair: gl.constexpr = _whole_pair_layout(BLOCK)
    if low == gl.bfloat16:
        both: gl.constexpr = gl.BlockedLayout([2, 8], [1, 32], [BLOCK, 1], [1, 0])
        one: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
        e1, evh = _pairs_of_lines(rooms[0].slice(2 * kind, 2, dim=0).load(both), 2, pair)
        e2 = _singles_of_lines(rooms[1].slice(kind, 1, dim=0).load(one), 2, pair)
        return e1, evh, e2
    else:  # noqa: RET505
        return _split_table(rooms, kind, pair)


@gluon.jit
def _half_of_table(rooms, kind: gl.constexpr, HALF: gl.constexpr, low: gl.constexpr,
                   BLOCK: gl.constexpr):  # fmt: skip
    """The same for eight states, and once more in float32."""
    pair: gl.constexpr = _whole_pair_layout(BLOCK)
    eight: gl.constexpr = _eight_layout(BLOCK)
    if low == gl.bfloat16:
        one: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
        e1, evh = _pairs_of_lines(rooms[0].slice(2 * kind + HALF, 1, dim=0).load(one), 1, eight)
        e2 = _singles_of_lines(rooms[1].slice(kind, 1, dim=0).load(one), 2, pair)
        e2 = _eight(e2, HALF, eight)
        return (e1, evh, e2), (_wide(e1, eight), _wide(evh, eight), _wide(e2, eight))
    else:  # noqa: RET505
        one, two, three = _split_table(rooms, kind, pair)
        table = (_eight(one, HALF, eight), _eight(two, HALF, eight), _eight(three, HALF, eight))
        return table, table


@gluon.jit
def _fetch_pair(room_h, room_v, source, mask, thin: gl.constexpr):
    """Start to copy the h and v parts, [variables, 16, 16] each, of write or read."""
    copy(room_h, source + _axis(2, 16, thin), mask=mask)
    copy(room_v, source + (_axis(2, 16, thin) + 16), mask=mask)


@gluon.jit
def _fetch_over(room, tables, chunk, WARPS: gl.constexpr):
    """Start to copy (e_h, e_vh, e_v) over a whole chunk, 16 states each, and 16 entries of no use.

    From shared memory, like all tables: a load from global memory would be waited for.
    """
    ROWS: gl.constexpr = room.shape[0]
    WIDE: gl.constexpr = 64 // ROWS
    lines: gl.constexpr = gl.BlockedLayout([1, 4], [128 // WIDE, WIDE // 4], [WARPS, 1], [1, 0])
    row = _again(gl.arange(0, ROWS, gl.SliceLayout(1, lines))[:, None]) * WIDE
    at = (row // 16) * 256 + row % 16 + gl.arange(0, WIDE, gl.SliceLayout(0, lines))[None, :]
    copy(room, tables + chunk * (21 * 256) + (12 * 256 + 240) + at)


@gluon.jit
def _over_eight(room, HALF: gl.constexpr, part: gl.constexpr):
    """(e_h, e_vh, e_v), each [1, 8, 1], from a room of [8, 8]."""
    flat: gl.constexpr = gl.SliceLayout(2, part)
    return (
        room.slice(HALF, 1, dim=0).load(flat)[:, :, None],
        room.slice(2 + HALF, 1, dim=0).load(flat)[:, :, None],
        room.slice(4 + HALF, 1, dim=0).load(flat)[:, :, None],
    )


@gluon.jit
def _decay(first, second, table):
    e1, evh, e2 = table
    return _times_plus(first, e1, _times(second, evh)), _times(second, e2)


@gluon.jit
def _decay_back(first, second, table):
    """What `_decay` makes of gradients."""
    e1, evh, e2 = table
    return first * e1, first * evh + second * e2


@gluon.jit
def _bit(kind: gl.constexpr, layout: gl.constexpr):
    """[1, t, s]: whether a table leads from s to t."""
    return ((_axis(1, 16, layout) ^ _axis(2, 16, layout)) >> (3 - kind)) == 1


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
def _room_for_skip(skip, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """The skip weights of a slice in shared memory."""
    line: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, BLOCK], [1, 0])
    room = gl.allocate_shared_memory(gl.float32, [1, WIDTH],
                                     gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))  # fmt: skip
    room.store(gl.load(skip + gl.arange(0, WIDTH, gl.SliceLayout(0, line))[None, :]))
    return room


@gluon.jit
def _of_skip(room, mma: gl.constexpr):
    return room.load(gl.SliceLayout(1, mma))[:, None, :]


@gluon.jit
def _for_all(value, BLOCK: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
             layout: gl.constexpr):  # fmt: skip
    """[1, rows, columns] for every variable."""
    value, _ = gl.broadcast(value, gl.zeros([BLOCK, ROWS, COLUMNS], value.dtype, layout))
    return value


@gluon.jit(do_not_specialize=SIZES)
def fast_forward(
    x, write, read, tables, quick, start, base, field, factors, skip, gate, present, y, end,
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
    plain_room: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    # Rooms for the inputs of a chunk: as many as two programs on a multiprocessor can have.
    DEPTH: gl.constexpr = 2 if HAS_FIELD or wide == 4 else 3
    b, _, first_variable, _, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    tables += (b * (channels // head_size) + head) * chunks * (21 * 256)
    if low == gl.bfloat16:
        quick += (b * (channels // head_size) + head) * chunks * QUICK
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
        rooms_field = gl.allocate_shared_memory(low, [DEPTH, 1, 16, WIDTH], wide_room)
        rooms_four = gl.allocate_shared_memory(low, [DEPTH, 4, 16, 32], twin_room)
        rooms_two = gl.allocate_shared_memory(low, [DEPTH, 2, 16, 32], twin_room)
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
    rooms_x = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    rooms_ch = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    rooms_cv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    rooms_tables = _rooms_for_tables(low, DEPTH)
    rooms_over = gl.allocate_shared_memory(gl.float32, [DEPTH, 4, 16], plain_room)
    if HAS_SKIP:
        room_skip = _room_for_skip(skip + first_channel, BLOCK, WIDTH)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    # Ahead of the work: the first visits only fetch.
    for visit in range(1 - DEPTH, last_chunk - first_chunk):
        ahead = first_chunk + visit + (DEPTH - 1)
        t_ahead = ahead * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + _far(t_ahead, present_time)
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + (DEPTH - 1)) % DEPTH
        if ahead < last_chunk:
            copy(rooms_x.index(room), x + _far(t_ahead, x_time) + p_rows, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + _far(t_ahead, write_time), keep_thin, thin)  # fmt: skip
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + _far(t_ahead, read_time), keep_thin, thin)  # fmt: skip
            _fetch_tables(_copy_of(rooms_tables, room, low), tables, quick, ahead, low, BLOCK)
            _fetch_over(rooms_over.index(room), tables, ahead, BLOCK)
            if HAS_FIELD:
                at = field + _far(t_ahead, channels) + _axis(2, WIDTH, common)
                copy(rooms_field.index(room), at, mask=t_common < ahead_times)
                at = factors + ahead * (6 * 512)
                copy(rooms_four.index(room), at + _axis(0, 4, tiles) * 512)
                copy(rooms_two.index(room), at + (_axis(0, 2, tiles) + 4) * 512)
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(DEPTH - 1)
            chunk = first_chunk + visit
            room = visit % DEPTH
            room_x = rooms_x.index(room)
            here = _copy_of(rooms_tables, room, low)
            left_times = time - chunk * 16
            t = chunk * 16
            if REVERSE:
                t = time - 1 - t
            w_h, w_v = rooms_wh.index(room).load(pair), rooms_wv.index(room).load(pair)
            c_h, c_v = rooms_ch.index(room).load(pair), rooms_cv.index(room).load(pair)
            b_v, b_h = _decay(w_v, w_h, _whole_table(here, HOLD, low, BLOCK))
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            if HAS_FIELD:
                psi = _for_all(rooms_field.index(room).load(right), BLOCK, 16, WIDTH, right)
                four, two = rooms_four.index(room), rooms_two.index(room)

            # M: the response at the later of two times to the earlier one, bit by bit.
            reads_now = gl.convert_layout(_stack_all(c_h, c_v, BLOCK), left)
            matrix = _mma(reads_now, _turned(_stack_all(b_h, b_v, BLOCK), right), none)
            if low == gl.bfloat16:  # these tables hold what is written as they lead it
                b_v, b_h = w_v, w_h
            if HAS_FIELD:
                factor = two.slice(0, 1, dim=0).permute((0, 2, 1)).load(right)
                field_matrix = _mma(reads_now, _for_all(factor, BLOCK, 32, 16, right), none)
            for kind in gl.static_range(4):
                reads = t_pair & (8 >> kind)
                first, second = _decay(_choose(reads, c_h, b_v), _choose(reads, c_v, b_h),
                                       _whole_table(here, kind, low, BLOCK))  # fmt: skip
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
            from_h, from_v = _decay(c_h, c_v, _whole_table(here, FROM_START, low, BLOCK))
            from_start = gl.convert_layout(_stack_all(from_h, from_v, BLOCK), left)
            state = _columns_of(h.to(low), s.to(low), BLOCK, WIDTH, mma)
            out = _mma(from_start, _turned(state, right), out)
            lead: gl.constexpr = TO_END_UNHELD if low == gl.bfloat16 else TO_END
            to_v, to_h = _decay(b_v, b_h, _whole_table(here, lead, low, BLOCK))
            to_end = gl.convert_layout(_stack_all(to_h, to_v, BLOCK), right)
            over = rooms_over.index(room)
            by_state: gl.constexpr = gl.SliceLayout(1, part)
            e_h = over.slice(0, 1, dim=0).load(by_state)[:, None, :]
            e_vh = over.slice(1, 1, dim=0).load(by_state)[:, None, :]
            e_v = over.slice(2, 1, dim=0).load(by_state)[:, None, :]
            state = _columns_of(e_h * h, e_v * s + e_vh * h, BLOCK, WIDTH, mma)
            # Loaded once more: the registers of a right operand would have to be put in order.
            state = _mma(room_x.permute((0, 2, 1)).load(left), to_end, state)
            if HAS_FIELD:
                factor = _for_all(two.slice(1, 1, dim=0).load(right), BLOCK, 16, 32, right)
                psi = rooms_field.index(room).permute((0, 2, 1)).load(left)
                state = _mma(_for_all(psi, BLOCK, WIDTH, 16, left), factor, state)
            h, s = _parts_of_columns(state, BLOCK, WIDTH, part)

            if HAS_SKIP:
                out += _of_skip(room_skip, mma) * _wide(room_x.load(mma), mma)
            result = gl.convert_layout(out.to(low), out_rows)
            stored = (t_out < left_times) & (v_out < left_variables)
            keep = stored
            if HAS_PRESENT:
                at = present + _far(t, present_time)
                at = at + (v_out * present_variable + t_out * (towards * present_time))
                keep = keep & (gl.load(at, mask=keep, other=0) != 0)
            if HAS_BASE:
                add = gl.load(base + _far(t, channels) + p_out, mask=stored, other=0.0)
                result = (result.to(gl.float32) + add.to(gl.float32)).to(low)
            if HAS_GATE:
                opening = gl.load(gate + _far(t, gate_time) + p_out, mask=keep, other=0.0)
                opening = opening.to(gl.float32)
                opening = opening / (1.0 + gl.exp(-opening))
                result = (result.to(gl.float32) * opening).to(low)
            gl.store(y + _far(t, channels) + p_out, result, mask=stored)
    if segment == segments - 1:
        corner = end + (b * variables + first_variable) * 32 * channels + first_channel
        corner = corner + (v_part * (32 * channels) + row_state)
        gl.store(corner, h, mask=v_part < left_variables)
        gl.store(corner + 16 * channels, s, mask=v_part < left_variables)


@gluon.jit(do_not_specialize=SIZES)
def fast_states(
    x, write, tables, quick, start, present, states,
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
    rows: gl.constexpr = gl.BlockedLayout([1, 1, 1, wide], [1, 1, 32 // lanes, lanes],
                                           [BLOCK, 1, 2, 1], [3, 2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 2, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [3, 2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
    plain_room: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    DEPTH: gl.constexpr = 3  # rooms for the inputs of a chunk
    b, batch, first_variable, slice_, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    tables += (b * (channels // head_size) + head) * chunks * (21 * 256)
    left_variables = variables - first_variable
    v_rows, t_rows = _axis_of_four(0, BLOCK, rows), _axis_of_four(2, 16, rows)
    v_thin, t_thin = _axis(0, BLOCK, thin), _axis(1, 16, thin)
    towards = 1
    if REVERSE:
        towards = -1
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_rows * x_variable + t_rows * (towards * x_time) + _axis_of_four(3, WIDTH, rows)
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
    rooms_x = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 1, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_room)
    if low == gl.bfloat16:
        quick += (b * (channels // head_size) + head) * chunks * QUICK
        lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 1, [1, 0])
        rooms_pairs = gl.allocate_shared_memory(low, [DEPTH, 2, 256], lines)
        rooms_single = gl.allocate_shared_memory(low, [DEPTH, 1, 256], lines)
    else:
        rooms_tables = gl.allocate_shared_memory(low, [DEPTH, 8, 16, 16], table_room)
    rooms_over = gl.allocate_shared_memory(gl.float32, [DEPTH, 8, 8], plain_room)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    for visit in range(1 - DEPTH, last_chunk - first_chunk):
        ahead = first_chunk + visit + (DEPTH - 1)
        t_ahead = ahead * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables)
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables)
        if HAS_PRESENT:
            now = present + _far(t_ahead, present_time)
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        room = (visit + (DEPTH - 1)) % DEPTH
        if ahead < last_chunk:
            copy(rooms_x.index(room), x + _far(t_ahead, x_time) + row_x, mask=keep_rows)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + _far(t_ahead, write_time) + row_write, keep_thin, thin)  # fmt: skip
            if low == gl.bfloat16:
                source = quick + ahead * QUICK
                _fetch_lines(rooms_pairs.index(room), source + 2 * TO_END_UNHELD * 256, 2, WARPS)
                _fetch_lines(
                    rooms_single.index(room), source + (16 + TO_END_UNHELD) * 256, 1, WARPS
                )
            else:
                # From a time to the end, and the hold, are the last six tiles of a chunk.
                many: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1],
                                                      [2, 1, 0])  # fmt: skip
                tile = _axis(0, 8, many) * 256 + _axis(1, 16, many) * 16 + _axis(2, 16, many)
                copy(rooms_tables.index(room), tables + ahead * (21 * 256) + (tile + 13 * 256))
            _fetch_over(rooms_over.index(room), tables, ahead, WARPS)
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(DEPTH - 1)
            chunk = first_chunk + visit
            room = visit % DEPTH
            kept = _to_scratch(_whole(h.to(low), s.to(low), BLOCK, WIDTH, mma), BLOCK, WIDTH, flat)
            gl.store(states + chunk.to(gl.int64) * (32 * WIDTH) + row_states, kept,
                     mask=v_flat < left_variables)  # fmt: skip
            w_h, w_v = rooms_wh.index(room).load(pair), rooms_wv.index(room).load(pair)
            if low == gl.bfloat16:
                by_warp: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
                e1, evh = _pairs_of_lines(rooms_pairs.index(room).load(by_warp), 2, pair)
                line = rooms_single.index(room).load(_single_layout(BLOCK))
                table = (e1, evh, _singles_of_lines(line, 2, pair))
            else:
                here = rooms_tables.index(room)
                hold = (
                    here.slice(6, 1, dim=0).load(pair),
                    here.slice(7, 1, dim=0).load(pair),
                    here.slice(5, 1, dim=0).load(pair),
                )
                w_v, w_h = _decay(w_v, w_h, hold)
                table = (
                    here.slice(2, 1, dim=0).load(pair),
                    here.slice(3, 1, dim=0).load(pair),
                    here.slice(4, 1, dim=0).load(pair),
                )
            to_v, to_h = _decay(w_v, w_h, table)
            to_end = _turned(_stack(to_h, to_v, BLOCK), left)
            signal = gl.convert_layout(_for_both(rooms_x.index(room), over_times, BLOCK, WIDTH),
                                       right)  # fmt: skip
            first = _over_eight(rooms_over.index(room), 0, half)
            second = _over_eight(rooms_over.index(room), 1, half)
            is_first = _axis(0, WARPS, half) % 2 == 0
            e_h, e_vh = (
                gl.where(is_first, first[0], second[0]),
                gl.where(is_first, first[1], second[1]),
            )
            e_v = gl.where(is_first, first[2], second[2])
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
def _stack_eight(first, second, BLOCK: gl.constexpr):
    """A pair of [variable, time, eight states] as [variable, time, (part, state)]."""
    return gl.reshape(gl.permute(gl.join(first, second), (0, 1, 3, 2)), [BLOCK, 16, 16])


@gluon.jit
def _stack_turned(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    """The same as [variable, (part, state), time], where a thread holds pairs of times."""
    if first.dtype == gl.bfloat16:
        both = gl.join(_flip(first), _flip(second))  # variable, half, state, time of it, part
        both = gl.permute(gl.reshape(both, [BLOCK, 2, 8, 8, 2]), (0, 4, 2, 1, 3))
        return gl.convert_layout(gl.reshape(both, [BLOCK, 16, 16]), layout)
    else:  # noqa: RET505
        return _turned(_stack_eight(first, second, BLOCK), layout)


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
    if value.dtype == gl.int32:
        # Pairs of bfloat16, which stay pairs: every second register is of the first tensor.
        first, second = gl.inline_asm_elementwise(
            "mov.b32 $0, $2; mov.b32 $1, $3;", "=r,=r,r,r", [value],
            dtype=(gl.bfloat16, gl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip
        value = gl.reshape(gl.join(first, second), [BLOCK, WIDTH // 16, 8, 4, 2, 2, 2])
        value = gl.permute(value, (0, 1, 6, 3, 5, 4, 2))
    else:
        value = gl.reshape(value, [BLOCK, WIDTH // 16, 8, 4, 2, 2, 2])
        value = gl.permute(value, (0, 1, 5, 3, 6, 4, 2))
    return gl.convert_layout(gl.reshape(value, [BLOCK, WIDTH, 16]), right)


@gluon.jit
def _prefetch(states, row, variables, size: gl.constexpr, BLOCK: gl.constexpr):
    """Start to bring a state of each variable, which lie `row` apart, into the L2 cache."""
    lines: gl.constexpr = gl.BlockedLayout([1, 2], [1, 32], [BLOCK, 1], [1, 0])
    v = gl.minimum(gl.arange(0, BLOCK, gl.SliceLayout(1, lines))[:, None], variables - 1)
    at = _again(gl.arange(0, 64, gl.SliceLayout(0, lines))[None, :]) * (size // 64)
    gl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [(states + (v * row + at)).to(gl.int64)],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


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
    i = _again(gl.arange(0, 16, gl.SliceLayout(1, flat))[:, None])
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
def _store_border(g, h, out, keep, BLOCK: gl.constexpr, mma: gl.constexpr):
    """Gradient times state, (h, h), (v, v) and (v, h), summed over channels; rows 16 apart.

    They are diagonals: `keep` is for all but their entries off.
    """
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    quarter: gl.constexpr = _block_layout(BLOCK)
    product = _mma(gl.convert_layout(g, left), h, gl.zeros([BLOCK, 16, 16], gl.float32, mma))
    product = gl.permute(gl.reshape(product, [BLOCK, 2, 8, 2, 8]), (0, 2, 4, 3, 1))
    from_h, from_v = gl.split(product)
    hh, _ = gl.split(from_h)
    vh, vv = gl.split(from_v)
    gl.store(out, gl.convert_layout(hh, quarter), mask=keep)
    gl.store(out + 16, gl.convert_layout(vv, quarter), mask=keep)
    gl.store(out + 32, gl.convert_layout(vh, quarter), mask=keep)


@gluon.jit
def _two_halves(value, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """Times 0..7 and 8..15 of [variable, time, channel]."""
    return gl.split(gl.permute(gl.reshape(value, [BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1)))


@gluon.jit
def _quarters(value, BLOCK: gl.constexpr):
    """[variable, 16, 16] as four of [variable, 8, 8], row by row."""
    quarter: gl.constexpr = _block_layout(BLOCK)
    value = gl.permute(gl.reshape(value, [BLOCK, 2, 8, 2, 8]), (0, 2, 4, 3, 1))
    first, second = gl.split(value)
    one, two = gl.split(first)
    three, four = gl.split(second)
    return (
        gl.convert_layout(one, quarter), gl.convert_layout(two, quarter),
        gl.convert_layout(three, quarter), gl.convert_layout(four, quarter),
    )  # fmt: skip


@gluon.jit
def _of_quarters(one, two, three, four, BLOCK: gl.constexpr, layout: gl.constexpr):
    value = gl.join(gl.join(one, two), gl.join(three, four))  # ... column, row of quarters
    value = gl.reshape(gl.permute(value, (0, 4, 1, 3, 2)), [BLOCK, 16, 16])
    return gl.convert_layout(value, layout)


@gluon.jit
def _matrix_gradient(room_x, room_y, BLOCK: gl.constexpr, WIDTH: gl.constexpr, mma: gl.constexpr):
    """The gradient of M, made symmetric, and its diagonal, as the two functions below take them."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    forth = _mma(room_y.load(left), room_x.permute((0, 2, 1)).load(right), none)
    if room_x.dtype == gl.bfloat16:
        quarter: gl.constexpr = _block_layout(BLOCK)
        i, j = _axis(1, 8, quarter), _axis(2, 8, quarter)
        one, _, three, four = _quarters(forth.to(gl.bfloat16), BLOCK)
        zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, quarter)
        same = (_masked(i == j, one, zero), _masked(i == j, four, zero))
        one, four = _masked(i >= j, one, _flip(one)), _masked(i >= j, four, _flip(four))
        whole = (
            (_flip(three), three),
            (_masked((i ^ j) >> 2 == 1, one, zero), _masked((i ^ j) >> 2 == 1, four, zero)),
            (_masked((i ^ j) >> 1 == 1, one, zero), _masked((i ^ j) >> 1 == 1, four, zero)),
            (_masked(i ^ j == 1, one, zero), _masked(i ^ j == 1, four, zero)),
        )
        return whole, same
    else:  # noqa: RET505
        i, j = _axis(1, 16, mma), _axis(2, 16, mma)
        back = _mma(room_x.load(left), room_y.permute((0, 2, 1)).load(right), none)
        same = gl.sum(gl.where(i == j, forth, 0.0), 2)
        same = gl.convert_layout(same, gl.SliceLayout(2, _eight_layout(BLOCK)))[:, :, None]
        return gl.where(i >= j, forth, back), same


@gluon.jit
def _gradient_of_bit(whole, kind: gl.constexpr, low: gl.constexpr, BLOCK: gl.constexpr,
                     mma: gl.constexpr):  # fmt: skip
    """What a table has of the gradient of M, as a left operand."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    if low == gl.bfloat16:
        quarter: gl.constexpr = _block_layout(BLOCK)
        zero = gl.zeros([BLOCK, 8, 8], low, quarter)
        first, second = whole[kind]
        if kind == 0:
            return _of_quarters(zero, first, second, zero, BLOCK, left)
        else:  # noqa: RET505
            return _of_quarters(first, zero, zero, second, BLOCK, left)
    else:
        return gl.convert_layout(gl.where(_bit(kind, mma), whole, 0.0), left)


@gluon.jit
def _add_same(total_h, total_v, same, other_h, other_v, BLOCK: gl.constexpr, mma: gl.constexpr):
    """total + same other, where `same` has an entry for each time."""
    eight: gl.constexpr = _eight_layout(BLOCK)
    if other_h.dtype == gl.bfloat16:
        left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
        right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
        one, four = same
        zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, _block_layout(BLOCK))
        other = _turned(_stack_turned(other_h, other_v, BLOCK, mma), right)
        total = gl.convert_layout(_stack_eight(total_h, total_v, BLOCK), mma)
        total = _mma(_of_quarters(one, zero, zero, four, BLOCK, left), other, total)
        return _unstack_eight(total, BLOCK, eight)
    else:  # noqa: RET505
        return total_h + same * other_h, total_v + same * other_v


@gluon.jit
def _add_to_one(flag, first, second, a, b):
    """(first + a b, second) where a flag is not zero, and (first, second + a b) where it is."""
    return gl.inline_asm_elementwise(
        "{ .reg .pred p; setp.ne.s32 p, $6, 0; mov.f32 $0, $2; mov.f32 $1, $3;"
        "@p fma.rn.f32 $0, $4, $5, $2; @!p fma.rn.f32 $1, $4, $5, $3; }",
        "=f,=f,f,f,f,f,r", [first, second, a, b, flag],
        dtype=(gl.float32, gl.float32), is_pure=True, pack=1,
    )  # fmt: skip


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
    c_h = _eight(room_ch.load(pair), HALF, eight)
    c_v = _eight(room_cv.load(pair), HALF, eight)
    table, wide_table = _half_of_table(here, FROM_START, HALF, low, BLOCK)
    dc_h, dc_v = _decay_back(from_h, from_v, wide_table)
    from_h, from_v = _decay(c_h, c_v, table)
    from_start = _stack_turned(from_h, from_v, BLOCK, left)
    if low == gl.bfloat16:
        e_h, e_vh, e_v = _over_eight(over, HALF, part)
    else:
        over = over + (_axis(1, 8, part) + HALF * 8)
        e_h, e_vh, e_v = gl.load(over), gl.load(over + 256), gl.load(over + 512)
    state = _whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    g, u = _parts_eight(_mma(from_start, room_y.load(right), state), BLOCK, WIDTH, part)
    _store_border(_whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma), before, border,
                  keep_border, BLOCK, mma)  # fmt: skip

    kept = gl.load(following, mask=keep_following, other=0)
    w_h = _eight(room_wh.load(pair), HALF, eight)
    w_v = _eight(room_wv.load(pair), HALF, eight)
    hold, _ = _half_of_table(here, HOLD, HALF, low, BLOCK)
    b_v, b_h = _decay(w_v, w_h, hold)
    table, wide_table = _half_of_table(here, TO_END, HALF, low, BLOCK)
    db_v, db_h = _decay_back(to_v, to_h, wide_table)
    dc_h, dc_v = _add_same(dc_h, dc_v, d_same, b_h, b_v, BLOCK, mma)
    db_h, db_v = _add_same(db_h, db_v, d_same, c_h, c_v, BLOCK, mma)
    to_v, to_h = _decay(b_v, b_h, table)
    to_end = gl.convert_layout(_stack_eight(to_h, to_v, BLOCK), left)

    # Within the chunk, bit by bit.
    own = _mma(
        gl.convert_layout(_stack_eight(c_h, c_v, BLOCK), left),
        _turned(_stack_eight(b_h, b_v, BLOCK), right),
        none,
    )
    for kind in gl.static_range(4):
        reads = t & (8 >> kind)
        table, wide_table = _half_of_table(here, kind, HALF, low, BLOCK)
        first, second = _decay(_choose(reads, c_h, b_v), _choose(reads, c_v, b_h), table)
        response = _mma(
            gl.convert_layout(_stack_eight(first, second, BLOCK), left),
            _turned(_stack_eight(second, first, BLOCK), right),
            none,
        )
        own = gl.where(_bit(kind, mma), response, own)
        over_times = _turned(_stack_turned(second, first, BLOCK, mma), right)
        d_pair = _mma(_gradient_of_bit(d_matrix, kind, low, BLOCK, mma), over_times, none)
        d_first, d_second = _unstack_eight(d_pair, BLOCK, eight)
        dc_h, db_v = _add_to_one(reads, dc_h, db_v, d_first, wide_table[0])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_first, wide_table[1])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_second, wide_table[2])

    _, hold = _half_of_table(here, HOLD, HALF, low, BLOCK)
    kind_of_weight: gl.constexpr = to_write.dtype.element_ty
    dw_v, dw_h = _decay_back(db_v, db_h, hold)
    gl.store(to_write, dw_h.to(kind_of_weight), mask=stored)
    gl.store(to_write + 16, dw_v.to(kind_of_weight), mask=stored)
    w_h, w_v, c_h, c_v = _wide(w_h, eight), _wide(w_v, eight), _wide(c_h, eight), _wide(c_v, eight)
    _leave_sums(sums, w_h * db_h, w_v * db_v, w_h * db_v, c_h * dc_h, c_v * dc_v, c_v * dc_h,
                BLOCK)  # fmt: skip
    if HAS_BASE:  # noqa: SIM102
        if slice_ < base_parts:  # known at run time only
            dc_h += gl.load(to_read, mask=stored, other=0.0).to(gl.float32)
            dc_v += gl.load(to_read + 16, mask=stored, other=0.0).to(gl.float32)
    gl.store(to_read, dc_h.to(kind_of_weight), mask=stored)
    gl.store(to_read + 16, dc_v.to(kind_of_weight), mask=stored)
    return g, u, matrix + own, to_end, kept


@gluon.jit(do_not_specialize=SIZES)
def fast_backward(
    x, write, read, tables, quick, states, skip, present, d_y, d_end,
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
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    # States are moved in words of four bytes, the layout of a thread's eight entries.
    word: gl.constexpr = wide // 4
    flat: gl.constexpr = gl.BlockedLayout([1, 8 // word], [1, 32], [BLOCK, 1], [1, 0])
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
    plain_room: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    b, batch, first_variable, slice_, head, first_channel, segment = _program(
        variables, channels, head_size, segments, BLOCK, WIDTH
    )
    heads = channels // head_size
    tables += (b * heads + head) * chunks * (21 * 256)
    if low == gl.bfloat16:
        quick += (b * heads + head) * chunks * QUICK
    left_variables = variables - first_variable
    v_half = _axis(0, BLOCK, half)
    towards = 1
    if REVERSE:
        towards = -1
    x += b * x_batch + first_variable * x_variable + first_channel
    write += b * write_batch + first_variable * write_variable
    read += b * read_batch + first_variable * read_variable
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    per_head = head_size // WIDTH
    part = (first_variable // BLOCK) * per_head + slice_ % per_head
    partial += ((part * batch + b) * heads + head) * chunks * (6 * 256)
    # Borders have a part for each variable, not for each block.
    quarter: gl.constexpr = _block_layout(BLOCK)
    v_border, i_border, j_border = (_axis(0, BLOCK, quarter), _axis(1, 8, quarter),
                                    _axis(2, 8, quarter))  # fmt: skip
    keep_border = (v_border < left_variables) & (i_border == j_border)
    borders += ((first_variable * per_head + slice_ % per_head) * batch + b) * heads * (
        chunks + 1
    ) * 48 + head * (chunks + 1) * 48
    borders = borders + v_border * (per_head * batch * heads * (chunks + 1) * 48)
    borders = borders + gl.where(i_border == j_border, i_border, 0)
    line = (b * variables + first_variable) * time
    d_y += line * channels + first_channel
    d_x += line * channels + first_channel
    d_write += (slice_ * batch * variables * time + line) * 32
    d_read += (slice_ * batch * variables * time + line) * 32
    row_end = _axis(1, 8, half) * channels + _axis(2, WIDTH, half)
    states += ((slice_ * batch + b) * variables + first_variable) * (chunks + 1) * (32 * WIDTH)
    v_flat = gl.arange(0, BLOCK, gl.SliceLayout(1, flat))[:, None]
    if low == gl.bfloat16:
        states = states.to(gl.pointer_type(gl.int32), bitcast=True)
    size: gl.constexpr = 32 * WIDTH // word  # of a state
    first_state = states
    states = states + v_flat * ((chunks + 1) * size)
    row_states = gl.arange(0, size // 2, gl.SliceLayout(0, flat))[None, :]
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
    # In float32 a second room for tables, or any of the small ones, would cost the place of a
    # second program.
    copies: gl.constexpr = 2 if low == gl.bfloat16 else 1
    rooms_tables = _rooms_for_tables(low, copies)
    if low == gl.bfloat16:
        rooms_over = gl.allocate_shared_memory(gl.float32, [2, 8, 8], plain_room)
        if HAS_SKIP:
            room_skip = _room_for_skip(skip + first_channel, BLOCK, WIDTH)
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
        last = states + chunks.to(gl.int64) * size + row_states
        kept = gl.load(last, mask=keep_flat, other=0)
        last_border = borders + chunks * 48
        keep_last = keep_border & (segment == segments - 1)
        _store_border(_whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma),
                      _eight_from_scratch(kept, BLOCK, WIDTH, right), last_border, keep_last,
                      BLOCK, mma)  # fmt: skip
        kept = gl.load(last + size // 2, mask=keep_flat, other=0)
        _store_border(_whole_eight(other_g.to(low), other_u.to(low), BLOCK, WIDTH, mma),
                      _eight_from_scratch(kept, BLOCK, WIDTH, right), last_border + 8, keep_last,
                      BLOCK, mma)  # fmt: skip
    else:
        g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
    if copies == 1:
        _fetch_tables(_copy_of(rooms_tables, 0, low), tables, quick, last_chunk - 1, low, BLOCK)
        async_copy.commit_group()
    kept = gl.load(states + (last_chunk - 1).to(gl.int64) * size + row_states,
                   mask=keep_flat, other=0)  # fmt: skip
    # One step ahead of the work: before the last chunk it only fetches.
    for ahead in range(last_chunk - 1, first_chunk - 2, -1):
        t_ahead = ahead * 16
        ahead_times = time - ahead * 16
        if REVERSE:
            t_ahead = time - 1 - t_ahead
        # Before the first chunk there is nothing to fetch, and no mask to look at.
        real = ahead >= first_chunk
        v_rows, t_rows = _again(_axis(0, BLOCK, rows)), _again(_axis(1, 16, rows))
        v_thin, t_thin = _again(_axis(0, BLOCK, thin)), _again(_axis(1, 16, thin))
        keep_rows = (t_rows < ahead_times) & (v_rows < left_variables) & real
        keep_thin = (t_thin < ahead_times) & (v_thin < left_variables) & real
        if HAS_PRESENT:
            now = present + _far(t_ahead, present_time)
            at_rows = now + (v_rows * present_variable + t_rows * (towards * present_time))
            keep_rows = keep_rows & (gl.load(at_rows, mask=keep_rows, other=0) != 0)
            at_thin = now + (v_thin * present_variable + t_thin * (towards * present_time))
            keep_thin = keep_thin & (gl.load(at_thin, mask=keep_thin, other=0) != 0)
        if ahead >= first_chunk:
            room = ahead % 2
            # A pointer for each row: what a thread takes of it lies at distances known beforehand.
            p_rows = _axis(2, WIDTH, rows)
            at = v_rows * x_variable + t_rows * (towards * x_time)
            copy(
                rooms_x.index(room),
                x + _far(t_ahead, x_time) + at + p_rows,
                mask=keep_rows,
            )
            at = v_rows * (time * channels) + t_rows * (towards * channels)
            copy(
                rooms_y.index(room),
                d_y + _far(t_ahead, channels) + at + p_rows,
                mask=keep_rows,
            )
            at = v_thin * write_variable + t_thin * (towards * write_time)
            _fetch_pair(rooms_wh.index(room), rooms_wv.index(room),
                        write + _far(t_ahead, write_time) + at, keep_thin, thin)  # fmt: skip
            at = v_thin * read_variable + t_thin * (towards * read_time)
            _fetch_pair(rooms_ch.index(room), rooms_cv.index(room),
                        read + _far(t_ahead, read_time) + at, keep_thin, thin)  # fmt: skip
            if copies == 2:
                _fetch_tables(_copy_of(rooms_tables, room, low), tables, quick, ahead, low, BLOCK)
                _fetch_over(rooms_over.index(room), tables, ahead, BLOCK)
        async_copy.commit_group()
        chunk = ahead + 1
        if chunk < last_chunk:
            at_states = states + chunk.to(gl.int64) * size + row_states
            async_copy.wait_group(1)
            room = chunk % 2
            room_x, room_y = rooms_x.index(room), rooms_y.index(room)
            weights = (rooms_wh.index(room), rooms_wv.index(room), rooms_ch.index(room),
                       rooms_cv.index(room))  # fmt: skip
            left_times = time - chunk * 16
            t = chunk * 16
            if REVERSE:
                t = time - 1 - t
            _prefetch(first_state + gl.maximum(chunk - 1, 0).to(gl.int64) * size,
                      (chunks + 1) * size, left_variables, size, BLOCK)  # fmt: skip
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            d_matrix, d_same = _matrix_gradient(room_x, room_y, BLOCK, WIDTH, mma)
            here = _copy_of(rooms_tables, room % copies, low)
            if low == gl.bfloat16:
                over = rooms_over.index(room)
            else:
                over = tables + chunk * (21 * 256) + (12 * 256 + 240)
            v_eight, t_eight = _again(_axis(0, BLOCK, eight)), _again(_axis(1, 16, eight))
            stored = (t_eight < left_times) & (v_eight < left_variables)
            at = v_eight * (time * 32) + t_eight * (towards * 32) + _axis(2, 8, eight)
            to_write, to_read = (
                d_write + _far(t, 32) + at,
                d_read + _far(t, 32) + at,
            )
            out = partial + chunk * (6 * 256)
            border = borders + chunk * 48
            g, u, matrix, to_end, kept = _half_of_chunk(
                0, room_x, room_y, weights, here, kept, at_states + size // 2, keep_flat, over,
                g, u, d_matrix, d_same, none, room_g, border, keep_border, sums, to_write, to_read,
                stored, slice_, base_parts, HAS_BASE, BLOCK, WIDTH,
            )  # fmt: skip
            barrier()  # keeps the halves apart, whose registers would not fit together
            _store_sums(sums, out, BLOCK)
            other_g, other_u, matrix, other_to_end, kept = _half_of_chunk(
                1, room_x, room_y, weights, here, kept, at_states - size,
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
                if low == gl.bfloat16:
                    direct = _of_skip(room_skip, mma)
                else:
                    direct = gl.load(skip + first_channel + _axis(2, WIDTH, mma))
                d_in += direct * _wide(room_y.load(mma), mma)
                # Of the times (2j, 2j + 1, 2j + 8, 2j + 9) that a thread holds.
                x_one, x_two = _two_halves(room_x.load(right), BLOCK, WIDTH)
                d_one, d_two = _two_halves(d_out, BLOCK, WIDTH)
                product = _times_plus(x_one, d_one, _times(x_two, d_two)).to(gl.float32)
                product = gl.sum(gl.reshape(product, [BLOCK, 4, 2, WIDTH]), 2)
                d_direct += gl.convert_layout(product, by_lane)
            v_out, t_out = _again(_axis(0, BLOCK, out_rows)), _again(_axis(1, 16, out_rows))
            stored = (t_out < left_times) & (v_out < left_variables)
            at = v_out * (time * channels) + t_out * (towards * channels)
            gl.store(d_x + _far(t, channels) + at + _axis(2, WIDTH, out_rows),
                     gl.convert_layout(d_in.to(low), out_rows), mask=stored)  # fmt: skip

            # What all variables share, steps and rates, by way of six sums.
            _store_sums(sums, out + 8, BLOCK)
            if copies == 1:
                if chunk > first_chunk:
                    _fetch_tables(here, tables, quick, chunk - 1, low, BLOCK)
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
