"""The bare recurrence, and how every option of `vi_scan` comes down to it.

A form written in plain torch implements `Recurrence` alone. Masks, direction, skip and gate are
given their meaning here, once for all such forms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import silu

from orderless.ops.call import ScanCall
from orderless.ops.pools import keep, presence
from orderless.ops.zero_order_hold import FullGenerator, Generator


class Field(NamedTuple):
    """What all variables receive: a signal [B,T,D], written by [B,T,2,N]."""

    signal: Tensor
    write: Tensor


class Mean(NamedTuple):
    """Feedback: the generator of the mean, and the weight [B,V] of every variable in it."""

    generator: Generator | FullGenerator
    weight: Tensor


class Recurrence(NamedTuple):
    """What remains when masks, direction, skip and gate are dealt with; one dtype throughout.

    x [B,V,T,D]; step [B,T,H]; write, read [B,V,T,2,N]; state [B,V,2,N,D], or None for zeros.
    `step`, `write`, `read` and the field's write may have a time axis of size 1.
    """

    x: Tensor
    step: Tensor
    generator: Generator
    write: Tensor
    read: Tensor
    state: Tensor | None
    field: Field | None
    mean: Mean | None

    def initial_state(self) -> Tensor:
        """The state, or zeros where none was given."""
        if self.state is not None:
            return self.state
        batch, variables, _, channels = self.x.shape
        return self.x.new_zeros(batch, variables, 2, self.write.shape[-1], channels)


Solve = Callable[[Recurrence], tuple[Tensor, Tensor]]


def run_plain(call: ScanCall, solve: Solve) -> tuple[Tensor, Tensor]:
    """Run `call` through a form that knows the bare recurrence only."""
    present = presence(call.members, call.observed)
    x = keep(call.x, present)
    y, state = solve(_recurrence(call, x, present))
    if call.reverse:
        y = y.flip(2)
    if call.skip is not None:
        y = torch.addcmul(y, call.skip.to(y), x.to(y))
    if call.gate is not None:
        y = y * silu(keep(call.gate, present).to(y))
    if present is not None:
        y = torch.where(present.unsqueeze(-1), y, 0.0)
    if call.members is not None:
        before = 0.0 if call.state is None else call.state.to(state)
        state = torch.where(_over_state(call.members), state, before)
    return y.to(call.x.dtype), state


def _recurrence(call: ScanCall, x: Tensor, present: Tensor | None) -> Recurrence:
    dtype = call.state_dtype

    def along_time(value: Tensor, axis: int) -> Tensor:
        value = value.to(dtype)
        return value.flip(axis) if call.reverse else value

    def rates(generator: Any) -> Any:
        return type(generator)(*(rate.to(dtype) for rate in generator))

    field = mean = None
    if call.field is not None and call.field_write is not None:
        field = Field(along_time(call.field, 1), along_time(call.field_write, 1))
    if call.mean_generator is not None:
        mean = Mean(rates(call.mean_generator), _shares(call))
    return Recurrence(
        x=along_time(x, 2),
        step=along_time(call.step, 1),
        generator=rates(call.generator),
        write=along_time(_keep_weights(call, call.write, present), 2),
        read=along_time(_keep_weights(call, call.read, present), 2),
        state=_initial_state(call),
        field=field,
        mean=mean,
    )


def _initial_state(call: ScanCall) -> Tensor | None:
    if call.state is None:
        return None
    state = call.state.to(call.state_dtype)
    # A non-member's state comes back untouched, but must not reach the mean: it may hold NaN.
    return state if call.members is None else torch.where(_over_state(call.members), state, 0.0)


def _shares(call: ScanCall) -> Tensor:
    """The weight of every variable in the mean over the members, [B,V]."""
    if call.members is None:
        batch, variables = call.x.shape[:2]
        return call.x.new_full((batch, variables), 1 / variables, dtype=call.state_dtype)
    members = call.members.to(call.state_dtype)
    return members / members.sum(1, keepdim=True).clamp(min=1.0)


def _keep_weights(call: ScanCall, value: Tensor, present: Tensor | None) -> Tensor:
    """Weights that hold for all times belong to no entry: there the zeros of x and y are enough."""
    if value.shape[2] == call.x.shape[2]:
        return keep(value, present)
    return keep(value, None if call.members is None else call.members.unsqueeze(-1))


def _over_state(members: Tensor) -> Tensor:
    return members.reshape(*members.shape, 1, 1, 1)
