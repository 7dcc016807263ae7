# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""`scan_forward` for 8 and 16 states."""

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.gpu.shared_memory import (
    BF16_TABLES,
    F32_TABLES,
    FROM_START,
    HOLD,
    TO_END,
    TO_END_UNHELD,
    allocate_skip,
    allocate_tables,
    copy,
    fetch_over,
    fetch_pair,
    fetch_tables,
    load_skip,
    table_slot,
    whole_table,
)
from orderless.ops.gpu.tile import (
    SIZES,
    Rows,
    at_time,
    axis_of,
    bit,
    bits,
    choose,
    decay,
    multiply,
    offset_i64,
    operand,
    program_of,
    to_fetch,
    to_float32,
    transposed,
    whole_pair_layout,
    whole_rows_layout,
)


class _Weights(NamedTuple):
    """Shared memory with what a chunk is written and read with, h and v parts."""

    write_h: Any
    write_v: Any
    read_h: Any
    read_v: Any


class _Field(NamedTuple):
    """Shared memory with a chunk of the field, and with factors made of its write."""

    signal: Any
    of_bits: Any
    others: Any


@gluon.constexpr_function
def _column_part_layout(block, width):
    """[variable, channel, state], the h or the v part of a state, where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0], [0, 0, 8], *bits(width, 1, 3, 16)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, width, 16])


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
def _for_all(value, BLOCK: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
             layout: gl.constexpr):  # fmt: skip
    """[1, rows, columns] for every variable."""
    value, _ = gl.broadcast(value, gl.zeros([BLOCK, ROWS, COLUMNS], value.dtype, layout))
    return value


@gluon.jit
def _fetch_factors(buffer_four, buffer_two, factors, tiles: gl.constexpr):
    """Start to copy what the write of the field becomes in a chunk."""
    copy(buffer_four, factors + axis_of(0, 4, tiles) * 512)
    copy(buffer_two, factors + (axis_of(0, 2, tiles) + 4) * 512)


@gluon.jit
def _over_chunk(h, s, buffer_x, weights, here, over, field, BLOCK: gl.constexpr,
                WIDTH: gl.constexpr):  # fmt: skip
    """What a chunk puts out, and the two parts of the state after it."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    part: gl.constexpr = _column_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = buffer_x.dtype
    lower = axis_of(1, 16, mma) >= axis_of(2, 16, mma)
    w_h, w_v = weights.write_h.load(pair), weights.write_v.load(pair)
    c_h, c_v = weights.read_h.load(pair), weights.read_v.load(pair)
    b_v, b_h = decay(w_v, w_h, whole_table(here, HOLD, low, BLOCK))
    none = gl.zeros([BLOCK, 16, 16], gl.float32, mma)

    # M: the response at the later of two times to the earlier one, bit by bit.
    reads_now = operand(gl.convert_layout(_stack_all(c_h, c_v, BLOCK), left))
    writes_now = operand(transposed(_stack_all(b_h, b_v, BLOCK), right))
    matrix = multiply(reads_now, writes_now, none)
    if low == gl.bfloat16:  # these tables hold what is written as they lead it
        b_v, b_h = w_v, w_h
    if field is not None:
        factor = field.others.slice(0, 1, dim=0).permute((0, 2, 1)).load(right)
        factor = operand(_for_all(factor, BLOCK, 32, 16, right))
        field_matrix = multiply(reads_now, factor, none)
    for kind in gl.static_range(4):
        reads = axis_of(1, 16, pair) & (8 >> kind)
        first, second = decay(choose(reads, c_h, b_v), choose(reads, c_v, b_h),
                              whole_table(here, kind, low, BLOCK))  # fmt: skip
        stacked = operand(gl.convert_layout(_stack_all(first, second, BLOCK), left))
        swapped = operand(transposed(_stack_all(second, first, BLOCK), right))
        matrix = gl.where(bit(kind, mma), multiply(stacked, swapped, none), matrix)
        if field is not None:
            factor = field.of_bits.slice(kind, 1, dim=0).permute((0, 2, 1)).load(right)
            factor = operand(_for_all(factor, BLOCK, 32, 16, right))
            response = multiply(stacked, factor, none)
            field_matrix = gl.where(bit(kind, mma), response, field_matrix)
    matrix = operand(gl.convert_layout(gl.where(lower, matrix, 0.0).to(low), left))
    signal = operand(buffer_x.load(right))
    out = multiply(matrix, signal, gl.zeros([BLOCK, 16, WIDTH], gl.float32, mma))
    if field is not None:
        field_matrix = gl.where(lower, field_matrix, 0.0).to(low)
        field_matrix = operand(gl.convert_layout(field_matrix, left))
        psi = _for_all(field.signal.load(right), BLOCK, 16, WIDTH, right)
        out = multiply(field_matrix, operand(psi), out)

    # The state before the chunk is read by all times, and moves on.
    from_h, from_v = decay(c_h, c_v, whole_table(here, FROM_START, low, BLOCK))
    from_start = operand(gl.convert_layout(_stack_all(from_h, from_v, BLOCK), left))
    state = _columns_of(h.to(low), s.to(low), BLOCK, WIDTH, mma)
    out = multiply(from_start, operand(transposed(state, right)), out)
    lead: gl.constexpr = TO_END_UNHELD if low == gl.bfloat16 else TO_END
    to_v, to_h = decay(b_v, b_h, whole_table(here, lead, low, BLOCK))
    to_end = operand(gl.convert_layout(_stack_all(to_h, to_v, BLOCK), right))
    by_state: gl.constexpr = gl.SliceLayout(1, part)
    e_h = over.slice(0, 1, dim=0).load(by_state)[:, None, :]
    e_vh = over.slice(1, 1, dim=0).load(by_state)[:, None, :]
    e_v = over.slice(2, 1, dim=0).load(by_state)[:, None, :]
    state = _columns_of(e_h * h, e_v * s + e_vh * h, BLOCK, WIDTH, mma)
    # Loaded once more: the registers of a right operand would have to be put in order.
    signal = operand(buffer_x.permute((0, 2, 1)).load(left))
    state = multiply(signal, to_end, state)
    if field is not None:
        factor = operand(
            _for_all(field.others.slice(1, 1, dim=0).load(right), BLOCK, 16, 32, right)
        )
        psi = field.signal.permute((0, 2, 1)).load(left)
        psi = operand(_for_all(psi, BLOCK, WIDTH, 16, left))
        state = multiply(psi, factor, state)
    h, s = _parts_of_columns(state, BLOCK, WIDTH, part)
    return out, h, s


