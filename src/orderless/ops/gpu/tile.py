"""Tiles in registers: what a program works on, layouts, packed arithmetic, states by eights."""

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

# Of these a kernel gains nothing by knowing that they are 1 or a multiple of 16: so it is not
# compiled once more for it.
SIZES = ("variables", "chunks", "per_segment", "heads", "batch")


class Tile(NamedTuple):
    """How large a program is, known when it is compiled."""

    BLOCK: Any
    WIDTH: Any
    STATES: Any


class Rows(NamedTuple):
    """Where the rows [variable, time] of a tensor lie: a program's first, and their strides."""

    first: Any
    variable: Any
    time: Any


class Segment(NamedTuple):
    """The chunks of a program, of all that there are, and what else there is."""

    first_chunk: Any
    last_chunk: Any
    chunks: Any
    segments: Any
    time: Any
    channels: Any
    variables: Any  # from the program's first on


class Halves(NamedTuple):
    """The h and v parts of the first eight states, and of the others."""

    h: Any
    v: Any
    other_h: Any
    other_v: Any


@gluon.jit
def program_of(variables, heads, batch, head_size, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """(batch row, first variable, slice, head, first channel, segment).

    A quotient of 64 bits takes as long as a load, and each needs the one before: so those of 32.
    """
    per_head = head_size // WIDTH
    slices = heads * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0)
    block = pid // slices
    outer = block // blocks
    segment = outer // batch
    slice_ = pid - block * slices
    first_variable = ((block - outer * blocks) * BLOCK).to(gl.int64)
    b = (outer - segment * batch).to(gl.int64)
    return b, first_variable, slice_, slice_ // per_head, slice_ * WIDTH, segment


@gluon.jit
def at_time(rows, t):
    """The same rows from a time on."""
    return Rows(rows.first + offset_i64(t, rows.time), rows.variable, rows.time)


@gluon.jit
def to_fetch(v, t, variables, times, mask):
    """Which rows of a block of variables and a chunk exist, and were observed."""
    keep = (t < times) & (v < variables)
    if mask is not None:
        at = mask.first + (v * mask.variable + t * mask.time)
        keep = keep & (gl.load(at, mask=keep, other=0) != 0)
    return keep


@gluon.constexpr_function
def bits(size, axis, rank, first=1):
    """The bases of an axis: one for each bit of its index, from `first` on."""
    bases = []
    while first < size:
        bases.append([first if i == axis else 0 for i in range(rank)])
        first *= 2
    return bases


