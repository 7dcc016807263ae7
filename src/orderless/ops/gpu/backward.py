# pyrefly: ignore-errors
# Names bound under a compile-time switch are read under the same switch.
"""`scan_backward` for 8 and 16 states: where a program begins and ends."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from orderless.ops.gpu import backward_bfloat16, backward_float32
from orderless.ops.gpu.shared_memory import BF16_TABLES
from orderless.ops.gpu.tile import SIZES, axis_of, program_of, whole_part_layout


@gluon.jit(do_not_specialize=SIZES)
def scan_backward(
    x, write, read, tables, tables_bf16, over_chunks, start, states, skip, mask, d_y, d_end,
    d_x, d_write, d_read, d_start, d_skip, partial, borders,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch,
    y_variable, y_time, x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    read_batch, read_variable, read_time,
    mask_batch, mask_variable, mask_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
    HAS_START: gl.constexpr, HAS_END: gl.constexpr, HAS_SKIP: gl.constexpr,
    HAS_MASK: gl.constexpr,
):  # fmt: skip
    """`scan_backward`, where WIDTH divides the size of a head.

    states [program, kept, variable, half, 16 * WIDTH] are the program's own: it leaves them, and
    finds them when it comes back.

    Here a warp owns a variable whole: the matrices it shares with no other would cost two warps
    more to build twice than their registers gain.
    """
    half: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    low: gl.constexpr = x.dtype.element_ty
    b, first_variable, slice_, head, first_channel, segment = program_of(
        variables, heads, batch, head_size, BLOCK, WIDTH
    )
    if low == gl.bfloat16:
        tables_bf16 += (b * heads + head) * chunks * BF16_TABLES
        over_chunks += (b * heads + head) * chunks * 64
    else:
        tables += (b * heads + head) * chunks * (21 * 256)
    left_variables = variables - first_variable
    x += b * x_batch + first_variable * x_variable + first_channel
    write += b * write_batch + first_variable * write_variable
    read += b * read_batch + first_variable * read_variable
    if HAS_MASK:
        mask += b * mask_batch + first_variable * mask_variable
    per_head = head_size // WIDTH
    of_head = slice_ - head * per_head
    part = (first_variable // BLOCK) * per_head + of_head
    partial += ((part * batch + b) * heads + head) * chunks * (6 * 16 * STATES)
    # Borders have a part for each variable, not for each block.
    border: gl.constexpr = 3 * STATES
    of_variable = (first_variable * per_head + of_head) * batch + b
    borders += of_variable * heads * (chunks + 1) * border + head * (chunks + 1) * border
    row_borders = per_head * batch * heads * (chunks + 1) * border
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
    if HAS_START:
        start += ((b * variables + first_variable) * segments + segment) * size
        start += first_channel
    if HAS_END:
        d_end += ((b * variables + first_variable) * segments + segment) * size
        d_end += first_channel
    if HAS_SKIP:
        skip += first_channel
    # Found here and not where they are used: else registers run short in the loops before.
    v_half = axis_of(0, BLOCK, half)
    row_half = axis_of(1, 8, half) * channels + axis_of(2, WIDTH, half)
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    outputs = (d_x, d_write, d_read, partial, borders)
    strides = (
        (x_variable, x_time, mask_variable, mask_time),
        (write_variable, write_time, mask_variable, mask_time),
    )
    strides_of_y = (
        (y_variable, y_time, mask_variable, mask_time),
        (read_variable, read_time, mask_variable, mask_time),
    )
    if low == gl.bfloat16:
        g, u, other_g, other_u, d_direct = backward_bfloat16.go_back(
            (x, d_y, write, read, tables_bf16, over_chunks, mask), outputs, start, d_end, states,
            skip, strides, strides_of_y, row_borders, first_chunk, last_chunk, chunks, segments,
            time, channels, y_variable, y_time, left_variables,
            HAS_START, HAS_END, HAS_SKIP, HAS_MASK, BLOCK, WIDTH, STATES,
        )  # fmt: skip
    else:
        g, u, other_g, other_u, d_direct = backward_float32.go_back(
            (x, d_y, write, read, tables, mask), outputs, start, d_end, states, skip,
            strides, strides_of_y, row_borders, first_chunk, last_chunk, chunks, segments,
            time, channels, y_variable, y_time, left_variables,
            HAS_START, HAS_END, HAS_SKIP, HAS_MASK, BLOCK, WIDTH, STATES,
        )  # fmt: skip
    if d_start is not None:  # noqa: SIM102
        if segment == 0:  # known at run time only
            corner = d_start + (b * variables + first_variable) * size + first_channel
            corner = corner + (v_half * size + row_half)
            inside = v_half < left_variables
            gl.store(corner, g, mask=inside)
            gl.store(corner + STATES * channels, u, mask=inside)
            if STATES > 8:
                gl.store(corner + 8 * channels, other_g, mask=inside)
                gl.store(corner + (8 + STATES) * channels, other_u, mask=inside)
    if HAS_SKIP:
        at = gl.program_id(0).to(gl.int64) * WIDTH + gl.arange(0, WIDTH, d_direct.type.layout)
        gl.store(d_skip + at, d_direct)
