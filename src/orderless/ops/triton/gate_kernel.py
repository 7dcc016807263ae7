"""The gradients of a gate and of what it multiplies, in one pass."""

import triton
import triton.language as tl


@triton.jit
def gate_gradients(
    d_y, before, gate, present, d_before, d_gate,
    rows, variables, time, channels,
    gate_batch, gate_variable, gate_time,
    present_batch, present_variable, present_time,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, HAS_PRESENT: tl.constexpr,
):  # fmt: skip
    """Of y = before silu(gate), all [B,V,T,D]; zero where nothing was observed.

    One program per (ROWS rows, WIDTH channels).
    """
    pid = tl.program_id(0).to(tl.int64)
    wide = tl.cdiv(channels, WIDTH)
    row = pid // wide * ROWS + tl.arange(0, ROWS)[:, None]
    d = pid % wide * WIDTH + tl.arange(0, WIDTH)[None, :]
    b, v, t = row // time // variables, row // time % variables, row % time
    inside = (row < rows) & (d < channels)
    keep = inside
    if HAS_PRESENT:
        at = b * present_batch + v * present_variable + t * present_time
        keep = keep & (tl.load(present + at, mask=row < rows, other=0) != 0)
    at = row * channels + d
    back = tl.load(d_y + at, mask=keep, other=0.0).to(tl.float32)
    value = tl.load(before + at, mask=keep, other=0.0).to(tl.float32)
    place = b * gate_batch + v * gate_variable + t * gate_time + d
    opening = tl.load(gate + place, mask=keep, other=0.0).to(tl.float32)
    share = 1 / (1 + tl.exp(-opening))
    d_value = back * (opening * share)
    d_opening = back * value * (share * (1 + opening * (1 - share)))
    tl.store(d_before + at, d_value.to(d_before.dtype.element_ty), mask=inside)
    tl.store(d_gate + at, d_opening.to(d_gate.dtype.element_ty), mask=inside)
