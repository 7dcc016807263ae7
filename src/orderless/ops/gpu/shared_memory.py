"""Shared memory: the tables of a chunk and how they get there, weights, skip."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.tile import (
    axis_of,
    eight_layout,
    offset_i64,
    opaque_copy,
    to_fetch,
    to_float32,
    whole_pair_layout,
)

# Places of tables in `tables_bf16`, after those of the four bits: as in `tables.py`.
FROM_START = gl.constexpr(4)
HOLD = gl.constexpr(5)
TO_END = gl.constexpr(6)
TO_END_UNHELD = gl.constexpr(7)
BF16_TABLES = gl.constexpr(24 * 256)  # entries of a chunk

copy = async_copy.async_copy_global_to_shared


@gluon.constexpr_function
def line_of_pairs(kind):
    """The first of the two lines with two entries of a table, as in `tables.py`."""
    return 2 * kind if kind < 6 else 3 * kind


@gluon.constexpr_function
def line_of_singles(kind):
    """The line with one entry of it."""
    return 12 + kind if kind < 6 else 3 * kind + 2


@gluon.jit
def allocate_tables(low: gl.constexpr, COPIES: gl.constexpr):
    """Shared memory for the tables of a chunk: `tables_bf16` in bfloat16, `tables` in float32.

    Buffers of their own, not parts of one: between parts the compiler would put barriers.
    """
    if low == gl.bfloat16:
        lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 1, [1, 0])
        return (
            gl.allocate_shared_memory(low, [COPIES, 16, 256], lines),
            gl.allocate_shared_memory(low, [COPIES, 4, 256], lines),
            gl.allocate_shared_memory(low, [COPIES, 1, 256], lines),
        )
    else:  # noqa: RET505
        tiles: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
        return (
            gl.allocate_shared_memory(low, [COPIES, 16, 16, 16], tiles),
            gl.allocate_shared_memory(low, [COPIES, 4, 16, 16], tiles),
            gl.allocate_shared_memory(low, [COPIES, 1, 16, 16], tiles),
        )


@gluon.jit
def allocate_table():
    """Shared memory for one table of `tables_bf16`, its lines with two entries and with one."""
    lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 1, [1, 0])
    return (
        gl.allocate_shared_memory(gl.bfloat16, [2, 256], lines),
        gl.allocate_shared_memory(gl.bfloat16, [1, 256], lines),
    )


@gluon.jit
def copy_of(buffers, i):
    """One of the copies of these buffers."""
    return buffers[0].index(i), buffers[1].index(i), buffers[2].index(i)


@gluon.jit
def fetch_lines(buffer, source, SKIPPED: gl.constexpr, now, WARPS: gl.constexpr):
    """Start to copy lines of `tables_bf16`, of which some are left out after the second."""
    ROWS: gl.constexpr = buffer.shape[0]
    lines: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
    row = gl.arange(0, ROWS, gl.SliceLayout(1, lines))[:, None]
    own, more = opaque_copy(row % WARPS, now), row // WARPS * WARPS
    if SKIPPED > 0:
        more += gl.where(own + more < 2, 0, SKIPPED)
    at = own * 256 + gl.arange(0, 256, gl.SliceLayout(0, lines))[None, :]
    copy(buffer, source + at + more * 256)


@gluon.jit
def fetch_tiles(buffer, source, WARPS: gl.constexpr):
    """Start to copy tables in float32, of which a tile is a part."""
    lines: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1], [2, 1, 0])
    tile = axis_of(1, 16, lines) * 16 + axis_of(2, 16, lines)
    copy(buffer, source + tile + axis_of(0, buffer.shape[0], lines) * 256)


@gluon.jit
def fetch_tables(buffers, tables, tables_bf16, END: gl.constexpr, chunk, low: gl.constexpr,
                 WARPS: gl.constexpr):  # fmt: skip
    """Start to copy the tables of a chunk, of those to its end in `tables_bf16` just one."""
    if low == gl.bfloat16:
        tables_bf16 = tables_bf16 + chunk * BF16_TABLES
        others: gl.constexpr = line_of_pairs(END) - line_of_pairs(TO_END)
        fetch_lines(buffers[0], tables_bf16, 0, chunk, WARPS)
        fetch_lines(buffers[1], tables_bf16 + 16 * 256, others, chunk, WARPS)
        fetch_lines(buffers[2], tables_bf16 + line_of_singles(END) * 256, 0, chunk, WARPS)
    else:
        many, more, last = buffers
        tables = tables + chunk * (21 * 256)
        fetch_tiles(many, tables, WARPS)
        fetch_tiles(more, tables + 16 * 256, WARPS)
        fetch_tiles(last, tables + 20 * 256, WARPS)


@gluon.jit
def _split_table(buffers, kind: gl.constexpr, layout: gl.constexpr):
    """(e1, evh, e2), each [1, 16, 16], of a table in float32 by its place in `tables_bf16`."""
    many, more, last = buffers
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
def pairs_of_lines(value, HALVES: gl.constexpr, layout: gl.constexpr):
    """(e1, evh), each [1, 16, states], from lines of `tables_bf16`."""
    value = gl.reshape(value, [HALVES, 8, 4, 2, 2, 2])  # half, row, column, entry, row, column
    value = gl.reshape(gl.permute(value, (4, 1, 0, 2, 5, 3)), [1, 16, 8 * HALVES, 2])
    e1, evh = gl.split(value)
    return gl.convert_layout(e1, layout), gl.convert_layout(evh, layout)


@gluon.jit
def singles_of_lines(value, HALVES: gl.constexpr, layout: gl.constexpr):
    """e2, [1, 16, states], from a line of `tables_bf16`."""
    value = gl.permute(gl.reshape(value, [8, 4, HALVES, 2, 2]), (3, 0, 2, 1, 4))
    return gl.convert_layout(gl.reshape(value, [1, 16, 8 * HALVES]), layout)


@gluon.jit
def lines_of(buffers, kind: gl.constexpr):
    """The two lines of a table with two entries, and the one with one."""
    if kind < 4:
        return buffers[0].slice(2 * kind, 2, dim=0), buffers[0].slice(12 + kind, 1, dim=0)
    elif kind < 6:  # noqa: RET505
        return buffers[0].slice(2 * kind, 2, dim=0), buffers[1].slice(kind - 4, 1, dim=0)
    else:
        return buffers[1].slice(2, 2, dim=0), buffers[2]


@gluon.jit
def eight_of(value, HALF: gl.constexpr, eight: gl.constexpr):
    """Eight of the states of a [variable, time, state] tile."""
    value = gl.reshape(value, [value.shape[0], 16, 2, 8])
    first, second = gl.split(gl.permute(value, (0, 1, 3, 2)))
    if HALF == 0:
        return gl.convert_layout(first, eight)
    else:  # noqa: RET505
        return gl.convert_layout(second, eight)


@gluon.jit
def whole_table(buffers, kind: gl.constexpr, low: gl.constexpr, BLOCK: gl.constexpr):
    """(e1, evh, e2) for all states where a warp owns a variable."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    if low == gl.bfloat16:
        both: gl.constexpr = gl.BlockedLayout([2, 8], [1, 32], [BLOCK, 1], [1, 0])
        one: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
        pairs, single = lines_of(buffers, kind)
        e1, evh = pairs_of_lines(pairs.load(both), 2, pair)
        e2 = singles_of_lines(single.load(one), 2, pair)
        return e1, evh, e2
    else:  # noqa: RET505
        return _split_table(buffers, kind, pair)


