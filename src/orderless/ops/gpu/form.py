"""The `triton` form of `vi_scan`: one call put together from the operators."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, silu

from orderless.ops.call import ScanCall
from orderless.ops.gpu.autograd import mean_mode, pool_states, scan
from orderless.ops.gpu.plan import MOST_STATES
from orderless.ops.zero_order_hold import Generator


def run(call: ScanCall) -> tuple[Tensor, Tensor]:
    """Outputs like x, and the state after the last entry visited, in float32."""
    states = call.write.shape[-1]
    if states <= MOST_STATES:
        return _run(call)
    # States do not know of each other: so many go in parts, of which outputs are added.
    results = [_run(part) for part in _parts(call)]
    y = results[0][0]
    if len(results) > 2 or call.gate is not None:
        y = y.float()  # what is left to do is rounded once
    for more, _ in results[1:]:
        y = y + more
    if call.gate is not None:
        opening, mask = call.gate.float(), _mask(call)
        if mask is not None:
            opening = torch.where(mask.unsqueeze(-1), opening, 0.0)
        y = y * silu(opening)
    return y.to(call.x.dtype), torch.cat([end for _, end in results], -2)


def _parts(call: ScanCall) -> list[ScanCall]:
    """Calls with some of the states each; with the first goes the skip, with none the gate."""
    # All are split off at once, so that their gradients are put together at once.
    pieces = _over_states(call, lambda value, axis, _: value.split(MOST_STATES, axis))
    parts = [
        _over_states(pieces, lambda values, *_, i=i: values[i])
        for i in range(-(-call.write.shape[-1] // MOST_STATES))
    ]
    return [replace(part, skip=None if i else call.skip, gate=None) for i, part in enumerate(parts)]


def _run(call: ScanCall) -> tuple[Tensor, Tensor]:
    states, given = call.write.shape[-1], call.state
    more = (8 if states <= 8 else MOST_STATES) - states  # kernels are for 8 and for 16
    if more:
        call = _over_states(call, partial(_with_more, more))
    x = call.x
    time = x.shape[2]
    mask = _mask(call)
    # Kernels expect what has no variables to lie together; the rest can be a view.
    step = call.step.float().contiguous().expand(-1, time, -1)
    rates = _rates(call)
    write = call.write.to(x.dtype).expand(-1, -1, time, -1, -1)
    read = call.read.to(x.dtype).expand(-1, -1, time, -1, -1)
    skip = None if call.skip is None else call.skip.float().contiguous()
    gate = None if call.gate is None else call.gate.to(x.dtype)
    state = None if call.state is None else call.state.float()
    if state is not None and call.members is not None:
        state = torch.where(_over_state(call.members), state, 0.0)
    field = field_write = shared = None
    if call.field is not None and call.field_write is not None:
        field = call.field
        field_write = call.field_write.contiguous().expand(-1, time, -1, -1)
    if call.mean_generator is not None and x.shape[1] > 1:
        shared = _mean_mode(call, step, rates, write, state, mask, field, field_write)
        field = field_write = None
        if call.members is not None:
            write = torch.where(_deviate(call.members), write, 0.0)
            state = None if state is None else torch.where(_deviate(call.members), state, 0.0)
    y, end = scan(
        x, step, *rates, write, read, field, field_write, shared, skip, gate, state, mask,
        call.reverse,
    )  # fmt: skip
    if end.shape[-2] > states:
        end = end[..., :states, :]
    if call.members is not None:
        kept = 0.0 if given is None else given.float()
        end = torch.where(_over_state(call.members), end, kept)
    return y, end


def _with_more(more: int, value: Tensor, axis: int, rate: float) -> Tensor:
    """With more states, which nothing writes to and nothing reads."""
    return pad(value, (0, 0) * (-1 - axis) + (0, more), value=rate)


def _over_states(call: ScanCall, change: Callable[[Any, int, float], Any]) -> ScanCall:
    """The call with all that has states changed: a tensor, its axis of states, what may fill it."""

    def rates(generator):
        h, v, vh = generator
        return Generator(change(h, -1, -1.0), change(v, -1, -1.0), change(vh, -1, 0.0))

    return replace(
        call,
        generator=rates(call.generator),
        mean_generator=None if call.mean_generator is None else rates(call.mean_generator),
        write=change(call.write, -1, 0.0),
        read=change(call.read, -1, 0.0),
        field_write=None if call.field_write is None else change(call.field_write, -1, 0.0),
        state=None if call.state is None else change(call.state, -2, 0.0),
    )


def _rates(call: ScanCall) -> list[Tensor]:
    """Of every variable on its own; a variable that is alone is the mean."""
    rates = [rate.float() for rate in call.generator]
    if call.mean_generator is not None and call.x.shape[1] == 1:
        # Nothing depends on its own rates: their gradients are zero, but there are some.
        rates = [
            mean.float() + 0 * own for mean, own in zip(call.mean_generator, rates, strict=True)
        ]
    return [rate.contiguous() for rate in rates]


def _mean_mode(
    call: ScanCall,
    step: Tensor,
    rates: list[Tensor],
    write: Tensor,
    state: Tensor | None,
    mask: Tensor | None,
    field: Tensor | None,
    field_write: Tensor | None,
) -> Tensor:
    """Under feedback, what is the same in all states, [B,T,2,N,D]; see `ops/feedback.py`."""
    share = step.new_full((len(step),), 1 / call.x.shape[1])
    if call.members is not None:
        share = 1 / call.members.sum(1).clamp(min=1).float()
    own = pool_states(write, call.x, share, mask)
    start = None if state is None else state.sum(1) * share.view(-1, 1, 1, 1)
    deviates = None
    if call.members is not None:
        deviates = _deviate(call.members).flatten().float()
    assert call.mean_generator is not None
    mean_rates = [rate.float().contiguous() for rate in call.mean_generator]
    return mean_mode(
        own, field, field_write, step, *mean_rates, *rates, start, deviates, call.reverse
    )


def _deviate(members: Tensor) -> Tensor:
    """Whether there are variables that can deviate from their mean, [B,1,1,1,1]."""
    return _over_state(members.sum(1, keepdim=True) != 1)


def _mask(call: ScanCall) -> Tensor | None:
    """True where a member was observed, [B,V,T] or [B,V,1]; None when nothing is masked."""
    if call.members is None:
        return call.observed
    members = call.members.unsqueeze(-1)
    return members if call.observed is None else members & call.observed


def _over_state(members: Tensor) -> Tensor:
    return members.reshape(*members.shape, 1, 1, 1)
