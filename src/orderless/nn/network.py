"""`VI2DMamba`: a set of series in, features of every variable and token out.

Every weight is shared by the variables. With coupling `none` nothing crosses them; otherwise
pools do, and they know no order.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from orderless.errors import ShapeError
from orderless.nn.block import Block
from orderless.nn.config import NetworkConfig
from orderless.nn.patches import cut_patches
from orderless.ops import keep, mean_pool, presence


class Features(NamedTuple):
    """What the network knows of each variable: tokens [B,V,N,D], and where there are any [B,V,N].

    `tokens` is 0 where nothing is observed; `mask` is None when nothing is masked.
    """

    tokens: Tensor
    mask: Tensor | None


class VI2DMamba(nn.Module):
    """Patches, then blocks of long, short and spectral pathways.

    **Call** `network(values, observed=None, members=None, hidden=None, identity=None)`:
    - values: [batch, variable, time], normalised (`normalization.py`), of any number of variables.
    - observed: [batch, variable, time] bool, False where a value is missing and may be anything.
    - members: [batch, variable] bool, False for variables that are only padding.
    - hidden: [batch, variable, time] bool, True where a value is withheld and wanted back: its
      token is there, and says that it does not know.
    - identity: [batch, variable, channel], added to every token of a variable.

    Returns `Features`. With the spectral pathway or the gate, a token may depend on later ones.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.patch, config.channels)
        self.embed_missing = nn.Linear(config.patch, config.channels, bias=False)
        nn.init.zeros_(self.embed_missing.weight)
        if config.coupled:
            self.embed_pooled = nn.Linear(config.patch, config.channels, bias=False)
            nn.init.zeros_(self.embed_pooled.weight)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))

    def forward(
        self,
        values: Tensor,
        observed: Tensor | None = None,
        members: Tensor | None = None,
        *,
        hidden: Tensor | None = None,
        identity: Tensor | None = None,
    ) -> Features:
        """Features of every variable and token."""
        _check(values, observed, members)
        seen = None if observed is None else self._cut(observed).any(-1)
        x = self._embed(values, without_hidden(observed, hidden), members)
        if identity is not None:
            x = x + identity.unsqueeze(2)
        for block in self.blocks:
            x = block(x, members=members, observed=seen)
        mask = presence(members, seen)
        # No norm at the end: how large a token is says how far its series is from its level.
        return Features(keep(x, mask), mask)

    def _embed(self, values: Tensor, known: Tensor | None, members: Tensor | None) -> Tensor:
        if known is None:
            known = torch.ones_like(values[:1, :1], dtype=torch.bool)
        else:
            values = torch.where(known, values, 0.0)
        if members is not None:
            values = torch.where(members.unsqueeze(-1), values, 0.0)
        # What lies before the first time step counts as missing, like any other gap.
        missing = ~self._cut(known)
        x = self.embed(self._cut(values)) + self.embed_missing(missing.to(values.dtype))
        if self.config.coupled:
            pooled = mean_pool(
                values.unsqueeze(-1), members=members, observed=known.expand_as(values)
            ).squeeze(-1)
            x = x + self.embed_pooled(self._cut(pooled)).unsqueeze(1)
        return x

    def _cut(self, x: Tensor) -> Tensor:
        return cut_patches(x, self.config.patch, self.config.stride)


def without_hidden(observed: Tensor | None, hidden: Tensor | None) -> Tensor | None:
    """What is observed and not withheld; None where that is everything."""
    if hidden is None:
        return observed
    return ~hidden if observed is None else observed & ~hidden


def _check(values: Tensor, observed: Tensor | None, members: Tensor | None) -> None:
    if values.dim() != 3 or 0 in values.shape[1:]:
        raise ShapeError(
            f"The values have shape {tuple(values.shape)}; "
            "a network needs [batch, variable, time] with at least one variable and time step."
        )
    for name, given, shape in (
        ("observed", observed, values.shape),
        ("members", members, values.shape[:2]),
    ):
        if given is not None and given.shape != shape:
            raise ShapeError(
                f"`{name}` has shape {tuple(given.shape)} and the values {tuple(values.shape)}; "
                f"it needs {tuple(shape)}."
            )
