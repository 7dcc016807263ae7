"""Coupling through the state: the mean mode beside an ordinary scan.

Under feedback the variables are one linear system with generator I (x) A + (1/C) 11' (x) W. Its
exact hold splits in two: deviations from the mean evolve with A, the mean m itself with A + W. So

    h[c] = m + (g[c] - mean of g)

with g the ordinary scan of every variable. The two means have no variable axis and are read by
every variable alike. What all variables receive makes no deviation: the field drives m alone.

A variable that is alone is its own mean, and its bracket is zero. There it is left out: computed,
it would leave rounding errors in the gradients, large beside those of a mean that decays faster.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from orderless.ops.backward import run_once
from orderless.ops.recurrence import Field, Mean, Recurrence, Solve
from orderless.ops.zero_order_hold import Block, Generator, hold, transition

CHUNK = 16  # times solved together; the work per time grows with it, the number of calls falls


def solve_coupled(r: Recurrence, mean: Mean, solve: Solve) -> tuple[Tensor, Tensor]:
    """Outputs and last state under feedback, by a form that scans every variable on its own."""
    y, last = solve(r._replace(field=None, mean=None))
    own = (r.x, r.step, r.write, r.read, r.initial_state())
    rates = (*mean.generator, *r.generator)
    mean_y, mean_last = _MeanMode.apply(*own, mean.weight, *rates, *(r.field or ()))
    deviates = _deviates(mean.weight)
    y = torch.addcmul(mean_y, deviates, y)
    return y, torch.addcmul(mean_last, deviates.unsqueeze(-1), last)


def _deviates(weight: Tensor) -> Tensor:
    """0 where a variable is alone in the mean and cannot deviate from it, else 1; [B,1,1,1]."""
    return (weight.amax(1) < 1).to(weight)[:, None, None, None]


class _MeanMode(torch.autograd.Function):
    """Saves its inputs alone: a state at every time is cheaper to rebuild than to keep."""

    @staticmethod
    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return _contribution(*inputs)

    @staticmethod
    def backward(ctx, *gradients):
        needed = ctx.needs_input_grad

        def compute(*tensors):
            values, gradients = tensors[: len(needed)], tensors[len(needed) :]
            leaves = [
                value.detach().requires_grad_(wanted)
                for value, wanted in zip(values, needed, strict=True)
            ]
            with torch.enable_grad():
                outputs = _contribution(*leaves)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            found = iter(torch.autograd.grad(outputs, wanted, gradients))
            return tuple(next(found) if wanted else None for wanted in needed)

        return run_once(compute, *ctx.saved_tensors, *gradients)


def _contribution(
    x: Tensor,
    step: Tensor,
    write: Tensor,
    read: Tensor,
    state: Tensor,
    weight: Tensor,
    *rates_and_field: Tensor,
) -> tuple[Tensor, Tensor]:
    of_mean, of_own = Generator(*rates_and_field[:3]), Generator(*rates_and_field[3:6])
    write, read = (value.expand(-1, -1, x.shape[2], -1, -1) for value in (write, read))
    own = both = torch.einsum("bv,bvtkn,bvtd->btknd", weight, write, x)
    if rates_and_field[6:]:
        field = Field(*rates_and_field[6:])
        both = own + field.write.unsqueeze(-1) * field.signal[:, :, None, None]
    start = torch.einsum("bv,bvknd->bknd", weight, state)
    deviates = _deviates(weight).unsqueeze(-1)
    mean = _trajectory(of_mean, step, both, start)
    difference = mean - deviates * _trajectory(of_own, step, own, start)
    y = read.flatten(-2).transpose(1, 2) @ difference.flatten(2, 3)  # [B,T,V,2N] [B,T,2N,D]
    return y.transpose(1, 2), difference[:, -1].unsqueeze(1)


def _trajectory(generator: Generator, step: Tensor, drive: Tensor, state: Tensor) -> Tensor:
    """The states [B,T,2,N,D] of one system per batch row, driven by `drive` [B,T,2,N,D]."""
    batch, time, _, states, channels = drive.shape
    heads = step.shape[-1]
    missing = -time % CHUNK
    step = pad(step.expand(-1, time, -1), (0, 0, 0, missing))
    chunks = (time + missing) // CHUNK

    # Everything below has the layout [B, chunk, N, H, time in chunk, (time or P)].
    step = step.unflatten(1, (chunks, CHUNK))
    since_start = step.cumsum(2)
    phi = _by_state(hold(generator, step))
    within = _by_state_and_pair(transition(generator, _between(step)))
    from_start = _by_state(transition(generator, since_start))

    u = pad(drive, (0, 0, 0, 0, 0, 0, 0, missing))
    u = u.reshape(batch, chunks, CHUNK, 2, states, heads, channels // heads)
    u_h, u_v = u.permute(3, 0, 1, 4, 5, 2, 6)
    w_h, w_v = phi.h * u_h, phi.vh * u_h + phi.v * u_v
    own_h = within.h @ w_h
    own_v = within.v @ w_v + within.vh @ w_h

    h, v = state.unflatten(-1, (heads, -1)).unsqueeze(-2).unbind(1)
    parts = []
    for k in range(chunks):
        e = Block(*(part[:, k] for part in from_start))
        part_h = own_h[:, k] + e.h * h
        part_v = own_v[:, k] + e.v * v + e.vh * h
        h, v = part_h[..., -1:, :], part_v[..., -1:, :]
        parts.append(torch.stack((part_h, part_v), dim=1))
    z = torch.stack(parts, dim=1)  # [B, chunk, 2, N, H, time in chunk, P]
    z = z.permute(0, 1, 5, 2, 3, 4, 6).reshape(batch, chunks * CHUNK, 2, states, channels)
    return z[:, :time]


def _between(step: Tensor) -> Tensor:
    """The time from s to t within a chunk, [..., t, s, H], where s <= t; 0 elsewhere.

    Summed from s + 1 to t, not taken as a difference of running sums, which loses small steps
    that follow large ones.
    """
    size = step.shape[-2]
    later = torch.ones(size, size, dtype=torch.bool, device=step.device).tril(-1)
    return torch.where(later.unsqueeze(-1), step.unsqueeze(-2), 0.0).cumsum(-3)


def _by_state(block: Block) -> Block:
    """[B, chunk, time, H, N] to [B, chunk, N, H, time, 1]."""
    return Block(*(part.permute(0, 1, 4, 3, 2).unsqueeze(-1) for part in block))


def _by_state_and_pair(block: Block) -> Block:
    """[B, chunk, t, s, H, N] to [B, chunk, N, H, t, s], zero where s > t."""
    return Block(*(part.permute(0, 1, 5, 4, 2, 3).tril() for part in block))
