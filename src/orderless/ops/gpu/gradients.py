"""What going back through a chunk has to find, in either precision, for eight states at a time.

Operands are as `multiply` takes them; a warp owns a variable.
"""

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from orderless.ops.gpu.shared_memory import HOLD, half_of_table
from orderless.ops.gpu.tile import (
    Halves,
    axis_of,
    bit,
    bits,
    choose,
    converted,
    decay,
    decay_back,
    eight_from_scratch,
    eight_layout,
    load_halves,
    load_operand,
    load_transposed,
    masked,
    multiply,
    offset_i64,
    opaque_copy,
    operand,
    parts_eight,
    stack_eight,
    stacked,
    stacked_transposed,
    to_float32,
    to_scratch,
    transpose_blocks,
    transposed_parts,
    whole_eight,
    whole_part_layout,
)

# Its name since Triton 3.7 is the second.
barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier


@gluon.constexpr_function
def _block_layout(block):
    """[variable, 8, 8]: a quarter of a result."""
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout([[0, 0, 1]], lanes, bits(block, 0, 3), [], [block, 8, 8])


@gluon.jit
def unstack_eight(both, BLOCK: gl.constexpr):
    """What `stack_eight` put together."""
    eight: gl.constexpr = eight_layout(BLOCK)
    first, second = gl.split(gl.permute(gl.reshape(both, [BLOCK, 16, 2, 8]), (0, 1, 3, 2)))
    return gl.convert_layout(first, eight), gl.convert_layout(second, eight)


