# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""The states after segments of time."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.shared_memory import (
    BF16_TABLES,
    F32_TABLES,
    FROM_START,
    TO_END_UNHELD,
    copy,
    fetch_lines,
    fetch_over,
    fetch_pair,
    line_of_pairs,
    line_of_singles,
    pairs_of_lines,
    singles_of_lines,
)
from orderless.ops.gpu.tile import (
    SIZES,
    Rows,
    at_time,
    axis_of,
    bits,
    decay,
    multiply,
    offset_i64,
    operand,
    program_of,
    to_fetch,
    to_float32,
    transposed,
)


@gluon.constexpr_function
def _pair_layout(block):
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = [[0, 0, 8], *bits(block, 0, 3)]
    return gl.DistributedLinearLayout([[0, 0, 1], [0, 8, 0]], lanes, warps, [], [block, 16, 16])


@gluon.constexpr_function
def _single_layout(block):
    """A line of `tables_bf16` with one entry for 16 states, where two warps own a variable."""
    warps = [[0, 4], *([0, 0] for _ in bits(block, 0, 2))]
    lanes = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]]
    return gl.DistributedLinearLayout([[0, 1], [0, 2]], lanes, warps, [], [1, 256])


@gluon.constexpr_function
def _right_layout(block, width):
    """[variable, warp, time, channel] as right operands over times, the same for both warps."""
    registers = [[0, 0, 1, 0], [0, 0, 8, 0], *bits(width, 3, 4, 8)]
    lanes = [[0, 0, 2, 0], [0, 0, 4, 0], [0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 4]]
    warps = [[0, 1, 0, 0], *bits(block, 0, 4)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [block, 2, 16, width])


@gluon.constexpr_function
def _half_layout(block, width):
    """[(variable, warp), state, channel]: the h or the v part of a state."""
    registers = [[0, 0, 1], *bits(width, 2, 3, 8)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = bits(2 * block, 0, 3)
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [2 * block, 8, width])


