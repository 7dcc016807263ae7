"""The scan and what variables share as operators that autograd, the compiler and CUDA graphs know.

Backward passes get the inputs of the forward pass and nothing else; what they need of it they
compute again. Their own results cannot be differentiated in turn.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from orderless.ops.backward import refuse
from orderless.ops.gpu import scan as passes
from orderless.ops.gpu import shared as common
from orderless.ops.gpu.launch import compile_ahead
from orderless.ops.gpu.plan import STEP_COLUMNS, UNROLL, plan_scan

LIBRARY = torch.library.Library("orderless", "DEF")


def operator(schema: str) -> Callable[[Callable], Any]:
    """The function as an operator with these arguments and results.

    `torch.library.custom_op` would do, but its first call loads PyTorch's compiler: seconds.
    """

    def register(function: Callable) -> Any:
        @wraps(function)
        def run(*arguments):
            # Triton launches on the device that a process has chosen, wherever the tensors lie.
            with torch.cuda.device_of(arguments[0]):
                compile_ahead(function, arguments)
                return function(*arguments)

        LIBRARY.define(function.__name__ + schema)
        LIBRARY.impl(function.__name__, run, "CompositeExplicitAutograd")
        return getattr(torch.ops.orderless, function.__name__).default

    return register


def shapes_of(operator: Any) -> Callable:
    """Register what the compiler asks instead of running an operator."""
    return torch.library.register_fake(operator, lib=LIBRARY)


def with_gradients(operator: Any, backward: Callable, setup_context: Callable) -> None:
    """Register how gradients of an operator are made."""
    torch.library.register_autograd(operator, backward, setup_context=setup_context, lib=LIBRARY)


def _like(first: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """Contiguous ones of the same shapes; empty for what is absent, like the first."""
    return tuple(
        first.new_empty(0)
        if tensor is None
        else torch.empty_like(tensor, memory_format=torch.contiguous_format)
        for tensor in (first, *others)
    )


@operator(
    "(Tensor x, Tensor step, Tensor h, Tensor v, Tensor vh, Tensor write, Tensor read, "
    "Tensor? field, Tensor? field_write, Tensor? shared, Tensor? skip, Tensor? gate, "
    "Tensor? state, Tensor? mask, bool reverse) -> (Tensor, Tensor)"
)
def scan(
    x, step, h, v, vh, write, read, field, field_write, shared, skip, gate, state, mask, reverse
):
    """Outputs [B,V,T,D] and the state of every variable [B,V,2,N,D], in float32.

    What is shared is added to all states: either the response to `field`, or `shared` [B,T,2,N,D],
    given whole. `mask` is [B,V,T] or [B,V,1].
    """
    plan = plan_scan(x, step, write, reverse)
    own = passes.signals(x, write, read, mask)
    driven = None if field is None or field_write is None else (field, field_write)
    rates = (h, v, vh)
    return passes.forward(plan, own, step, rates, driven, shared, skip, gate, state)


@shapes_of(scan)
def _(x, step, h, v, vh, write, read, field, field_write, shared, skip, gate, state, mask, reverse):
    batch, variables, _, channels = x.shape
    end = x.new_empty(batch, variables, 2, write.shape[-1], channels, dtype=torch.float32)
    return *_like(x), end


@operator(
    "(Tensor d_y, Tensor? d_end, Tensor x, Tensor step, Tensor h, Tensor v, Tensor vh, "
    "Tensor write, Tensor read, Tensor? shared, Tensor? skip, Tensor? state, Tensor? mask, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def scan_backward(d_y, d_end, x, step, h, v, vh, write, read, shared, skip, state, mask, reverse):
    """Gradients of x, step, rates [3,H,N], write, read, shared, skip and state, for no gate.

    Those of absent arguments are empty.
    """
    plan = plan_scan(x, step, write, reverse)
    own = passes.signals(x, write, read, mask)
    rates = (h, v, vh)
    return passes.backward(plan, own, d_y, d_end, step, rates, shared, skip, state)


@shapes_of(scan_backward)
def _(d_y, d_end, x, step, h, v, vh, write, read, shared, skip, state, mask, reverse):
    d_x, d_step, *rest = _like(x, step, write, read, shared, skip, state)
    return d_x, d_step, h.new_empty(3, *h.shape), *rest


def _save_scan(ctx, inputs, output) -> None:
    *tensors, ctx.reverse = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _scan_gradients(ctx, d_y, d_end):
    if d_y is None:
        d_y = torch.zeros_like(ctx.saved_tensors[0])
    arguments = (d_y, d_end, *ctx.saved_tensors, ctx.reverse)
    compile_ahead(_gradients_of_scan, arguments)  # of several operators, all at once
    return _gradients_of_scan(*arguments)


def _gradients_of_scan(d_y, d_end, *given):
    *own, field, field_write, shared, skip, gate, state, mask, reverse = given
    _, step, h, v, vh, *_ = own
    d_gate = d_field = d_field_write = table = None
    if gate is not None:
        before, _ = scan(*own, field, field_write, shared, skip, None, state, mask, reverse)
        d_y, d_gate = _gate_gradients(d_y, before, gate, mask)
    if field is not None:
        shared, table = field_response(field, field_write, step, h, v, vh, reverse)
    d_x, d_step, d_rates, d_write, d_read, d_shared, d_skip, d_state = scan_backward(
        d_y, d_end, *own, shared, skip, state, mask, reverse
    )
    if shared is not None and d_end is not None:
        d_shared = d_shared.clone()
        d_shared[:, 0 if reverse else -1] += d_end.sum(1)
    if field is not None:
        d_field, d_field_write, d_step, d_rates = field_response_backward(
            d_shared, shared, table, field, field_write, step, h, v, vh, d_step, d_rates, reverse
        )
    return (
        d_x,
        d_step,
        *d_rates.unbind(0),
        d_write,
        d_read,
        d_field,
        d_field_write,
        None if shared is None or field is not None else d_shared,
        None if skip is None else d_skip,
        d_gate,
        None if state is None else d_state,
        None,
        None,
    )


def _gate_gradients(
    d_y: Tensor, before: Tensor, gate: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of what the gate multiplies, and of the gate."""
    opening = gate.float()
    if mask is not None:
        opening = torch.where(mask.unsqueeze(-1), opening, 0.0)
    share = torch.sigmoid(opening)
    d_before = d_y * (opening * share)
    d_gate = d_y * before * (share * (1 + opening * (1 - share)))
    if mask is not None:
        d_before = torch.where(mask.unsqueeze(-1), d_before, 0.0)
        d_gate = torch.where(mask.unsqueeze(-1), d_gate, 0.0)
    return d_before.to(before.dtype), d_gate.to(gate.dtype)


