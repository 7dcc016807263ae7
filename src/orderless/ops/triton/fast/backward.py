# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""`scan_backward` for 16 states."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.triton.fast.arithmetic import (
    again,
    axis_of,
    bit,
    choose,
    decay,
    decay_back,
    far,
    flip,
    masked,
    multiply,
    times,
    times_plus,
    to_float32,
    turned,
)
from orderless.ops.triton.fast.halves import (
    eight_from_scratch,
    parts_eight,
    stack_eight,
    stack_turned,
    whole_eight,
    whole_part_layout,
)
from orderless.ops.triton.fast.kept_states import keep_states
from orderless.ops.triton.fast.layouts import (
    bits,
    eight_layout,
    whole_pair_layout,
    whole_rows_layout,
)
from orderless.ops.triton.fast.program import SIZES, program_of
from orderless.ops.triton.fast.rooms import (
    FROM_START,
    HOLD,
    QUICK,
    TO_END,
    copy_of,
    eight_of,
    fetch_over,
    fetch_signal,
    fetch_tables,
    half_of_table,
    of_skip,
    over_eight,
    room_for_skip,
    rooms_for_tables,
)
from orderless.ops.triton.overlap import after_others

# Its name since Triton 3.7 is the second.
barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier


@gluon.constexpr_function
def _whole_sums_layout(block, width):
    """[variable, time by lane, channel]: what is left when a thread has summed over its times."""
    registers = bits(width, 2, 3, 8)
    lanes = [[0, 1, 0], [0, 2, 0], [0, 0, 1], [0, 0, 2], [0, 0, 4]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 4, width])


@gluon.constexpr_function
def _block_layout(block):
    """[variable, 8, 8]: a quarter of a result."""
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout([[0, 0, 1]], lanes, bits(block, 0, 3), [], [block, 8, 8])


@gluon.jit
def _unstack_eight(both, BLOCK: gl.constexpr, eight: gl.constexpr):
    first, second = gl.split(gl.permute(gl.reshape(both, [BLOCK, 16, 2, 8]), (0, 1, 3, 2)))
    return gl.convert_layout(first, eight), gl.convert_layout(second, eight)


