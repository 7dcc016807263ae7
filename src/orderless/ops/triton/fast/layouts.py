"""How the threads of a program hold tiles, where that is the same in several kernels."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


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
