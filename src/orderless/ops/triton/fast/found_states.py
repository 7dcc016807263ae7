"""States that are found before the way back begins, for half of the programs of `fast_backward`."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from orderless.ops.triton.fast.kept_states import keep_states
from orderless.ops.triton.fast.program import SIZES, program_of
from orderless.ops.triton.fast.rooms import QUICK, rooms_for_tables


@gluon.jit(do_not_specialize=SIZES)
def find_states(
    x, write, quick, over_chunks, start, present, states,
    variables, time, channels, head_size, chunks, segments, per_segment, heads, batch, found,
    x_batch, x_variable, x_time,
    write_batch, write_variable, write_time,
    present_batch, present_variable, present_time,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr,
    HAS_START: gl.constexpr, HAS_END: gl.constexpr, HAS_PRESENT: gl.constexpr,
    REVERSE: gl.constexpr,
):  # fmt: skip
    """Leave `states` as the programs would that `not_found` leaves out, in bfloat16."""
    wide_room: gl.constexpr = gl.SwizzledSharedLayout(8, 1, min(8, WIDTH // 8), [2, 1, 0])
    thin_room: gl.constexpr = gl.SwizzledSharedLayout(8, 4, 2, [2, 1, 0])
    plain_room: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    low: gl.constexpr = gl.bfloat16
    per_batch = gl.cdiv(variables, BLOCK) * heads * (head_size // WIDTH)
    later = gl.program_id(0) - found // 2
    pid = gl.where(later < 0, 2 * gl.program_id(0) + 1,
                   later + (found + per_batch * batch * segments) // 2)  # fmt: skip
    b, first_variable, _, head, first_channel, segment = program_of(
        pid, variables, heads, batch, head_size, BLOCK, WIDTH
    )
    first_table = (b * heads + head) * chunks
    x += b * x_batch + first_variable * x_variable + first_channel
    write += b * write_batch + first_variable * write_variable
    if HAS_PRESENT:
        present += b * present_batch + first_variable * present_variable
    if HAS_START:
        start += ((b * variables + first_variable) * segments + segment) * 32 * channels
        start += first_channel
    states += pid.to(gl.int64) * (per_segment + 1) * (BLOCK * 32 * WIDTH)
    towards = 1
    if REVERSE:
        towards = -1
    even = (
        gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room),
        gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room),
        gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room),
        gl.allocate_shared_memory(gl.float32, [2, 8, 8], plain_room),
    )
    odd = (
        gl.allocate_shared_memory(low, [2, BLOCK, 16, WIDTH], wide_room),
        gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room),
        gl.allocate_shared_memory(low, [2, BLOCK, 16, 16], thin_room),
        gl.allocate_shared_memory(gl.float32, [2, 8, 8], plain_room),
    )
    strides = (
        (x_variable, x_time, present_variable, present_time),
        (write_variable, write_time, present_variable, present_time),
    )
    first_chunk = (segment * per_segment).to(gl.int32)
    last_chunk = gl.minimum(first_chunk + per_segment, chunks)
    keep_states(
        (x, write, quick + first_table * QUICK, over_chunks + first_table * 64, present),
        start, states, even, odd, rooms_for_tables(low, 2), first_chunk, last_chunk, segments,
        time, channels, variables - first_variable, strides, towards,
        HAS_START, HAS_END, HAS_PRESENT, REVERSE, BLOCK, WIDTH,
    )  # fmt: skip
