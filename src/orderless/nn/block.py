"""A block of the network: pathways side by side, weighed by a gate, around a residual.

norm -> input map -> short causal convolution -> long | short | spectral -> gate
     -> output gate -> output map -> residual
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, rms_norm, silu

from orderless.nn.config import NetworkConfig
from orderless.nn.spectral import SpectralBranch
from orderless.nn.ssm import VI2DSSM
from orderless.ops import keep, mean_pool, presence


class Block(nn.Module):
    """Tokens [batch, variable, token, channel] in and out."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        channels, inner = config.channels, config.expansion * config.channels
        self.norm = RMSNorm(channels, eps=1e-6)
        self.input = nn.Linear(channels, 2 * inner)
        self.convolution = CausalConvolution(inner, config.kernel)
        self.branches = nn.ModuleDict({name: _branch(name, config) for name in config.branches})
        self.branch_norms = nn.ModuleDict(
            {name: RMSNorm(inner, eps=1e-6) for name in config.branches}
        )
        shared = config.gate == "global" and config.coupled
        self.gate = BranchGate(inner, len(config.branches), shared=shared)
        self.output = nn.Linear(inner, channels)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, *, members: Tensor | None, observed: Tensor | None) -> Tensor:
        """The tokens after this block."""
        mask = presence(members, observed)
        u, output_gate = self.input(self.norm(x)).chunk(2, dim=-1)
        u = keep(silu(self.convolution(keep(u, mask))), mask)
        results = [
            self.branch_norms[name](branch(u, members=members, observed=observed)[0])
            for name, branch in self.branches.items()
        ]
        fused = self.gate(results, members=members, observed=observed)
        return x + self.dropout(self.output(fused * silu(output_gate)))


class RMSNorm(nn.RMSNorm):
    """In the precision of its input: under autocast a mixed one would not run as one kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """The features divided by their root mean square."""
        return rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class BranchGate(nn.Module):
    """A convex combination of pathways, its weights from what each of them found.

    The weights are those of a variable, or shared by all of them when `shared`.
    """

    def __init__(self, channels: int, branches: int, *, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.score = nn.Linear(branches * channels, branches) if branches > 1 else None

    def forward(
        self, results: list[Tensor], *, members: Tensor | None, observed: Tensor | None
    ) -> Tensor:
        """The combination, like one of the results."""
        if self.score is None:
            return results[0]
        found = torch.cat([_token_mean(y, members, observed) for y in results], dim=-1)
        if self.shared:
            alive = None if observed is None else observed.any(-1, keepdim=True)
            found = mean_pool(found, members=members, observed=alive).unsqueeze(1)
        weights = self.score(found).softmax(-1)  # [B, V or 1, 1, branches]
        return sum(
            (weights[..., i : i + 1] * y for i, y in enumerate(results)),
            start=torch.zeros_like(results[0]),
        )


class CausalConvolution(nn.Module):
    """Every channel by itself over the last `kernel` tokens."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        bound = kernel**-0.5
        self.weight = nn.Parameter(torch.empty(kernel, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of x [..., token, channel] along its tokens."""
        kernel, tokens = self.weight.shape[0], x.shape[-2]
        x = pad(x, (0, 0, kernel - 1, 0))
        # A few shifted products: on a CPU much faster than a grouped convolution of this size.
        shifted = (self.weight[i] * x[..., i : i + tokens, :] for i in range(kernel))
        return sum(shifted, start=self.bias)


def _branch(name: str, config: NetworkConfig) -> nn.Module:
    inner = config.expansion * config.channels
    settings = {
        "states": config.states,
        "step_range": getattr(config, f"{name}_steps"),
        "pool": config.pool,
        "coupling": config.coupling,
    }
    if name == "spectral":
        return SpectralBranch(inner, layout=config.spectral_layout, **settings)
    return VI2DSSM(inner, **settings)


def _token_mean(y: Tensor, members: Tensor | None, observed: Tensor | None) -> Tensor:
    """The mean over observed tokens, [B,V,1,C]; y is 0 where nothing is observed."""
    mask = presence(members, observed)
    if mask is None or mask.shape[-1] == 1:
        return y.mean(2, keepdim=True)
    count = mask.sum(2, keepdim=True).clamp(min=1).unsqueeze(-1)
    return y.sum(2, keepdim=True) / count
