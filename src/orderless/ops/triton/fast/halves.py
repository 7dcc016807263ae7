"""Eight states of a variable at a time, where a warp owns the variable.

A pair (h, v) of tiles is stacked to one operand, and states go to memory and back as threads hold
them.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from orderless.ops.triton.fast.arithmetic import axis_of, flip
from orderless.ops.triton.fast.layouts import bits


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
def _stack_turned(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    both = gl.join(flip(first), flip(second))  # variable, half, state, time of it, part
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
def stacked_turned(first, second, BLOCK: gl.constexpr, layout: gl.constexpr):
    """The same as [variable, (part, state), time], where a thread holds pairs of times."""
    one = _stack_turned(first[0], second[0], BLOCK, layout)
    if len(first) == 1:
        return (one,)
    else:  # noqa: RET505
        return one, _stack_turned(first[1], second[1], BLOCK, layout)


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
def load_halves(source, channels, segments, variables, BLOCK: gl.constexpr, WIDTH: gl.constexpr,
                STATES: gl.constexpr):  # fmt: skip
    """Of [V, segment, 2, N, D] the h and v parts of the first eight states, and of the others."""
    part: gl.constexpr = whole_part_layout(BLOCK, WIDTH)
    v = axis_of(0, BLOCK, part)
    at = v * (segments * 2 * STATES * channels) + axis_of(1, 8, part) * channels
    at = source + (at + axis_of(2, WIDTH, part))
    inside = v < variables
    others = inside if STATES > 8 else v < 0
    return (
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
