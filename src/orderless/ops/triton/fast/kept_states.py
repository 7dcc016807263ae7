"""The states before every second chunk of a segment, found by the program that goes back."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from orderless.ops.triton.fast.arithmetic import decay, multiply, operand
from orderless.ops.triton.fast.halves import (
    load_halves,
    parts_eight,
    stacked_turned,
    to_scratch,
    whole_eight,
    whole_part_layout,
)
from orderless.ops.triton.fast.layouts import eight_layout, whole_pair_layout
from orderless.ops.triton.fast.rooms import (
    QUICK,
    TO_END_UNHELD,
    copy_of,
    eight_of,
    fetch_lines,
    fetch_over,
    fetch_signal,
    half_of_table,
    line_of_pairs,
    line_of_singles,
    lines_of,
    over_eight,
)

# Where the table of an even chunk is copied to, and that of an odd one: places of different rooms.
EVEN = TO_END_UNHELD
ODD = gl.constexpr(0)


@gluon.jit
def keep_half(HALF: gl.constexpr, h, s, states, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
              STATES: gl.constexpr, low: gl.constexpr):  # fmt: skip
    """Leave eight states as the threads hold them."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [BLOCK, 1], [1, 0])
    both = whole_eight(h.to(low), s.to(low), BLOCK, WIDTH, mma)
    v = gl.arange(0, BLOCK, gl.SliceLayout(1, flat))[:, None]
    at = v * (2 * STATES * WIDTH) + HALF * 16 * WIDTH
    at = at + gl.arange(0, 16 * WIDTH, gl.SliceLayout(0, flat))[None, :]
    # They are read again, what else goes through the cache meanwhile is not.
    gl.store(states + at, to_scratch(both, BLOCK, WIDTH, flat), eviction_policy="evict_last")


@gluon.jit
def move_on(h, s, to_h, to_v, signal, over, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """Take eight states over a chunk, at whose end (to_h, to_v) write a signal to them."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    e_h, e_vh, e_v = over
    state = whole_eight(e_h * h, e_v * s + e_vh * h, BLOCK, WIDTH, mma)
    to_end = stacked_turned(operand(to_h), operand(to_v), BLOCK, left)
    state = multiply(to_end, signal, state)
    return parts_eight(state, BLOCK, WIDTH, whole_part_layout(BLOCK, WIDTH))


@gluon.jit
def _half(HALF: gl.constexpr, PLACE: gl.constexpr, h, s, rooms, here, over, states, exists,
          BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep eight states if there is a place for them, and take them over a chunk."""
    room_x, room_h, room_v = rooms
    low: gl.constexpr = room_x.dtype
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [BLOCK, 1, 1], [1, 16, 8])
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    pair: gl.constexpr = whole_pair_layout(BLOCK)
    eight: gl.constexpr = eight_layout(BLOCK)
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    if states is not None:
        keep_half(HALF, h, s, states, BLOCK, WIDTH, STATES, low)
    w_h, w_v = eight_of(room_h.load(pair), HALF, eight), eight_of(room_v.load(pair), HALF, eight)
    table, _ = half_of_table(here, PLACE, HALF, low, BLOCK)
    to_v, to_h = decay(w_v, w_h, table)
    over = over_eight(over, HALF, part)
    if exists is not None:
        e_h, e_vh, e_v = over
        over = gl.where(exists, e_h, 1.0), gl.where(exists, e_vh, 0.0), gl.where(exists, e_v, 1.0)
    return move_on(h, s, to_h, to_v, operand(room_x.load(right)), over, BLOCK, WIDTH)


