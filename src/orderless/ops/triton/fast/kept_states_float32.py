"""`kept_states` in float32, with one room of each kind for every second chunk."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.triton.fast.arithmetic import axis_of, decay, operand
from orderless.ops.triton.fast.halves import whole_part_layout
from orderless.ops.triton.fast.kept_states import first_states, keep_half, move_on
from orderless.ops.triton.fast.layouts import eight_layout, whole_pair_layout
from orderless.ops.triton.fast.rooms import eight_of, fetch_signal, fetch_tiles

FIRST_TILE = gl.constexpr(13)  # of eight: from a time to the end is the third, then comes the hold


@gluon.jit
def over_of(tables, chunk, HALF: gl.constexpr, part: gl.constexpr):
    """(e_h, e_vh, e_v) over a chunk: from its start to its last time."""
    at = tables + chunk * (21 * 256) + (12 * 256 + 240 + HALF * 8) + axis_of(1, 8, part)
    return gl.load(at), gl.load(at + 256), gl.load(at + 512)


@gluon.jit
def _fetch(
    chunk, last_chunk, inputs, rooms, time, variables, strides,
    HAS_PRESENT: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy what a chunk needs; of one that does not exist, nothing observed."""
    x, write, tables, present = inputs
    left_times = gl.where(chunk < last_chunk, time - chunk * 16, 0)
    fetch_signal((rooms[0], rooms[1], rooms[2]), x, write, present, chunk, left_times,
                 variables, strides, HAS_PRESENT, BLOCK, WIDTH,
                 STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    fetch_tiles(rooms[3], tables + chunk * (21 * 256) + FIRST_TILE * 256, BLOCK)


@gluon.jit
def _half(HALF: gl.constexpr, h, s, rooms, signal, over, states, BLOCK: gl.constexpr,
          WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep eight states, and take them over a chunk."""
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    _, room_h, room_v, here = rooms
    keep_half(HALF, h, s, states, BLOCK, WIDTH, STATES, gl.float32)
    w_h, w_v = eight_of(room_h.load(pair), HALF, eight), eight_of(room_v.load(pair), HALF, eight)
    hold = (
        eight_of(here.slice(6, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(7, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(5, 1, dim=0).load(pair), HALF, eight),
    )
    table = (
        eight_of(here.slice(2, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(3, 1, dim=0).load(pair), HALF, eight),
        eight_of(here.slice(4, 1, dim=0).load(pair), HALF, eight),
    )
    b_v, b_h = decay(w_v, w_h, hold)
    to_v, to_h = decay(b_v, b_h, table)
    return move_on(h, s, to_h, to_v, signal, over, BLOCK, WIDTH)


@gluon.jit
def _over_chunk(chunk, last_chunk, state, rooms, tables, states, BLOCK: gl.constexpr,
                WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep a state, and take it over a chunk."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    h, s, other_h, other_s = state
    chunk = gl.minimum(chunk, last_chunk - 1)
    over, other_over = over_of(tables, chunk, 0, part), over_of(tables, chunk, 1, part)
    signal = operand(rooms[0].load(right))
    h, s = _half(0, h, s, rooms, signal, over, states, BLOCK, WIDTH, STATES)
    if STATES > 8:
        other_h, other_s = _half(1, other_h, other_s, rooms, signal, other_over, states, BLOCK,
                                 WIDTH, STATES)  # fmt: skip
    return h, s, other_h, other_s


@gluon.jit
def keep_states(
    inputs, start, states, even, odd, first_chunk, last_chunk, segments,
    time, channels, variables, strides,
    HAS_START: gl.constexpr, HAS_PRESENT: gl.constexpr,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """As `kept_states.keep_states`; rooms are (signal, h, v, eight tiles of tables)."""
    tables = inputs[2]
    size: gl.constexpr = BLOCK * 2 * STATES * WIDTH
    h, s, other_h, other_s = first_states(start, channels, segments, variables, HAS_START, BLOCK,
                                          WIDTH, STATES)  # fmt: skip
    count = last_chunk - first_chunk
    if count > 0:
        _fetch(first_chunk, last_chunk, inputs, even, time, variables, strides,
               HAS_PRESENT, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        _fetch(first_chunk + 1, last_chunk, inputs, odd, time, variables, strides,
               HAS_PRESENT, BLOCK, WIDTH, STATES)  # fmt: skip
    async_copy.commit_group()
    for visit in range((count + 1) // 2):
        chunk = first_chunk + 2 * visit
        to = states + visit * (2 * size)
        state = (h, s, other_h, other_s)
        async_copy.wait_group(1)
        state = _over_chunk(chunk, last_chunk, state, even, tables, to, BLOCK, WIDTH, STATES)
        if chunk + 2 < last_chunk:
            _fetch(chunk + 2, last_chunk, inputs, even, time, variables, strides,
                   HAS_PRESENT, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        async_copy.wait_group(1)
        # Of an odd number, the last of these does not exist: what it keeps is after all others.
        h, s, other_h, other_s = _over_chunk(chunk + 1, last_chunk, state, odd, tables,
                                             to + size, BLOCK, WIDTH, STATES)  # fmt: skip
        if chunk + 2 < last_chunk:
            _fetch(chunk + 3, last_chunk, inputs, odd, time, variables, strides,
                   HAS_PRESENT, BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
    if count % 2 == 0:
        to = states + count * size
        keep_half(0, h, s, to, BLOCK, WIDTH, STATES, gl.float32)
        if STATES > 8:
            keep_half(1, other_h, other_s, to, BLOCK, WIDTH, STATES, gl.float32)