@operator("(Tensor write, Tensor x, Tensor share, Tensor? mask) -> Tensor")
def pool_states(write, x, share, mask):
    """The mean input of the states, [B,T,2,N,D] in float32: share [B] times sum of write x."""
    return common.pooled_states(write, x, share, mask)


@shapes_of(pool_states)
def _(write, x, share, mask):
    batch, _, time, channels = x.shape
    return x.new_empty(batch, time, 2, write.shape[-1], channels, dtype=torch.float32)


@operator("(Tensor d_z, Tensor write, Tensor x, Tensor share, Tensor? mask) -> (Tensor, Tensor)")
def pool_states_backward(d_z, write, x, share, mask):
    """Gradients of write and x."""
    return common.pooled_states_back(d_z, write, x, share, mask)


@shapes_of(pool_states_backward)
def _(d_z, write, x, share, mask):
    return _like(write, x)


def _save_pool(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _pool_gradients(ctx, d_z):
    return *pool_states_backward(d_z, *ctx.saved_tensors), None, None


@operator(
    "(Tensor field, Tensor field_write, Tensor step, Tensor h, Tensor v, Tensor vh, "
    "bool reverse) -> (Tensor, Tensor)"
)
def field_response(field, field_write, step, h, v, vh, reverse):
    """What a field makes of every state, [B,T,2,N,D] in float32, and the table of its steps."""
    return common.response(field, field_write, step, (h, v, vh), reverse)


@shapes_of(field_response)
def _(field, field_write, step, h, v, vh, reverse):
    batch, time, channels = field.shape
    states = field_write.shape[-1]
    rows = (time + UNROLL - 1) // UNROLL * UNROLL
    lines = batch * step.shape[-1] * states
    return (
        step.new_empty(batch, time, 2, states, channels),
        step.new_empty(lines, rows, STEP_COLUMNS),
    )


@operator(
    "(Tensor d_z, Tensor z, Tensor table, Tensor field, Tensor field_write, Tensor step, "
    "Tensor h, Tensor v, Tensor vh, Tensor d_step, Tensor d_rates, bool reverse) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
def field_response_backward(
    d_z, z, table, field, field_write, step, h, v, vh, d_step, d_rates, reverse
):
    """Gradients of field, field_write, step and rates [3,H,N]; the last two are added to."""
    rates = (h, v, vh)
    found = common.response_back(
        d_z, z, table, field, field_write, step, rates, d_step, d_rates, reverse
    )
    return found.field, found.field_write, found.step, found.rates


@shapes_of(field_response_backward)
def _(d_z, z, table, field, field_write, step, h, v, vh, d_step, d_rates, reverse):
    return _like(field, field_write, d_step, d_rates)


@operator(
    "(Tensor own, Tensor? field, Tensor? field_write, Tensor step, Tensor mh, Tensor mv, "
    "Tensor mvh, Tensor h, Tensor v, Tensor vh, Tensor? start, Tensor? deviates, bool reverse) "
    "-> Tensor"
)
def mean_mode(own, field, field_write, step, mh, mv, mvh, h, v, vh, start, deviates, reverse):
    """Under feedback, what is the same in all states, [B,T,2,N,D]; see `ops/feedback.py`.

    own: the mean input of the states, like the result. deviates [B]: 1 where there are variables
    that can differ from their mean, 0 where not; if absent, there are.
    """
    given = common.drive(own, field, field_write)
    mean_rates, rates = (mh, mv, mvh), (h, v, vh)
    return common.mean_states(given, step, mean_rates, rates, start, deviates, reverse)


@shapes_of(mean_mode)
def _(own, field, field_write, step, mh, mv, mvh, h, v, vh, start, deviates, reverse):
    return torch.empty_like(own, memory_format=torch.contiguous_format)


@operator(
    "(Tensor d_z, Tensor own, Tensor? field, Tensor? field_write, Tensor step, Tensor mh, "
    "Tensor mv, Tensor mvh, Tensor h, Tensor v, Tensor vh, Tensor? start, Tensor? deviates, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def mean_mode_backward(
    d_z, own, field, field_write, step, mh, mv, mvh, h, v, vh, start, deviates, reverse
):
    """Gradients of own, field, field_write, step, the rates of the mean and of own, and start.

    Those of an absent field are empty.
    """
    given = common.drive(own, field, field_write)
    mean_rates, rates = (mh, mv, mvh), (h, v, vh)
    mean, alone = common.mean_states_back(
        d_z, given, step, mean_rates, rates, start, deviates, reverse
    )
    return (
        alone.states + mean.states,
        mean.field,
        mean.field_write,
        alone.step,
        mean.rates,
        alone.rates,
        alone.start + mean.start,
    )


@shapes_of(mean_mode_backward)
def _(d_z, own, field, field_write, step, mh, mv, mvh, h, v, vh, start, deviates, reverse):
    batch, _, _, states, channels = own.shape
    rates = (h.new_empty(3, *h.shape) for _ in range(2))
    return (
        *_like(own, field, field_write, step), *rates, own.new_empty(batch, 2, states, channels),
    )  # fmt: skip


def _save_mean(ctx, inputs, output) -> None:
    *tensors, ctx.reverse = inputs
    ctx.save_for_backward(*tensors)


def _mean_gradients(ctx, d_z):
    d_own, d_field, d_write, d_step, d_mean_rates, d_rates, d_start = mean_mode_backward(
        d_z, *ctx.saved_tensors, ctx.reverse
    )
    _, field, *_, start, _ = ctx.saved_tensors
    return (
        d_own,
        None if field is None else d_field,
        None if field is None else d_write,
        d_step,
        *d_mean_rates.unbind(0),
        *d_rates.unbind(0),
        None if start is None else d_start,
        None,
        None,
    )


with_gradients(scan, _scan_gradients, _save_scan)
with_gradients(pool_states, _pool_gradients, _save_pool)
with_gradients(mean_mode, _mean_gradients, _save_mean)
# Else PyTorch would warn, and leave second derivatives out.
for _once in (
    scan_backward, pool_states_backward, field_response, field_response_backward,
    mean_mode_backward,
):  # fmt: skip
    torch.library.register_autograd(_once, refuse, lib=LIBRARY)
