"""Shared memory: the tables of a chunk and how they get there, weights, skip."""

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.tile import (
    at_time,
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
F32_TABLES = gl.constexpr(21 * 256)

copy = async_copy.async_copy_global_to_shared


class TableBuffers(NamedTuple):
    """Shared memory with the tables of a chunk: 16 lines or tiles, four more, and the last."""

    first: Any
    second: Any
    last: Any


class SignalBuffers(NamedTuple):
    """Shared memory with a chunk of a signal, and with what it is written or read with."""

    signal: Any
    h: Any
    v: Any


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
        return TableBuffers(
            gl.allocate_shared_memory(low, [COPIES, 16, 256], lines),
            gl.allocate_shared_memory(low, [COPIES, 4, 256], lines),
            gl.allocate_shared_memory(low, [COPIES, 1, 256], lines),
        )
    else:  # noqa: RET505
        tiles: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
        return TableBuffers(
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
def table_slot(buffers, i):
    """One of several copies of them."""
    return TableBuffers(buffers.first.index(i), buffers.second.index(i), buffers.last.index(i))


@gluon.jit
def signal_slot(buffers, i):
    """One of several copies of them."""
    return SignalBuffers(buffers.signal.index(i), buffers.h.index(i), buffers.v.index(i))


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
def fetch_tables(buffers, tables, END: gl.constexpr, chunk, WARPS: gl.constexpr):
    """Start to copy the tables of a chunk; in bfloat16, of those to its end just one."""
    if buffers.first.dtype == gl.bfloat16:
        tables = tables + chunk * BF16_TABLES
        others: gl.constexpr = line_of_pairs(END) - line_of_pairs(TO_END)
        fetch_lines(buffers.first, tables, 0, chunk, WARPS)
        fetch_lines(buffers.second, tables + 16 * 256, others, chunk, WARPS)
        fetch_lines(buffers.last, tables + line_of_singles(END) * 256, 0, chunk, WARPS)
    else:
        tables = tables + chunk * F32_TABLES
        fetch_tiles(buffers.first, tables, WARPS)
        fetch_tiles(buffers.second, tables + 16 * 256, WARPS)
        fetch_tiles(buffers.last, tables + 20 * 256, WARPS)


@gluon.jit
def _split_table(buffers, kind: gl.constexpr, layout: gl.constexpr):
    """(e1, evh, e2), each [1, 16, 16], of a table in float32 by its place in `tables_bf16`."""
    if kind < 5:
        return (
            buffers.first.slice(kind * 3, 1, dim=0).load(layout),
            buffers.first.slice(kind * 3 + 1, 1, dim=0).load(layout),
            buffers.first.slice(kind * 3 + 2, 1, dim=0).load(layout),
        )
    elif kind == TO_END:  # noqa: RET505
        return (
            buffers.first.slice(15, 1, dim=0).load(layout),
            buffers.second.slice(0, 1, dim=0).load(layout),
            buffers.second.slice(1, 1, dim=0).load(layout),
        )
    else:
        gl.static_assert(kind == HOLD)
        return (
            buffers.second.slice(3, 1, dim=0).load(layout),
            buffers.last.load(layout),
            buffers.second.slice(2, 1, dim=0).load(layout),
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
        return buffers.first.slice(2 * kind, 2, dim=0), buffers.first.slice(12 + kind, 1, dim=0)
    elif kind < 6:  # noqa: RET505
        return buffers.first.slice(2 * kind, 2, dim=0), buffers.second.slice(kind - 4, 1, dim=0)
    else:
        return buffers.second.slice(2, 2, dim=0), buffers.last


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
def _rows_of_chunk(rows, mask, chunk, left_times, variables, own: gl.constexpr,
                   BLOCK: gl.constexpr, layout: gl.constexpr):  # fmt: skip
    """Where the rows of a chunk lie, from where, and which to fetch; lanes share `own` of them.

    A pointer for each row: what a thread takes of it lies at distances known beforehand.
    """
    t = chunk * 16
    v, row = opaque_copy(axis_of(0, BLOCK, layout), chunk), axis_of(1, 16, layout)
    row = opaque_copy(row % own, chunk) + row // own * own
    if mask is not None:
        mask = at_time(mask, t)
    keep = to_fetch(v, row, variables, left_times, mask)
    return offset_i64(t, rows.time), v * rows.variable + row * rows.time, keep


@gluon.jit
def fetch_rows(buffer, rows, mask, chunk, left_times, variables):
    """Start to copy a chunk of a signal."""
    BLOCK: gl.constexpr = buffer.shape[0]
    WIDTH: gl.constexpr = buffer.shape[2]
    wide: gl.constexpr = 128 // buffer.dtype.primitive_bitwidth
    # Two rows a thread, at the price of half lines: pointers to four would not fit the registers.
    layout: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 8, 4], [BLOCK, 1, 1], [2, 1, 0])
    corner, at, keep = _rows_of_chunk(rows, mask, chunk, left_times, variables, 8, BLOCK, layout)
    copy(buffer, rows.first + corner + at + axis_of(2, WIDTH, layout), mask=keep)


@gluon.jit
def fetch_weights(buffer_h, buffer_v, rows, mask, chunk, left_times, variables,
                  STATES: gl.constexpr):  # fmt: skip
    """The same of what a signal is written or read with, h and v parts."""
    BLOCK: gl.constexpr = buffer_h.shape[0]
    wide: gl.constexpr = 128 // buffer_h.dtype.primitive_bitwidth
    few: gl.constexpr = 16 // wide
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    corner, at, keep = _rows_of_chunk(rows, mask, chunk, left_times, variables, 32 // few, BLOCK,
                                      thin)  # fmt: skip
    fetch_pair(buffer_h, buffer_v, rows.first + corner + at, keep, thin, STATES)


@gluon.jit
def fetch_signal(buffers, rows, weights, mask, chunk, left_times, variables, STATES: gl.constexpr):
    """Both, to the buffers of a signal and of its weights."""
    fetch_rows(buffers.signal, rows, mask, chunk, left_times, variables)
    fetch_weights(buffers.h, buffers.v, weights, mask, chunk, left_times, variables, STATES)


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
