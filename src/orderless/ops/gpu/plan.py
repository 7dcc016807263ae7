"""How a call is cut into programs, by its shape alone; strides, and memory for what passes leave.

`Plan` is for the scan of every variable, `Path` for what all variables share.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor

from orderless.ops.gpu import SHARED_MEMORY, shared_memory

CHUNK = 16  # times
MOST_STATES = 16  # that kernels hold at once: tables have as many, whatever is used of them
TABLES = 7  # of a chunk, as `tables.py` has them
BF16_TABLES = 24 * 256  # entries of a chunk in `tables_bf16`, which is there instead for bfloat16
PROGRAMS = 264  # run at once on a large GPU: where there are fewer, time is split

UNROLL = 8  # steps of a recurrence whose loads are made at once
STEP_COLUMNS = 8  # of a step table, as `shared.py` has it
FEW_PATHS = 256  # programs of a trajectory that leave parts of a large GPU idle
PATHS = 2048  # that keep it busy: time is split into so many, if into any


@dataclass(frozen=True)
class Plan:
    """The sizes of a scan, and how it is cut into programs."""

    batch: int
    variables: int
    time: int
    channels: int
    heads: int
    states: int
    block: int
    """Variables of a program, which share its tables."""
    width: int
    """Channels of a program."""
    segments: int
    """Of time, which run side by side; a series of any usual length has one."""
    chunks_per_segment: int
    reverse: bool

    @property
    def head_size(self) -> int:
        """Channels of a head."""
        return self.channels // self.heads

    @property
    def slices_of_head(self) -> int:
        """Programs that share a head."""
        return self.head_size // self.width

    @property
    def slices(self) -> int:
        """Programs that share a variable."""
        return self.heads * self.slices_of_head

    @property
    def blocks(self) -> int:
        """Of variables."""
        return triton.cdiv(self.variables, self.block)

    @property
    def chunks(self) -> int:
        """Of time."""
        return triton.cdiv(self.time, CHUNK)

    @property
    def rows(self) -> int:
        """Programs that run side by side without splitting time."""
        return self.batch * self.blocks * self.slices

    @property
    def programs(self) -> int:
        """All of them."""
        return self.rows * self.segments

    @property
    def shape(self) -> tuple[int, ...]:
        """As kernels take it: also what they would have to divide for."""
        return (
            self.variables, self.time, self.channels, self.head_size, self.chunks,
            self.segments, self.chunks_per_segment, self.heads, self.batch,
        )  # fmt: skip

    @property
    def tile(self) -> dict[str, Any]:
        """How large a program is."""
        return {
            "BLOCK": self.block,
            "WIDTH": self.width,
            "STATES": self.states,
            "num_warps": self.block,
        }

    def strides(self, *values: Tensor | None) -> tuple[int, ...]:
        """Of batch, variable and time of each, as times are visited; zeros for what is absent."""
        return tuple(stride for value in values for stride in strides(value, self.reverse))

    def from_first(self, *values: Any, axis: int = 2) -> list[Any]:
        """Each from the time on that is visited first, where kernels begin to count."""
        return [from_first(value, self.reverse, axis) for value in values]

    def kept_states(self, like: Tensor) -> Tensor:
        """Where programs that go back keep the states that they find.

        Those before every chunk, in bfloat16 before every second one, and after the last.
        """
        kept = self.chunks_per_segment
        if like.dtype == torch.bfloat16:
            kept = triton.cdiv(kept, 2)
        size = self.block * 2 * self.states * self.width
        return like.new_empty(self.programs, kept + 1, size)

    def weight_gradients(self, like: Tensor) -> Tensor:
        """Slices of channels share write and read: each leaves its part, to be summed.

        Of the inputs' dtype: in float32 they would be a third of all traffic.
        """
        return like.new_empty(self.slices, *like.shape)

    def sums(self, like: Tensor) -> Tensor:
        """Six sums of each program and chunk, which the gradients of steps and rates need."""
        parts = self.blocks * self.slices_of_head
        return like.new_empty(
            parts, self.batch, self.heads, self.chunks, 6, CHUNK, self.states
        )  # fmt: skip

    def borders(self, like: Tensor) -> Tensor:
        """Gradient times state at every border between chunks, for each variable and slice."""
        parts = self.variables * self.slices_of_head
        return like.new_empty(parts, self.batch, self.heads, self.chunks + 1, 3, self.states)


def plan_scan(x: Tensor, step: Tensor, write: Tensor, reverse: bool) -> Plan:
    """The plan for x [B,V,T,D], step [B,T,H] and write [B,V,T,2,N]."""
    batch, variables, time, channels = x.shape
    heads, states = step.shape[-1], write.shape[-1]
    head_size = channels // heads
    width = min(64, head_size & -head_size)  # a power of two that divides it
    chunks = triton.cdiv(time, CHUNK)
    slices = channels // width
    # Few kinds of programs, for each is compiled: one variable, where it is the only one and more
    # would keep others waiting, or as many as fit, of which some may not exist.
    block = 1 if variables == 1 and batch * slices > PROGRAMS else _most_variables(x.device)
    rows = batch * slices * triton.cdiv(variables, block)
    # A segment pays a second pass over its inputs, so time is split only where it is long.
    most_segments = max(1, chunks // 8)
    segments = min(max(1, PROGRAMS // rows), most_segments)
    per_segment = triton.cdiv(chunks, segments)
    return Plan(
        batch, variables, time, channels, heads, states, block, width,
        triton.cdiv(chunks, per_segment), per_segment, reverse,
    )  # fmt: skip


@cache
def _most_variables(device: torch.device) -> int:
    """That a program can have on a device."""
    if device.type != "cuda":
        return max(SHARED_MEMORY)
    available = shared_memory(device.index)
    return max(n for n, needed in SHARED_MEMORY.items() if needed <= available)


@dataclass(frozen=True)
class Path:
    """How a trajectory without a variable axis is cut into programs."""

    batch: int
    time: int
    states: int
    channels: int
    heads: int
    width: int
    segments: int
    per_segment: int
    reverse: bool

    @property
    def slices(self) -> int:
        """Programs that share a variable."""
        return triton.cdiv(self.channels // self.heads, self.width)

    @property
    def padded(self) -> int:
        """States, of a power of two."""
        return triton.next_power_of_2(self.states)

    @property
    def programs(self) -> int:
        """Without splitting time."""
        return self.batch * self.heads * self.states * self.slices

    @property
    def rows(self) -> int:
        """Of a step table: the last round may reach over the last time."""
        return triton.cdiv(self.time, UNROLL) * UNROLL

    @property
    def shape(self) -> tuple[int, ...]:
        """As kernels take it."""
        head_size = self.channels // self.heads
        return self.rows, self.time, self.channels, head_size, self.segments, self.per_segment

    @property
    def tile(self) -> dict[str, int]:
        """How large a program is."""
        return {"STATES": self.states, "WIDTH": self.width, "num_warps": 1}


def plan_path(channels: int, states: int, step: Tensor, reverse: bool) -> Path:
    """The plan of a trajectory over step [B,T,H]."""
    batch, time, heads = step.shape
    width = min(64, triton.next_power_of_2(channels // heads))
    programs = batch * heads * states * triton.cdiv(channels // heads, width)
    # A segment pays a second pass over its inputs.
    segments = 1
    if programs < FEW_PATHS:
        segments = max(1, min(triton.cdiv(PATHS, programs), time // 64))
    per_segment = triton.cdiv(triton.cdiv(time, segments), UNROLL) * UNROLL
    segments = triton.cdiv(time, per_segment)
    return Path(batch, time, states, channels, heads, width, segments, per_segment, reverse)


def direction(reverse: bool) -> int:
    """In which kernels go through time."""
    return -1 if reverse else 1


def strides(value: Tensor | None, reverse: bool = False) -> tuple[int, int, int]:
    """Of batch, variable and time, as times are visited; zeros for what is absent."""
    if value is None:
        return 0, 0, 0
    batch, variable, time = value.stride()[:3]
    return batch, variable, direction(reverse) * time


def from_first(value: Any, reverse: bool, axis: int = 2) -> Any:
    """A tensor from the time on that is visited first; or None."""
    return value.narrow(axis, value.shape[axis] - 1, 1) if reverse and value is not None else value


def rows_contiguous(value: Tensor, aligned: bool = False) -> Tensor:
    """A view as it is where its last axes lie together, so that no projection is copied.

    aligned: and where all of its rows begin at a multiple of 16 bytes that Triton knows to be one,
    for asynchronous copies.
    """
    shape, stride = value.shape[3:], value.stride()[3:]
    expected = (1,) if len(shape) == 1 else (shape[-1], 1)
    as_it_is = stride == expected
    if aligned:
        as_it_is &= value.data_ptr() % 16 == 0 and all(n % 16 == 0 for n in value.stride()[:3])
    return value if as_it_is else value.clone(memory_format=torch.contiguous_format)


def aligned(value: Tensor) -> Tensor:
    """Contiguous from a multiple of 16 bytes on, for asynchronous copies."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()
