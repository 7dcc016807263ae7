"""The scan as a convolution over time, by FFT: for a step, write and read that do not change.

With constants the response of a variable to its input k ticks ago is one number for every head,

    K[k] = read exp(A step k) (integral of exp(A s) over [0, step]) write

so y = K * x. It is the appendix of the paper without its lag: x[t] already drives y[t].
"""

import torch
from torch import Tensor

from orderless.ops.feedback import solve_coupled
from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Block, hold, transition


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    if r.mean is not None:
        return solve_coupled(r, r.mean, solve)
    time, heads = r.x.shape[2], r.step.shape[-1]
    ticks = torch.arange(time + 1, device=r.x.device, dtype=r.x.dtype)
    decay = transition(r.generator, r.step * ticks[:, None])  # [B, T+1, H, N]
    phi = hold(r.generator, r.step)
    read = r.read.squeeze(2).unbind(2)

    # One tick has passed when the first entry is read.
    h, v = r.initial_state().unflatten(-1, (heads, -1)).unbind(2)
    ahead = Block(*(part[:, 1:] for part in decay))
    y = torch.einsum("bvn,bthn,bvnhp->bvthp", read[0], ahead.h, h)
    y = y + torch.einsum("bvn,bthn,bvnhp->bvthp", read[1], ahead.vh, h)
    y = y + torch.einsum("bvn,bthn,bvnhp->bvthp", read[1], ahead.v, v)
    over = Block(*(part[:, -1].transpose(1, 2)[:, None, :, :, None] for part in decay))
    last_h, last_v = over.h * h, over.v * v + over.vh * h

    sources = [(r.x, r.write)]
    if r.field is not None:
        sources.append((r.field.signal.unsqueeze(1), r.field.write.unsqueeze(1)))
    since = Block(*(part[:, :-1] for part in decay))  # 0, 1, ... ticks since an entry was written
    left = Block(*(part.flip(1) for part in since))  # ticks from an entry to the last one
    for signal, write in sources:
        signal = signal.unflatten(-1, (heads, -1))
        held_h, held_v = _held(phi, write)
        kernel = torch.einsum("bvn,bthn,bvhn->bvth", read[0], since.h, held_h)
        kernel = kernel + torch.einsum("bvn,bthn,bvhn->bvth", read[1], since.vh, held_h)
        kernel = kernel + torch.einsum("bvn,bthn,bvhn->bvth", read[1], since.v, held_v)
        y = y + _convolve(kernel, signal)
        last_h = last_h + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.h, held_h, signal)
        last_v = last_v + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.v, held_v, signal)
        last_v = last_v + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.vh, held_h, signal)
    return y.flatten(-2), torch.stack((last_h, last_v), dim=2).flatten(-2)


def _held(phi: Block, write: Tensor) -> tuple[Tensor, Tensor]:
    """The write held over its step, for h and v, each [B, V or 1, H, N]."""
    write_h, write_v = write.transpose(2, 3).unbind(2)  # each [B,V,1,N], against phi [B,1,H,N]
    return phi.h * write_h, phi.v * write_v + phi.vh * write_h


def _convolve(kernel: Tensor, x: Tensor) -> Tensor:
    """Causal convolution along axis 2 of a kernel [B,V,T,H] with x [B, V or 1, T,H,P]."""
    time = x.shape[2]
    size = 2 * time  # padding keeps the circular product from wrapping round
    spectrum = torch.fft.rfft(kernel, size, dim=2).unsqueeze(-1) * torch.fft.rfft(x, size, dim=2)
    return torch.fft.irfft(spectrum, size, dim=2)[:, :, :time]
