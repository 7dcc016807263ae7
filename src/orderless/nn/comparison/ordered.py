"""`OrderedSSM2D`: the conventional 2D recurrence, which walks along the variables in their order.

    h_h[t,c] = exp(a_h step[t]) h_h[t-1,c] + held write_h[t,c] x[t,c]     along time
    h_v[t,c] = exp(a_v step[t]) h_v[t,c-1] + held write_v[t,c] x[t,c]     along the variables
    y[t,c]   = read_h[t,c] h_h[t,c] + read_v[t,c] h_v[t,c] + skip x[t,c]

(Eq. 4-6 of the paper.) Reordering the variables changes its output by more than their order, and
it takes one step after another for every variable.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

from orderless.nn.ssm import VI2DSSM
from orderless.ops import Generator, keep, mean_pool, presence, vi_scan
from orderless.ops.zero_order_hold import integral


class OrderedSSM2D(nn.Module):
    """The ordered 2D state space layer, with the input-dependent parameters of `VI2DSSM`.

    The part along time is the fast scan. The part along the variables is a loop over them, parallel
    over everything else; since no part feeds the other, all times of a variable are ready at once
    and a wavefront would only add steps. (Being linear, the chain could also be cut into chunks by
    the scan with its axes swapped. On a CPU that took 1.3 to 2.2 times as long as the loop, for 16
    to 256 variables, since every time needs coefficients of its own.)

    Called like `VI2DSSM`, and returns `(output, state)`; the state is that along time, to be passed
    to the next call and not to be looked into. A non-member is left out of the chain; an unobserved
    entry writes nothing to it.
    """

    def __init__(
        self,
        channels: int,
        *,
        states: int = 16,
        heads: int | None = None,
        step_range: tuple[float, float] = (0.01, 0.1),
    ) -> None:
        super().__init__()
        like = VI2DSSM(channels, states=states, heads=heads, step_range=step_range, coupling="none")
        self.heads = like.heads
        self.write_and_read = like.write_and_read
        self.step, self.skip, self.log_rates = like.step, like.skip, like.log_rates

    def forward(
        self,
        x: Tensor,
        *,
        state: Tensor | None = None,
        members: Tensor | None = None,
        observed: Tensor | None = None,
        gate: Tensor | None = None,
        reverse: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """`(output, state)`: output like x, and the state along time after the last entry."""
        mask = presence(members, observed)
        x = keep(x, mask)
        step = softplus(self.step(mean_pool(x, members=members, observed=observed))).to(x.dtype)
        write, read = self.write_and_read(x)
        write = keep(write, mask)
        rates = -torch.exp(self.log_rates)
        along_time, state = vi_scan(
            x,
            step,
            _halved(rates[0]),
            _as_pair(write[..., 0, :]),
            _as_pair(read[..., 0, :]),
            skip=self.skip,
            state=state,
            members=members,
            observed=observed,
            reverse=reverse,
        )
        y = along_time + self._along_variables(
            x, step, rates[1], write[..., 1, :], read[..., 1, :], members
        )
        if gate is not None:
            y = y * silu(keep(gate, mask))
        return keep(y, mask), state

    def _along_variables(
        self,
        x: Tensor,
        step: Tensor,
        rates: Tensor,
        write: Tensor,
        read: Tensor,
        members: Tensor | None,
    ) -> Tensor:
        """What the chain contributes to every entry, [B,V,T,D]."""
        span, rate = step[..., None, None], rates.unsqueeze(-1)
        decay, held = torch.exp(rate * span), integral(rate, span)  # [B,T,H,N,1]
        signal = x.unflatten(-1, (self.heads, 1, -1))  # [B,V,T,H,1,P]
        h = torch.zeros_like(held * signal[:, 0])
        outputs = []
        # Unbound once: the gradient of one variable's part would else be as large as all.
        of_variables = zip(signal.unbind(1), write.unbind(1), read.unbind(1), strict=True)
        for c, (own, writes, reads) in enumerate(of_variables):
            written = held * writes[:, :, None, :, None]
            following = torch.addcmul(written * own, decay, h)
            if members is not None:
                following = torch.where(members[:, c, None, None, None, None], following, h)
            h = following
            outputs.append((reads[:, :, None, None] @ h).squeeze(-2))
        return torch.stack(outputs, dim=1).flatten(-2)


def _halved(rates: Tensor) -> Generator:
    """N uncoupled rates [head, state] as N/2 pairs, so that the paired scan does no idle work."""
    h, v = pad(rates, (0, rates.shape[-1] % 2), value=-1.0).chunk(2, dim=-1)
    return Generator(h=h, v=v, vh=torch.zeros_like(h))


def _as_pair(weights: Tensor) -> Tensor:
    """[B,V,T,N] as [B,V,T,2,N/2], in the order of `_halved`."""
    return pad(weights, (0, weights.shape[-1] % 2)).unflatten(-1, (2, -1))
