"""`vi_scan`: the variable-invariant 2D state-space scan, and `vi_step`, one tick of it.

One function, several exact forms; every form is held to `reference.py`, the specification.
Legend to the paper: step = Δ, generator = 𝒜, write = B, read = C, field = ψ, skip = D.
"""

import torch
from torch import Tensor

from orderless.ops import chunked, convolution, gpu, reference
from orderless.ops.call import FULL_MEAN, CallFacts, ScanCall, check
from orderless.ops.forms import Form, Operator
from orderless.ops.recurrence import Solve, run_plain
from orderless.ops.zero_order_hold import FullGenerator, Generator


def vi_scan(
    x: Tensor,
    step: Tensor,
    generator: Generator,
    write: Tensor,
    read: Tensor,
    *,
    field: Tensor | None = None,
    field_write: Tensor | None = None,
    mean_generator: Generator | FullGenerator | None = None,
    skip: Tensor | None = None,
    gate: Tensor | None = None,
    state: Tensor | None = None,
    members: Tensor | None = None,
    observed: Tensor | None = None,
    reverse: bool = False,
    form: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Run one linear system over time for every variable, coupled through what all of them share.

        h[t,c] = exp(A step[t]) h[t-1,c] + (integral of exp(A s) over [0, step[t]]) u[t,c]
        u[t,c] = write[t,c] x[t,c] + field_write[t] field[t]
        y[t,c] = (read[t,c] h[t,c] + skip x[t,c]) * silu(gate[t,c])

    with h = (h_h, h_v) and A = [[h, 0], [vh, v]] for each head and state. All of A and the step
    are shared by the variables, so reordering the variables of the other arguments reorders the
    output and the state, and changes nothing else.

    **Main arguments**
    - x: [batch, variable, time, channel]. Heads divide the channels evenly.
    - step: [batch, time, head], not negative: how far time moves at each tick.
    - generator: the rates of A, each [head, state]; `h` and `v` negative.
    - write, read: [batch, variable, time, 2, state], for h_h and h_v, shared by the heads.
    - field, field_write: [batch, time, channel] and [batch, time, 2, state]: what all variables
      receive, pooled from features known before the scan (`pools.py`).
    - mean_generator: couples through the state instead: deviations from the mean of the variables
      evolve with `generator`, the mean itself with `mean_generator`. As a `FullGenerator` it lets
      the mean of h_v drive h_h too, in the form `reference` alone.

    **Other arguments**
    - skip: [channel], the direct term. gate: shaped like x.
    - state: [batch, variable, 2, state, channel], the state before the first entry; zero if absent.
    - members: [batch, variable]. A non-member is in no pool, outputs 0, keeps its state.
    - observed: [batch, variable, time]. An unobserved entry may hold anything, NaN included: it
      writes nothing and outputs 0, while the state of its variable goes on.
    - reverse: run from the last entry to the first; `state` then lies after the last entry.
    - form: which implementation runs; by default the first that can (`orderless doctor` tells).

    `step`, `write`, `read` and `field_write` may have a time axis of size 1, for all times.

    Returns `(y, state)`, always both: y like x, and the state after the last entry visited, in
    float32 at least. Passing that state to a call on what follows continues the series: two short
    calls equal one long call.

    Gradients can be taken once; twice in the form `reference`, by all but the step and the rates.
    """
    call = ScanCall(
        x=x,
        step=step,
        generator=generator,
        write=write,
        read=read,
        field=field,
        field_write=field_write,
        mean_generator=mean_generator,
        skip=skip,
        gate=gate,
        state=state,
        members=members,
        observed=observed,
        reverse=reverse,
    )
    check(call)
    # States are float32 at least; autocast would compute some products of them in less.
    with torch.autocast(x.device.type, enabled=False):
        return VI_SCAN.choose(call.facts(), form).run(call)


def vi_step(
    x: Tensor,
    step: Tensor,
    generator: Generator,
    write: Tensor,
    read: Tensor,
    *,
    field: Tensor | None = None,
    field_write: Tensor | None = None,
    gate: Tensor | None = None,
    observed: Tensor | None = None,
    **rest: object,
) -> tuple[Tensor, Tensor]:
    """One tick of `vi_scan`: its arguments without their time axis, and the carried `state`."""

    def at_one_time(value: Tensor | None, axis: int) -> Tensor | None:
        return None if value is None else value.unsqueeze(axis)

    y, state = vi_scan(
        x.unsqueeze(2),
        step.unsqueeze(1),
        generator,
        write.unsqueeze(2),
        read.unsqueeze(2),
        field=at_one_time(field, 1),
        field_write=at_one_time(field_write, 1),
        gate=at_one_time(gate, 2),
        observed=at_one_time(observed, 2),
        form="step",
        **rest,  # pyrefly: ignore
    )
    return y.squeeze(2), state


def _plain_form(name: str, solve: Solve, refusal) -> Form:
    return Form(name, lambda call: run_plain(call, solve), refusal)


def _not_one_tick(facts: CallFacts) -> str | None:
    return None if facts.time == 1 else f"it takes one time step, and x has {facts.time}"


def _no_convolution(facts: CallFacts) -> str | None:
    if facts.constant_in_time:
        return _full_mean(facts)
    return "a convolution needs step, write, read and field_write with a time axis of size 1"


def _full_mean(facts: CallFacts) -> str | None:
    return FULL_MEAN if facts.full_mean else None


def _never(_: CallFacts) -> None:
    return None


VI_SCAN = Operator(
    "vi_scan",
    (
        Form("triton", gpu.run, gpu.refusal),
        _plain_form("step", reference.solve, _not_one_tick),
        _plain_form("convolution", convolution.solve, _no_convolution),
        _plain_form("chunked", chunked.solve, _full_mean),
        _plain_form("reference", reference.solve, _never),
    ),
)
