"""The scan as a convolution over time, in blocks: for a step, write and read that do not change.

With constants the response of a variable to its input k ticks ago is one number for every head,

    K[k] = read exp(A step k) held,     held = (integral of exp(A s) over [0, step]) write

so y = K * x. It is the appendix of the paper without its lag: x[t] already drives y[t]. A block of
time is one product with a matrix, the same for all blocks of that many ticks:

    | y[t]  |     | read exp(A step (t+1))   K[t - s]                         | | state |
    | state |  =  | exp(A step ticks)        exp(A step (ticks - 1 - s)) held | | x[s]  |

Not by FFT, which is no faster here and no longer causal in floating point: it rounds all outputs by
the largest input, that of the future included. A NaN still reaches back to the start of its block.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from orderless.ops.backward import matmul
from orderless.ops.feedback import solve_coupled
from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Block, hold, transition

SHORTEST_BLOCK = 16


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    if r.mean is not None:
        return solve_coupled(r, r.mean, solve)
    variables, time, heads = r.x.shape[1], r.x.shape[2], r.step.shape[-1]
    signals, writes = [r.x], [r.write]
    if r.field is not None:
        signals.append(r.field.signal.unsqueeze(1).expand_as(r.x))
        writes.append(r.field.write.unsqueeze(1).expand(-1, variables, -1, -1, -1))
    signals = [signal.unflatten(-1, (heads, -1)).transpose(2, 3) for signal in signals]

    # The work per tick grows with the size of a block, the number of calls falls.
    size = min(time, max(SHORTEST_BLOCK, math.isqrt(time)))
    matrices = {ticks: _matrix(r, writes, ticks) for ticks in {size, time % size or size}}
    state = r.initial_state().flatten(2, 3).unflatten(-1, (heads, -1)).transpose(2, 3)
    outputs = []
    for parts in zip(*(signal.split(size, 3) for signal in signals), strict=True):
        ticks = parts[0].shape[3]
        result = matmul(matrices[ticks], torch.cat((state, *parts), 3))
        y, state = result.tensor_split((ticks,), 3)  # [B,V,H,time,P] and [B,V,H,2N,P]
        outputs.append(y)
    y = torch.cat(outputs, 3).transpose(2, 3).flatten(-2)
    return y, state.transpose(2, 3).flatten(-2).unflatten(2, (2, -1))


def _matrix(r: Recurrence, writes: list[Tensor], ticks: int) -> Tensor:
    """From the state and the signals of a block to its outputs and the state after it."""
    passed = torch.arange(ticks + 1, device=r.x.device, dtype=r.x.dtype)
    decay = _over_variables(transition(r.generator, r.step * passed[:, None]))
    phi = _over_variables(hold(r.generator, r.step))
    read_h, read_v = r.read.unsqueeze(2).unbind(-2)
    reads = torch.cat((read_h * decay.h + read_v * decay.vh, read_v * decay.v), -1)
    since = Block(*(part[..., :-1, :] for part in decay))
    over = Block(*(torch.diag_embed(part[..., -1, :]) for part in decay))
    carry_h = torch.cat((over.h, torch.zeros_like(over.h)), -1)
    carry = torch.cat((carry_h, torch.cat((over.vh, over.v), -1)), -2)

    columns = [(reads[..., 1:, :], carry.expand(-1, r.x.shape[1], -1, -1, -1))]
    for write in writes:
        write_h, write_v = write.unsqueeze(2).unbind(-2)
        held_h, held_v = phi.h * write_h, phi.v * write_v + phi.vh * write_h
        kernel = (reads[..., :-1, :] * torch.cat((held_h, held_v), -1)).sum(-1)
        left = torch.cat((since.h * held_h, since.v * held_v + since.vh * held_h), -1)
        columns.append((_toeplitz(kernel), left.flip(-2).mT))
    return torch.cat([torch.cat(parts, -2) for parts in columns], -1)


def _over_variables(block: Block) -> Block:
    """[B,time,H,N] to [B,1,H,time,N]."""
    return Block(*(part.transpose(1, 2).unsqueeze(1) for part in block))


def _toeplitz(kernel: Tensor) -> Tensor:
    """kernel[..., t - s] at [..., t, s], and 0 where s > t."""
    ticks = kernel.shape[-1]
    return pad(kernel, (ticks - 1, 0)).unfold(-1, ticks, 1).flip(-1)
