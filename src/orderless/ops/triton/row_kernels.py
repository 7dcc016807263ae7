"""Kernels for the features of every entry: norms, the short convolution, gates."""

import triton
import triton.language as tl


@triton.jit
def _rows_of(block, rows, groups, SIZE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr):
    """Where the rows of a block lie, and their weights, and which of them exist."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, PADDED)[None, :]
    inside = (block * ROWS + row < rows) & (column < SIZE)
    return (block * ROWS + row) * SIZE + column, row % groups * SIZE + column, inside


@triton.jit(do_not_specialize=["rows", "groups", "eps"])
def rms_forward(
    x, weight, y, rows, groups, eps,
    SIZE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """y = weight x / (root mean square of a row of x), of [row, SIZE]; row r has weight r % groups.

    One program for ROWS rows.
    """
    block = tl.program_id(0).to(tl.int64)
    at, of_weight, inside = _rows_of(block, rows, groups, SIZE, PADDED, ROWS)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 1)[:, None] / SIZE + eps)
    w = tl.load(weight + of_weight, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, (value * scale * w).to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "groups", "eps"])
def rms_backward(
    d_y, x, weight, d_x, partial, rows, groups, eps,
    SIZE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, PERIOD: tl.constexpr,
):  # fmt: skip
    """The gradient of x, and of what each program adds to that of weight, [program, PERIOD, SIZE].

    Rows r and r + PERIOD have the same weight. A program takes every so many blocks of ROWS rows.
    """
    total = tl.zeros([ROWS, PADDED], tl.float32)
    first = tl.program_id(0).to(tl.int64)
    for turn in range(tl.cdiv(tl.cdiv(rows, ROWS), tl.num_programs(0))):
        block = first + turn * tl.num_programs(0)
        at, of_weight, inside = _rows_of(block, rows, groups, SIZE, PADDED, ROWS)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        back = tl.load(d_y + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + of_weight, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(value * value, 1)[:, None] / SIZE + eps)
        value *= scale
        total += back * value
        back *= w
        along = tl.sum(back * value, 1)[:, None] / SIZE
        tl.store(d_x + at, (scale * (back - value * along)).to(d_x.dtype.element_ty), mask=inside)
    total = tl.sum(tl.reshape(total, (ROWS // PERIOD, PERIOD, PADDED)), 0)
    column = tl.arange(0, PADDED)[None, :]
    line = first * PERIOD + tl.arange(0, PERIOD)[:, None]
    tl.store(partial + line * SIZE + column, total, mask=column < SIZE)


@triton.jit
def _entries(block, variables, time, ROWS: tl.constexpr):
    """Batch row, variable and time of a block of ROWS entries of [B,V,T].

    A quotient of 64 bits takes as long as a load: so there are two for all of them.
    """
    first = block * ROWS
    line = first // time
    b = line // variables
    t = (first - line * time).to(tl.int32) + tl.arange(0, ROWS)[:, None]
    v = (line - b * variables).to(tl.int32) + t // time
    return b + v // variables, (v % variables).to(tl.int64), (t % time).to(tl.int64)


@triton.jit
def _before_silu(x, weight, bias, t, time, time_stride, d, inside, channels, KERNEL: tl.constexpr):
    """The convolution at times t, whose entries of x are at `x`."""
    value = tl.load(bias + d, mask=d < channels, other=0.0).to(tl.float32)
    for back in tl.static_range(KERNEL):
        there = inside & (t >= back) & (t < time)
        entry = tl.load(x - back * time_stride, mask=there, other=0.0).to(tl.float32)
        at = weight + (KERNEL - 1 - back) * channels + d
        value += entry * tl.load(at, mask=d < channels, other=0.0).to(tl.float32)
    return value


@triton.jit(do_not_specialize=["rows", "variables", "time"])
def causal_silu_forward(
    x, weight, bias, y, rows, variables, time, channels, x_batch, x_variable, x_time,
    KERNEL: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """y [B,V,T,D] = silu(convolution of x along time). One program for (ROWS rows, WIDTH channels).

    A row is an entry of a variable at a time.
    """
    wide = tl.cdiv(channels, WIDTH)
    pid = tl.program_id(0).to(tl.int64)
    row = pid // wide * ROWS + tl.arange(0, ROWS)[:, None]
    d = pid % wide * WIDTH + tl.arange(0, WIDTH)[None, :]
    b, v, t = _entries(pid // wide, variables, time, ROWS)
    inside = (row < rows) & (d < channels)
    x += b * x_batch + v * x_variable + t * x_time + d
    value = _before_silu(x, weight, bias, t, time, x_time, d, inside, channels, KERNEL)
    value *= tl.sigmoid(value)
    tl.store(y + row * channels + d, value.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "variables", "time"])
def causal_silu_backward(
    d_y, x, weight, bias, d_x, partial, rows, variables, time, channels,
    x_batch, x_variable, x_time,
    KERNEL: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradient of x, and what each program adds to those of weight and bias.

    partial [program, KERNEL + 1, channels], the bias last. What comes back to an entry comes from
    its own time and the KERNEL - 1 that follow, whose convolutions are made again. A program takes
    every so many blocks of ROWS rows.
    """
    wide = tl.cdiv(channels, WIDTH)
    first, programs = tl.program_id(0).to(tl.int64) // wide, tl.num_programs(0) // wide
    d = tl.program_id(0) % wide * WIDTH + tl.arange(0, WIDTH)[None, :]
    kind = tl.arange(0, 16)[:, None]
    totals = tl.zeros([16, WIDTH], tl.float32)
    for turn in range(tl.cdiv(tl.cdiv(rows, ROWS), programs)):
        block = first + turn * programs
        row = block * ROWS + tl.arange(0, ROWS)[:, None]
        b, v, t = _entries(block, variables, time, ROWS)
        inside = (row < rows) & (d < channels)
        here = x + b * x_batch + v * x_variable + t * x_time + d
        result = tl.zeros([ROWS, WIDTH], tl.float32)
        for ahead in tl.static_range(KERNEL):
            later = t + ahead
            value = _before_silu(
                here + ahead * x_time, weight, bias, later, time, x_time, d, inside, channels,
                KERNEL,
            )  # fmt: skip
            share = tl.sigmoid(value)
            back = tl.load(
                d_y + (row + ahead) * channels + d, mask=inside & (later < time), other=0.0
            )
            back = back.to(tl.float32) * (share * (1 + value * (1 - share)))
            w = tl.load(weight + (KERNEL - 1 - ahead) * channels + d, mask=d < channels, other=0.0)
            result += w.to(tl.float32) * back
            if ahead == 0:
                for before in tl.static_range(KERNEL):
                    there = inside & (t >= before)
                    entry = tl.load(here - before * x_time, mask=there, other=0.0).to(tl.float32)
                    of_row = kind == KERNEL - 1 - before
                    totals += tl.where(of_row, tl.sum(entry * back, 0)[None, :], 0.0)
                totals += tl.where(kind == KERNEL, tl.sum(back, 0)[None, :], 0.0)
        at = row * channels + d
        tl.store(d_x + at, result.to(d_x.dtype.element_ty), mask=inside)
    at = (first * (KERNEL + 1) + kind) * channels + d
    tl.store(partial + at, totals, mask=(kind <= KERNEL) & (d < channels))


