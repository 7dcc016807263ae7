# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""The kernel of the pass back: where a program begins and ends."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from orderless.ops.gpu import backward_bfloat16, backward_float32
from orderless.ops.gpu.gradients import Outputs
from orderless.ops.gpu.shared_memory import BF16_TABLES, F32_TABLES
from orderless.ops.gpu.tile import (
    SIZES,
    Rows,
    Segment,
    Tile,
    axis_of,
    program_of,
    whole_part_layout,
)


@gluon.jit(do_not_specialize=SIZES)
def scan_backward(
    x, write, read, tables, over_chunks, start, states, skip, mask, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, sums, borders,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch,
    y_variable, y_time, x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    mask_batch, mask_variable, mask_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """All gradients, from the last chunk of a segment to its first. A warp owns a variable.

    d_y and d_x are contiguous. d_write, d_read [slice,B,V,T,2,N] are parts to be summed over
    slices, their times as they are visited. sums, for a block of variables and a slice of a head
    each, and borders, for a variable, are what `sums_gradient_kernel` takes; d_skip [program,
    WIDTH]. states [program, kept, variable, half, 16 * WIDTH] are the program's own.
    """
    half: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    b, first_variable, slice_, head, first_channel, segment = program_of(
        variables, heads, batch, head_size, BLOCK, WIDTH
    )
    if low == gl.bfloat16:
        tables += (b * heads + head) * chunks * BF16_TABLES
        over_chunks += (b * heads + head) * chunks * 64
    else:
        tables += (b * heads + head) * chunks * F32_TABLES
    left_variables = variables - first_variable
    x += b * x_batch + first_variable * x_variable + first_channel
    write += b * write_batch + first_variable * write_variable
    read += b * read_batch + first_variable * read_variable
    if mask is not None:
        mask += b * mask_batch + first_variable * mask_variable
    per_head = head_size // WIDTH
    of_head = slice_ - head * per_head
    part = (first_variable // BLOCK) * per_head + of_head
    sums += ((part * batch + b) * heads + head) * chunks * (6 * 16 * STATES)
    # Borders have a part for each variable, not for each block.
    border: gl.constexpr = 3 * STATES
    of_variable = (first_variable * per_head + of_head) * batch + b
    borders += of_variable * heads * (chunks + 1) * border + head * (chunks + 1) * border
    border_row = per_head * batch * heads * (chunks + 1) * border
    line = (b * variables + first_variable) * time
    d_y += line * channels + first_channel
    d_x += line * channels + first_channel
    of_slice = (slice_.to(gl.int64) * batch * variables * time + line) * (2 * STATES)
    d_write += of_slice
    d_read += of_slice
    kept = per_segment + 1
    if low == gl.bfloat16:
        kept = (per_segment + 1) // 2 + 1
    states += gl.program_id(0).to(gl.int64) * kept * (BLOCK * 2 * STATES * WIDTH)
    size = 2 * STATES * channels  # of the state of a variable
    if start is not None:
        start += ((b * variables + first_variable) * segments + segment) * size
        start += first_channel
    if d_end is not None:
        d_end += ((b * variables + first_variable) * segments + segment) * size
        d_end += first_channel
    if skip is not None:
        skip += first_channel
    # Found here and not where they are used: else registers run short in the loops before.
    v_half = axis_of(0, BLOCK, half)
    row_half = axis_of(1, 8, half) * channels + axis_of(2, WIDTH, half)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    own = Segment(first_chunk, last_chunk, chunks, segments, time, channels, left_variables)
    out = Outputs(Rows(d_x, y_variable, y_time), d_write, d_read, sums, borders, border_row)
    of_x, of_y = Rows(x, x_variable, x_time), Rows(d_y, y_variable, y_time)
    of_write = Rows(write, write_variable, write_time)
    of_read = Rows(read, read_variable, read_time)
    of_mask = None
    if mask is not None:
        of_mask = Rows(mask, mask_variable, mask_time)
    if low == gl.bfloat16:
        inputs = backward_bfloat16.Inputs(of_x, of_y, of_write, of_read, of_mask, tables,
                                          over_chunks)  # fmt: skip
        gradient, d_direct = backward_bfloat16.go_back(
            inputs, out, start, d_end, states, skip, own, Tile(BLOCK, WIDTH, STATES)
        )
    else:
        inputs = backward_float32.Inputs(of_x, of_y, of_write, of_read, of_mask, tables)
        gradient, d_direct = backward_float32.go_back(
            inputs, out, start, d_end, states, skip, own, Tile(BLOCK, WIDTH, STATES)
        )
    if d_start is not None:  # noqa: SIM102
        if segment == 0:  # known at run time only
            corner = d_start + (b * variables + first_variable) * size + first_channel
            corner = corner + (v_half * size + row_half)
            inside = v_half < left_variables
            gl.store(corner, gradient.h, mask=inside)
            gl.store(corner + STATES * channels, gradient.v, mask=inside)
            if STATES > 8:
                gl.store(corner + 8 * channels, gradient.other_h, mask=inside)
                gl.store(corner + (8 + STATES) * channels, gradient.other_v, mask=inside)
    if skip is not None:
        at = gl.program_id(0).to(gl.int64) * WIDTH + gl.arange(0, WIDTH, d_direct.type.layout)
        gl.store(d_skip + at, d_direct)
