"""What a program works on."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# Of these a kernel gains nothing by knowing that they are 1 or a multiple of 16: so it is not
# compiled once more for it.
SIZES = ("variables", "chunks", "per_segment")


@gluon.jit
def program_of(variables, channels, head_size, segments, BLOCK: gl.constexpr, WIDTH: gl.constexpr):
    """(batch row, number of rows, first variable, slice, head, first channel, segment)."""
    per_head = head_size // WIDTH
    slices = (channels // head_size) * per_head
    blocks = gl.cdiv(variables, BLOCK)
    pid = gl.program_id(0).to(gl.int64)
    slice_ = pid % slices
    outer = pid // slices // blocks
    batch = gl.num_programs(0) // slices // blocks // segments
    head = slice_ // per_head
    first_channel = head * head_size + (slice_ % per_head) * WIDTH
    first_variable = ((pid // slices) % blocks) * BLOCK
    return outer % batch, batch, first_variable, slice_, head, first_channel, outer // batch


@gluon.jit
def to_fetch(v, t, variables, times, present, variable_stride, time_stride,
             HAS_PRESENT: gl.constexpr):  # fmt: skip
    """Which rows of a block of variables and a chunk exist, and were observed."""
    keep = (t < times) & (v < variables)
    if HAS_PRESENT:
        at = present + (v * variable_stride + t * time_stride)
        keep = keep & (gl.load(at, mask=keep, other=0) != 0)
    return keep
