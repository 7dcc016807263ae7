"""`VI2DSSM`: the variable-invariant 2D state space layer, parameters around `ops.vi_scan`.

In and out: [batch, variable, time, channel]. Every weight is shared by the variables; the pool is
the only thing that crosses them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu, softplus

from orderless.errors import SettingError
from orderless.ops import (
    Generator,
    attention_pool,
    keep,
    mean_pool,
    presence,
    sum_pool,
    vi_scan,
)

POOLS = ("mean", "sum", "attention")
COUPLINGS = ("field", "feedback", "none")
HEAD_SIZE = 16


class VI2DSSM(nn.Module):
    """A selective 2D state space layer that treats the variables as a set and time as an order.

    What is written to the state and read from it depends on the entry itself; how far time steps,
    on what the variables have in common at that time:

        psi[t]        pool over the variables of W x[t,c]
        step[t]       softplus(linear(psi[t])), one for each head
        write, read   linear(x[t,c]), normalised to a root mean square of one
        y[t,c]        scan + skip x[t,c] + direct psi[t], times silu(gate[t,c])

    Coupling, how the variables influence each other:
    - `field`: psi, pooled from the input, is written to the state of every variable;
    - `feedback`: the mean of the states drives them, the canonical dynamics of Theorem 1. Both
      modes are stable for every number of variables, by construction; the pool must be the mean;
    - `none`: every variable is alone, with steps of its own.
    With either coupling psi also enters linearly, added to the input and to the output with
    weights that start at zero.

    `step_range` holds the initial steps, spread over the heads on a logarithmic scale; a state
    with rate a forgets within 1 / (step |a|) time steps, and the rates start at -1 ... -states.

    **Call** `layer(x, state=None, members=None, observed=None, gate=None, reverse=False)`, with
    arguments as in `vi_scan`. Returns `(output, state)`, always both.
    """

    def __init__(
        self,
        channels: int,
        *,
        states: int = 16,
        heads: int | None = None,
        step_range: tuple[float, float] = (0.01, 0.1),
        pool: str = "mean",
        coupling: str = "field",
    ) -> None:
        super().__init__()
        heads = _default_heads(channels) if heads is None else heads
        _check_settings(channels, states, heads, step_range, pool, coupling)
        self.channels, self.states, self.heads = channels, states, heads
        self.step_range, self.pool, self.coupling = tuple(step_range), pool, coupling

        self.write_and_read = Weights(channels, 2, states)
        self.step = nn.Linear(channels, heads)
        self.skip = nn.Parameter(torch.ones(channels))

        rates = torch.arange(1, states + 1, dtype=torch.get_default_dtype()).expand(heads, states)
        self.log_rates = nn.Parameter(rates.log().repeat(2, 1, 1))
        # With vh = |rate| the second state starts as the first one, smoothed once more.
        self.cascade = nn.Parameter(rates.clone())
        if coupling != "none":
            self.value = nn.Linear(channels, channels, bias=False)
            self.pooled_input = nn.Parameter(torch.zeros(channels))
            self.direct = nn.Parameter(torch.zeros(channels))
            if pool == "attention":
                size = channels // heads
                self.key = nn.Linear(channels, size, bias=False)
                self.query_weight = nn.Parameter(torch.eye(size))
        if coupling == "field":
            self.field_write = Weights(channels, 1, states)
        if coupling == "feedback":
            # Equal generators mean no coupling: training starts from variables on their own.
            self.mean_log_rates = nn.Parameter(self.log_rates.detach().clone())
            self.mean_cascade = nn.Parameter(self.cascade.detach().clone())
        self._initialize()

    def extra_repr(self) -> str:
        """The settings, for print(layer)."""
        return (
            f"{self.channels}, states={self.states}, heads={self.heads}, "
            f"step_range={self.step_range}, pool={self.pool!r}, coupling={self.coupling!r}"
        )

    def generator(self) -> Generator:
        """The rates of every variable on its own; negative whatever the parameters are."""
        return _generator(self.log_rates, self.cascade)

    def mean_generator(self) -> Generator | None:
        """The rates of the mean of the variables under feedback; None without a loop."""
        if self.coupling != "feedback":
            return None
        return _generator(self.mean_log_rates, self.mean_cascade)

    def pooled(
        self, x: Tensor, *, members: Tensor | None = None, observed: Tensor | None = None
    ) -> Tensor:
        """psi, what the variables have in common at each time: [batch, time, channel]."""
        values = self.value(x).to(x.dtype)
        if self.pool == "mean":
            return mean_pool(values, members=members, observed=observed)
        if self.pool == "sum":
            return sum_pool(values, members=members, observed=observed)
        keys, weight = self.key(x).to(x.dtype), self.query_weight
        return attention_pool(values, keys, weight, members=members, observed=observed)

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
        """`(output, state)`: output like x, and the state after the last entry visited."""
        if self.coupling == "none":
            return self._alone(x, state, members, observed, gate, reverse)
        mask = presence(members, observed)
        # The maps below must not see what is masked: its NaN would reach their gradients.
        x = keep(x, mask)
        psi = self.pooled(x, members=members, observed=observed)
        x = keep(x + (self.pooled_input * psi).to(x.dtype).unsqueeze(1), mask)
        write, read = self.write_and_read(x)
        field = field_write = None
        if self.coupling == "field":
            field, field_write = psi, self.field_write(psi)[0]
        y, state = vi_scan(
            x,
            softplus(self.step(psi)).to(x.dtype),
            self.generator(),
            write,
            read,
            field=field,
            field_write=field_write,
            mean_generator=self.mean_generator(),
            skip=self.skip,
            gate=gate,
            state=state,
            members=members,
            observed=observed,
            reverse=reverse,
        )
        direct = (self.direct * psi).to(y.dtype).unsqueeze(1)
        if gate is not None:
            direct = direct * silu(keep(gate, mask)).to(y.dtype)
        return y + keep(direct.expand_as(y), mask), state

    def _alone(
        self,
        x: Tensor,
        state: Tensor | None,
        members: Tensor | None,
        observed: Tensor | None,
        gate: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, Tensor]:
        """The scan with every variable as a batch row of its own, so that steps are its own too."""
        sizes = x.shape[:2]
        x = keep(x, presence(members, observed))
        write, read = self.write_and_read(x)
        y, state = vi_scan(
            _as_rows(x),
            softplus(self.step(x)).to(x.dtype).flatten(0, 1),
            self.generator(),
            _as_rows(write),
            _as_rows(read),
            skip=self.skip,
            gate=None if gate is None else _as_rows(gate),
            state=None if state is None else _as_rows(state),
            members=None if members is None else _as_rows(members),
            observed=None if observed is None else _as_rows(observed),
            reverse=reverse,
        )
        return y.squeeze(1).unflatten(0, sizes), state.squeeze(1).unflatten(0, sizes)

    def _initialize(self) -> None:
        low, high = (math.log(bound) for bound in self.step_range)
        middle = torch.linspace(0, 1, 2 * self.heads + 1)[1::2]
        steps = torch.exp(low + (high - low) * middle)
        with torch.no_grad():
            self.step.bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # softplus undone
            self.step.weight.mul_(0.1)  # the input modulates the step; the bias sets its scale
            if self.coupling != "none":
                nn.init.eye_(self.value.weight)


class Weights(nn.Module):
    """Input-dependent weights for the pair (h, v), several kinds at once: each [..., 2, state].

    The states of each part have a root mean square of one, times a learned size.
    """

    def __init__(self, channels: int, kinds: int, states: int) -> None:
        super().__init__()
        self.map = nn.Linear(channels, kinds * 2 * states)
        self.size = nn.Parameter(torch.ones(kinds, 2, states))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The weights of each kind, for features [..., channel]."""
        kinds, _, states = self.size.shape
        weights = rms_norm(self.map(x).unflatten(-1, (kinds, 2, states)), (states,), eps=1e-6)
        # Under autocast a map answers in low precision, whatever the features are.
        return (self.size * weights).to(x.dtype).unbind(-3)