@gluon.jit
def half_of_lines(lines, HALF: gl.constexpr, BLOCK: gl.constexpr):
    """(e1, evh, e2) of a table of `tables_bf16` for eight states."""
    eight: gl.constexpr = eight_layout(BLOCK)
    one: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
    pairs, single = lines
    e1, evh = pairs_of_lines(pairs.slice(HALF, 1, dim=0).load(one), 1, eight)
    e2 = singles_of_lines(single.load(one), 2, whole_pair_layout(BLOCK))
    return e1, evh, eight_of(e2, HALF, eight)


@gluon.jit
def half_of_table(buffers, kind: gl.constexpr, HALF: gl.constexpr, low: gl.constexpr,
                  BLOCK: gl.constexpr):  # fmt: skip
    """The same for eight states, and once more in float32."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    if low == gl.bfloat16:
        e1, evh, e2 = half_of_lines(lines_of(buffers, kind), HALF, BLOCK)
        return (e1, evh, e2), (to_float32(e1, eight), to_float32(evh, eight), to_float32(e2, eight))
    else:  # noqa: RET505
        one, two, three = _split_table(buffers, kind, pair)
        table = (
            eight_of(one, HALF, eight),
            eight_of(two, HALF, eight),
            eight_of(three, HALF, eight),
        )
        return table, table


@gluon.jit
def fetch_pair(buffer_h, buffer_v, source, mask, thin: gl.constexpr, STATES: gl.constexpr):
    """Start to copy the h and v parts, [variables, 16, 16] each, of write or read."""
    n = axis_of(2, 16, thin)
    if STATES < 16:
        mask = mask & (n < STATES)
    copy(buffer_h, source + n, mask=mask)
    copy(buffer_v, source + (n + STATES), mask=mask)


@gluon.jit
def _rows_of_chunk(
    chunk, left_times, variables, strides, mask, own: gl.constexpr,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Where the rows of a chunk lie, from where, and which to fetch; lanes share `own` of them.

    A pointer for each row: what a thread takes of it lies at distances known beforehand.
    """
    variable, tick, mask_variable, mask_tick = strides
    t = chunk * 16
    v, row = opaque_copy(axis_of(0, BLOCK, layout), chunk), axis_of(1, 16, layout)
    row = opaque_copy(row % own, chunk) + row // own * own
    if HAS_MASK:
        mask = mask + offset_i64(t, mask_tick)
    keep = to_fetch(v, row, variables, left_times, mask, mask_variable,
                    mask_tick, HAS_MASK)  # fmt: skip
    return offset_i64(t, tick), v * variable + row * tick, keep


