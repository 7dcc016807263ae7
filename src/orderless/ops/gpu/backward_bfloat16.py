# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""Back through the chunks of a segment, in bfloat16."""

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
    BF16_TABLES,
    FROM_START,
    HOLD,
    TO_END,
    TO_END_UNHELD,
    SignalBuffers,
    allocate_skip,
    allocate_table,
    allocate_tables,
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
    signal_slot,
    table_slot,
)
from orderless.ops.gpu.tile import (
    Halves,
    axis_of,
    bits,
    decay,
    decay_back,
    eight_from_scratch,
    eight_layout,
    multiply,
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


class Inputs(NamedTuple):
    """Rows of each, and where the tables of the first chunk lie."""

    x: Any
    d_y: Any
    write: Any
    read: Any
    mask: Any
    tables: Any
    over_chunks: Any


class _Written(NamedTuple):
    """Shared memory with what takes a state over a chunk: three of each, but one table."""

    signal: Any
    h: Any
    v: Any
    over: Any
    table: Any


class _Read(NamedTuple):
    """Shared memory with the rest of what a chunk needs, two of each."""

    signal: Any
    h: Any
    v: Any
    tables: Any


class _Before(NamedTuple):
    """From what the state before a chunk is found."""

    kept: Any
    """It, or that before the first chunk of the pair."""
    is_second: Any
    written: Any


@gluon.jit
def _over_half(HALF: gl.constexpr, PLACE: gl.constexpr, h, v, own, here, over, states, exists,
               tile):  # fmt: skip
    """Keep eight states if there is a place for them, and take them over a chunk."""
    BLOCK: gl.constexpr = tile.BLOCK
    low: gl.constexpr = own.signal.dtype
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, tile.WIDTH)
    if states is not None:
        keep_half(HALF, h, v, states, low, tile)
    w_h, w_v = eight_of(own.h.load(pair), HALF, eight), eight_of(own.v.load(pair), HALF, eight)
    table, _ = half_of_table(here, PLACE, HALF, low, BLOCK)
    to_v, to_h = decay(w_v, w_h, table)
    over = over_eight(over, HALF, part)
    if exists is not None:
        e_h, e_vh, e_v = over
        over = gl.where(exists, e_h, 1.0), gl.where(exists, e_vh, 0.0), gl.where(exists, e_v, 1.0)
    return move_on(h, v, to_h, to_v, operand(own.signal.load(right)), over, tile)


@gluon.jit
def _over_chunk(PLACE: gl.constexpr, state, buffers, slot, here, over, states, exists, tile):
    """Keep a state if there is a place for it, and take it over a chunk if that exists."""
    h, v, other_h, other_v = state
    own = signal_slot(buffers, slot)
    h, v = _over_half(0, PLACE, h, v, own, here, over, states, exists, tile)
    if tile.STATES > 8:
        other_h, other_v = _over_half(1, PLACE, other_h, other_v, own, here, over, states, exists,
                                      tile)  # fmt: skip
    return Halves(h, v, other_h, other_v)


