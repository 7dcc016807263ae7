"""What a program works on."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# Of these a kernel gains nothing by knowing that they are 1 or a multiple of 16: so it is not
# compiled once more for it.
SIZES = ("variables", "chunks", "per_segment", "heads", "batch")


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
def to_fetch(v, t, variables, times, present, variable_stride, time_stride,
             HAS_PRESENT: gl.constexpr):  # fmt: skip
    """Which rows of a block of variables and a chunk exist, and were observed."""
    keep = (t < times) & (v < variables)
    if HAS_PRESENT:
        at = present + (v * variable_stride + t * time_stride)
        keep = keep & (gl.load(at, mask=keep, other=0) != 0)
    return keep