@triton.jit
def gate_gradients(
    d_y, before, gate, present, d_before, d_gate,
    rows, variables, time, channels,
    gate_batch, gate_variable, gate_time,
    present_batch, present_variable, present_time,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, HAS_PRESENT: tl.constexpr,
):  # fmt: skip
    """Of y = before silu(gate), all [B,V,T,D]; zero where nothing was observed.

    One program per (ROWS rows, WIDTH channels).
    """
    pid = tl.program_id(0).to(tl.int64)
    wide = tl.cdiv(channels, WIDTH)
    row = pid // wide * ROWS + tl.arange(0, ROWS)[:, None]
    d = pid % wide * WIDTH + tl.arange(0, WIDTH)[None, :]
    b, v, t = _entries(pid // wide, variables, time, ROWS)
    inside = (row < rows) & (d < channels)
    keep = inside
    if HAS_PRESENT:
        at = b * present_batch + v * present_variable + t * present_time
        keep = keep & (tl.load(present + at, mask=row < rows, other=0) != 0)
    at = row * channels + d
    back = tl.load(d_y + at, mask=keep, other=0.0).to(tl.float32)
    value = tl.load(before + at, mask=keep, other=0.0).to(tl.float32)
    place = b * gate_batch + v * gate_variable + t * gate_time + d
    opening = tl.load(gate + place, mask=keep, other=0.0).to(tl.float32)
    share = 1 / (1 + tl.exp(-opening))
    d_value = back * (opening * share)
    d_opening = back * value * (share * (1 + opening * (1 - share)))
    tl.store(d_before + at, d_value.to(d_before.dtype.element_ty), mask=inside)
    tl.store(d_gate + at, d_opening.to(d_gate.dtype.element_ty), mask=inside)
