# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""Back through the chunks of a segment, in bfloat16."""

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
    BF16_TABLES,
    FROM_START,
    HOLD,
    TO_END,
    TO_END_UNHELD,
    allocate_skip,
    allocate_table,
    allocate_tables,
    copy_of,
    eight_of,
    fetch_lines,
    fetch_over,
    fetch_signal,
    fetch_tables,
    half_of_lines,
    half_of_table,
    line_of_pairs,
    line_of_singles,
    lines_of,
    load_skip,
    over_eight,
)
from orderless.ops.gpu.tile import (
    axis_of,
    bits,
    decay,
    decay_back,
    eight_from_scratch,
    eight_layout,
    multiply,
    offset_i64,
    operand,
    parts_eight,
    stacked,
    stacked_transposed,
    times,
    times_plus,
    transposed,
    whole_eight,
    whole_pair_layout,
    whole_part_layout,
)

# Where the table of an even chunk is copied to, and that of an odd one, in different buffers.
EVEN = TO_END_UNHELD
ODD = gl.constexpr(0)


@gluon.jit
def _half(HALF: gl.constexpr, PLACE: gl.constexpr, h, s, buffers, here, over, states, exists,
          BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep eight states if there is a place for them, and take them over a chunk."""
    buffer_x, buffer_h, buffer_v = buffers
    low: gl.constexpr = buffer_x.dtype
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    if states is not None:
        keep_half(HALF, h, s, states, BLOCK, WIDTH, STATES, low)
    w_h, w_v = (
        eight_of(buffer_h.load(pair), HALF, eight),
        eight_of(buffer_v.load(pair), HALF, eight),
    )
    table, _ = half_of_table(here, PLACE, HALF, low, BLOCK)
    to_v, to_h = decay(w_v, w_h, table)
    over = over_eight(over, HALF, part)
    if exists is not None:
        e_h, e_vh, e_v = over
        over = gl.where(exists, e_h, 1.0), gl.where(exists, e_vh, 0.0), gl.where(exists, e_v, 1.0)
    return move_on(h, s, to_h, to_v, operand(buffer_x.load(right)), over, BLOCK, WIDTH)


@gluon.jit
def _over_chunk(PLACE: gl.constexpr, state, buffers, slot, here, over, states, exists,
                BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep a state if there is a place for it, and take it over a chunk if that exists."""
    h, s, other_h, other_s = state
    own = (buffers[0].index(slot), buffers[1].index(slot), buffers[2].index(slot))
    h, s = _half(0, PLACE, h, s, own, here, over, states, exists, BLOCK, WIDTH, STATES)
    if STATES > 8:
        other_h, other_s = _half(1, PLACE, other_h, other_s, own, here, over, states, exists, BLOCK,
                                 WIDTH, STATES)  # fmt: skip
    return h, s, other_h, other_s


@gluon.jit
def _fetch(
    PLACE: gl.constexpr, chunk, last_chunk, inputs, buffers, slot, buffers_tables, buffer_over,
    time, variables, strides,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy what a chunk needs, its table to a place in the buffers of all tables."""
    x, write, tables_bf16, over_chunks, mask = inputs
    own = (buffers[0].index(slot), buffers[1].index(slot), buffers[2].index(slot))
    left_times = gl.where(chunk < last_chunk, time - chunk * 16, 0)
    fetch_signal(own, x, write, mask, chunk, left_times, variables, strides,
                 HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    source = tables_bf16 + chunk * BF16_TABLES
    pairs, single = lines_of(copy_of(buffers_tables, slot), PLACE)
    fetch_lines(pairs, source + line_of_pairs(TO_END_UNHELD) * 256, 0, chunk, BLOCK)
    fetch_lines(single, source + line_of_singles(TO_END_UNHELD) * 256, 0, chunk, BLOCK)
    fetch_over(buffer_over, over_chunks, chunk, BLOCK)


@gluon.jit
def keep_states(
    inputs, start, states, even, odd, buffers_tables, buffers_over, first_chunk, last_chunk,
    segments, time, channels, variables, strides,
    HAS_START: gl.constexpr, TO_LAST: gl.constexpr, HAS_MASK: gl.constexpr,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Leave [pair of chunks, variable, half, 16 * WIDTH] in `states`: what is before each pair.

    TO_LAST: and, in the place after these, what is after the last chunk.

    In bfloat16. The two chunks have buffers of their own: (signal, h, v), two of each, and four for
    `over`. All of it is the program's own, so every thread finds later what it leaves here.
    """
    low: gl.constexpr = even[0].dtype
    size: gl.constexpr = BLOCK * 2 * STATES * WIDTH
    h, s, other_h, other_s = first_states(start, channels, segments, variables, HAS_START, BLOCK,
                                          WIDTH, STATES)  # fmt: skip
    count = last_chunk - first_chunk
    if not TO_LAST:
        count = (count - 1) // 2 * 2  # what is before the last pair, or the last chunk
        last_chunk = first_chunk + count
    # Ahead of the work: the first visit only fetches.
    for visit in range(-1, (count + 1) // 2):
        slot = (visit + 1) % 2
        ahead = first_chunk + 2 * (visit + 1)
        if ahead < last_chunk:
            _fetch(EVEN, ahead, last_chunk, inputs, even, slot, buffers_tables,
                   buffers_over.index(slot), time, variables, strides, HAS_MASK,
                   BLOCK, WIDTH, STATES)  # fmt: skip
            _fetch(ODD, ahead + 1, last_chunk, inputs, odd, slot, buffers_tables,
                   buffers_over.index(2 + slot), time, variables, strides, HAS_MASK,
                   BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            slot = visit % 2
            here = copy_of(buffers_tables, slot)
            to = states + visit * size
            state = (h, s, other_h, other_s)
            state = _over_chunk(EVEN, state, even, slot, here, buffers_over.index(slot), to, None,
                                BLOCK, WIDTH, STATES)  # fmt: skip
            # Of an odd number, the last of these does not exist.
            exists = 2 * visit + 1 < count if TO_LAST else None
            h, s, other_h, other_s = _over_chunk(
                ODD, state, odd, slot, here, buffers_over.index(2 + slot), None, exists, BLOCK,
                WIDTH, STATES,
            )  # fmt: skip
    to = states + (count + 1) // 2 * size
    keep_half(0, h, s, to, BLOCK, WIDTH, STATES, low)
    if STATES > 8:
        keep_half(1, other_h, other_s, to, BLOCK, WIDTH, STATES, low)


@gluon.constexpr_function
def _whole_sums_layout(block, width):
    """[variable, time by lane, channel]: what is left when a thread has summed over its times."""
    registers = bits(width, 2, 3, 8)
    lanes = [[0, 1, 0], [0, 2, 0], [0, 0, 1], [0, 0, 2], [0, 0, 4]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 4, width])


@gluon.constexpr_function
def _rows_in_sectors_layout(block, width):
    """[variable, time, channel] where four lanes share 32 bytes of a row.

    Results of products get there by shuffles, without shared memory, of which there is no more.
    """
    lanes = [[0, 0, 4], [0, 0, 8], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    registers = [[0, 0, 1], [0, 0, 2], *bits(width, 2, 3, 16), [0, 8, 0]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 16, width])


@gluon.jit
def _two_halves(value, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """Times 0..7 and 8..15 of [variable, time, channel]."""
    return gl.split(gl.permute(gl.reshape(value, [BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1)))


@gluon.jit
def _fetch_written(
    chunk, is_first, inputs, strides, buffers, time, variables,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy what takes a state over a chunk; the table just for the first of a pair."""
    x, _, write, _, tables_bf16, over_chunks, mask = inputs
    buffers_x, buffers_wh, buffers_wv, buffers_over, buffer_table = buffers
    slot = chunk % 3
    fetch_signal((buffers_x.index(slot), buffers_wh.index(slot), buffers_wv.index(slot)),
                 x, write, mask, chunk, time - chunk * 16, variables, strides,
                 HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
    fetch_over(buffers_over.index(slot), over_chunks, chunk, BLOCK)
    if is_first:
        lines = tables_bf16 + chunk * BF16_TABLES + line_of_pairs(TO_END_UNHELD) * 256
        fetch_lines(buffer_table[0], lines, 0, chunk, BLOCK)
        fetch_lines(buffer_table[1], lines + 2 * 256, 0, chunk, BLOCK)


@gluon.jit
def _fetch_read(
    chunk, inputs, strides, buffers, time, variables,
    HAS_MASK: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy the rest of what a chunk needs."""
    _, d_y, _, read, tables_bf16, _, mask = inputs
    buffers_y, buffers_ch, buffers_cv, buffers_tables = buffers
    slot = chunk % 2
    fetch_signal((buffers_y.index(slot), buffers_ch.index(slot), buffers_cv.index(slot)),
                 d_y, read, mask, chunk, time - chunk * 16, variables, strides,
                 HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
    fetch_tables(
        copy_of(buffers_tables, slot), None, tables_bf16, TO_END, chunk, gl.bfloat16, BLOCK
    )


@gluon.jit
def _a_chunk_on(HALF: gl.constexpr, state, buffers, BLOCK: gl.constexpr,
                WIDTH: gl.constexpr):  # fmt: skip
    """Eight states, a right operand over channels, a chunk later."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    buffer_x, buffer_wh, buffer_wv, over, table = buffers
    w_h = eight_of(buffer_wh.load(pair), HALF, eight)
    w_v = eight_of(buffer_wv.load(pair), HALF, eight)
    to_v, to_h = decay(w_v, w_h, half_of_lines(table, HALF, BLOCK))
    over = over_eight(over, HALF, part)
    h, s = parts_eight(transposed(state, mma).to(gl.float32), BLOCK, WIDTH, part)
    h, s = move_on(h, s, to_h, to_v, operand(buffer_x.load(right)), over, BLOCK, WIDTH)
    return transposed(whole_eight(h.to(low), s.to(low), BLOCK, WIDTH, mma), right)


@gluon.jit
def _half_of_chunk(
    HALF: gl.constexpr, chunk, buffer_x, buffer_y, weights, here, over, kept, is_second,
    buffers_before, g, u, d_matrix, matrix, buffer_state, borders, sums, to_write, to_read, around,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """What eight states have to do with a chunk.

    kept: them before the pair of the chunk; buffers_before: of the first of a pair, for the second.
    Returns their moved gradient, M so far, and how inputs reach the end of the chunk.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    buffer_wh, buffer_wv, buffer_ch, buffer_cv = weights
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)

    # The gradient of what writes the state after the chunk.
    g_low = whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma)
    buffer_state.store(g_low)
    after = operand(transposed(g_low, right))
    to_h, to_v = unstack_eight(multiply(operand(buffer_x.load(left)), after, none), BLOCK)

    # The gradient of the state itself moves on to the chunk before.
    c_h = eight_of(buffer_ch.load(pair), HALF, eight)
    c_v = eight_of(buffer_cv.load(pair), HALF, eight)
    table, wide_table = half_of_table(here, FROM_START, HALF, low, BLOCK)
    from_h, from_v = decay(c_h, c_v, table)
    from_start = stacked_transposed(operand(from_h), operand(from_v), BLOCK, left)
    e_h, e_vh, e_v = over_eight(over, HALF, part)
    state = whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    state = multiply(from_start, operand(buffer_y.load(right)), state)
    g, u = parts_eight(state, BLOCK, WIDTH, part)

    # The gradient of what reads the state before it.
    before = eight_from_scratch(kept, BLOCK, WIDTH, right)
    if is_second:
        before = _a_chunk_on(HALF, before, buffers_before, BLOCK, WIDTH)
    before = operand(before)
    from_h, from_v = unstack_eight(multiply(operand(buffer_y.load(left)), before, none), BLOCK)
    dc_h, dc_v = decay_back(from_h, from_v, wide_table)
    moved = operand(whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma))
    store_border(moved, before, borders, chunk, BLOCK, STATES, mma)

    w_h = eight_of(buffer_wh.load(pair), HALF, eight)
    w_v = eight_of(buffer_wv.load(pair), HALF, eight)
    hold, _ = half_of_table(here, HOLD, HALF, low, BLOCK)
    b_v, b_h = decay(w_v, w_h, hold)
    table, wide_table = half_of_table(here, TO_END, HALF, low, BLOCK)
    db_v, db_h = decay_back(to_v, to_h, wide_table)
    to_v, to_h = decay(b_v, b_h, table)
    to_end = stacked(operand(to_h), operand(to_v), BLOCK, left)
    own, gradients = within_chunk(HALF, here, (c_h, c_v, b_h, b_v), (dc_h, dc_v, db_h, db_v),
                                  d_matrix, low, BLOCK, mma)  # fmt: skip
    leave_gradients(HALF, chunk, here, (w_h, w_v, c_h, c_v), gradients, sums, to_write, to_read,
                    around, BLOCK, STATES)  # fmt: skip
    return g, u, matrix + own, to_end


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
    by_lane: gl.constexpr = _whole_sums_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    wide_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, min(8, WIDTH // 8), [2, 1, 0])
    thin_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 4, 2, [2, 1, 0])
    plain_shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    size: gl.constexpr = STATES * WIDTH  # of a state, in words

    x, _, write, _, tables_bf16, over_chunks, mask = inputs
    d_x, d_write, d_read, partial, borders = outputs
    d_direct = gl.zeros([BLOCK, 4, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = axis_of(1, 16, mma), axis_of(2, 16, mma)
    buffers_x = gl.allocate_shared_memory(low, [3, BLOCK, 16, WIDTH], wide_shared)
    buffers_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_shared)
    buffers_wh = gl.allocate_shared_memory(low, [3, BLOCK, 16, 16], thin_shared)
    buffers_wv = gl.allocate_shared_memory(low, [3, BLOCK, 16, 16], thin_shared)
    buffers_ch = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_shared)
    buffers_cv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_shared)
    buffers_tables = allocate_tables(low, 2)
    buffers_over = gl.allocate_shared_memory(gl.float32, [4, 8, 8], plain_shared)
    buffer_table = allocate_table()
    if HAS_SKIP:
        buffer_skip = allocate_skip(skip, BLOCK, WIDTH)
    buffers_written = (buffers_x, buffers_wh, buffers_wv, buffers_over, buffer_table)
    buffers_read = (buffers_y, buffers_ch, buffers_cv, buffers_tables)
    # Buffers of their own, not parts of one: between parts the compiler would put barriers.
    buffer_g = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    buffer_u = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    sums = allocate_sums(BLOCK)
    keep_states(
        (x, write, tables_bf16, over_chunks, mask), start, states,
        (buffers_x, buffers_wh, buffers_wv), (buffers_y, buffers_ch, buffers_cv), buffers_tables,
        buffers_over,
        first_chunk, last_chunk, segments, time, channels, left_variables,
        # Without a gradient of the state after the last chunk, nobody asks for that state.
        strides, HAS_START, HAS_END, HAS_MASK, BLOCK, WIDTH, STATES,
    )  # fmt: skip
    states = states.to(gl.pointer_type(gl.int32), bitcast=True)
    last = states + ((last_chunk - first_chunk + 1) >> 1) * (BLOCK * size)
    g, u, other_g, other_u = gradient_after(
        d_end, last, (borders + chunks * (3 * STATES), row_borders), last_chunk, channels, segments,
        left_variables, last_chunk == chunks, low, HAS_END, BLOCK, WIDTH, STATES,
    )  # fmt: skip
    kept = load_half(last - BLOCK * size, last_chunk, BLOCK, WIDTH, STATES, low)
    # One step ahead of the work, and two with what takes a state over a chunk, for the second of a
    # pair finds its state from that before the first. Before the last chunk it only fetches.
    for ahead in range(last_chunk - 1, first_chunk - 2, -1):
        chunk = ahead + 1
        if chunk == last_chunk:
            _fetch_written(ahead, False, inputs, strides, buffers_written, time, left_variables,
                           HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
            if ahead > first_chunk:
                _fetch_written(ahead - 1, (ahead - first_chunk) & 1 == 1, inputs, strides,
                               buffers_written, time, left_variables, HAS_MASK,
                               BLOCK, WIDTH, STATES)  # fmt: skip
            _fetch_read(ahead, inputs, strides_of_y, buffers_read, time, left_variables,
                        HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        if chunk < last_chunk:
            # Before the pair of this chunk, and of the one that comes next.
            of_chunk = states + ((chunk - first_chunk) >> 1) * (BLOCK * size)
            of_next = states + (gl.maximum(ahead - first_chunk, 0) >> 1) * (BLOCK * size)
            is_second = (chunk - first_chunk) & 1 == 1
            async_copy.wait_group(0)
            slot, slot_of_three = chunk % 2, chunk % 3
            buffer_x, buffer_y = buffers_x.index(slot_of_three), buffers_y.index(slot)
            weights = (buffers_wh.index(slot_of_three), buffers_wv.index(slot_of_three),
                       buffers_ch.index(slot), buffers_cv.index(slot))  # fmt: skip
            before = gl.where(slot_of_three == 0, 2, slot_of_three - 1)
            buffers_before = (buffers_x.index(before), buffers_wh.index(before),
                              buffers_wv.index(before), buffers_over.index(before),
                              buffer_table)  # fmt: skip
            left_times = time - chunk * 16
            t = chunk * 16
            prefetch(of_next, chunk, size, BLOCK)
            if STATES > 8:
                kept = load_half(of_chunk, chunk, BLOCK, WIDTH, STATES, low)
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            d_matrix = matrix_gradient((buffer_x,), (buffer_y,), chunk, low, BLOCK, mma)
            here, over = copy_of(buffers_tables, slot), buffers_over.index(slot_of_three)
            to_write, to_read = (
                d_write + offset_i64(t, 2 * STATES),
                d_read + offset_i64(t, 2 * STATES),
            )
            around = (time, y_variable, y_time, left_times, left_variables)
            out = partial + chunk * (6 * 16 * STATES)
            border = borders + chunk * (3 * STATES)
            g, u, matrix, to_end = _half_of_chunk(
                0, chunk, buffer_x, buffer_y, weights, here, over, kept, is_second, buffers_before,
                g, u, d_matrix, none, buffer_g, (border, row_borders, left_variables), sums,
                to_write, to_read, around, BLOCK, WIDTH, STATES,
            )  # fmt: skip
            # Well ahead of their use: loaded where they are used, they take 5 % longer.
            following = of_chunk + size // 2 if STATES > 8 else of_next
            kept = load_half(following, chunk, BLOCK, WIDTH, STATES, low)
            barrier()  # keeps the halves apart, whose registers would not fit together
            store_sums(sums, out, chunk, BLOCK, STATES)
            # Here, for the second half loads nothing that registers could not hold:
            # loads come back in the order of their making, and such a one would wait for all these.
            if ahead >= first_chunk:
                _fetch_read(ahead, inputs, strides_of_y, buffers_read, time, left_variables,
                            HAS_MASK, BLOCK, WIDTH, STATES)  # fmt: skip
            if ahead > first_chunk:
                _fetch_written(ahead - 1, not is_second, inputs, strides, buffers_written, time,
                               left_variables, HAS_MASK, BLOCK, WIDTH,
                               STATES)  # fmt: skip
            async_copy.commit_group()
            barrier()  # where the compiler would put two, one after the other
            if STATES > 8:
                other_g, other_u, matrix, other_to_end = _half_of_chunk(
                    1, chunk, buffer_x, buffer_y, weights, here, over, kept, is_second,
                    buffers_before, other_g, other_u, d_matrix, matrix, buffer_u,
                    (border + 8, row_borders, left_variables), sums,
                    to_write, to_read, around, BLOCK, WIDTH, STATES,
                )  # fmt: skip

            # `matrix` is symmetric up to its diagonal: for the input its later times matter.
            later = gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0).to(low), left)
            d_out = buffer_y.load(right)
            d_in = gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma)
            d_in = multiply(operand(later), operand(d_out), d_in)
            d_in = multiply(to_end, operand(buffer_g.load(right)), d_in)
            if STATES > 8:
                d_in = multiply(other_to_end, operand(buffer_u.load(right)), d_in)
            if HAS_SKIP:
                d_in += load_skip(buffer_skip, mma) * buffer_y.load(mma).to(gl.float32)
                # Of the times (2j, 2j + 1, 2j + 8, 2j + 9) that a thread holds.
                x_one, x_two = _two_halves(buffer_x.load(right), BLOCK, WIDTH)
                d_one, d_two = _two_halves(d_out, BLOCK, WIDTH)
                product = times_plus(x_one, d_one, times(x_two, d_two)).to(gl.float32)
                product = gl.sum(gl.reshape(product, [BLOCK, 4, 2, WIDTH]), 2)
                d_direct += gl.convert_layout(product, by_lane)
            store_rows(d_x, d_in, chunk, t, channels, around, _rows_in_sectors_layout(BLOCK, WIDTH))

            # What all variables share, steps and rates, by way of six sums.
            if STATES > 8:
                store_sums(sums, out + 8, chunk, BLOCK, STATES)
    return g, u, other_g, other_u, gl.sum(gl.sum(d_direct, 1), 0)
