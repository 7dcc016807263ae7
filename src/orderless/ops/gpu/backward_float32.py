# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""Back through the chunks of a segment, in float32: each operand is two of bfloat16.

Shared memory is what there is little of. x is divided into its parts where it lies, and no longer
needed once a chunk has begun, so one buffer does. The gradient of y is, and has two. What the end
of a chunk gives to the gradient of x is found at its beginning, where the gradient of the state is
at hand, and waits in shared memory.
"""

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.gradients import (
    Outputs,
    allocate_sums,
    barrier,
    chunk_outputs,
    first_states,
    gradient_after,
    keep_all,
    keep_half,
    leave_gradients,
    load_half,
    matrix_gradient,
    move_on,
    other_half,
    prefetch,
    store_border,
    store_rows,
    store_sums,
    unstack_eight,
    within_chunk,
)
from orderless.ops.gpu.shared_memory import (
    F32_TABLES,
    FROM_START,
    HOLD,
    TO_END,
    allocate_tables,
    eight_of,
    fetch_rows,
    fetch_signal,
    fetch_tables,
    fetch_tiles,
    fetch_weights,
    half_of_table,
    table_slot,
)
from orderless.ops.gpu.tile import (
    Halves,
    axis_of,
    decay,
    decay_back,
    eight_from_scratch,
    eight_layout,
    load_operand,
    multiply,
    operand,
    parts_eight,
    stacked,
    stacked_transposed,
    transpose_blocks,
    transposed_parts,
    whole_eight,
    whole_pair_layout,
    whole_part_layout,
)

FIRST_TILE = gl.constexpr(13)  # of eight: from a time to the end is the third, then comes the hold


class Inputs(NamedTuple):
    """Rows of each, and where the tables of the first chunk lie."""

    x: Any
    d_y: Any
    write: Any
    read: Any
    mask: Any
    tables: Any


class _Step(NamedTuple):
    """Shared memory with what takes a state over a chunk; of tables eight tiles."""

    signal: Any
    h: Any
    v: Any
    tables: Any


class _Chunk(NamedTuple):
    """Shared memory with what a chunk needs on the way back."""

    parts_y: Any
    write_h: Any
    write_v: Any
    read_h: Any
    read_v: Any
    tables: Any


@gluon.jit
def _over_of(tables, chunk, HALF: gl.constexpr, part: gl.constexpr):
    """(e_h, e_vh, e_v) over a chunk: from its start to its last time."""
    at = tables + chunk * F32_TABLES + (12 * 256 + 240 + HALF * 8) + axis_of(1, 8, part)
    return gl.load(at), gl.load(at + 256), gl.load(at + 512)


@gluon.jit
def _fetch(chunk, inputs, buffers, segment, last_chunk, tile):
    """Start to copy what a chunk needs; of one that does not exist, nothing observed."""
    left_times = gl.where(chunk < last_chunk, segment.time - chunk * 16, 0)
    fetch_signal(buffers, inputs.x, inputs.write, inputs.mask, chunk, left_times,
                 segment.variables, tile.STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    source = inputs.tables + chunk * F32_TABLES + FIRST_TILE * 256
    fetch_tiles(buffers.tables, source, tile.BLOCK)


@gluon.jit
def _over_half(HALF: gl.constexpr, h, v, buffers, signal, over, states, tile):
    """Keep eight states, and take them over a chunk."""
    pair: gl.constexpr = whole_pair_layout(tile.BLOCK)
    eight: gl.constexpr = eight_layout(tile.BLOCK)
    here = buffers.tables
    keep_half(HALF, h, v, states, gl.float32, tile)
    w_h = eight_of(buffers.h.load(pair), HALF, eight)
    w_v = eight_of(buffers.v.load(pair), HALF, eight)
    hold = (
        eight_of(here.slice(6, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(7, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(5, 1, dim=0).load(pair), HALF, eight),
    )
    table = (
        eight_of(here.slice(2, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(3, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(4, 1, dim=0).load(pair), HALF, eight),
    )
    b_v, b_h = decay(w_v, w_h, hold)
    to_v, to_h = decay(b_v, b_h, table)
    return move_on(h, v, to_h, to_v, signal, over, tile)


@gluon.jit
def _over_chunk(chunk, last_chunk, state, buffers, tables, states, tile):
    """Keep a state, and take it over a chunk."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [tile.BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    part: gl.constexpr = whole_part_layout(tile.BLOCK, tile.WIDTH)
    h, v, other_h, other_v = state
    chunk = gl.minimum(chunk, last_chunk - 1)
    over, other_over = _over_of(tables, chunk, 0, part), _over_of(tables, chunk, 1, part)
    signal = operand(buffers.signal.load(right))
    h, v = _over_half(0, h, v, buffers, signal, over, states, tile)
    if tile.STATES > 8:
        other_h, other_v = _over_half(1, other_h, other_v, buffers, signal, other_over, states,
                                      tile)  # fmt: skip
    return Halves(h, v, other_h, other_v)