@gluon.constexpr_function
def _factors_layout(block):
    """[1, time, (half, part, state of the half)], of which a warp has a half, as in a pair."""
    registers = [[0, 0, 1], [0, 8, 0], [0, 0, 8]]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    warps = [[0, 0, 16], *([0, 0, 0] for _ in bits(block, 0, 3))]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [1, 16, 32])


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
def _parts(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, half: gl.constexpr):
    """The two parts of [(variable, warp), (part, state), channel]."""
    both = gl.permute(gl.reshape(both, [2 * BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1))
    h, v = gl.split(both)
    return gl.convert_layout(h, half), gl.convert_layout(v, half)


@gluon.jit
def _pair_of_factors(buffer, BLOCK: gl.constexpr, pair: gl.constexpr):
    """What the write of the field becomes, as a pair that every variable has."""
    both = gl.reshape(buffer.load(_factors_layout(BLOCK)), [1, 16, 2, 2, 8])
    both = gl.reshape(gl.permute(both, (0, 1, 2, 4, 3)), [1, 16, 16, 2])
    h, v = gl.split(both)
    all_of_them = gl.zeros([BLOCK, 16, 16], both.dtype, pair)
    h, _ = gl.broadcast(gl.convert_layout(h, pair), all_of_them)
    v, _ = gl.broadcast(gl.convert_layout(v, pair), all_of_them)
    return h, v


@gluon.jit
def _led_on(first, second, beyond, ADJOINT: gl.constexpr, BLOCK: gl.constexpr, pair: gl.constexpr,
            left: gl.constexpr):  # fmt: skip
    """A pair, of which the second entry also reaches the first, led on, as a left operand."""
    low: gl.constexpr = first.dtype
    first, second = decay(to_float32(first, pair), to_float32(second, pair), beyond)
    first, second = first.to(low), second.to(low)
    both = _stack(first, second, BLOCK) if ADJOINT else _stack(second, first, BLOCK)
    return operand(transposed(both, left))


@gluon.jit
def _for_both(buffer, layout: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """[variable or 1, 1, time, channel] in shared memory, for both warps of a variable."""
    value = buffer.load(layout)
    value, _ = gl.broadcast(value, gl.zeros([BLOCK, 2, 16, WIDTH], value.dtype, layout))
    return gl.reshape(value, [2 * BLOCK, 16, WIDTH])


@gluon.jit
def _state_at(b, first_variable, first_channel, variables, segments, segment, channels,
              BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
              half: gl.constexpr):  # fmt: skip
    w = axis_of(0, 2 * BLOCK, half)
    n = (w % 2) * 8 + axis_of(1, 8, half)
    size = 2 * STATES * channels
    corner = ((b * variables + first_variable) * segments + segment) * size + first_channel
    at = corner + ((w // 2) * (segments * size) + n * channels + axis_of(2, WIDTH, half))
    return at, (w // 2 < variables - first_variable) & (n < STATES)


@gluon.jit(do_not_specialize=SIZES)
def segment_states(
    x, write, tables, over_chunks, field, factors, mask, states,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    mask_batch, mask_variable, mask_time, field_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
    ADJOINT: gl.constexpr,
):  # fmt: skip
    """states [B, V, segment, 2, N, D] in float32: those after each segment of time, from zero.

    With HAS_FIELD as `scan_forward` has it. ADJOINT, as in `scan_states`: the gradients before
    each, from that of y and `read`. Of the last segment, or then of the first, there is no program.

    It goes against time, and what a chunk adds is led to the end of the segment at once: so the
    state is a plain sum, and the first chunks are still in the cache for whoever comes next.
    """
    WARPS: gl.constexpr = 2 * BLOCK
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = _pair_layout(BLOCK)
    half: gl.constexpr = _half_layout(BLOCK, WIDTH)
    over_times: gl.constexpr = _right_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = WIDTH // wide
    few: gl.constexpr = 16 // wide
    rows: gl.constexpr = gl.BlockedLayout([1, 1, 1, wide], [1, 1, 32 // lanes, lanes],
                                          [BLOCK, 1, 2, 1], [3, 2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 2, 1],
                                          [2, 1, 0])  # fmt: skip
    wide_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [3, 2, 1, 0])
    thin_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    table_shared: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [2, 1, 0])
    plain_shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    # Buffers for the inputs of a chunk: as many as two programs on a multiprocessor can have, or 3.
    DEPTH: gl.constexpr = 2 if field is not None and wide == 4 else 3
    b, first_variable, _, head, first_channel, segment = program_of(
        variables, heads, batch, head_size, BLOCK, WIDTH
    )
    if ADJOINT:
        segment += 1
    first_table = (b * heads + head) * chunks
    over_chunks += first_table * 64
    left_variables = variables - first_variable
    v_rows, t_rows = _axis_of_four(0, BLOCK, rows), _axis_of_four(2, 16, rows)
    v_thin, t_thin = axis_of(0, BLOCK, thin), axis_of(1, 16, thin)
    x += b * x_batch + first_variable * x_variable + first_channel
    row_x = v_rows * x_variable + t_rows * x_time + _axis_of_four(3, WIDTH, rows)
    write += b * write_batch + first_variable * write_variable
    row_write = v_thin * write_variable + t_thin * write_time
    if field is not None:
        common: gl.constexpr = gl.BlockedLayout([1, 1, 1, wide], [1, 1, 32 // lanes, lanes],
                                                [1, 1, WARPS, 1], [3, 2, 1, 0])  # fmt: skip
        twin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // (2 * few), 2 * few],
                                              [1, WARPS, 1], [2, 1, 0])  # fmt: skip
        twin_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 2, 2 * few, [2, 1, 0])
        t_common = _axis_of_four(2, 16, common)
        field += b * time * channels + first_channel
        row_field = t_common * field_time + _axis_of_four(3, WIDTH, common)
        # Of what the write of the field becomes, that which leads to the end of a chunk comes last.
        factors += first_table * (6 * 512) + 5 * 512
        row_factors = axis_of(1, 16, twin) * 32 + axis_of(2, 32, twin)
        buffers_field = gl.allocate_shared_memory(low, [DEPTH, 1, 1, 16, WIDTH], wide_shared)
        buffers_factors = gl.allocate_shared_memory(low, [DEPTH, 1, 16, 32], twin_shared)
    of_mask = None
    if mask is not None:
        mask += b * mask_batch + first_variable * mask_variable
        of_mask = Rows(mask, mask_variable, mask_time)
    by_state: gl.constexpr = gl.SliceLayout(1, pair)
    state = gl.zeros([WARPS, 16, WIDTH], gl.float32, mma)
    # How a state moves over all chunks between this one and the end.
    all_vh = gl.zeros([1, 16], gl.float32, by_state)
    all_h, all_v = all_vh + 1.0, all_vh + 1.0
    buffers_x = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 1, 16, WIDTH], wide_shared)
    buffers_wh = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    buffers_wv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    if low == gl.bfloat16:
        tables += first_table * BF16_TABLES
        lines: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 1, [1, 0])
        buffers_pairs = gl.allocate_shared_memory(low, [DEPTH, 2, 256], lines)
        buffers_single = gl.allocate_shared_memory(low, [DEPTH, 1, 256], lines)
    else:
        tables += first_table * F32_TABLES
        buffers_tables = gl.allocate_shared_memory(low, [DEPTH, 8, 16, 16], table_shared)
    buffers_over = gl.allocate_shared_memory(gl.float32, [DEPTH, 4, 16], plain_shared)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    count = last_chunk - first_chunk
    for visit in range(1 - DEPTH, count):
        ahead = gl.maximum(last_chunk - visit - DEPTH, first_chunk)
        if ADJOINT:
            ahead = first_chunk + visit + (DEPTH - 1)
        t_ahead = ahead * 16
        ahead_times = time - ahead * 16
        now = of_mask
        if of_mask is not None:
            now = at_time(of_mask, t_ahead)
        keep_rows = to_fetch(v_rows, t_rows, left_variables, ahead_times, now)
        keep_thin = to_fetch(v_thin, t_thin, left_variables, ahead_times, now)
        slot = (visit + (DEPTH - 1)) % DEPTH
        if visit + (DEPTH - 1) < count:
            copy(buffers_x.index(slot), x + offset_i64(t_ahead, x_time) + row_x, mask=keep_rows)
            fetch_pair(buffers_wh.index(slot), buffers_wv.index(slot),
                       write + offset_i64(t_ahead, write_time) + row_write, keep_thin, thin,
                       STATES)  # fmt: skip
            if low == gl.bfloat16:
                place: gl.constexpr = FROM_START if ADJOINT else TO_END_UNHELD
                pairs: gl.constexpr = line_of_pairs(place)
                single: gl.constexpr = line_of_singles(place)
                source = tables + ahead * BF16_TABLES
                fetch_lines(buffers_pairs.index(slot), source + pairs * 256, 0, ahead, WARPS)
                fetch_lines(buffers_single.index(slot), source + single * 256, 0, ahead, WARPS)
            else:
                # From a time to the end, and the hold, are the last six tiles of a chunk; before
                # them lie those from the start.
                FIRST: gl.constexpr = 12 if ADJOINT else 13
                many: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 8, 4], [WARPS, 1, 1],
                                                      [2, 1, 0])  # fmt: skip
                tile = axis_of(0, 8, many) * 256 + axis_of(1, 16, many) * 16 + axis_of(2, 16, many)
                copy(buffers_tables.index(slot), tables + ahead * F32_TABLES + (tile + FIRST * 256))
            fetch_over(buffers_over.index(slot), over_chunks, ahead, WARPS)
            if field is not None:
                copy(buffers_field.index(slot), field + offset_i64(t_ahead, field_time) + row_field,
                     mask=t_common < ahead_times)  # fmt: skip
                copy(buffers_factors.index(slot), factors + ahead * (6 * 512) + row_factors)
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(DEPTH - 1)
            slot = visit % DEPTH
            w_h, w_v = buffers_wh.index(slot).load(pair), buffers_wv.index(slot).load(pair)
            if low == gl.bfloat16:
                by_warp: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
                e1, evh = pairs_of_lines(buffers_pairs.index(slot).load(by_warp), 2, pair)
                line = buffers_single.index(slot).load(_single_layout(BLOCK))
                table = (e1, evh, singles_of_lines(line, 2, pair))
            else:
                here = buffers_tables.index(slot)
                if not ADJOINT:
                    hold = (
                        here.slice(6, 1, dim=0).load(pair),
                        here.slice(7, 1, dim=0).load(pair),
                        here.slice(5, 1, dim=0).load(pair),
                    )
                    w_v, w_h = decay(w_v, w_h, hold)
                LEADS: gl.constexpr = 0 if ADJOINT else 2
                table = (
                    here.slice(LEADS, 1, dim=0).load(pair),
                    here.slice(LEADS + 1, 1, dim=0).load(pair),
                    here.slice(LEADS + 2, 1, dim=0).load(pair),
                )
            over = buffers_over.index(slot)
            e_h = over.slice(0, 1, dim=0).load(by_state)
            e_vh = over.slice(1, 1, dim=0).load(by_state)
            e_v = over.slice(2, 1, dim=0).load(by_state)
            if ADJOINT:
                beyond = (all_h[:, None, :], all_vh[:, None, :], all_v[:, None, :])
                first, second = decay(w_h, w_v, table)
                all_vh = all_h * e_vh + all_vh * e_v
            else:
                beyond = (all_v[:, None, :], all_vh[:, None, :], all_h[:, None, :])
                first, second = decay(w_v, w_h, table)
                all_vh = all_v * e_vh + all_vh * e_h
            all_h, all_v = all_h * e_h, all_v * e_v
            to_end = _led_on(first, second, beyond, ADJOINT, BLOCK, pair, left)
            signal = gl.convert_layout(_for_both(buffers_x.index(slot), over_times, BLOCK, WIDTH),
                                       right)  # fmt: skip
            state = multiply(to_end, operand(signal), state)
            if field is not None:
                to_h, to_v = _pair_of_factors(buffers_factors.index(slot), BLOCK, pair)
                to_end = _led_on(to_v, to_h, beyond, ADJOINT, BLOCK, pair, left)
                psi = _for_both(buffers_field.index(slot), over_times, BLOCK, WIDTH)
                state = multiply(to_end, operand(gl.convert_layout(psi, right)), state)
    h, s = _parts(state, BLOCK, WIDTH, half)
    at, inside = _state_at(b, first_variable, first_channel, variables, segments, segment, channels,
                           BLOCK, WIDTH, STATES, half)  # fmt: skip
    gl.store(states + at, h, mask=inside)
    gl.store(states + at + STATES * channels, s, mask=inside)
