"""The bare recurrence, and how every option of `vi_scan` comes down to it.

A form written in plain torch implements `Recurrence` alone. Masks, direction, skip and gate are
given their meaning here, once for all such forms.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import silu

from orderless.ops.call import ScanCall
from orderless.ops.zero_order_hold import Generator


class Recurrence(NamedTuple):
    """What remains when masks, direction, skip and gate are dealt with; one dtype throughout.

    x [B,V,T,D]; step [B,T,H]; write, read [B,V,T,2,N]; field [B,T,D] with field_write [B,T,2,N];
    state [B,V,2,N,D]; weight [B,V] sums to one over the variables that enter the mean mode.
    `step`, `write`, `read` and `field_write` may have a time axis of size 1.
    """

    x: Tensor
    step: Tensor
    generator: Generator
    write: Tensor
    read: Tensor
    field: Tensor | None
    field_write: Tensor | None
    mean_generator: Generator | None
    state: Tensor
    weight: Tensor | None


Solve = Callable[[Recurrence], tuple[Tensor, Tensor]]


def run_plain(call: ScanCall, solve: Solve) -> tuple[Tensor, Tensor]:
    """Run `call` through a form that knows the bare recurrence only."""
    present = _present(call)
    x = _keep(call.x, present)
    y, state = solve(_recurrence(call, x, present))
    if call.reverse:
        y = y.flip(2)
    if call.skip is not None:
        y = y + call.skip.to(y) * x.to(y)
    if call.gate is not None:
        y = y * silu(_keep(call.gate, present).to(y))
    if present is not None:
        y = torch.where(present.unsqueeze(-1), y, 0.0)
    if call.members is not None and call.state is not None:
        state = torch.where(_over_state(call.members), state, call.state.to(state))
    elif call.members is not None:
        state = torch.where(_over_state(call.members), state, 0.0)
    return y.to(call.x.dtype), state


def _recurrence(call: ScanCall, x: Tensor, present: Tensor | None) -> Recurrence:
    dtype = call.state_dtype
    batch, variables, _, channels = call.x.shape
    states = call.write.shape[-1]

    def along_time(value: Tensor | None, axis: int) -> Tensor | None:
        if value is None:
            return None
        value = value.to(dtype)
        return value.flip(axis) if call.reverse else value

    weight = None
    if call.mean_generator is not None:
        weight = x.new_ones(batch, variables, dtype=dtype)
        if call.members is not None:
            weight = call.members.to(dtype)
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1.0)
    if call.state is None:
        state = x.new_zeros(batch, variables, 2, states, channels, dtype=dtype)
    elif call.members is None:
        state = call.state.to(dtype)
    else:
        state = torch.where(_over_state(call.members), call.state.to(dtype), 0.0)
    return Recurrence(
        x=along_time(x, 2),
        step=along_time(call.step, 1),
        generator=Generator(*(rate.to(dtype) for rate in call.generator)),
        write=along_time(_keep_weights(call, call.write, present), 2),
        read=along_time(_keep_weights(call, call.read, present), 2),
        field=along_time(call.field, 1),
        field_write=along_time(call.field_write, 1),
        mean_generator=call.mean_generator
        and Generator(*(rate.to(dtype) for rate in call.mean_generator)),
        state=state,
        weight=weight,
    )


def _present(call: ScanCall) -> Tensor | None:
    """True where a member was observed, [B,V,T] or [B,V,1]; None when nothing is masked."""
    if call.members is None:
        return call.observed
    members = call.members.unsqueeze(-1)
    return members if call.observed is None else members & call.observed


def _keep(value: Tensor, present: Tensor | None) -> Tensor:
    """Zero where nothing is present. `where`, not a product: a masked entry may hold NaN."""
    if present is None:
        return value
    return torch.where(present.reshape(*present.shape, *(1,) * (value.dim() - 3)), value, 0.0)


def _keep_weights(call: ScanCall, value: Tensor, present: Tensor | None) -> Tensor:
    """Weights that hold for all times belong to no entry: there the zeros of x and y are enough."""
    if value.shape[2] == call.x.shape[2]:
        return _keep(value, present)
    return _keep(value, None if call.members is None else call.members.unsqueeze(-1))


def _over_state(members: Tensor) -> Tensor:
    return members.reshape(*members.shape, 1, 1, 1)