@gluon.jit
def _keep_states(inputs, start, states, even, odd, last_chunk, segment, tile):
    """Leave [chunk, variable, half, 16 * WIDTH] in `states`: what is before each, and after all.

    With one buffer of each kind for every second chunk. `states` is the program's own.
    """
    tables = inputs.tables
    size: gl.constexpr = tile.BLOCK * 2 * tile.STATES * tile.WIDTH
    state = first_states(start, segment, tile)
    first_chunk = segment.first_chunk
    count = last_chunk - first_chunk
    if count > 0:
        _fetch(first_chunk, inputs, even, segment, last_chunk, tile)
        async_copy.commit_group()
        _fetch(first_chunk + 1, inputs, odd, segment, last_chunk, tile)
    async_copy.commit_group()
    for visit in range((count + 1) // 2):
        chunk = first_chunk + 2 * visit
        to = states + visit * (2 * size)
        async_copy.wait_group(1)
        state = _over_chunk(chunk, last_chunk, state, even, tables, to, tile)
        if chunk + 2 < last_chunk:
            _fetch(chunk + 2, inputs, even, segment, last_chunk, tile)
        async_copy.commit_group()
        async_copy.wait_group(1)
        # Of an odd number, the last of these does not exist: what it keeps is after all others.
        state = _over_chunk(chunk + 1, last_chunk, state, odd, tables, to + size, tile)
        if chunk + 2 < last_chunk:
            _fetch(chunk + 3, inputs, odd, segment, last_chunk, tile)
        async_copy.commit_group()
    if count % 2 == 0:
        keep_all(state, states + count * size, gl.float32, tile)


@gluon.jit
def _over_states(value, BLOCK: gl.constexpr, WIDTH: gl.constexpr, right: gl.constexpr):
    """A part of [variable, (part, state), channel] as a right operand over states."""
    value = gl.reshape(transpose_blocks(value), [BLOCK, 2, 8, WIDTH // 8, 8])
    value = gl.reshape(gl.permute(value, (0, 1, 4, 3, 2)), [BLOCK, 16, WIDTH])
    return gl.convert_layout(value, right)


@gluon.jit
def _divide(buffer, value, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """Buffers with the two parts of a value, in place of the buffer that held it."""
    lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, min(8, WIDTH // 8), [2, 1, 0])
    parts = buffer._reinterpret(gl.bfloat16, [2, BLOCK, 16, WIDTH], lines)
    big, small = operand(value)
    parts.index(0).store(big)
    parts.index(1).store(small)
    return parts.index(0), parts.index(1)


@gluon.jit
def _led_to_end(HALF: gl.constexpr, both, d_in, now, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
                mma: gl.constexpr):  # fmt: skip
    """Add to the gradient of x what eight states have of it by way of the state after a chunk."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    _, _, b_h, b_v = _weights_of(HALF, now, BLOCK)
    table, _ = half_of_table(now.tables, TO_END, HALF, gl.float32, BLOCK)
    to_v, to_h = decay(b_v, b_h, table)
    to_end = stacked(operand(to_h), operand(to_v), BLOCK, left)
    over_states = (
        _over_states(both[0], BLOCK, WIDTH, right),
        _over_states(both[1], BLOCK, WIDTH, right),
    )
    return multiply(to_end, over_states, d_in)


@gluon.jit
def _weights_of(HALF: gl.constexpr, now, BLOCK: gl.constexpr):
    """Writes of eight states, and what is held of them: (w_h, w_v, b_h, b_v)."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    w_h = eight_of(now.write_h.load(pair), HALF, eight)
    w_v = eight_of(now.write_v.load(pair), HALF, eight)
    hold, _ = half_of_table(now.tables, HOLD, HALF, gl.float32, BLOCK)
    b_v, b_h = decay(w_v, w_h, hold)
    return w_h, w_v, b_h, b_v


@gluon.jit
def _half_of_chunk(HALF: gl.constexpr, chunk, now, tables, states, gradients, d_matrix, matrix,
                   sums, out, segment, tile):  # fmt: skip
    """What eight states have to do with a chunk: their moved gradient, and M so far.

    gradients: of the h and v parts of the state after it, then of what writes these.
    """
    g, u, to_h, to_v = gradients
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.float32
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    before = load_half(states, chunk, tile, low)
    before = operand(eight_from_scratch(before, BLOCK, WIDTH, right))
    from_h, from_v = unstack_eight(multiply(load_operand(now.parts_y, left), before, none), BLOCK)

    # The gradient of the state itself moves on to the chunk before.
    c_h = eight_of(now.read_h.load(pair), HALF, eight)
    c_v = eight_of(now.read_v.load(pair), HALF, eight)
    table, _ = half_of_table(now.tables, FROM_START, HALF, low, BLOCK)
    dc_h, dc_v = decay_back(from_h, from_v, table)
    from_h, from_v = decay(c_h, c_v, table)
    from_start = stacked_transposed(operand(from_h), operand(from_v), BLOCK, left)
    e_h, e_vh, e_v = _over_of(tables, chunk, HALF, part)
    state = whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    state = multiply(from_start, load_operand(now.parts_y, right), state)
    store_border(operand(state), before, out, segment.variables, chunk, tile)
    g, u = parts_eight(state, BLOCK, WIDTH, part)

    w_h, w_v, b_h, b_v = _weights_of(HALF, now, BLOCK)
    table, _ = half_of_table(now.tables, TO_END, HALF, low, BLOCK)
    db_v, db_h = decay_back(to_v, to_h, table)
    own, gradients = within_chunk(HALF, now.tables, (c_h, c_v, b_h, b_v), (dc_h, dc_v, db_h, db_v),
                                  d_matrix, low, BLOCK, mma)  # fmt: skip
    leave_gradients(HALF, chunk, now.tables, (w_h, w_v, c_h, c_v), gradients, sums, out, segment,
                    tile)  # fmt: skip
    return g, u, matrix + own


@gluon.jit
def _add_now(a, b):
    """a + b where it is written: put off, as it would be, it is two registers and not one."""
    return gl.inline_asm_elementwise(
        "add.f32 $0, $1, $2;", "=f,f,f", [a, b], dtype=gl.float32, is_pure=False, pack=1
    )


@gluon.jit
def _fetch_signals(chunk, inputs, buffer_x, buffers_y, segment):
    """Start to copy x and the gradient of y."""
    left_times = segment.time - chunk * 16
    fetch_rows(buffer_x, inputs.x, inputs.mask, chunk, left_times, segment.variables)
    fetch_rows(buffers_y.index(chunk % 2), inputs.d_y, inputs.mask, chunk, left_times,
               segment.variables)  # fmt: skip


@gluon.jit
def go_back(inputs, out, start, d_end, states, skip, segment, tile):
    """The gradient of the state before the first chunk, and that of skip.

    `states` are left and found by the program itself.
    """
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    STATES: gl.constexpr = tile.STATES
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    low: gl.constexpr = gl.float32
    lanes: gl.constexpr = WIDTH // 4
    across: gl.constexpr = 32 // lanes  # rows that the lanes of a warp hold at once
    rows: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, across, lanes], [BLOCK, 1, 1], [2, 1, 0])
    own_rows: gl.constexpr = gl.BlockedLayout([1, 16 // across, 1, 4], [1, 1, across, lanes],
                                              [BLOCK, 1, 1, 1], [3, 2, 1, 0])  # fmt: skip
    by_lane: gl.constexpr = gl.SliceLayout(1, own_rows)
    wide_shared: gl.constexpr = gl.SwizzledSharedLayout(4, 1, min(8, lanes), [2, 1, 0])
    thin_shared: gl.constexpr = gl.SwizzledSharedLayout(4, 2, 4, [2, 1, 0])
    result_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, min(4, WIDTH // 8), [2, 1, 0])
    size: gl.constexpr = 2 * STATES * WIDTH  # of a state

    first_chunk, last_chunk = segment.first_chunk, segment.last_chunk
    d_direct = gl.zeros([BLOCK, across, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = axis_of(1, 16, mma), axis_of(2, 16, mma)
    buffer_x = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    buffers_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_shared)
    w_h = gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared)
    w_v = gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared)
    c_h = gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared)
    c_v = gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared)
    here = table_slot(allocate_tables(low, 1), 0)
    buffer_in = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], result_shared)
    sums = allocate_sums(BLOCK)
    # Without a gradient of the state after the last chunk, nobody asks for that state.
    unasked: gl.constexpr = 1 if d_end is None else 0
    _keep_states(
        inputs, start, states,
        _Step(buffers_y.index(0), w_h, w_v, here.first.slice(0, 8, dim=0)),
        _Step(buffers_y.index(1), c_h, c_v, here.first.slice(8, 8, dim=0)),
        last_chunk - unasked, segment, tile,
    )  # fmt: skip
    last = states + (last_chunk - first_chunk) * (BLOCK * size)
    behind = Outputs(out.x, out.write, out.read, out.sums,
                     out.borders + segment.chunks * (3 * STATES), out.border_row)  # fmt: skip
    g, u, other_g, other_u = gradient_after(d_end, last, behind, segment, low, tile)
    _fetch_signals(last_chunk - 1, inputs, buffer_x, buffers_y, segment)
    async_copy.commit_group()
    for chunk in range(last_chunk - 1, first_chunk - 1, -1):
        left_times = segment.time - chunk * 16
        # Of this chunk, and of the one that comes next.
        of_chunk = states + (chunk - first_chunk) * (BLOCK * size)
        prefetch(states + gl.maximum(chunk - 1 - first_chunk, 0) * (BLOCK * size), chunk, size,
                 BLOCK)  # fmt: skip
        async_copy.wait_group(0)
        buffer_y = buffers_y.index(chunk % 2)
        x_now, y_now = buffer_x.load(rows), buffer_y.load(rows)
        parts_x = _divide(buffer_x, x_now, BLOCK, WIDTH)
        parts_y = _divide(buffer_y, y_now, BLOCK, WIDTH)
        now = _Chunk(parts_y, w_h, w_v, c_h, c_v, here)
        if skip is not None:
            buffer_in.store(gl.load(skip + axis_of(2, WIDTH, rows)) * y_now)
            product = gl.reshape(x_now * y_now, [BLOCK, 16 // across, across, WIDTH])
            d_direct = _add_now(d_direct, gl.convert_layout(gl.sum(product, 1), by_lane))
        else:
            buffer_in.store(gl.zeros([BLOCK, 16, WIDTH], gl.float32, rows))
        fetch_weights(w_h, w_v, inputs.write, inputs.mask, chunk, left_times, segment.variables,
                      STATES)  # fmt: skip
        fetch_weights(c_h, c_v, inputs.read, inputs.mask, chunk, left_times, segment.variables,
                      STATES)  # fmt: skip
        fetch_tables(here, inputs.tables, TO_END, chunk, BLOCK)
        async_copy.commit_group()
        d_matrix = matrix_gradient(parts_x, parts_y, chunk, low, BLOCK, mma)
        none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
        if STATES > 8:
            other_both = operand(whole_eight(other_g, other_u, BLOCK, WIDTH, mma))
        both = operand(whole_eight(g, u, BLOCK, WIDTH, mma))
        signal = load_operand(parts_x, left)
        if STATES > 8:
            other_to_h, other_to_v = unstack_eight(
                multiply(signal, transposed_parts(other_both, right), none), BLOCK
            )
        to_h, to_v = unstack_eight(multiply(signal, transposed_parts(both, right), none), BLOCK)
        async_copy.wait_group(0)
        d_in = _led_to_end(0, both, buffer_in.load(mma), now, BLOCK, WIDTH, mma)
        if STATES > 8:
            d_in = _led_to_end(1, other_both, d_in, now, BLOCK, WIDTH, mma)
        buffer_in.store(d_in)
        now_out = chunk_outputs(out, chunk, STATES)
        g, u, matrix = _half_of_chunk(
            0, chunk, now, inputs.tables, of_chunk, (g, u, to_h, to_v), d_matrix, none, sums,
            now_out, segment, tile,
        )  # fmt: skip
        barrier()  # keeps the halves apart, whose registers would not fit together
        store_sums(sums, now_out.sums, chunk, BLOCK, STATES)
        if chunk > first_chunk:
            _fetch_signals(chunk - 1, inputs, buffer_x, buffers_y, segment)
        async_copy.commit_group()
        if STATES > 8:
            other_out = other_half(now_out)
            other_g, other_u, matrix = _half_of_chunk(
                1, chunk, now, inputs.tables, of_chunk + size // 2,
                (other_g, other_u, other_to_h, other_to_v), d_matrix, matrix, sums, other_out,
                segment, tile,
            )  # fmt: skip

        # `matrix` is symmetric up to its diagonal: for the input its later times matter.
        later = operand(gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0), left))
        d_in = multiply(later, load_operand(parts_y, right), buffer_in.load(mma))
        # In whole sectors as it is.
        store_rows(out.x, d_in, chunk, left_times, segment.variables, mma)

        # What all variables share, steps and rates, by way of six sums.
        if STATES > 8:
            store_sums(sums, other_out.sums, chunk, BLOCK, STATES)
    return Halves(g, u, other_g, other_u), gl.sum(gl.sum(d_direct, 1), 0)