@gluon.jit
def _fetch(PLACE: gl.constexpr, chunk, last_chunk, inputs, buffers, slot, tables, over, segment,
           tile):  # fmt: skip
    """Start to copy what a chunk needs, its table to a place in the buffers of all tables."""
    own = signal_slot(buffers, slot)
    left_times = gl.where(chunk < last_chunk, segment.time - chunk * 16, 0)
    fetch_signal(own, inputs.x, inputs.write, inputs.mask, chunk, left_times, segment.variables,
                 tile.STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    source = inputs.tables + chunk * BF16_TABLES
    pairs, single = lines_of(table_slot(tables, slot), PLACE)
    fetch_lines(pairs, source + line_of_pairs(TO_END_UNHELD) * 256, 0, chunk, tile.BLOCK)
    fetch_lines(single, source + line_of_singles(TO_END_UNHELD) * 256, 0, chunk, tile.BLOCK)
    fetch_over(over, inputs.over_chunks, chunk, tile.BLOCK)


@gluon.jit
def _keep_states(inputs, start, states, even, odd, tables, over, TO_LAST: gl.constexpr, segment,
                 tile):  # fmt: skip
    """Leave [pair of chunks, variable, half, 16 * WIDTH] in `states`: what is before each pair.

    TO_LAST: and, in the place after these, what is after the last chunk.

    The two chunks of a pair have buffers of their own, two of each, and four for `over`. All of
    `states` is the program's own, so every thread finds later what it leaves here.
    """
    low: gl.constexpr = even.signal.dtype
    size: gl.constexpr = tile.BLOCK * 2 * tile.STATES * tile.WIDTH
    state = first_states(start, segment, tile)
    first_chunk, last_chunk = segment.first_chunk, segment.last_chunk
    count = last_chunk - first_chunk
    if not TO_LAST:
        count = (count - 1) // 2 * 2  # what is before the last pair, or the last chunk
        last_chunk = first_chunk + count
    # Ahead of the work: the first visit only fetches.
    for visit in range(-1, (count + 1) // 2):
        slot = (visit + 1) % 2
        ahead = first_chunk + 2 * (visit + 1)
        if ahead < last_chunk:
            _fetch(EVEN, ahead, last_chunk, inputs, even, slot, tables, over.index(slot), segment,
                   tile)  # fmt: skip
            _fetch(ODD, ahead + 1, last_chunk, inputs, odd, slot, tables, over.index(2 + slot),
                   segment, tile)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            slot = visit % 2
            here = table_slot(tables, slot)
            to = states + visit * size
            state = _over_chunk(EVEN, state, even, slot, here, over.index(slot), to, None, tile)
            # Of an odd number, the last of these does not exist.
            exists = 2 * visit + 1 < count if TO_LAST else None
            state = _over_chunk(ODD, state, odd, slot, here, over.index(2 + slot), None, exists,
                                tile)  # fmt: skip
    keep_all(state, states + (count + 1) // 2 * size, low, tile)


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
def _fetch_written(chunk, is_first, inputs, buffers, segment, tile):
    """Start to copy what takes a state over a chunk; the table just for the first of a pair."""
    slot = chunk % 3
    fetch_signal(signal_slot(buffers, slot), inputs.x, inputs.write, inputs.mask, chunk,
                 segment.time - chunk * 16, segment.variables, tile.STATES)  # fmt: skip
    fetch_over(buffers.over.index(slot), inputs.over_chunks, chunk, tile.BLOCK)
    if is_first:
        lines = inputs.tables + chunk * BF16_TABLES + line_of_pairs(TO_END_UNHELD) * 256
        fetch_lines(buffers.table[0], lines, 0, chunk, tile.BLOCK)
        fetch_lines(buffers.table[1], lines + 2 * 256, 0, chunk, tile.BLOCK)


@gluon.jit
def _fetch_read(chunk, inputs, buffers, segment, tile):
    """Start to copy the rest of what a chunk needs."""
    slot = chunk % 2
    fetch_signal(signal_slot(buffers, slot), inputs.d_y, inputs.read, inputs.mask, chunk,
                 segment.time - chunk * 16, segment.variables, tile.STATES)  # fmt: skip
    fetch_tables(table_slot(buffers.tables, slot), inputs.tables, TO_END, chunk, tile.BLOCK)


@gluon.jit
def _a_chunk_on(HALF: gl.constexpr, state, written, tile):
    """Eight states, a right operand over channels, a chunk later."""
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    w_h = eight_of(written.h.load(pair), HALF, eight)
    w_v = eight_of(written.v.load(pair), HALF, eight)
    to_v, to_h = decay(w_v, w_h, half_of_lines(written.table, HALF, BLOCK))
    over = over_eight(written.over, HALF, part)
    h, v = parts_eight(transposed(state, mma).to(gl.float32), BLOCK, WIDTH, part)
    h, v = move_on(h, v, to_h, to_v, operand(written.signal.load(right)), over, tile)
    return transposed(whole_eight(h.to(low), v.to(low), BLOCK, WIDTH, mma), right)


@gluon.jit
def _half_of_chunk(HALF: gl.constexpr, chunk, written, read, before, gradient, d_matrix, matrix,
                   buffers, out, segment, tile):  # fmt: skip
    """What eight states have to do with a chunk.

    gradient: of the h and v parts of the state after it; buffers: for that, and for sums. Returns
    the gradient moved on, M so far, and how inputs reach the end of the chunk.
    """
    g, u = gradient
    buffer_state, sums = buffers
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    here = read.tables
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)

    # The gradient of what writes the state after the chunk.
    g_low = whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma)
    buffer_state.store(g_low)
    after = operand(transposed(g_low, right))
    to_h, to_v = unstack_eight(multiply(operand(written.signal.load(left)), after, none), BLOCK)

    # The gradient of the state itself moves on to the chunk before.
    c_h = eight_of(read.h.load(pair), HALF, eight)
    c_v = eight_of(read.v.load(pair), HALF, eight)
    table, wide_table = half_of_table(here, FROM_START, HALF, low, BLOCK)
    from_h, from_v = decay(c_h, c_v, table)
    from_start = stacked_transposed(operand(from_h), operand(from_v), BLOCK, left)
    e_h, e_vh, e_v = over_eight(written.over, HALF, part)
    state = whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    state = multiply(from_start, operand(read.signal.load(right)), state)
    g, u = parts_eight(state, BLOCK, WIDTH, part)

    # The gradient of what reads the state before it.
    state = eight_from_scratch(before.kept, BLOCK, WIDTH, right)
    if before.is_second:
        state = _a_chunk_on(HALF, state, before.written, tile)
    state = operand(state)
    from_h, from_v = unstack_eight(multiply(operand(read.signal.load(left)), state, none), BLOCK)
    dc_h, dc_v = decay_back(from_h, from_v, wide_table)
    moved = operand(whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma))
    store_border(moved, state, out, segment.variables, chunk, tile)

    w_h = eight_of(written.h.load(pair), HALF, eight)
    w_v = eight_of(written.v.load(pair), HALF, eight)
    hold, _ = half_of_table(here, HOLD, HALF, low, BLOCK)
    b_v, b_h = decay(w_v, w_h, hold)
    table, wide_table = half_of_table(here, TO_END, HALF, low, BLOCK)
    db_v, db_h = decay_back(to_v, to_h, wide_table)
    to_v, to_h = decay(b_v, b_h, table)
    to_end = stacked(operand(to_h), operand(to_v), BLOCK, left)
    own, gradients = within_chunk(HALF, here, (c_h, c_v, b_h, b_v), (dc_h, dc_v, db_h, db_v),
                                  d_matrix, low, BLOCK, mma)  # fmt: skip
    leave_gradients(HALF, chunk, here, (w_h, w_v, c_h, c_v), gradients, sums, out, segment,
                    tile)  # fmt: skip
    return g, u, matrix + own, to_end


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
    by_lane: gl.constexpr = _whole_sums_layout(BLOCK, WIDTH)
    low: gl.constexpr = gl.bfloat16
    wide_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, min(8, WIDTH // 8), [2, 1, 0])
    thin_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 4, 2, [2, 1, 0])
    plain_shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    size: gl.constexpr = STATES * WIDTH  # of a state, in words

    first_chunk, last_chunk = segment.first_chunk, segment.last_chunk
    d_direct = gl.zeros([BLOCK, 4, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = axis_of(1, 16, mma), axis_of(2, 16, mma)
    x = gl.allocate_shared_memory(low, [3, BLOCK, 16, WIDTH], wide_shared)
    d_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_shared)
    w_h = gl.allocate_shared_memory(low, [3, BLOCK, 16, 16], thin_shared)
    w_v = gl.allocate_shared_memory(low, [3, BLOCK, 16, 16], thin_shared)
    c_h = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_shared)
    c_v = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_shared)
    tables = allocate_tables(low, 2)
    over = gl.allocate_shared_memory(gl.float32, [4, 8, 8], plain_shared)
    written = _Written(x, w_h, w_v, over, allocate_table())
    if skip is not None:
        buffer_skip = allocate_skip(skip, BLOCK, WIDTH)
    read = _Read(d_y, c_h, c_v, tables)
    # Buffers of their own, not parts of one: between parts the compiler would put barriers.
    buffer_g = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    buffer_u = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_shared)
    sums = allocate_sums(BLOCK)
    # Without a gradient of the state after the last chunk, nobody asks for that state.
    _keep_states(inputs, start, states, SignalBuffers(x, w_h, w_v), SignalBuffers(d_y, c_h, c_v),
                 tables, over, d_end is not None, segment, tile)  # fmt: skip
    states = states.to(gl.pointer_type(gl.int32), bitcast=True)
    last = states + ((last_chunk - first_chunk + 1) >> 1) * (BLOCK * size)
    behind = Outputs(out.x, out.write, out.read, out.sums,
                     out.borders + segment.chunks * (3 * STATES), out.border_row)  # fmt: skip
    g, u, other_g, other_u = gradient_after(d_end, last, behind, segment, low, tile)
    kept = load_half(last - BLOCK * size, last_chunk, tile, low)
    # One step ahead of the work, and two with what takes a state over a chunk, for the second of a
    # pair finds its state from that before the first. Before the last chunk it only fetches.
    for ahead in range(last_chunk - 1, first_chunk - 2, -1):
        chunk = ahead + 1
        if chunk == last_chunk:
            _fetch_written(ahead, False, inputs, written, segment, tile)
            if ahead > first_chunk:
                _fetch_written(ahead - 1, (ahead - first_chunk) & 1 == 1, inputs, written, segment,
                               tile)  # fmt: skip
            _fetch_read(ahead, inputs, read, segment, tile)
        async_copy.commit_group()
        if chunk < last_chunk:
            # Before the pair of this chunk, and of the one that comes next.
            of_chunk = states + ((chunk - first_chunk) >> 1) * (BLOCK * size)
            of_next = states + (gl.maximum(ahead - first_chunk, 0) >> 1) * (BLOCK * size)
            is_second = (chunk - first_chunk) & 1 == 1
            async_copy.wait_group(0)
            slot, slot_of_three = chunk % 2, chunk % 3
            now_x, now_y = x.index(slot_of_three), d_y.index(slot)
            now_w_h, now_w_v = w_h.index(slot_of_three), w_v.index(slot_of_three)
            now_c_h, now_c_v = c_h.index(slot), c_v.index(slot)
            earlier = gl.where(slot_of_three == 0, 2, slot_of_three - 1)
            written_before = _Written(x.index(earlier), w_h.index(earlier), w_v.index(earlier),
                                      over.index(earlier), written.table)  # fmt: skip
            left_times = segment.time - chunk * 16
            prefetch(of_next, chunk, size, BLOCK)
            if STATES > 8:
                kept = load_half(of_chunk, chunk, tile, low)
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            d_matrix = matrix_gradient((now_x,), (now_y,), chunk, low, BLOCK, mma)
            now_read = _Read(now_y, now_c_h, now_c_v, table_slot(tables, slot))
            now_written = _Written(now_x, now_w_h, now_w_v, over.index(slot_of_three),
                                   written.table)  # fmt: skip
            now_out = chunk_outputs(out, chunk, STATES)
            before = _Before(kept, is_second, written_before)
            g, u, matrix, to_end = _half_of_chunk(
                0, chunk, now_written, now_read, before, (g, u), d_matrix, none, (buffer_g, sums),
                now_out, segment, tile,
            )  # fmt: skip
            # Well ahead of their use: loaded where they are used, they take 5 % longer.
            following = of_chunk + size // 2 if STATES > 8 else of_next
            kept = load_half(following, chunk, tile, low)
            barrier()  # keeps the halves apart, whose registers would not fit together
            store_sums(sums, now_out.sums, chunk, BLOCK, STATES)
            # Here, for the second half loads nothing that registers could not hold:
            # loads come back in the order of their making, and such a one would wait for all these.
            if ahead >= first_chunk:
                _fetch_read(ahead, inputs, read, segment, tile)
            if ahead > first_chunk:
                _fetch_written(ahead - 1, not is_second, inputs, written, segment, tile)
            async_copy.commit_group()
            barrier()  # where the compiler would put two, one after the other
            if STATES > 8:
                before = _Before(kept, is_second, written_before)
                other_out = other_half(now_out)
                other_g, other_u, matrix, other_to_end = _half_of_chunk(
                    1, chunk, now_written, now_read, before, (other_g, other_u), d_matrix, matrix,
                    (buffer_u, sums), other_out, segment, tile,
                )  # fmt: skip

            # `matrix` is symmetric up to its diagonal: for the input its later times matter.
            later = gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0).to(low), left)
            d_out = now_y.load(right)
            d_in = gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma)
            d_in = multiply(operand(later), operand(d_out), d_in)
            d_in = multiply(to_end, operand(buffer_g.load(right)), d_in)
            if STATES > 8:
                d_in = multiply(other_to_end, operand(buffer_u.load(right)), d_in)
            if skip is not None:
                d_in += load_skip(buffer_skip, mma) * now_y.load(mma).to(gl.float32)
                # Of the times (2j, 2j + 1, 2j + 8, 2j + 9) that a thread holds.
                x_one, x_two = _two_halves(now_x.load(right), BLOCK, WIDTH)
                d_one, d_two = _two_halves(d_out, BLOCK, WIDTH)
                product = times_plus(x_one, d_one, times(x_two, d_two)).to(gl.float32)
                product = gl.sum(gl.reshape(product, [BLOCK, 4, 2, WIDTH]), 2)
                d_direct += gl.convert_layout(product, by_lane)
            store_rows(out.x, d_in, chunk, left_times, segment.variables,
                       _rows_in_sectors_layout(BLOCK, WIDTH))  # fmt: skip

            # What all variables share, steps and rates, by way of six sums.
            if STATES > 8:
                store_sums(sums, other_out.sums, chunk, BLOCK, STATES)
    return Halves(g, u, other_g, other_u), gl.sum(gl.sum(d_direct, 1), 0)
