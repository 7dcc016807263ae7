"""What every operator needs: its registration, and tensors as the kernels take them."""

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

import torch
import triton
from torch import Tensor

from orderless.ops.backward import refuse
from orderless.ops.triton.rehearsal import launch, on_demand, rehearse

table_kernels = on_demand("orderless.ops.triton.tables")

UNROLL = 8  # steps of a recurrence whose loads are made at once
CHUNK = 16  # times
MOST_STATES = 16  # that kernels hold at once: tables have as many, whatever is used of them
TABLES = 7  # of a chunk, as `tables.py` has them
STEP_COLUMNS = 8  # of a step table, as `shared_kernels.py` has it
QUICK = 24 * 256  # entries of a chunk in `quick`, which is there instead for bfloat16

LIBRARY = torch.library.Library("orderless", "DEF")


def operator(function: Callable) -> Any:
    """The function as an operator.

    `torch.library.custom_op` would do, but its first call loads PyTorch's compiler: seconds.
    """
    name = function.__name__
    LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))

    @wraps(function)
    def run(*arguments):
        # Triton launches on the device that a process has chosen, wherever the tensors lie.
        with torch.cuda.device_of(arguments[0]):
            rehearse(function, arguments)
            return function(*arguments)

    LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    return getattr(torch.ops.orderless, name).default


def shapes_of(operator: Any) -> Callable:
    """Register what the compiler asks instead of running an operator."""
    return torch.library.register_fake(operator, lib=LIBRARY)


def with_gradients(operator: Any, backward: Callable, setup_context: Callable) -> None:
    """Register how gradients of an operator are made."""
    torch.library.register_autograd(operator, backward, setup_context=setup_context, lib=LIBRARY)


def without_gradients(operator: Any) -> None:
    """Register that what an operator makes of gradients cannot be differentiated in turn.

    Else PyTorch would warn, and leave it out.
    """
    torch.library.register_autograd(operator, refuse, lib=LIBRARY)


def precision(x: Tensor) -> str:
    """How products of float32 are made: of parts where the inputs are float32."""
    return "tf32x3" if x.dtype == torch.float32 else "tf32"


def strides(value: Tensor | None, reverse: bool = False) -> tuple[int, int, int]:
    """Of batch, variable and time, as times are visited; zeros for what is absent."""
    if value is None:
        return 0, 0, 0
    batch, variable, time = value.stride()[:3]
    return batch, variable, towards(reverse) * time


def from_first(value: Any, reverse: bool, axis: int = 2) -> Any:
    """A tensor from the time on that is visited first, where kernels begin to count; or None."""
    return value.narrow(axis, value.shape[axis] - 1, 1) if reverse and value is not None else value


def towards(reverse: bool) -> int:
    """In which direction kernels go through time."""
    return -1 if reverse else 1


def rows_contiguous(value: Tensor, aligned: bool = False) -> Tensor:
    """A view as it is where its last axes lie together, so that no projection is copied.

    aligned: and where all of its rows begin at a multiple of 16 bytes that Triton knows to be one,
    for the copies of `fast`.
    """
    shape, stride = value.shape[3:], value.stride()[3:]
    expected = (1,) if len(shape) == 1 else (shape[-1], 1)
    as_it_is = stride == expected
    if aligned:
        as_it_is &= value.data_ptr() % 16 == 0 and all(n % 16 == 0 for n in value.stride()[:3])
    return value if as_it_is else value.clone(memory_format=torch.contiguous_format)


def from_a_line(value: Tensor) -> Tensor:
    """Contiguous from a multiple of 16 bytes on, for the copies of `fast`."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()


def sum_slices(slices: Tensor) -> Tensor:
    """The sum of what slices of channels left."""
    if len(slices) == 1:
        return slices[0]
    # Two are the rule, and adding is much faster than summing over a leading axis.
    return slices[0] + slices[1] if len(slices) == 2 else slices.sum(0)


def sum_parts(parts: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """One part in place of many, of two arrays at once, by a kernel that fills the device."""
    both = (parts, others)
    totals = [part.new_empty(part.shape[1:], dtype=torch.float32) for part in both]
    # Small sums are cut into more programs, which then load more parts at once.
    blocks = [min(256, max(8, triton.next_power_of_2(total.numel()) // 1024)) for total in totals]
    programs = sum(
        triton.cdiv(total.numel(), block) for total, block in zip(totals, blocks, strict=True)
    )
    arguments = (
        (part, total, len(part), total.numel()) for part, total in zip(both, totals, strict=True)
    )
    launch(table_kernels.sum_parts, (programs,))(*chain(*arguments), *blocks, num_warps=8)
    return totals[0], totals[1]
