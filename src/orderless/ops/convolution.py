"""The scan as a convolution over time, by FFT: for a step, write and read that do not change.

With constants the response of a variable to its input k ticks ago is one number for every head,

    K[k] = read exp(A step k) (integral of exp(A s) over [0, step]) write

so y = K * x. It is the appendix of the paper without its lag: x[t] already drives y[t].
"""

import torch
from torch import Tensor

from orderless.ops.recurrence import Recurrence
from orderless.ops.trajectory import shared_part
from orderless.ops.zero_order_hold import Block, hold, transition


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    time, heads = r.x.shape[2], r.step.shape[-1]
    ticks = torch.arange(time + 1, device=r.x.device, dtype=r.x.dtype)
    decay = transition(r.generator, r.step * ticks[:, None])  # [B, T+1, H, N]
    write = _written(hold(r.generator, r.step), r.write)  # (h, v), each [B,V,H,N]
    read = r.read.squeeze(2).unbind(2)
    x = r.x.unflatten(-1, (heads, -1))

    kernel = torch.einsum("bvn,bthn,bvhn->bvth", read[0], decay.h[:, :-1], write[0])
    kernel = kernel + torch.einsum("bvn,bthn,bvhn->bvth", read[1], decay.vh[:, :-1], write[0])
    kernel = kernel + torch.einsum("bvn,bthn,bvhn->bvth", read[1], decay.v[:, :-1], write[1])
    y = _convolve(kernel, x)
    state_h, state_v = r.state.unflatten(-1, (heads, -1)).unbind(2)
    ahead = Block(*(part[:, 1:] for part in decay))  # one tick has passed at the first entry
    y = y + torch.einsum("bvn,bthn,bvnhp->bvthp", read[0], ahead.h, state_h)
    y = y + torch.einsum("bvn,bthn,bvnhp->bvthp", read[1], ahead.vh, state_h)
    y = y + torch.einsum("bvn,bthn,bvnhp->bvthp", read[1], ahead.v, state_v)

    left = Block(*(part[:, :-1].flip(1) for part in decay))  # ticks from an entry to the last one
    over = Block(*(part[:, -1] for part in decay))
    last_h = torch.einsum("bhn,bvnhp->bvnhp", over.h, state_h)
    last_h = last_h + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.h, write[0], x)
    last_v = torch.einsum("bhn,bvnhp->bvnhp", over.v, state_v)
    last_v = last_v + torch.einsum("bhn,bvnhp->bvnhp", over.vh, state_h)
    last_v = last_v + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.v, write[1], x)
    last_v = last_v + torch.einsum("bthn,bvhn,bvthp->bvnhp", left.vh, write[0], x)
    y, state = y.flatten(-2), torch.stack((last_h, last_v), dim=2).flatten(-2)

    if r.field is None and r.mean_generator is None:
        return y, state
    shared_y, shared_state = shared_part(r)
    return y + shared_y, state + shared_state


def _written(phi: Block, write: Tensor) -> tuple[Tensor, Tensor]:
    write_h, write_v = write.transpose(2, 3).unbind(2)  # each [B,V,1,N], against phi [B,1,H,N]
    return phi.h * write_h, phi.v * write_v + phi.vh * write_h


def _convolve(kernel: Tensor, x: Tensor) -> Tensor:
    """Causal convolution along axis 2 of a kernel [B,V,T,H] with x [B,V,T,H,P]."""
    time = x.shape[2]
    size = 2 * time  # padding keeps the circular product from wrapping round
    spectrum = torch.fft.rfft(kernel, size, dim=2).unsqueeze(-1) * torch.fft.rfft(x, size, dim=2)
    return torch.fft.irfft(spectrum, size, dim=2)[:, :, :time]
