# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""Back through the chunks of a segment, in float32: each operand is two of bfloat16.

Shared memory is what there is little of. x is divided into its parts where it lies, and no longer
needed once a chunk has begun, so one buffer does. The gradient of y is, and has two. What the end
of a chunk gives to the gradient of x is found at its beginning, where the gradient of the state is
at hand, and waits in shared memory.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.gradients import (
    allocate_sums,
    barrier,
    first_states,
    gradient_after,
    keep_half,
    leave_gradients,
    load_half,
    matrix_gradient,
    move_on,
    prefetch,
    store_border,
    store_rows,
    store_sums,
    unstack_eight,
    within_chunk,
)
from orderless.ops.gpu.shared_memory import (
    FROM_START,
    HOLD,
    TO_END,
    allocate_tables,
    copy_of,
    eight_of,
    fetch_rows,
    fetch_signal,
    fetch_tables,
    fetch_tiles,
    fetch_weights,
    half_of_table,
)
from orderless.ops.gpu.tile import (
    axis_of,
    decay,
    decay_back,
    eight_from_scratch,
    eight_layout,
    load_operand,
    multiply,
    offset_i64,
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


@gluon.jit
def over_of(tables, chunk, HALF: gl.constexpr, part: gl.constexpr):
    """(e_h, e_vh, e_v) over a chunk: from its start to its last time."""
    at = tables + chunk * (21 * 256) + (12 * 256 + 240 + HALF * 8) + axis_of(1, 8, part)
    return gl.load(at), gl.load(at + 256), gl.load(at + 512)


@gluon.jit
def _fetch(
    chunk, last_chunk, inputs, buffers, time, variables, strides,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy what a chunk needs; of one that does not exist, nothing observed."""
    x, write, tables, mask = inputs
    left_times = gl.where(chunk < last_chunk, time - chunk * 16, 0)
    fetch_signal((buffers[0], buffers[1], buffers[2]), x, write, mask, chunk, left_times,
                 variables, strides, HAS_MASK, BLOCK, WIDTH,
                 STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    fetch_tiles(buffers[3], tables + chunk * (21 * 256) + FIRST_TILE * 256, BLOCK)


@gluon.jit
def _half(HALF: gl.constexpr, h, s, buffers, signal, over, states, BLOCK: gl.constexpr,
          WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep eight states, and take them over a chunk."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    _, buffer_h, buffer_v, here = buffers
    keep_half(HALF, h, s, states, BLOCK, WIDTH, STATES, gl.float32)
    w_h, w_v = (
        eight_of(buffer_h.load(pair), HALF, eight),
        eight_of(buffer_v.load(pair), HALF, eight),
    )
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
    return move_on(h, s, to_h, to_v, signal, over, BLOCK, WIDTH)


@gluon.jit
def _over_chunk(chunk, last_chunk, state, buffers, tables, states, BLOCK: gl.constexpr,
                WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep a state, and take it over a chunk."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    h, s, other_h, other_s = state
    chunk = gl.minimum(chunk, last_chunk - 1)
    over, other_over = over_of(tables, chunk, 0, part), over_of(tables, chunk, 1, part)
    signal = operand(buffers[0].load(right))
    h, s = _half(0, h, s, buffers, signal, over, states, BLOCK, WIDTH, STATES)
    if STATES > 8:
        other_h, other_s = _half(1, other_h, other_s, buffers, signal, other_over, states, BLOCK,
                                 WIDTH, STATES)  # fmt: skip
    return h, s, other_h, other_s


@gluon.jit
def keep_states(
    inputs, start, states, even, odd, first_chunk, last_chunk, segments,
    time, channels, variables, strides,
    HAS_START: gl.constexpr, HAS_MASK: gl.constexpr,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """As `kept_states.keep_states`; buffers are (signal, h, v, eight tiles of tables)."""
    tables = inputs[2]
    size: gl.constexpr = BLOCK * 2 * STATES * WIDTH
    h, s, other_h, other_s = first_states(start, channels, segments, variables, HAS_START, BLOCK,
                                          WIDTH, STATES)  # fmt: skip
    count = last_chunk - first_chunk
    if count > 0:
        _fetch(first_chunk, last_chunk, inputs, even, time, variables, strides,
               HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        _fetch(first_chunk + 1, last_chunk, inputs, odd, time, variables, strides,
               HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
    async_copy.commit_group()
    for visit in range((count + 1) // 2):
        chunk = first_chunk + 2 * visit
        to = states + visit * (2 * size)
        state = (h, s, other_h, other_s)
        async_copy.wait_group(1)
        state = _over_chunk(chunk, last_chunk, state, even, tables, to, BLOCK, WIDTH, STATES)
        if chunk + 2 < last_chunk:
            _fetch(chunk + 2, last_chunk, inputs, even, time, variables, strides,
                   HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        async_copy.wait_group(1)
        # Of an odd number, the last of these does not exist: what it keeps is after all others.
        h, s, other_h, other_s = _over_chunk(chunk + 1, last_chunk, state, odd, tables,
                                             to + size, BLOCK, WIDTH, STATES)  # fmt: skip
        if chunk + 2 < last_chunk:
            _fetch(chunk + 3, last_chunk, inputs, odd, time, variables, strides,
                   HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
    if count % 2 == 0:
        to = states + count * size
        keep_half(0, h, s, to, BLOCK, WIDTH, STATES, gl.float32)
        if STATES > 8:
            keep_half(1, other_h, other_s, to, BLOCK, WIDTH, STATES, gl.float32)


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
def _led_to_end(HALF: gl.constexpr, both, d_in, weights, here, BLOCK: gl.constexpr,
                WIDTH: gl.constexpr, mma: gl.constexpr):  # fmt: skip
    """Add to the gradient of x what eight states have of it by way of the state after a chunk."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    _, _, b_h, b_v = _weights_of(HALF, weights, here, BLOCK)
    table, _ = half_of_table(here, TO_END, HALF, gl.float32, BLOCK)
    to_v, to_h = decay(b_v, b_h, table)
    to_end = stacked(operand(to_h), operand(to_v), BLOCK, left)
    over_states = (
        _over_states(both[0], BLOCK, WIDTH, right),
        _over_states(both[1], BLOCK, WIDTH, right),
    )
    return multiply(to_end, over_states, d_in)


@gluon.jit
def _weights_of(HALF: gl.constexpr, weights, here, BLOCK: gl.constexpr):
    """Writes of eight states, and what is held of them: (w_h, w_v, b_h, b_v)."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    w_h, w_v = (
        eight_of(weights[0].load(pair), HALF, eight),
        eight_of(weights[1].load(pair), HALF, eight),
    )
    hold, _ = half_of_table(here, HOLD, HALF, gl.float32, BLOCK)
    b_v, b_h = decay(w_v, w_h, hold)
    return w_h, w_v, b_h, b_v


@gluon.jit
def _half_of_chunk(
    HALF: gl.constexpr, chunk, parts_y, weights, here, tables, states, g, u, to_h, to_v,
    d_matrix, matrix, borders, sums, to_write, to_read, around,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """What eight states have to do with a chunk: their moved gradient, and M so far.

    to_h, to_v: the gradient of what writes the state after it.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.float32
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    before = load_half(states, chunk, BLOCK, WIDTH, STATES, low)
    before = operand(eight_from_scratch(before, BLOCK, WIDTH, right))
    from_h, from_v = unstack_eight(multiply(load_operand(parts_y, left), before, none), BLOCK)

    # The gradient of the state itself moves on to the chunk before.
    c_h = eight_of(weights[2].load(pair), HALF, eight)
    c_v = eight_of(weights[3].load(pair), HALF, eight)
    table, _ = half_of_table(here, FROM_START, HALF, low, BLOCK)
    dc_h, dc_v = decay_back(from_h, from_v, table)
    from_h, from_v = decay(c_h, c_v, table)
    from_start = stacked_transposed(operand(from_h), operand(from_v), BLOCK, left)
    e_h, e_vh, e_v = over_of(tables, chunk, HALF, part)
    state = whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    state = multiply(from_start, load_operand(parts_y, right), state)
    store_border(operand(state), before, borders, chunk, BLOCK, STATES, mma)
    g, u = parts_eight(state, BLOCK, WIDTH, part)

    w_h, w_v, b_h, b_v = _weights_of(HALF, weights, here, BLOCK)
    table, _ = half_of_table(here, TO_END, HALF, low, BLOCK)
    db_v, db_h = decay_back(to_v, to_h, table)
    own, gradients = within_chunk(HALF, here, (c_h, c_v, b_h, b_v), (dc_h, dc_v, db_h, db_v),
                                  d_matrix, low, BLOCK, mma)  # fmt: skip
    leave_gradients(HALF, chunk, here, (w_h, w_v, c_h, c_v), gradients, sums, to_write, to_read,
                    around, BLOCK, STATES)  # fmt: skip
    return g, u, matrix + own


@gluon.jit
def _add_now(a, b):
    """a + b where it is written: put off, as it would be, it is two registers and not one."""
    return gl.inline_asm_elementwise(
        "add.f32 $0, $1, $2;", "=f,f,f", [a, b], dtype=gl.float32, is_pure=False, pack=1
    )


@gluon.jit
def _fetch_signals(
    chunk, signals, time, variables,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Start to copy x and the gradient of y."""
    x, d_y, buffer_x, buffers_y, mask, of_x, of_y = signals
    left_times = time - chunk * 16
    fetch_rows(buffer_x, x, mask, chunk, left_times, variables, of_x,
               HAS_MASK, BLOCK, WIDTH)  # fmt: skip
    fetch_rows(buffers_y.index(chunk % 2), d_y, mask, chunk, left_times, variables, of_y,
               HAS_MASK, BLOCK, WIDTH)  # fmt: skip


@gluon.jit
def go_back(
    inputs, outputs, start, d_end, states, skip, strides, strides_of_y, row_borders,
    first_chunk, last_chunk, chunks, segments, time, channels, y_variable, y_time, left_variables,
    HAS_START: gl.constexpr, HAS_END: gl.constexpr, HAS_SKIP: gl.constexpr,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """The gradient of the state before the first chunk, its parts by halves, and of skip.

    `states` are left and found by the program itself.
    """
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

    x, d_y, write, read, tables, mask = inputs
    d_x, d_write, d_read, partial, borders = outputs
    of_x, of_write = strides
    of_y, of_read = strides_of_y
    d_direct = gl.zeros([BLOCK, across, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = axis_of(1, 16, mma), axis_of(2, 16, mma)
    buffer_x = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    buffers_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_shared)
    weights = (
        gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared),
        gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared),
        gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared),
        gl.allocate_shared_memory(low, [BLOCK, 16, 16], thin_shared),
    )
    here = copy_of(allocate_tables(low, 1), 0)
    buffer_in = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], result_shared)
    sums = allocate_sums(BLOCK)
    # Without a gradient of the state after the last chunk, nobody asks for that state.
    unasked: gl.constexpr = 0 if HAS_END else 1
    keep_states(
        (x, write, tables, mask), start, states,
        (buffers_y.index(0), weights[0], weights[1], here[0].slice(0, 8, dim=0)),
        (buffers_y.index(1), weights[2], weights[3], here[0].slice(8, 8, dim=0)),
        first_chunk, last_chunk - unasked, segments, time, channels, left_variables, strides,
        HAS_START, HAS_MASK, BLOCK, WIDTH, STATES,
    )  # fmt: skip
    last = states + (last_chunk - first_chunk) * (BLOCK * size)
    g, u, other_g, other_u = gradient_after(
        d_end, last, (borders + chunks * (3 * STATES), row_borders), last_chunk, channels, segments,
        left_variables, last_chunk == chunks, low, HAS_END, BLOCK, WIDTH, STATES,
    )  # fmt: skip
    signals = (x, d_y, buffer_x, buffers_y, mask, of_x, of_y)
    _fetch_signals(last_chunk - 1, signals, time, left_variables, HAS_MASK,
                   BLOCK, WIDTH)  # fmt: skip
    async_copy.commit_group()
    for chunk in range(last_chunk - 1, first_chunk - 1, -1):
        left_times = time - chunk * 16
        # Of this chunk, and of the one that comes next.
        of_chunk = states + (chunk - first_chunk) * (BLOCK * size)
        prefetch(states + gl.maximum(chunk - 1 - first_chunk, 0) * (BLOCK * size), chunk, size,
                 BLOCK)  # fmt: skip
        t = chunk * 16
        async_copy.wait_group(0)
        buffer_y = buffers_y.index(chunk % 2)
        x_now, y_now = buffer_x.load(rows), buffer_y.load(rows)
        parts_x = _divide(buffer_x, x_now, BLOCK, WIDTH)
        parts_y = _divide(buffer_y, y_now, BLOCK, WIDTH)
        if HAS_SKIP:
            buffer_in.store(gl.load(skip + axis_of(2, WIDTH, rows)) * y_now)
            product = gl.reshape(x_now * y_now, [BLOCK, 16 // across, across, WIDTH])
            d_direct = _add_now(d_direct, gl.convert_layout(gl.sum(product, 1), by_lane))
        else:
            buffer_in.store(gl.zeros([BLOCK, 16, WIDTH], gl.float32, rows))
        fetch_weights(weights[0], weights[1], write, mask, chunk, left_times,
                      left_variables, of_write, HAS_MASK, BLOCK,
                      STATES)  # fmt: skip
        fetch_weights(weights[2], weights[3], read, mask, chunk, left_times,
                      left_variables, of_read, HAS_MASK, BLOCK,
                      STATES)  # fmt: skip
        fetch_tables(here, tables, None, TO_END, chunk, low, BLOCK)
        async_copy.commit_group()
        d_matrix = matrix_gradient(parts_x, parts_y, chunk, low, BLOCK, mma)
        none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
        if STATES > 8:
            other_both = operand(whole_eight(other_g, other_u, BLOCK, WIDTH, mma))
        both = operand(whole_eight(g, u, BLOCK, WIDTH, mma))
        signal = load_operand(parts_x, left)
        if STATES > 8:
            other_to = unstack_eight(
                multiply(signal, transposed_parts(other_both, right), none), BLOCK
            )
        to = unstack_eight(multiply(signal, transposed_parts(both, right), none), BLOCK)
        async_copy.wait_group(0)
        d_in = _led_to_end(0, both, buffer_in.load(mma), weights, here, BLOCK, WIDTH, mma)
        if STATES > 8:
            d_in = _led_to_end(1, other_both, d_in, weights, here, BLOCK, WIDTH, mma)
        buffer_in.store(d_in)
        to_write, to_read = d_write + offset_i64(t, 2 * STATES), d_read + offset_i64(t, 2 * STATES)
        around = (time, y_variable, y_time, left_times, left_variables)
        out = partial + chunk * (6 * 16 * STATES)
        border = borders + chunk * (3 * STATES)
        g, u, matrix = _half_of_chunk(
            0, chunk, parts_y, weights, here, tables, of_chunk, g, u, to[0], to[1], d_matrix, none,
            (border, row_borders, left_variables), sums, to_write, to_read, around, BLOCK, WIDTH,
            STATES,
        )  # fmt: skip
        barrier()  # keeps the halves apart, whose registers would not fit together
        store_sums(sums, out, chunk, BLOCK, STATES)
        if chunk > first_chunk:
            _fetch_signals(chunk - 1, signals, time, left_variables, HAS_MASK,
                           BLOCK, WIDTH)  # fmt: skip
        async_copy.commit_group()
        if STATES > 8:
            other_g, other_u, matrix = _half_of_chunk(
                1, chunk, parts_y, weights, here, tables, of_chunk + size // 2, other_g, other_u,
                other_to[0], other_to[1], d_matrix, matrix,
                (border + 8, row_borders, left_variables), sums, to_write, to_read, around,
                BLOCK, WIDTH, STATES,
            )  # fmt: skip

        # `matrix` is symmetric up to its diagonal: for the input its later times matter.
        later = operand(gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0), left))
        d_in = multiply(later, load_operand(parts_y, right), buffer_in.load(mma))
        store_rows(d_x, d_in, chunk, t, channels, around, mma)  # in whole sectors as it is

        # What all variables share, steps and rates, by way of six sums.
        if STATES > 8:
            store_sums(sums, out + 8, chunk, BLOCK, STATES)
    return g, u, other_g, other_u, gl.sum(gl.sum(d_direct, 1), 0)