def _as_rows(value: Tensor) -> Tensor:
    """[B,V,...] as [B V, 1, ...]: one variable in each batch row."""
    return value.flatten(0, 1).unsqueeze(1)


def _generator(log_rates: Tensor, cascade: Tensor) -> Generator:
    h, v = -torch.exp(log_rates)
    return Generator(h=h, v=v, vh=cascade)


def _default_heads(channels: int) -> int:
    """Heads of 16 channels, or of the largest smaller size that divides the channels."""
    size = next(size for size in range(HEAD_SIZE, 0, -1) if channels % size == 0)
    return channels // size


def _check_settings(
    channels: int,
    states: int,
    heads: int,
    step_range: tuple[float, float],
    pool: str,
    coupling: str,
) -> None:
    if min(channels, states, heads) < 1:
        raise SettingError(
            f"channels={channels}, states={states}, heads={heads}: each must be at least 1."
        )
    if channels % heads:
        raise SettingError(
            f"heads={heads} does not divide channels={channels}; "
            "each head steps the same number of channels."
        )
    low, high = step_range
    if not 0 < low <= high < math.inf:
        raise SettingError(
            f"step_range={step_range} must be two positive numbers, the smaller one first."
        )
    if pool not in POOLS:
        raise SettingError(f"pool={pool!r} is not one of {', '.join(POOLS)}.")
    if coupling not in COUPLINGS:
        raise SettingError(f"coupling={coupling!r} is not one of {', '.join(COUPLINGS)}.")
    if coupling == "feedback" and pool != "mean":
        raise SettingError(
            f"coupling='feedback' with pool={pool!r}: the state of the variables splits into two "
            "modes only under the mean. Use pool='mean', or coupling='field'."
        )