@gluon.jit
def load_half(states, now, tile, low: gl.constexpr):
    """Half of the state of each variable, as the threads kept it, in words of four bytes."""
    word: gl.constexpr = 32 // low.primitive_bitwidth
    flat: gl.constexpr = gl.BlockedLayout([1, 8 // word], [1, 32], [tile.BLOCK, 1], [1, 0])
    v = opaque_copy(gl.arange(0, tile.BLOCK, gl.SliceLayout(1, flat))[:, None], now)
    i = gl.arange(0, 16 * tile.WIDTH // word, gl.SliceLayout(0, flat))[None, :]
    return gl.load(states + (v * (2 * tile.STATES * tile.WIDTH // word) + i))


@gluon.constexpr_function
def size_of_half(low, width):
    """Of half of the state of a variable, in words."""
    return 16 * width * low.primitive_bitwidth // 32


@gluon.jit
def prefetch(states, now, size: gl.constexpr, BLOCK: gl.constexpr):
    """Start to bring a state of each variable into the L2 cache."""
    lines: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [BLOCK, 1], [1, 0])
    v = opaque_copy(gl.arange(0, BLOCK, gl.SliceLayout(1, lines))[:, None], now) * size
    at = opaque_copy(gl.arange(0, 32, gl.SliceLayout(0, lines))[None, :], now) * (size // 32)
    gl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [(states + (v + at)).to(gl.int64)],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def allocate_sums(BLOCK: gl.constexpr):
    """Buffers of their own, not parts of one: between parts the compiler would put barriers."""
    four: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 4, [2, 1, 0])
    two: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
    return (
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 32], four),
        gl.allocate_shared_memory(gl.float32, [BLOCK, 16, 16], two),
    )


@gluon.jit
def leave_sums(buffers, one, two, three, four, five, six, BLOCK: gl.constexpr):
    """Leave six tiles of [variable, time, eight states], side by side."""
    four_of_them = gl.join(gl.join(one, three), gl.join(two, four))  # ... state, first, second bit
    four_of_them = gl.reshape(gl.permute(four_of_them, (0, 1, 3, 4, 2)), [BLOCK, 16, 32])
    buffer_four, buffer_two = buffers
    buffer_four.store(four_of_them)
    buffer_two.store(gl.reshape(gl.permute(gl.join(five, six), (0, 1, 3, 2)), [BLOCK, 16, 16]))


@gluon.jit
def _sum_of_buffer(buffer, out, now, WIDE: gl.constexpr, BLOCK: gl.constexpr, STATES: gl.constexpr):
    spread: gl.constexpr = gl.BlockedLayout(
        [BLOCK, 1, WIDE // 8], [1, 4, 8], [1, BLOCK, 1], [2, 1, 0]
    )
    total = gl.sum(buffer.load(spread), 0)
    flat: gl.constexpr = gl.SliceLayout(0, spread)
    i = opaque_copy(gl.arange(0, 16, gl.SliceLayout(1, flat))[:, None], now)
    j = gl.arange(0, WIDE, gl.SliceLayout(0, flat))[None, :]
    at = (j // 8) * (16 * STATES) + i * STATES + j % 8
    gl.store(out + at, total.to(out.dtype.element_ty))


@gluon.jit
def store_sums(buffers, out, now, BLOCK: gl.constexpr, STATES: gl.constexpr):
    """Sum what the variables of the block left, and store it."""
    buffer_four, buffer_two = buffers
    _sum_of_buffer(buffer_four, out, now, 32, BLOCK, STATES)
    _sum_of_buffer(buffer_two, out + 4 * 16 * STATES, now, 16, BLOCK, STATES)


class Outputs(NamedTuple):
    """Where the results of a program go. Of `chunk_outputs`, those of a chunk."""

    x: Any  # Rows
    write: Any
    read: Any
    sums: Any
    borders: Any
    border_row: Any  # how far borders of variables lie apart


@gluon.jit
def chunk_outputs(out, chunk, STATES: gl.constexpr):
    """Where the results of a chunk go."""
    t = chunk * 16
    to_write, to_read = out.write + offset_i64(t, 2 * STATES), out.read + offset_i64(t, 2 * STATES)
    sums = out.sums + chunk * (6 * 16 * STATES)
    return Outputs(out.x, to_write, to_read, sums, out.borders + chunk * (3 * STATES),
                   out.border_row)  # fmt: skip


@gluon.jit
def other_half(out):
    """Where the results of the other eight states go."""
    return Outputs(out.x, out.write, out.read, out.sums + 8, out.borders + 8, out.border_row)


@gluon.jit
def store_border(g, h, out, variables, now, tile):
    """Gradient times state, (h, h), (v, v) and (v, h), summed over channels; rows STATES apart."""
    BLOCK: gl.constexpr = tile.BLOCK
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    quarter: gl.constexpr = _block_layout(BLOCK)
    product = multiply(converted(g, left), h, gl.zeros([BLOCK, 16, 16], gl.float32, mma))
    product = gl.permute(gl.reshape(product, [BLOCK, 2, 8, 2, 8]), (0, 2, 4, 3, 1))
    from_h, from_v = gl.split(product)
    hh, _ = gl.split(from_h)
    vh, vv = gl.split(from_v)
    v, i = opaque_copy(axis_of(0, BLOCK, quarter), now), opaque_copy(axis_of(1, 8, quarter), now)
    j = axis_of(2, 8, quarter)
    j = opaque_copy(j // 2, now) * 2 + j % 2
    at = out.borders + (v * out.border_row + gl.where(i == j, i, 0))
    keep = (v < variables) & (i == j)  # diagonals
    gl.store(at, gl.convert_layout(hh, quarter), mask=keep)
    gl.store(at + tile.STATES, gl.convert_layout(vv, quarter), mask=keep)
    gl.store(at + 2 * tile.STATES, gl.convert_layout(vh, quarter), mask=keep)


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
def _symmetric(forth, now, BLOCK: gl.constexpr):
    quarter: gl.constexpr = _block_layout(BLOCK)
    i, j = axis_of(1, 8, quarter), axis_of(2, 8, quarter)
    i = opaque_copy(i, now)  # a mask that is kept is a mask that is spilled
    one, _, three, four = _quarters(forth, BLOCK)
    zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, quarter)
    same = (masked(i == j, one, zero), masked(i == j, four, zero))
    one, four = (
        masked(i >= j, one, transpose_blocks(one)),
        masked(i >= j, four, transpose_blocks(four)),
    )
    return (
        (transpose_blocks(three), three),
        (masked((i ^ j) >> 2 == 1, one, zero), masked((i ^ j) >> 2 == 1, four, zero)),
        (masked((i ^ j) >> 1 == 1, one, zero), masked((i ^ j) >> 1 == 1, four, zero)),
        (masked(i ^ j == 1, one, zero), masked(i ^ j == 1, four, zero)),
        same,
    )


@gluon.jit
def matrix_gradient(buffers_x, buffers_y, now, low: gl.constexpr, BLOCK: gl.constexpr,
                    mma: gl.constexpr):  # fmt: skip
    """The gradient of M, made symmetric: of each part of it what the four bits and `same` have."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    forth = multiply(load_operand(buffers_y, left), load_transposed(buffers_x, right), none)
    forth = operand(forth.to(low))
    if len(forth) == 1:
        return (_symmetric(forth[0], now, BLOCK),)
    else:  # noqa: RET505
        return _symmetric(forth[0], now, BLOCK), _symmetric(forth[1], now, BLOCK)


@gluon.jit
def _part_of_bit(whole, kind: gl.constexpr, BLOCK: gl.constexpr, left: gl.constexpr):
    zero = gl.zeros([BLOCK, 8, 8], gl.bfloat16, _block_layout(BLOCK))
    first, second = whole[kind]
    if kind == 0:
        return _of_quarters(zero, first, second, zero, BLOCK, left)
    else:  # noqa: RET505
        return _of_quarters(first, zero, zero, second, BLOCK, left)


@gluon.jit
def _of_bit(d_matrix, kind: gl.constexpr, BLOCK: gl.constexpr, left: gl.constexpr):
    """What a table, or for kind 4 the diagonal, has of the gradient of M, as a left operand."""
    one = _part_of_bit(d_matrix[0], kind, BLOCK, left)
    if len(d_matrix) == 1:
        return (one,)
    else:  # noqa: RET505
        return one, _part_of_bit(d_matrix[1], kind, BLOCK, left)


@gluon.jit
def _add_same(total_h, total_v, d_matrix, other_h, other_v, BLOCK: gl.constexpr,
              mma: gl.constexpr):  # fmt: skip
    """total + (the diagonal of the gradient of M) other."""
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    other = transposed_parts(stacked_transposed(other_h, other_v, BLOCK, mma), right)
    total = gl.convert_layout(stack_eight(total_h, total_v, BLOCK), mma)
    return unstack_eight(multiply(_of_bit(d_matrix, 4, BLOCK, left), other, total), BLOCK)


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
def _border_after(h, v, last, out, variables, now, low: gl.constexpr, tile):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [tile.BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    state = load_half(last, now, tile, low)
    state = operand(eight_from_scratch(state, tile.BLOCK, tile.WIDTH, right))
    both = operand(whole_eight(h.to(low), v.to(low), tile.BLOCK, tile.WIDTH, mma))
    store_border(both, state, out, variables, now, tile)


@gluon.jit
def gradient_after(d_end, last, out, segment, low: gl.constexpr, tile):
    """The gradient of the state after all chunks.

    last: that state, for the border behind the last chunk of all, which is where `out` is.
    """
    if d_end is not None:
        now = segment.last_chunk
        is_last = now == segment.chunks
        after = load_halves(d_end, segment, tile)
        variables = gl.where(is_last, segment.variables, 0)
        _border_after(after.h, after.v, last, out, variables, now, low, tile)
        if tile.STATES > 8:
            last = last + size_of_half(low, tile.WIDTH)
            _border_after(after.other_h, after.other_v, last, other_half(out), variables, now, low,
                          tile)  # fmt: skip
        return after
    else:  # noqa: RET505
        return zero_halves(tile)


@gluon.jit
def store_rows(rows, value, chunk, left_times, variables, layout: gl.constexpr):
    """Store [variable, time, channel] of a chunk in a layout."""
    BLOCK: gl.constexpr = value.shape[0]
    WIDTH: gl.constexpr = value.shape[2]
    v, row = opaque_copy(axis_of(0, BLOCK, layout), chunk), axis_of(1, 16, layout)
    row = opaque_copy(row % 8, chunk) + row // 8 * 8
    stored = (row < left_times) & (v < variables)
    at = v * rows.variable + row * rows.time
    t = chunk * 16
    out = rows.first + offset_i64(t, rows.time)
    gl.store(out + at + axis_of(2, WIDTH, layout),
             gl.convert_layout(value.to(out.dtype.element_ty), layout), mask=stored)  # fmt: skip


@gluon.jit
def within_chunk(HALF: gl.constexpr, here, reads_writes, gradients, d_matrix, low: gl.constexpr,
                 BLOCK: gl.constexpr, mma: gl.constexpr):  # fmt: skip
    """What happens between the times of a chunk, bit by bit: M, and the gradients so far and more.

    reads_writes: the reads and the held writes, (c_h, c_v, b_h, b_v); gradients are of these.
    """
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    t = axis_of(1, 16, eight_layout(BLOCK))
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)
    c_h, c_v, b_h, b_v = reads_writes
    dc_h, dc_v, db_h, db_v = gradients
    now_ch, now_cv, now_bh, now_bv = operand(c_h), operand(c_v), operand(b_h), operand(b_v)
    dc_h, dc_v = _add_same(dc_h, dc_v, d_matrix, now_bh, now_bv, BLOCK, mma)
    db_h, db_v = _add_same(db_h, db_v, d_matrix, now_ch, now_cv, BLOCK, mma)
    own = multiply(
        stacked(now_ch, now_cv, BLOCK, left),
        transposed_parts(stacked(now_bh, now_bv, BLOCK, mma), right),
        none,
    )
    for kind in gl.static_range(4):
        reads = t & (8 >> kind)
        table, wide_table = half_of_table(here, kind, HALF, low, BLOCK)
        first, second = decay(choose(reads, c_h, b_v), choose(reads, c_v, b_h), table)
        first, second = operand(first), operand(second)
        response = multiply(
            stacked(first, second, BLOCK, left),
            transposed_parts(stacked(second, first, BLOCK, mma), right),
            none,
        )
        own = gl.where(bit(kind, mma), response, own)
        over_times = transposed_parts(stacked_transposed(second, first, BLOCK, mma), right)
        d_pair = multiply(_of_bit(d_matrix, kind, BLOCK, left), over_times, none)
        d_first, d_second = unstack_eight(d_pair, BLOCK)
        dc_h, db_v = _add_to_one(reads, dc_h, db_v, d_first, wide_table[0])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_first, wide_table[1])
        dc_v, db_h = _add_to_one(reads, dc_v, db_h, d_second, wide_table[2])
    return own, (dc_h, dc_v, db_h, db_v)


@gluon.jit
def leave_gradients(HALF: gl.constexpr, chunk, here, weights, gradients, buffers, out, segment,
                    tile):  # fmt: skip
    """Store the gradients of weights, and leave their sums with the weights (w_h, w_v, c_h, c_v).

    gradients: of reads and held writes, (dc_h, dc_v, db_h, db_v).
    """
    BLOCK: gl.constexpr = tile.BLOCK
    STATES: gl.constexpr = tile.STATES
    eight: gl.constexpr = eight_layout(BLOCK)
    w_h, w_v, c_h, c_v = weights
    dc_h, dc_v, db_h, db_v = gradients
    _, hold = half_of_table(here, HOLD, HALF, w_h.dtype, BLOCK)
    low: gl.constexpr = out.write.dtype.element_ty
    dw_v, dw_h = decay_back(db_v, db_h, hold)
    v_eight, t_eight = opaque_copy(axis_of(0, BLOCK, eight), chunk), axis_of(1, 16, eight)
    t_eight = opaque_copy(t_eight % 8, chunk) + t_eight // 8 * 8
    stored = (t_eight < segment.time - chunk * 16) & (v_eight < segment.variables)
    row: gl.constexpr = 2 * STATES
    at = v_eight * (segment.time * row) + t_eight * row + (axis_of(2, 8, eight) + HALF * 8)
    to_write, to_read = out.write + at, out.read + at
    gl.store(to_write, dw_h.to(low), mask=stored)
    gl.store(to_write + STATES, dw_v.to(low), mask=stored)
    w_h, w_v = to_float32(w_h, eight), to_float32(w_v, eight)
    c_h, c_v = to_float32(c_h, eight), to_float32(c_v, eight)
    leave_sums(buffers, w_h * db_h, w_v * db_v, w_h * db_v, c_h * dc_h, c_v * dc_v, c_v * dc_h,
               BLOCK)  # fmt: skip
    gl.store(to_read, dc_h.to(low), mask=stored)
    gl.store(to_read + STATES, dc_v.to(low), mask=stored)


@gluon.jit
def keep_half(HALF: gl.constexpr, h, v, states, low: gl.constexpr, tile):
    """Leave eight states as the threads hold them."""
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
    both = whole_eight(h.to(low), v.to(low), BLOCK, WIDTH, mma)
    variable = gl.arange(0, BLOCK, gl.SliceLayout(1, flat))[:, None]
    at = variable * (2 * tile.STATES * WIDTH) + HALF * 16 * WIDTH
    at = at + gl.arange(0, 16 * WIDTH, gl.SliceLayout(0, flat))[None, :]
    # They are read again, what else goes through the cache meanwhile is not.
    gl.store(states + at, to_scratch(both, BLOCK, WIDTH, flat), eviction_policy="evict_last")


@gluon.jit
def keep_all(state, states, low: gl.constexpr, tile):
    """Leave all states."""
    keep_half(0, state.h, state.v, states, low, tile)
    if tile.STATES > 8:
        keep_half(1, state.other_h, state.other_v, states, low, tile)


@gluon.jit
def move_on(h, v, to_h, to_v, signal, over, tile):
    """Take eight states over a chunk, at whose end (to_h, to_v) write a signal to them."""
    BLOCK: gl.constexpr = tile.BLOCK
    WIDTH: gl.constexpr = tile.WIDTH
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    e_h, e_vh, e_v = over
    state = whole_eight(e_h * h, e_v * v + e_vh * h, BLOCK, WIDTH, mma)
    to_end = stacked_transposed(operand(to_h), operand(to_v), BLOCK, left)
    state = multiply(to_end, signal, state)
    return parts_eight(state, BLOCK, WIDTH, whole_part_layout(BLOCK, WIDTH))


@gluon.jit
def zero_halves(tile):
    """All states zero."""
    part: gl.constexpr = whole_part_layout(tile.BLOCK, tile.WIDTH)
    none = gl.zeros([tile.BLOCK, 8, tile.WIDTH], gl.float32, part)
    return Halves(none, none, none, none)


@gluon.jit
def first_states(start, segment, tile):
    """The state before all chunks."""
    if start is not None:
        return load_halves(start, segment, tile)
    else:  # noqa: RET505
        return zero_halves(tile)
