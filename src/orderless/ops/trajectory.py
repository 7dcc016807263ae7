"""What all variables share: states without a variable axis, at every time.

The pooled field drives every variable alike, and under feedback the mean of the variables moves
by a generator of its own. By linearity the state of a variable is then

    h[c] = g[c] + z        g: driven by its own input alone;  z: the same for every variable
    z = (mean mode) - (mean of g) under feedback,  z = (response to the field) otherwise

so the forms that treat variables apart compute g, and add what z contributes.
"""

import torch
from torch import Tensor

from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Block, Generator, hold, transition

CHUNK = 16  # times solved together; the work per time grows with it, the number of calls falls


def shared_part(r: Recurrence) -> tuple[Tensor, Tensor]:
    """What z adds to the outputs [B,V,T,D] and to the last state [B,1,2,N,D]."""
    z = _shared_trajectory(r)
    read = r.read.expand(-1, -1, r.x.shape[2], -1, -1)
    y = read.flatten(-2).transpose(1, 2) @ z.flatten(2, 3)  # [B,T,V,2N] [B,T,2N,D]
    return y.transpose(1, 2), z[:, -1].unsqueeze(1)


def _shared_trajectory(r: Recurrence) -> Tensor:
    """z at every time, [B,T,2,N,D]."""
    batch, _, time, channels = r.x.shape
    states = r.generator.h.shape[-1]
    from_field = None
    if r.field is not None:
        from_field = r.field_write.unsqueeze(-1) * r.field[:, :, None, None]
    if r.mean_generator is None:
        zero = r.x.new_zeros(batch, 2, states, channels)
        return trajectory(r.generator, r.step, from_field, zero)
    write = r.write.expand(-1, -1, time, -1, -1)
    from_own = torch.einsum("bv,bvtkn,bvtd->btknd", r.weight, write, r.x)
    start = torch.einsum("bv,bvknd->bknd", r.weight, r.state)
    from_all = from_own if from_field is None else from_own + from_field
    return trajectory(r.mean_generator, r.step, from_all, start) - trajectory(
        r.generator, r.step, from_own, start
    )


def trajectory(generator: Generator, step: Tensor, drive: Tensor, state: Tensor) -> Tensor:
    """The states [B,T,2,N,D] of one system per batch row, driven by `drive` [B,T,2,N,D]."""
    batch, time, _, states, channels = drive.shape
    heads = step.shape[-1]
    pad = -time % CHUNK
    step = torch.nn.functional.pad(step.expand(-1, time, -1), (0, 0, 0, pad))
    chunks = (time + pad) // CHUNK

    # Everything below has the layout [B, chunk, N, H, time in chunk, (time or P)].
    step = step.unflatten(1, (chunks, CHUNK))
    since_start = step.cumsum(2)
    phi = _by_state(hold(generator, step))
    within = _by_state_and_pair(transition(generator, _between(step)))
    from_start = _by_state(transition(generator, since_start))

    u = torch.nn.functional.pad(drive, (0, 0, 0, 0, 0, 0, 0, pad))
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