@gluon.constexpr_function
def eight_layout(block):
    """[variable, time, state] for eight states where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0]]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 16, 8])


@gluon.constexpr_function
def whole_pair_layout(block):
    """[variable, time, state] for all states where a warp owns a variable."""
    registers = [[0, 0, 1], [0, 8, 0], [0, 0, 8]]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 16, 16])


@gluon.constexpr_function
def whole_rows_layout(block, width, across):
    """[variable, time, channel] where a warp owns a variable: `across` lanes share a row."""
    lanes = bits(min(width, 8 * across), 2, 3, 8)
    lanes = lanes + bits(2 ** (5 - len(lanes)), 1, 3)
    own = bits(width, 2, 3) + bits(16, 1, 3)
    registers = [base for base in own if base not in lanes]
    warps = bits(block, 0, 3)
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [block, 16, width])


@gluon.jit
def to_float32(value, layout: gl.constexpr):
    """To float32, where a thread holds rows (i, i + 8) of columns (2j, 2j + 1) in turn.

    Times the identity: so four entries take one instruction, where the rule is one each. An
    infinite entry spoils the eight of its row.
    """
    if value.dtype == gl.bfloat16:
        same = axis_of(1, value.shape[1], layout) % 8 == axis_of(2, value.shape[2], layout) % 8
        return gl.inline_asm_elementwise(
            "{ .reg .f32 z; mov.f32 z, 0f00000000; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16"
            ".f32 {$0, $1, $2, $3}, {$4, $5}, {$6}, {z, z, z, z}; }",
            "=f,=f,=f,=f,r,r,r,r", [value, gl.where(same, 1.0, 0.0).to(gl.bfloat16)],
            dtype=gl.float32, is_pure=True, pack=4,
        )  # fmt: skip
    else:  # noqa: RET505
        return value


@gluon.jit
def operand(value):
    """What `multiply` takes: a tile of bfloat16, or the two whose sum is nearly one of float32."""
    if value.dtype == gl.bfloat16:
        return (value,)
    else:  # noqa: RET505
        return gl.inline_asm_elementwise(
            "{ .reg .b32 a, b; cvt.rn.bf16x2.f32 $0, $3, $2; shl.b32 a, $0, 16;"
            "and.b32 b, $0, 0xFFFF0000; sub.f32 a, $2, a; sub.f32 b, $3, b;"
            "cvt.rn.bf16x2.f32 $1, b, a; }",
            "=&r,=r,r,r", [value], dtype=(gl.bfloat16, gl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip


@gluon.jit
def multiply(a, b, total):
    """total + a b. In float32 by three products of parts: the fourth is as small as their error."""
    if len(a) == 2:
        total = mma_v2(a[1], b[0], total)
        total = mma_v2(a[0], b[1], total)
    return mma_v2(a[0], b[0], total)


@gluon.jit
def load_operand(buffers, layout: gl.constexpr):
    """An operand from the buffers of its parts."""
    if len(buffers) == 1:
        return (buffers[0].load(layout),)
    else:  # noqa: RET505
        return buffers[0].load(layout), buffers[1].load(layout)


@gluon.jit
def load_transposed(buffers, layout: gl.constexpr):
    """The transpose of every matrix of it."""
    if len(buffers) == 1:
        return (buffers[0].permute((0, 2, 1)).load(layout),)
    else:  # noqa: RET505
        return (
            buffers[0].permute((0, 2, 1)).load(layout),
            buffers[1].permute((0, 2, 1)).load(layout),
        )


@gluon.jit
def converted(parts, layout: gl.constexpr):
    """An operand in another layout."""
    if len(parts) == 1:
        return (gl.convert_layout(parts[0], layout),)
    else:  # noqa: RET505
        return gl.convert_layout(parts[0], layout), gl.convert_layout(parts[1], layout)


@gluon.jit
def transposed(value, layout: gl.constexpr):
    """The transpose of every matrix."""
    return gl.convert_layout(gl.permute(value, (0, 2, 1)), layout)


@gluon.jit
def transposed_parts(parts, layout: gl.constexpr):
    """The transpose of every matrix of an operand."""
    if len(parts) == 1:
        return (transposed(parts[0], layout),)
    else:  # noqa: RET505
        return transposed(parts[0], layout), transposed(parts[1], layout)


@gluon.jit
def times(a, b):
    """a b. In bfloat16 two products are one instruction, where entries lie in pairs."""
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            # With -0 added, which changes nothing: only Hopper and later multiply without adding.
            "{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 $0, $1, $2, z; }",
            "=r,r,r", [a, b],
            dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return a * b


@gluon.jit
def times_plus(a, b, c):
    """The same and c, rounded once."""
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", [a, b, c],
            dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return a * b + c


@gluon.jit
def choose(flag, a, b):
    """a where a flag is not zero. In bfloat16 the two entries of a pair have the same flag."""
    if a.dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $3, 0; selp.b32 $0, $1, $2, p; }", "=r,r,r,r,r",
            [a, b, flag], dtype=gl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    else:  # noqa: RET505
        return gl.where(flag != 0, a, b)


@gluon.jit
def masked(condition, a, b):
    """a where a condition holds, of bfloat16 in pairs."""
    return gl.inline_asm_elementwise(
        "lop3.b32 $0, $3, $1, $2, 0xCA;", "=r,r,r,r",
        [a, b, gl.where(condition, -1, 0).to(gl.int16)],
        dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def transpose_blocks(value):
    """The transpose of each [8, 8] block, of two bytes an entry and held like a result."""
    return gl.inline_asm_elementwise(
        "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", [value],
        dtype=value.dtype, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def opaque_copy(index, now):
    """The same in a way that the compiler cannot see through, for as long as `now` is the same.

    So what follows from an index is computed anew in every chunk, instead of being kept, or
    spilled, throughout a loop.
    """
    return gl.inline_asm_elementwise(
        "mov.s32 $0, $1;", "=r,r,r", [index, now], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def offset_i64(time, stride):
    """Where a time lies, in 64 bits."""
    return time.to(gl.int64) * stride


@gluon.jit
def axis_of(axis: gl.constexpr, size: gl.constexpr, layout: gl.constexpr):
    """0 ... size - 1 along one axis of a tile."""
    if axis == 0:
        return gl.arange(0, size, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    elif axis == 1:  # noqa: RET505
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    else:
        return gl.arange(0, size, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]


@gluon.jit
def decay(first, second, table):
    """What a table leads to of a pair, of which the second entry also reaches the first."""
    e1, evh, e2 = table
    return times_plus(first, e1, times(second, evh)), times(second, e2)


@gluon.jit
def decay_back(first, second, table):
    """What `decay` makes of gradients."""
    e1, evh, e2 = table
    return first * e1, first * evh + second * e2


@gluon.jit
def bit(kind: gl.constexpr, layout: gl.constexpr):
    """[1, t, s]: whether a table leads from s to t."""
    return ((axis_of(1, 16, layout) ^ axis_of(2, 16, layout)) >> (3 - kind)) == 1


@gluon.constexpr_function
def whole_part_layout(block, width):
    """[variable, state, channel], the h or the v part of eight states."""
    registers = [[0, 0, 1], *bits(width, 2, 3, 8)]
    lanes = [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, bits(block, 0, 3), [], [block, 8, width])


@gluon.jit
def stack_eight(first, second, BLOCK: gl.constexpr):
    """A pair of [variable, time, eight states] as [variable, time, (part, state)]."""
    return gl.reshape(gl.permute(gl.join(first, second), (0, 1, 3, 2)), [BLOCK, 16, 16])


@gluon.jit
def _stack_transposed(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    both = gl.join(
        transpose_blocks(first), transpose_blocks(second)
    )  # variable, half, state, time of it, part
    both = gl.permute(gl.reshape(both, [BLOCK, 2, 8, 8, 2]), (0, 4, 2, 1, 3))
    return gl.convert_layout(gl.reshape(both, [BLOCK, 16, 16]), layout)


@gluon.jit
def stacked(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    """What `stack_eight` makes of a pair of operands."""
    one = gl.convert_layout(stack_eight(first[0], second[0], BLOCK), layout)
    if len(first) == 1:
        return (one,)
    else:  # noqa: RET505
        return one, gl.convert_layout(stack_eight(first[1], second[1], BLOCK), layout)


@gluon.jit
def stacked_transposed(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    """The same as [variable, (part, state), time], where a thread holds pairs of times."""
    one = _stack_transposed(first[0], second[0], BLOCK, layout)
    if len(first) == 1:
        return (one,)
    else:  # noqa: RET505
        return one, _stack_transposed(first[1], second[1], BLOCK, layout)


@gluon.jit
def whole_eight(h, v, BLOCK: gl.constexpr, WIDTH: gl.constexpr, mma: gl.constexpr):
    """The two parts of eight states as [variable, (part, state), channel]."""
    both = gl.reshape(gl.permute(gl.join(h, v), (0, 3, 1, 2)), [BLOCK, 16, WIDTH])
    return gl.convert_layout(both, mma)


@gluon.jit
def parts_eight(both, BLOCK: gl.constexpr, WIDTH: gl.constexpr, part: gl.constexpr):
    """What `whole_eight` put together."""
    h, v = gl.split(gl.permute(gl.reshape(both, [BLOCK, 2, 8, WIDTH]), (0, 2, 3, 1)))
    return gl.convert_layout(h, part), gl.convert_layout(v, part)


@gluon.jit
def load_halves(source, segment, tile):
    """From [V, segment, 2, N, D]."""
    part: gl.constexpr = whole_part_layout(tile.BLOCK, tile.WIDTH)
    STATES: gl.constexpr = tile.STATES
    channels = segment.channels
    v = axis_of(0, tile.BLOCK, part)
    at = v * (segment.segments * 2 * STATES * channels) + axis_of(1, 8, part) * channels
    at = source + (at + axis_of(2, tile.WIDTH, part))
    inside = v < segment.variables
    others = inside if STATES > 8 else v < 0
    return Halves(
        gl.load(at, mask=inside, other=0.0),
        gl.load(at + STATES * channels, mask=inside, other=0.0),
        gl.load(at + 8 * channels, mask=others, other=0.0),
        gl.load(at + (8 + STATES) * channels, mask=others, other=0.0),
    )


@gluon.jit
def eight_from_scratch(value, BLOCK: gl.constexpr, WIDTH: gl.constexpr, right: gl.constexpr):
    """What `to_scratch` stored for a warp, as a right operand over channels."""
    if value.dtype == gl.int32:
        # Pairs of bfloat16, which stay pairs: every second register is of the first tensor.
        first, second = gl.inline_asm_elementwise(
            "mov.b32 $0, $2; mov.b32 $1, $3;", "=r,=r,r,r", [value],
            dtype=(gl.bfloat16, gl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip
        value = gl.reshape(gl.join(first, second), [BLOCK, WIDTH // 16, 8, 4, 2, 2, 2])
        value = gl.permute(value, (0, 1, 6, 3, 5, 4, 2))
    else:
        value = gl.reshape(value, [BLOCK, WIDTH // 16, 8, 4, 2, 2, 2])
        value = gl.permute(value, (0, 1, 5, 3, 6, 4, 2))
    return gl.convert_layout(gl.reshape(value, [BLOCK, WIDTH, 16]), right)


@gluon.jit
def to_scratch(both, ROWS: gl.constexpr, WIDTH: gl.constexpr, flat: gl.constexpr):
    """[row, (part, state), channel] as each thread holds it, to be moved in whole lines."""
    value = gl.reshape(both, [ROWS, 2, 8, WIDTH // 16, 2, 4, 2])
    value = gl.reshape(gl.permute(value, (0, 3, 2, 5, 1, 4, 6)), [ROWS, 16 * WIDTH])
    return gl.convert_layout(value, flat)
