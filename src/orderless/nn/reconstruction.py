"""`ReconstructionNetwork`: windows in, the same windows out as the network expects them."""

import torch
from torch import Tensor, nn

from orderless.nn.config import NetworkConfig
from orderless.nn.network import VI2DMamba, without_hidden
from orderless.nn.normalization import normalize
from orderless.nn.patches import join_patches
from orderless.ops import presence


class ReconstructionNetwork(nn.Module):
    """Every token gives back its own patch; overlapping patches are averaged.

    Values marked in `hidden` are withheld from the network and reconstructed from the rest: from
    the same variable at other times, and from the others. Trained so, it cannot just copy.

    **Call** `network(x, observed=None, members=None, hidden=None)`: x [batch, variable, time] of
    any length; `observed` like x, False where a value is missing and may be anything; `members`
    [batch, variable], False for padding; `hidden` like x, True where a value is withheld. Returns
    [batch, variable, time] in the units of x; 0 for non-members.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.body = VI2DMamba(config)
        self.patch = nn.Linear(config.channels, config.patch)

    def forward(
        self,
        x: Tensor,
        observed: Tensor | None = None,
        members: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """The reconstruction of every value."""
        config = self.config
        mask = without_hidden(presence(members, observed), hidden)
        values, center, scale = normalize(x, mask, center=config.center, scale=config.scale)
        tokens, _ = self.body(values, observed, members, hidden=hidden)
        values = join_patches(self.patch(tokens), x.shape[-1], config.stride)
        y = center + scale * values
        return y if members is None else torch.where(members.unsqueeze(-1), y, 0.0)
