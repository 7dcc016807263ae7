"""What a program works on."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# Of these a kernel gains nothing by knowing that they are 1 or a multiple of 16: so it is not
# compiled once more for it.
SIZES = ("variables", "chunks", "per_segment", "heads", "batch", "found")


@gluon.jit
def program_of(pid, variables, heads, batch, head_size, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """(batch row, first variable, slice, head, first channel, segment).

    A quotient of 64 bits takes as long as a load, and each needs the one before: so those of 32.
    """
    per_head = head_size // WIDTH
    slices = heads * per_head
    blocks = gl.cdiv(variables, BLOCK)
    block = pid // slices
    outer = block // blocks
    segment = outer // batch
    slice_ = pid - block * slices
    first_variable = ((block - outer * blocks) * BLOCK).to(gl.int64)
    b = (outer - segment * batch).to(gl.int64)
    return b, first_variable, slice_, slice_ // per_head, slice_ * WIDTH, segment


@gluon.jit
def not_found(pid, programs, found):
    """Whether a program finds its states itself. `found` of them run at once, in two rounds, or 0.

    Were it all of them, they would find states at the same time, and memory could not keep up, and
    go back at the same time, while it has little to do. So `find_states` does it for a half: every
    other one of the first round, and those that come last, when the others of the first are done.
    """
    first_round = (pid < found) & (pid % 2 == 0)
    return (found == 0) | first_round | ((pid >= found) & (pid < (found + programs) // 2))


@gluon.jit
def to_fetch(v, t, variables, times, present, variable_stride, time_stride,
             HAS_PRESENT: gl.constexpr):  # fmt: skip
    """Which rows of a block of variables and a chunk exist, and were observed."""
    keep = (t < times) & (v < variables)
    if HAS_PRESENT:
        at = present + (v * variable_stride + t * time_stride)
        keep = keep & (gl.load(at, mask=keep, other=0) != 0)
    return keep
