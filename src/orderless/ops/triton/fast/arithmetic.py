"""Arithmetic on tiles: in bfloat16 two entries an instruction, in float32 the same in words."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2


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
def loaded(rooms, layout: gl.constexpr):
    """An operand from the rooms of its parts."""
    if len(rooms) == 1:
        return (rooms[0].load(layout),)
    else:  # noqa: RET505
        return rooms[0].load(layout), rooms[1].load(layout)


@gluon.jit
def loaded_turned(rooms, layout: gl.constexpr):
    """The transpose of every matrix of it."""
    if len(rooms) == 1:
        return (rooms[0].permute((0, 2, 1)).load(layout),)
    else:  # noqa: RET505
        return (
            rooms[0].permute((0, 2, 1)).load(layout),
            rooms[1].permute((0, 2, 1)).load(layout),
        )


@gluon.jit
def converted(parts, layout: gl.constexpr):
    """An operand in another layout."""
    if len(parts) == 1:
        return (gl.convert_layout(parts[0], layout),)
    else:  # noqa: RET505
        return gl.convert_layout(parts[0], layout), gl.convert_layout(parts[1], layout)


@gluon.jit
def turned(value, layout: gl.constexpr):
    """The transpose of every matrix."""
    return gl.convert_layout(gl.permute(value, (0, 2, 1)), layout)


@gluon.jit
def parts_turned(parts, layout: gl.constexpr):
    """The transpose of every matrix of an operand."""
    if len(parts) == 1:
        return (turned(parts[0], layout),)
    else:  # noqa: RET505
        return turned(parts[0], layout), turned(parts[1], layout)


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
def flip(value):
    """The transpose of each [8, 8] block, of two bytes an entry and held like a result."""
    return gl.inline_asm_elementwise(
        "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", [value],
        dtype=value.dtype, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def again(index, now):
    """The same in a way that the compiler cannot see through, for as long as `now` is the same.

    So what follows from an index is computed anew in every chunk, instead of being kept, or
    spilled, throughout a loop.
    """
    return gl.inline_asm_elementwise(
        "mov.s32 $0, $1;", "=r,r,r", [index, now], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def far(time, stride):
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