@gluon.jit
def fetch_rows(
    buffer, signal, mask, chunk, left_times, variables, strides,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Start to copy a chunk of a signal. strides: of variables and times, and of `mask`."""
    wide: gl.constexpr = 128 // buffer.dtype.primitive_bitwidth
    # Two rows a thread, at the price of half lines: pointers to four would not fit the registers.
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 8, 4], [BLOCK, 1, 1], [2, 1, 0])
    corner, at, keep = _rows_of_chunk(chunk, left_times, variables, strides, mask,
                                      8, HAS_MASK, BLOCK, rows)  # fmt: skip
    copy(buffer, signal + corner + at + axis_of(2, WIDTH, rows), mask=keep)


@gluon.jit
def fetch_weights(
    buffer_h, buffer_v, weights, mask, chunk, left_times, variables, strides,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """The same of what a signal is written or read with, h and v parts."""
    wide: gl.constexpr = 128 // buffer_h.dtype.primitive_bitwidth
    few: gl.constexpr = 16 // wide
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    corner, at, keep = _rows_of_chunk(chunk, left_times, variables, strides, mask,
                                      32 // few, HAS_MASK, BLOCK, thin)  # fmt: skip
    fetch_pair(buffer_h, buffer_v, weights + corner + at, keep, thin, STATES)


@gluon.jit
def fetch_signal(
    buffers, signal, weights, mask, chunk, left_times, variables, strides,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Both, for the buffers of a signal and of the h and v parts."""
    buffer, buffer_h, buffer_v = buffers
    of_rows, of_weights = strides
    fetch_rows(buffer, signal, mask, chunk, left_times, variables, of_rows,
               HAS_MASK, BLOCK, WIDTH)  # fmt: skip
    fetch_weights(buffer_h, buffer_v, weights, mask, chunk, left_times, variables, of_weights,
                  HAS_MASK, BLOCK, STATES)  # fmt: skip


@gluon.jit
def fetch_over(buffer, over_chunks, chunk, WARPS: gl.constexpr):
    """Start to copy (e_h, e_vh, e_v) over a whole chunk, 16 states each, and 16 entries of no use.

    From shared memory, like all tables: a load from global memory would be waited for.
    """
    ROWS: gl.constexpr = buffer.shape[0]
    WIDE: gl.constexpr = 64 // ROWS
    lines: gl.constexpr = gl.BlockedLayout([1, 4], [128 // WIDE, WIDE // 4], [WARPS, 1], [1, 0])
    row = opaque_copy(gl.arange(0, ROWS, gl.SliceLayout(1, lines))[:, None], chunk) * WIDE
    at = row + gl.arange(0, WIDE, gl.SliceLayout(0, lines))[None, :]
    copy(buffer, over_chunks + chunk * 64 + at)


@gluon.jit
def over_eight(buffer, HALF: gl.constexpr, part: gl.constexpr):
    """(e_h, e_vh, e_v), each [1, 8, 1], from a buffer of [8, 8]."""
    flat: gl.constexpr = gl.SliceLayout(2, part)
    return (
        buffer.slice(HALF, 1, dim=0).load(flat)[:, :, None],
        buffer.slice(2 + HALF, 1, dim=0).load(flat)[:, :, None],
        buffer.slice(4 + HALF, 1, dim=0).load(flat)[:, :, None],
    )


@gluon.jit
def allocate_skip(skip, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """The skip weights of a slice in shared memory."""
    line: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, BLOCK], [1, 0])
    buffer = gl.allocate_shared_memory(gl.float32, [1, WIDTH],
                                     gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))  # fmt: skip
    buffer.store(gl.load(skip + gl.arange(0, WIDTH, gl.SliceLayout(0, line))[None, :]))
    return buffer


@gluon.jit
def load_skip(buffer, mma: gl.constexpr):
    """These weights, [1, 1, channel]."""
    return buffer.load(gl.SliceLayout(1, mma))[:, None, :]