@gluon.jit
def _over_chunk(PLACE: gl.constexpr, state, rooms, room, here, over, states, exists,
                BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """Keep a state if there is a place for it, and take it over a chunk if that exists."""
    h, s, other_h, other_s = state
    own = (rooms[0].index(room), rooms[1].index(room), rooms[2].index(room))
    h, s = _half(0, PLACE, h, s, own, here, over, states, exists, BLOCK, WIDTH, STATES)
    if STATES > 8:
        other_h, other_s = _half(1, PLACE, other_h, other_s, own, here, over, states, exists, BLOCK,
                                 WIDTH, STATES)  # fmt: skip
    return h, s, other_h, other_s


@gluon.jit
def _fetch(
    PLACE: gl.constexpr, chunk, last_chunk, inputs, rooms, room, rooms_tables, room_over,
    time, variables, strides,
    HAS_PRESENT: gl.constexpr, BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Start to copy what a chunk needs, its table to a place in the rooms of all tables."""
    x, write, quick, over_chunks, present = inputs
    own = (rooms[0].index(room), rooms[1].index(room), rooms[2].index(room))
    left_times = gl.where(chunk < last_chunk, time - chunk * 16, 0)
    fetch_signal(own, x, write, present, chunk, left_times, variables, strides,
                 HAS_PRESENT, BLOCK, WIDTH, STATES)  # fmt: skip
    chunk = gl.minimum(chunk, last_chunk - 1)
    source = quick + chunk * QUICK
    pairs, single = lines_of(copy_of(rooms_tables, room), PLACE)
    fetch_lines(pairs, source + line_of_pairs(TO_END_UNHELD) * 256, 0, chunk, BLOCK)
    fetch_lines(single, source + line_of_singles(TO_END_UNHELD) * 256, 0, chunk, BLOCK)
    fetch_over(room_over, over_chunks, chunk, BLOCK)


@gluon.jit
def first_states(start, channels, segments, variables, HAS_START: gl.constexpr,
                 BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr):  # fmt: skip
    """The state before all chunks, h and v parts of each half of the states."""
    if HAS_START:
        return load_halves(start, channels, segments, variables, BLOCK, WIDTH, STATES)
    else:  # noqa: RET505
        none = gl.zeros([BLOCK, 8, WIDTH], gl.float32, whole_part_layout(BLOCK, WIDTH))
        return none, none, none, none


@gluon.jit
def keep_states(
    inputs, start, states, even, odd, rooms_tables, rooms_over, first_chunk, last_chunk, segments,
    time, channels, variables, strides,
    HAS_START: gl.constexpr, TO_LAST: gl.constexpr, HAS_PRESENT: gl.constexpr,
    BLOCK: gl.constexpr, WIDTH: gl.constexpr, STATES: gl.constexpr,
):  # fmt: skip
    """Leave [pair of chunks, variable, half, 16 * WIDTH] in `states`: what is before each pair.

    TO_LAST: and, in the place after these, what is after the last chunk.

    In bfloat16. The two chunks have rooms of their own: (signal, h, v), two of each, and four for
    `over`. All of it is the program's own, so every thread finds later what it leaves here.
    """
    low: gl.constexpr = even[0].dtype
    size: gl.constexpr = BLOCK * 2 * STATES * WIDTH
    h, s, other_h, other_s = first_states(start, channels, segments, variables, HAS_START, BLOCK,
                                          WIDTH, STATES)  # fmt: skip
    count = last_chunk - first_chunk
    if not TO_LAST:
        count = (count - 1) // 2 * 2  # what is before the last pair, or the last chunk
        last_chunk = first_chunk + count
    # Ahead of the work: the first visit only fetches.
    for visit in range(-1, (count + 1) // 2):
        room = (visit + 1) % 2
        ahead = first_chunk + 2 * (visit + 1)
        if ahead < last_chunk:
            _fetch(EVEN, ahead, last_chunk, inputs, even, room, rooms_tables,
                   rooms_over.index(room), time, variables, strides, HAS_PRESENT,
                   BLOCK, WIDTH, STATES)  # fmt: skip
            _fetch(ODD, ahead + 1, last_chunk, inputs, odd, room, rooms_tables,
                   rooms_over.index(2 + room), time, variables, strides, HAS_PRESENT,
                   BLOCK, WIDTH, STATES)  # fmt: skip
        async_copy.commit_group()
        if visit >= 0:
            async_copy.wait_group(1)
            room = visit % 2
            here = copy_of(rooms_tables, room)
            to = states + visit * size
            state = (h, s, other_h, other_s)
            state = _over_chunk(EVEN, state, even, room, here, rooms_over.index(room), to, None,
                                BLOCK, WIDTH, STATES)  # fmt: skip
            # Of an odd number, the last of these does not exist.
            exists = 2 * visit + 1 < count if TO_LAST else None
            h, s, other_h, other_s = _over_chunk(
                ODD, state, odd, room, here, rooms_over.index(2 + room), None, exists, BLOCK, WIDTH,
                STATES,
            )  # fmt: skip
    to = states + (count + 1) // 2 * size
    keep_half(0, h, s, to, BLOCK, WIDTH, STATES, low)
    if STATES > 8:
        keep_half(1, other_h, other_s, to, BLOCK, WIDTH, STATES, low)