@gluon.jit
def _load_half(states, now, BLOCK: gl.constexpr, WIDTH: gl.constexpr, low: gl.constexpr):
    """Half of the state of each variable, as the threads kept it, in words of four bytes."""
    word: gl.constexpr = 32 // low.primitive_bitwidth
    flat: gl.constexpr = gl.BlockedLayout([1, 8 // word], [1, 32], [BLOCK, 1], [1, 0])
    v = again(gl.arange(0, BLOCK, gl.SliceLayout(1, flat))[:, None], now)
    i = gl.arange(0, 16 * WIDTH // word, gl.SliceLayout(0, flat))[None, :]
    return gl.load(states + (v * (32 * WIDTH // word) + i))


@gluon.jit
def _prefetch(states, now, size: gl.constexpr, BLOCK: gl.constexpr):
    """Start to bring a state of each variable into the L2 cache."""
    lines: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [BLOCK, 1], [1, 0])
    v = again(gl.arange(0, BLOCK, gl.SliceLayout(1, lines))[:, None], now) * size
    at = again(gl.arange(0, 32, gl.SliceLayout(0, lines))[None, :], now) * (size // 32)
    gl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [(states + (v + at)).to(gl.int64)],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _fetch(
    chunk, inputs, strides, strides_of_y, rooms, time, variables, towards,
    HAS_PRESENT: gl.constexpr, REVERSE: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Start to copy the inputs of a chunk, and in bfloat16 its tables."""
    x, d_y, write, read, tables, quick, over_chunks, present = inputs
    rooms_x, rooms_y, rooms_wh, rooms_wv, rooms_ch, rooms_cv, rooms_tables, rooms_over = rooms
    low: gl.constexpr = rooms_x.dtype
    room = chunk % 2
    left_times = time - chunk * 16
    fetch_signal((rooms_x.index(room), rooms_wh.index(room), rooms_wv.index(room)),
                 x, write, present, chunk, time, left_times, variables, strides, towards,
                 HAS_PRESENT, REVERSE, BLOCK, WIDTH)  # fmt: skip
    fetch_signal((rooms_y.index(room), rooms_ch.index(room), rooms_cv.index(room)),
                 d_y, read, present, chunk, time, left_times, variables, strides_of_y, towards,
                 HAS_PRESENT, REVERSE, BLOCK, WIDTH)  # fmt: skip
    if low == gl.bfloat16:
        fetch_tables(copy_of(rooms_tables, room, low), tables, quick, chunk, low, BLOCK)
        fetch_over(rooms_over.index(room), over_chunks, chunk, BLOCK)


@gluon.jit
def _leave_sums(rooms, one, two, three, four, five, six, BLOCK: gl.constexpr):
    """Leave six tiles of [variable, time, eight states], side by side."""
    four_of_them = gl.join(gl.join(one, three), gl.join(two, four))  # ... state, first, second bit
    four_of_them = gl.reshape(gl.permute(four_of_them, (0, 1, 3, 4, 2)), [BLOCK, 16, 32])
    room_four, room_two = rooms
    room_four.store(four_of_them)
    room_two.store(gl.reshape(gl.permute(gl.join(five, six), (0, 1, 3, 2)), [BLOCK, 16, 16]))


@gluon.jit
def _sum_of_room(room, out, now, WIDE: gl.constexpr, BLOCK: gl.constexpr):
    spread: gl.constexpr = gl.BlockedLayout(
        [BLOCK, 1, WIDE // 8], [1, 4, 8], [1, BLOCK, 1], [2, 1, 0]
    )
    total = gl.sum(room.load(spread), 0)
    flat: gl.constexpr = gl.SliceLayout(0, spread)
    i = again(gl.arange(0, 16, gl.SliceLayout(1, flat))[:, None], now)
    j = gl.arange(0, WIDE, gl.SliceLayout(0, flat))[None, :]
    gl.store(out + ((j // 8) * 256 + i * 16 + j % 8), total.to(out.dtype.element_ty))


@gluon.jit
def _store_sums(rooms, out, now, BLOCK: gl.constexpr):
    """Sum what the variables of the block left, and store it."""
    room_four, room_two = rooms
    _sum_of_room(room_four, out, now, 32, BLOCK)
    _sum_of_room(room_two, out + 1024, now, 16, BLOCK)


@gluon.jit
def _store_border(g, h, borders, now, BLOCK: gl.constexpr, mma: gl.constexpr):
    """Gradient times state, (h, h), (v, v) and (v, h), summed over channels; rows 16 apart.

    borders: where those of the first variable lie, how far those of the others, and how many.
    """
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    quarter: gl.constexpr = _block_layout(BLOCK)
    product = multiply(gl.convert_layout(g, left), h, gl.zeros([BLOCK, 16, 16], gl.float32, mma))
    product = gl.permute(gl.reshape(product, [BLOCK, 2, 8, 2, 8]), (0, 2, 4, 3, 1))
    from_h, from_v = gl.split(product)
    hh, _ = gl.split(from_h)
    vh, vv = gl.split(from_v)
    out, row, variables = borders
    v, i = again(axis_of(0, BLOCK, quarter), now), again(axis_of(1, 8, quarter), now)
    j = axis_of(2, 8, quarter)
    if h.dtype == gl.bfloat16:  # float32 spills more, not less, without its columns
        j = again(j // 2, now) * 2 + j % 2
    out = out + (v * row + gl.where(i == j, i, 0))
    keep = (v < variables) & (i == j)  # diagonals
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
def _matrix_gradient(room_x, room_y, now, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
                     mma: gl.constexpr):  # fmt: skip
    """The gradient of M, made symmetric, and its diagonal, as the two functions below take them."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    forth = multiply(room_y.load(left), room_x.permute((0, 2, 1)).load(right), none)
    if room_x.dtype == gl.bfloat16:
        quarter: gl.constexpr = _block_layout(BLOCK)
        i, j = axis_of(1, 8, quarter), axis_of(2, 8, quarter)
        i = again(i, now)  # a mask that is kept is a mask that is spilled
        one, _, three, four = _quarters(forth.to(gl.bfloat16), BLOCK)
        zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, quarter)
        same = (masked(i == j, one, zero), masked(i == j, four, zero))
        one, four = masked(i >= j, one, flip(one)), masked(i >= j, four, flip(four))
        whole = (
            (flip(three), three),
            (masked((i ^ j) >> 2 == 1, one, zero), masked((i ^ j) >> 2 == 1, four, zero)),
            (masked((i ^ j) >> 1 == 1, one, zero), masked((i ^ j) >> 1 == 1, four, zero)),
            (masked(i ^ j == 1, one, zero), masked(i ^ j == 1, four, zero)),
        )
        return whole, same
    else:  # noqa: RET505
        i, j = axis_of(1, 16, mma), axis_of(2, 16, mma)
        back = multiply(room_x.load(left), room_y.permute((0, 2, 1)).load(right), none)
        same = gl.sum(gl.where(i == j, forth, 0.0), 2)
        same = gl.convert_layout(same, gl.SliceLayout(2, eight_layout(BLOCK)))[:, :, None]
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
        return gl.convert_layout(gl.where(bit(kind, mma), whole, 0.0), left)


@gluon.jit
def _add_same(total_h, total_v, same, other_h, other_v, BLOCK: gl.constexpr, mma: gl.constexpr):
    """total + same other, where `same` has an entry for each time."""
    eight: gl.constexpr = eight_layout(BLOCK)
    if other_h.dtype == gl.bfloat16:
        left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
        right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
        one, four = same
        zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, _block_layout(BLOCK))
        other = turned(stack_turned(other_h, other_v, BLOCK, mma), right)
        total = gl.convert_layout(stack_eight(total_h, total_v, BLOCK), mma)
        total = multiply(_of_quarters(one, zero, zero, four, BLOCK, left), other, total)
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
    HALF: gl.constexpr, chunk, room_x, room_y, weights, here, kept, following, over, g, u,
    d_matrix, d_same, matrix, room_state, borders, sums, to_write, to_read, around,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """What eight states have to do with a chunk.

    Returns their moved gradient, M so far, how inputs reach the end of the chunk, and the state
    that is needed next.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = room_x.dtype
    room_wh, room_wv, room_ch, room_cv = weights
    t = axis_of(1, 16, eight)
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)

    # Gradients of what reads the state before the chunk, and of what writes that after.
    before = eight_from_scratch(kept, BLOCK, WIDTH, right)
    from_h, from_v = _unstack_eight(multiply(room_y.load(left), before, none), BLOCK, eight)
    g_low = whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma)
    room_state.store(g_low)
    to_h, to_v = _unstack_eight(
        multiply(room_x.load(left), turned(g_low, right), none), BLOCK, eight
    )

    # The gradient of the state itself moves on to the chunk before.
    c_h = eight_of(room_ch.load(pair), HALF, eight)
    c_v = eight_of(room_cv.load(pair), HALF, eight)
    table, wide_table = half_of_table(here, FROM_START, HALF, low, BLOCK)
    dc_h, dc_v = decay_back(from_h, from_v, wide_table)
    from_h, from_v = decay(c_h, c_v, table)
    from_start = stack_turned(from_h, from_v, BLOCK, left)
    if low == gl.bfloat16:
        e_h, e_vh, e_v = over_eight(over, HALF, part)
    else:
        over = over + (axis_of(1, 8, part) + HALF * 8)
        e_h, e_vh, e_v = gl.load(over), gl.load(over + 256), gl.load(over + 512)
    state = whole_eight(e_h * g + e_vh * u, e_v * u, BLOCK, WIDTH, mma)
    g, u = parts_eight(multiply(from_start, room_y.load(right), state), BLOCK, WIDTH, part)
    _store_border(whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma), before, borders, chunk,
                  BLOCK, mma)  # fmt: skip

    kept = _load_half(following, chunk, BLOCK, WIDTH, low)
    w_h = eight_of(room_wh.load(pair), HALF, eight)
    w_v = eight_of(room_wv.load(pair), HALF, eight)
    hold, _ = half_of_table(here, HOLD, HALF, low, BLOCK)
    b_v, b_h = decay(w_v, w_h, hold)
    table, wide_table = half_of_table(here, TO_END, HALF, low, BLOCK)
    db_v, db_h = decay_back(to_v, to_h, wide_table)
    dc_h, dc_v = _add_same(dc_h, dc_v, d_same, b_h, b_v, BLOCK, mma)
    db_h, db_v = _add_same(db_h, db_v, d_same, c_h, c_v, BLOCK, mma)
    to_v, to_h = decay(b_v, b_h, table)
    to_end = gl.convert_layout(stack_eight(to_h, to_v, BLOCK), left)

    # Within the chunk, bit by bit.
    own = multiply(
        gl.convert_layout(stack_eight(c_h, c_v, BLOCK), left),
        turned(stack_eight(b_h, b_v, BLOCK), right),
        none,
    )
    for kind in gl.static_range(4):
        reads = t & (8 >> kind)
        table, wide_table = half_of_table(here, kind, HALF, low, BLOCK)
        first, second = decay(choose(reads, c_h, b_v), choose(reads, c_v, b_h), table)
        response = multiply(
            gl.convert_layout(stack_eight(first, second, BLOCK), left),
            turned(stack_eight(second, first, BLOCK), right),
            none,
        )
        own = gl.where(bit(kind, mma), response, own)
        over_times = turned(stack_turned(second, first, BLOCK, mma), right)
        d_pair = multiply(_gradient_of_bit(d_matrix, kind, low, BLOCK, mma), over_times, none)
        d_first, d_second = _unstack_eight(d_pair, BLOCK, eight)
        dc_h, db_v = _add_to_one(reads, dc_h, db_v, d_first, wide_table[0])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_first, wide_table[1])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_second, wide_table[2])

    _, hold = half_of_table(here, HOLD, HALF, low, BLOCK)
    kind_of_weight: gl.constexpr = to_write.dtype.element_ty
    dw_v, dw_h = decay_back(db_v, db_h, hold)
    time, towards, left_times, left_variables = around
    v_eight, t_eight = again(axis_of(0, BLOCK, eight), chunk), axis_of(1, 16, eight)
    t_eight = again(t_eight % 8, chunk) + t_eight // 8 * 8
    stored = (t_eight < left_times) & (v_eight < left_variables)
    at = v_eight * (time * 32) + t_eight * (towards * 32) + (axis_of(2, 8, eight) + HALF * 8)
    to_write, to_read = to_write + at, to_read + at
    gl.store(to_write, dw_h.to(kind_of_weight), mask=stored)
    gl.store(to_write + 16, dw_v.to(kind_of_weight), mask=stored)
    w_h, w_v, c_h, c_v = (
        to_float32(w_h, eight),
        to_float32(w_v, eight),
        to_float32(c_h, eight),
        to_float32(c_v, eight),
    )
    _leave_sums(sums, w_h * db_h, w_v * db_v, w_h * db_v, c_h * dc_h, c_v * dc_v, c_v * dc_h,
                BLOCK)  # fmt: skip
    gl.store(to_read, dc_h.to(kind_of_weight), mask=stored)
    gl.store(to_read + 16, dc_v.to(kind_of_weight), mask=stored)
    return g, u, matrix + own, to_end, kept


@gluon.jit(do_not_specialize=SIZES)
def fast_backward(
    x, write, read, tables, quick, over_chunks, start, states, skip, present, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, partial, borders,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_START: gl.constexpr, HAS_END: gl.constexpr, HAS_SKIP: gl.constexpr,
    HAS_PRESENT: gl.constexpr, REVERSE: gl.constexpr,
    OVERLAP: gl.constexpr = False,
):  # fmt: skip
    """`scan_backward`, where WIDTH divides the size of a head.

    states [program, chunk + 1, variable, half, 16 * WIDTH]: in float32 those of `fast_states`, in
    bfloat16 left by the program itself.

    Here a warp owns a variable whole: the matrices it shares with no other would cost two warps
    more to build twice than their registers gain.
    """
    after_others(OVERLAP)
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    half: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    by_lane: gl.constexpr = _whole_sums_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    word: gl.constexpr = 32 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    # Results in float32 lie in whole sectors as they are.
    out_rows: gl.constexpr = whole_rows_layout(BLOCK, WIDTH, 4) if wide == 8 else mma
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_room: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
    sums_room: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 4, [2, 1, 0])
    plain_room: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    b, first_variable, slice_, head, first_channel, segment = program_of(
        variables, heads, batch, head_size, BLOCK, WIDTH
    )
    if low == gl.bfloat16:
        quick += (b * heads + head) * chunks * QUICK
        over_chunks += (b * heads + head) * chunks * 64
    else:
        tables += (b * heads + head) * chunks * (21 * 256)
    left_variables = variables - first_variable
    v_half = axis_of(0, BLOCK, half)
    towards = 1
    if REVERSE:
        towards = -1
    x += b * x_batch + first_variable * x_variable + first_channel
    write += b * write_batch + first_variable * write_variable
    read += b * read_batch + first_variable * read_variable
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    per_head = head_size // WIDTH
    of_head = slice_ - head * per_head
    part = (first_variable // BLOCK) * per_head + of_head
    partial += ((part * batch + b) * heads + head) * chunks * (6 * 256)
    # Borders have a part for each variable, not for each block.
    borders += ((first_variable * per_head + of_head) * batch + b) * heads * (
        chunks + 1
    ) * 48 + head * (chunks + 1) * 48
    row_borders = per_head * batch * heads * (chunks + 1) * 48
    line = (b * variables + first_variable) * time
    d_y += line * channels + first_channel
    d_x += line * channels + first_channel
    of_slice = (slice_.to(gl.int64) * batch * variables * time + line) * 32
    d_write += of_slice
    d_read += of_slice
    row_end = axis_of(1, 8, half) * channels + axis_of(2, WIDTH, half)
    states += gl.program_id(0).to(gl.int64) * (per_segment + 1) * (BLOCK * 32 * WIDTH)
    scratch = states
    if low == gl.bfloat16:
        states = states.to(gl.pointer_type(gl.int32), bitcast=True)
    size: gl.constexpr = 32 * WIDTH // word  # of a state
    if HAS_SKIP:
        d_direct = gl.zeros([BLOCK, 4, WIDTH], gl.float32, by_lane)
    i_mma, j_mma = axis_of(1, 16, mma), axis_of(2, 16, mma)
    rooms_x = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_y = gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room)
    rooms_wh = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_wv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_ch = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    rooms_cv = gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room)
    # In float32 a second room for tables, or any of the small ones, would cost the place of a
    # second program.
    copies: gl.constexpr = 2 if low == gl.bfloat16 else 1
    rooms_tables = rooms_for_tables(low, copies)
    rooms_over = rooms_tables
    if low == gl.bfloat16:
        rooms_over = gl.allocate_shared_memory(gl.float32, [2, 8, 8], plain_room)
        if HAS_SKIP:
            room_skip = room_for_skip(skip + first_channel, BLOCK, WIDTH)
    rooms = (rooms_x, rooms_y, rooms_wh, rooms_wv, rooms_ch, rooms_cv, rooms_tables, rooms_over)
    # Rooms of their own, not parts of one: between parts the compiler would put barriers.
    room_g = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    room_u = gl.allocate_shared_memory(low, [BLOCK, 16, WIDTH], wide_room)
    sums = (
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 32], sums_room),
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], table_room),
    )
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    inputs = (x, d_y, write, read, tables, quick, over_chunks, present)
    strides = (x_variable, x_time, write_variable, write_time, present_variable, present_time)
    strides_of_y = (time * channels, channels, read_variable, read_time, present_variable,
                    present_time)  # fmt: skip
    if low == gl.bfloat16:
        if HAS_START:
            start += ((b * variables + first_variable) * segments + segment) * 32 * channels
            start += first_channel
        more_over = gl.allocate_shared_memory(gl.float32, [2, 8, 8], plain_room)
        keep_states(
            (x, write, quick, over_chunks, present), start, scratch,
            (rooms_x, rooms_wh, rooms_wv, rooms_over), (rooms_y, rooms_ch, rooms_cv, more_over),
            rooms_tables, first_chunk, last_chunk, segments, time, channels, left_variables,
            strides, towards, HAS_START, HAS_END, HAS_PRESENT, REVERSE, BLOCK, WIDTH,
        )  # fmt: skip
    if HAS_END:
        corner = ((b * variables + first_variable) * segments + segment) * 32 * channels
        corner = d_end + corner + first_channel + (v_half * (segments * 32 * channels) + row_end)
        inside = v_half < left_variables
        g = gl.load(corner, mask=inside, other=0.0)
        u = gl.load(corner + 16 * channels, mask=inside, other=0.0)
        other_g = gl.load(corner + 8 * channels, mask=inside, other=0.0)
        other_u = gl.load(corner + 24 * channels, mask=inside, other=0.0)
        last = states + (last_chunk - first_chunk) * (BLOCK * size)
        kept = _load_half(last, last_chunk, BLOCK, WIDTH, low)
        last_variables = gl.where(segment == segments - 1, left_variables, 0)
        last_border = borders + chunks * 48
        _store_border(whole_eight(g.to(low), u.to(low), BLOCK, WIDTH, mma),
                      eight_from_scratch(kept, BLOCK, WIDTH, right),
                      (last_border, row_borders, last_variables), last_chunk, BLOCK,
                      mma)  # fmt: skip
        kept = _load_half(last + size // 2, last_chunk, BLOCK, WIDTH, low)
        _store_border(whole_eight(other_g.to(low), other_u.to(low), BLOCK, WIDTH, mma),
                      eight_from_scratch(kept, BLOCK, WIDTH, right),
                      (last_border + 8, row_borders, last_variables), last_chunk, BLOCK,
                      mma)  # fmt: skip
    else:
        g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_g = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
        other_u = gl.zeros([BLOCK, 8, WIDTH], gl.float32, half)
    if copies == 1:
        fetch_tables(copy_of(rooms_tables, 0, low), tables, quick, last_chunk - 1, low, BLOCK)
        async_copy.commit_group()
    kept = _load_half(states + (last_chunk - 1 - first_chunk) * (BLOCK * size), last_chunk, BLOCK,
                      WIDTH, low)  # fmt: skip
    # One step ahead of the work: before the last chunk it only fetches.
    for ahead in range(last_chunk - 1, first_chunk - 2, -1):
        chunk = ahead + 1
        if (chunk == last_chunk) if low == gl.bfloat16 else (ahead >= first_chunk):
            _fetch(ahead, inputs, strides, strides_of_y, rooms, time, left_variables, towards,
                   HAS_PRESENT, REVERSE, BLOCK, WIDTH)  # fmt: skip
        async_copy.commit_group()
        if chunk < last_chunk:
            # Of this chunk, and of the one that comes next.
            of_chunk = states + (chunk - first_chunk) * (BLOCK * size)
            of_next = states + gl.maximum(ahead - first_chunk, 0) * (BLOCK * size)
            async_copy.wait_group(0 if low == gl.bfloat16 else 1)
            room = chunk % 2
            room_x, room_y = rooms_x.index(room), rooms_y.index(room)
            weights = (rooms_wh.index(room), rooms_wv.index(room), rooms_ch.index(room),
                       rooms_cv.index(room))  # fmt: skip
            left_times = time - chunk * 16
            t = chunk * 16
            if REVERSE:
                t = time - 1 - t
            _prefetch(of_next, chunk, size, BLOCK)
            none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
            d_matrix, d_same = _matrix_gradient(room_x, room_y, chunk, BLOCK, WIDTH, mma)
            here = copy_of(rooms_tables, room % copies, low)
            if low == gl.bfloat16:
                over = rooms_over.index(room)
            else:
                over = tables + chunk * (21 * 256) + (12 * 256 + 240)
            to_write, to_read = d_write + far(t, 32), d_read + far(t, 32)
            around = (time, towards, left_times, left_variables)
            out = partial + chunk * (6 * 256)
            border = borders + chunk * 48
            g, u, matrix, to_end, kept = _half_of_chunk(
                0, chunk, room_x, room_y, weights, here, kept, of_chunk + size // 2, over,
                g, u, d_matrix, d_same, none, room_g, (border, row_borders, left_variables), sums,
                to_write, to_read, around, BLOCK, WIDTH,
            )  # fmt: skip
            barrier()  # keeps the halves apart, whose registers would not fit together
            _store_sums(sums, out, chunk, BLOCK)
            # In bfloat16 here, for the second half loads nothing that registers could not hold:
            # loads come back in the order of their making, and such a one would wait for all these.
            if low == gl.bfloat16:
                if ahead >= first_chunk:
                    _fetch(ahead, inputs, strides, strides_of_y, rooms, time, left_variables,
                           towards, HAS_PRESENT, REVERSE, BLOCK, WIDTH)  # fmt: skip
                async_copy.commit_group()
            other_g, other_u, matrix, other_to_end, kept = _half_of_chunk(
                1, chunk, room_x, room_y, weights, here, kept, of_next, over, other_g, other_u,
                d_matrix, d_same, matrix, room_u, (border + 8, row_borders, left_variables), sums,
                to_write, to_read, around, BLOCK, WIDTH,
            )  # fmt: skip

            # `matrix` is symmetric up to its diagonal: for the input its later times matter.
            later = gl.convert_layout(gl.where(i_mma <= j_mma, matrix, 0.0).to(low), left)
            d_out = room_y.load(right)
            d_in = multiply(later, d_out, gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma))
            d_in = multiply(to_end, room_g.load(right), d_in)
            d_in = multiply(other_to_end, room_u.load(right), d_in)
            if HAS_SKIP:
                if low == gl.bfloat16:
                    direct = of_skip(room_skip, mma)
                else:
                    direct = gl.load(skip + first_channel + axis_of(2, WIDTH, mma))
                d_in += direct * room_y.load(mma).to(gl.float32)
                # Of the times (2j, 2j + 1, 2j + 8, 2j + 9) that a thread holds.
                x_one, x_two = _two_halves(room_x.load(right), BLOCK, WIDTH)
                d_one, d_two = _two_halves(d_out, BLOCK, WIDTH)
                product = times_plus(x_one, d_one, times(x_two, d_two)).to(gl.float32)
                product = gl.sum(gl.reshape(product, [BLOCK, 4, 2, WIDTH]), 2)
                d_direct += gl.convert_layout(product, by_lane)
            v_out, t_out = again(axis_of(0, BLOCK, out_rows), chunk), axis_of(1, 16, out_rows)
            t_out = again(t_out % 8, chunk) + t_out // 8 * 8
            stored = (t_out < left_times) & (v_out < left_variables)
            at = v_out * (time * channels) + t_out * (towards * channels)
            gl.store(d_x + far(t, channels) + at + axis_of(2, WIDTH, out_rows),
                     gl.convert_layout(d_in.to(low), out_rows), mask=stored)  # fmt: skip

            # What all variables share, steps and rates, by way of six sums.
            _store_sums(sums, out + 8, chunk, BLOCK)
            if copies == 1:
                if chunk > first_chunk:
                    fetch_tables(here, tables, quick, chunk - 1, low, BLOCK)
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