@gluon.jit(do_not_specialize=SIZES)
def scan_forward(
    x, write, read, tables, over_chunks, start, base, shared, field, factors, skip,
    gate, mask, y, end,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch,
    y_variable, y_time, x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    mask_batch, mask_variable, mask_time,
    gate_batch, gate_variable, gate_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """`scan_forward`, where WIDTH divides the size of a head; a warp owns a variable.

    field [B,T,D] like x, and what `_fill_factors` made of its write: given, it is a second
    input, the same for all variables.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    part: gl.constexpr = _column_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    wide: gl.constexpr = 128 // low.primitive_bitwidth
    lanes: gl.constexpr = min(8, WIDTH // wide)  # that share a row, for lines of 128 bytes
    few: gl.constexpr = 16 // wide
    # Results in float32 lie in whole sectors as they are.
    out_rows: gl.constexpr = whole_rows_layout(BLOCK, WIDTH, lanes) if wide == 8 else mma
    rows: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    common: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // lanes, lanes], [1, BLOCK, 1],
                                            [2, 1, 0])  # fmt: skip
    thin: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // few, few], [BLOCK, 1, 1],
                                          [2, 1, 0])  # fmt: skip
    tiles: gl.constexpr = gl.BlockedLayout([1, 1, wide], [1, 32 // (2 * few), 2 * few],
                                           [BLOCK, 1, 1], [2, 1, 0])  # fmt: skip
    wide_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 1, min(8, lanes), [2, 1, 0])
    thin_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 4 if wide == 8 else 2, few, [2, 1, 0])
    twin_shared: gl.constexpr = gl.SwizzledSharedLayout(wide, 2, 2 * few, [2, 1, 0])
    plain_shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])

    # Buffers for the inputs of a chunk, and for what all variables have in common: as many as two
    # programs on a multiprocessor can have; with a base in float32 it is one, however few they are.
    DEPTH: gl.constexpr = 2 if field is not None or base is not None or wide == 4 else 3
    COMMON: gl.constexpr = 1 if field is not None and wide == 4 else DEPTH
    b, first_variable, _, head, first_channel, segment = program_of(
        variables, heads, batch, head_size, BLOCK, WIDTH
    )
    first_table = (b * heads + head) * chunks
    over_chunks += first_table * 64
    if low == gl.bfloat16:
        tables += first_table * BF16_TABLES
    else:
        tables += first_table * F32_TABLES
    # Offsets within a block of variables and a chunk fit 32 bits; what moves is a scalar.
    left_variables = variables - first_variable
    v_rows, t_rows = axis_of(0, BLOCK, rows), axis_of(1, 16, rows)
    v_thin, t_thin = axis_of(0, BLOCK, thin), axis_of(1, 16, thin)
    v_out, t_out = axis_of(0, BLOCK, out_rows), axis_of(1, 16, out_rows)
    v_part = axis_of(0, BLOCK, part)
    p_rows, p_out = axis_of(2, WIDTH, rows), axis_of(2, WIDTH, out_rows)
    # A pointer for each row: what a thread takes of it then lies at distances known beforehand.
    x += b * x_batch + first_variable * x_variable + first_channel
    x = x + (v_rows * x_variable + t_rows * x_time)
    write += b * write_batch + first_variable * write_variable
    write = write + (v_thin * write_variable + t_thin * write_time)
    read += b * read_batch + first_variable * read_variable
    read = read + (v_thin * read_variable + t_thin * read_time)
    from_y = (b * variables + first_variable) * time * channels + first_channel
    row_y = v_out * y_variable + t_out * y_time
    y = y + from_y + row_y
    if base is not None:
        base = base + from_y + (v_rows * y_variable + t_rows * y_time)
        buffers_base = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, WIDTH], wide_shared)
    if field is not None:
        t_common = axis_of(1, 16, common)
        field += b * time * channels + first_channel
        field = field + t_common * y_time
        factors += first_table * (6 * 512)
        tile = axis_of(1, 16, tiles) * 32 + axis_of(2, 32, tiles)
        factors = factors + tile
        buffers_field = gl.allocate_shared_memory(low, [DEPTH, 1, 16, WIDTH], wide_shared)
        buffers_four = gl.allocate_shared_memory(low, [COMMON, 4, 16, 32], twin_shared)
        buffers_two = gl.allocate_shared_memory(low, [COMMON, 2, 16, 32], twin_shared)
    if gate is not None:
        gate += b * gate_batch + first_variable * gate_variable + first_channel
        gate = gate + (v_out * gate_variable + t_out * gate_time)
    of_mask = None
    if mask is not None:
        mask += b * mask_batch + first_variable * mask_variable
        of_mask = Rows(mask, mask_variable, mask_time)
    size = 2 * STATES * channels  # of the state of a variable
    row_state, p_part = axis_of(2, 16, part) * channels, axis_of(1, WIDTH, part)
    of_state = v_part < left_variables
    if STATES < 16:
        of_state = of_state & (axis_of(2, 16, part) < STATES)
    if start is not None:
        corner = start + ((b * variables + first_variable) * segments + segment) * size
        corner = corner + first_channel + (v_part * (segments * size) + row_state)
        h = gl.load(corner + p_part, mask=of_state, other=0.0)
        s = gl.load(corner + STATES * channels + p_part, mask=of_state, other=0.0)
    else:
        h = gl.zeros([BLOCK, WIDTH, 16], gl.float32, part)
        s = gl.zeros([BLOCK, WIDTH, 16], gl.float32, part)
    buffers_x = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, WIDTH], wide_shared)
    buffers_wh = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    buffers_wv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    buffers_ch = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    buffers_cv = gl.allocate_shared_memory(low, [DEPTH, BLOCK, 16, 16], thin_shared)
    buffers_tables = allocate_tables(low, COMMON)
    buffers_over = gl.allocate_shared_memory(gl.float32, [DEPTH, 4, 16], plain_shared)
    if skip is not None:
        buffer_skip = allocate_skip(skip + first_channel, BLOCK, WIDTH)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    # Ahead of the work: the first visits only fetch.
    for visit in range(1 - DEPTH, last_chunk - first_chunk):
        ahead = first_chunk + visit + (DEPTH - 1)
        t_ahead = ahead * 16
        ahead_times = time - ahead * 16
        now = of_mask
        if of_mask is not None:
            now = at_time(of_mask, t_ahead)
        keep_rows = to_fetch(v_rows, t_rows, left_variables, ahead_times, now)
        keep_thin = to_fetch(v_thin, t_thin, left_variables, ahead_times, now)
        slot = (visit + (DEPTH - 1)) % DEPTH
        if COMMON == 1:
            if visit >= 0:  # the chunk before is done with the buffers
                due = first_chunk + visit
                fetch_tables(table_slot(buffers_tables, 0), tables, TO_END_UNHELD, due, BLOCK)
                _fetch_factors(buffers_four.index(0), buffers_two.index(0),
                               factors + due * (6 * 512), tiles)  # fmt: skip
            async_copy.commit_group()
        if ahead < last_chunk:
            copy(buffers_x.index(slot), x + offset_i64(t_ahead, x_time) + p_rows, mask=keep_rows)
            fetch_pair(buffers_wh.index(slot), buffers_wv.index(slot),
                       write + offset_i64(t_ahead, write_time), keep_thin, thin,
                       STATES)  # fmt: skip
            fetch_pair(buffers_ch.index(slot), buffers_cv.index(slot),
                       read + offset_i64(t_ahead, read_time), keep_thin, thin,
                       STATES)  # fmt: skip
            if COMMON > 1:
                fetch_tables(table_slot(buffers_tables, slot), tables, TO_END_UNHELD, ahead,
                             BLOCK)  # fmt: skip
            fetch_over(buffers_over.index(slot), over_chunks, ahead, BLOCK)
            if base is not None:
                copy(
                    buffers_base.index(slot),
                    base + offset_i64(t_ahead, y_time) + p_rows,
                    mask=keep_rows,
                )
            if field is not None:
                at = field + offset_i64(t_ahead, y_time) + axis_of(2, WIDTH, common)
                copy(buffers_field.index(slot), at, mask=t_common < ahead_times)
                if COMMON > 1:
                    _fetch_factors(buffers_four.index(slot), buffers_two.index(slot),
                                   factors + ahead * (6 * 512), tiles)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(DEPTH - 1)
            chunk = first_chunk + visit
            slot = visit % DEPTH
            buffer_x = buffers_x.index(slot)
            common_slot = slot if COMMON > 1 else 0
            here = table_slot(buffers_tables, common_slot)
            left_times = time - chunk * 16
            t = chunk * 16
            weights = _Weights(buffers_wh.index(slot), buffers_wv.index(slot),
                               buffers_ch.index(slot), buffers_cv.index(slot))  # fmt: skip
            here_field = None
            if field is not None:
                here_field = _Field(buffers_field.index(slot), buffers_four.index(common_slot),
                                    buffers_two.index(common_slot))  # fmt: skip
            out, h, s = _over_chunk(h, s, buffer_x, weights, here, buffers_over.index(slot),
                                    here_field, BLOCK, WIDTH)  # fmt: skip
            if skip is not None:
                out += load_skip(buffer_skip, mma) * to_float32(buffer_x.load(mma), mma)
            if base is not None:
                out += to_float32(buffers_base.index(slot).load(mma), mma)
            result = gl.convert_layout(out.to(low), out_rows)
            stored = (t_out < left_times) & (v_out < left_variables)
            keep = stored
            if mask is not None:
                at = mask + offset_i64(t, mask_time)
                at = at + (v_out * mask_variable + t_out * mask_time)
                keep = keep & (gl.load(at, mask=keep, other=0) != 0)
            if gate is not None:
                opening = gl.load(gate + offset_i64(t, gate_time) + p_out, mask=keep, other=0.0)
                opening = opening.to(gl.float32)
                opening = opening / (1.0 + gl.exp(-opening))
                result = (result.to(gl.float32) * opening).to(low)
            gl.store(y + offset_i64(t, y_time) + p_out, result, mask=stored)
    if segment == segments - 1:
        corner = end + (b * variables + first_variable) * size + first_channel
        corner = corner + (v_part * size + row_state)
        if base is not None:
            add = shared + b * time * size + first_channel + (v_part * 0 + row_state)
            h += gl.load(add + p_part, mask=of_state, other=0.0)
            s += gl.load(add + STATES * channels + p_part, mask=of_state, other=0.0)
        gl.store(corner + p_part, h, mask=of_state)
        gl.store(corner + STATES * channels + p_part, s, mask=of_state)
