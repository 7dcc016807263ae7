"""`ClassificationNetwork`: a set of series in, one class out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from orderless.errors import SettingError
from orderless.nn.config import NetworkConfig
from orderless.nn.network import VI2DMamba
from orderless.nn.normalization import normalize
from orderless.ops import attention_pool, keep, mean_pool, presence

UNKNOWN = 0
NAME_DROPOUT = 0.1
PLACES = 8
"""Of tokens in their order."""


class ClassificationNetwork(nn.Module):
    """Class scores of a set of variables; reordering the variables changes nothing.

    Each variable is summed up over its tokens: as a set (mean, maximum, attention), and in their
    order, as `PLACES` means from the first to the last. Then the variables are summed up over their
    set, and a linear map gives the scores.

    With `names` the variables are not exchangeable but known by name: every name has an embedding.
    Reordering still changes nothing, renaming does; a name that was never seen gets the embedding
    of unknown ones, which is trained by now and then forgetting a name.

    **Call** `network(x, observed=None, members=None, identities=None)`: x [batch, variable, time]
    of any length; `observed` like x, False where a value is missing or padding; `members`
    [batch, variable], False for padding; `identities` from `identify`, [variable] or
    [batch, variable], needed exactly when there are names. Returns scores [batch, class].
    """

    def __init__(self, config: NetworkConfig, classes: int, *, names: Sequence[str] = ()) -> None:
        super().__init__()
        if classes < 2:
            raise SettingError(f"classes={classes}: a classifier needs at least 2.")
        if len(set(names)) != len(names):
            raise SettingError("`names` holds a name twice; a name stands for one variable.")
        self.config, self.classes, self.names = config, classes, tuple(names)
        channels = config.channels
        self.body = VI2DMamba(config)
        self.over_time = SetSummary(channels)
        self.in_order = nn.Linear(PLACES * channels, channels)
        self.over_variables = SetSummary(channels)
        self.dropout = nn.Dropout(config.dropout)
        self.score = nn.Linear(channels, classes)
        if self.names:
            # Row 0 is that of unknown names.
            self.name_at_input = nn.Embedding(len(self.names) + 1, channels)
            self.name_at_output = nn.Embedding(len(self.names) + 1, 2 * channels)
            nn.init.normal_(self.name_at_input.weight, std=0.3)
            nn.init.normal_(self.name_at_output.weight, std=0.3)

    def identify(self, names: Sequence[str]) -> Tensor:
        """The rows of the embedding for these variables, [variable]."""
        row = {name: i + 1 for i, name in enumerate(self.names)}
        rows = [row.get(name, UNKNOWN) for name in names]
        return torch.tensor(rows, device=self.score.weight.device)

    def forward(
        self,
        x: Tensor,
        observed: Tensor | None = None,
        members: Tensor | None = None,
        identities: Tensor | None = None,
    ) -> Tensor:
        """The score of every class, before a softmax."""
        if (identities is not None) != bool(self.names):
            raise SettingError(
                "`identities` is needed exactly when the network was built with names; "
                "get them from identify(names)."
            )
        config = self.config
        at_input = at_output = None
        if identities is not None:
            identities = self._forget_some(identities.expand(x.shape[:2]))
            at_input = self.name_at_input(identities)
            at_output = self.name_at_output(identities)
        values, _, _ = normalize(
            x, presence(members, observed), center=config.center, scale=config.scale
        )
        tokens, mask = self.body(values, observed, members, identity=at_input)
        batch, variables = x.shape[:2]
        # Tokens are the set that is summed up here: [B V, token, 1, D].
        tokens = tokens.flatten(0, 1)
        seen = None
        if mask is not None:
            seen = mask.expand(batch, variables, tokens.shape[1]).flatten(0, 1)
        each = self.over_time(tokens.unsqueeze(2), None if seen is None else seen.unsqueeze(2))
        each = each.squeeze(1) + self.in_order(places(tokens, seen).flatten(1))
        each = each.reshape(batch, variables, 1, -1)
        if at_output is not None:
            gain, shift = at_output.unsqueeze(2).chunk(2, dim=-1)
            each = each * (1 + gain) + shift
        anywhere = None if mask is None else mask.any(2, keepdim=True)
        everything = self.over_variables(each, anywhere).squeeze(1)
        return self.score(self.dropout(everything))

    def _forget_some(self, identities: Tensor) -> Tensor:
        if not self.training:
            return identities
        forgotten = torch.rand(identities.shape, device=identities.device) < NAME_DROPOUT
        return torch.where(forgotten, UNKNOWN, identities)


def places(tokens: Tensor, observed: Tensor | None) -> Tensor:
    """Tokens [row, token, channel] as `PLACES` weighted means in their order, however many.

    Where nothing is observed tokens are 0.
    Places divide the time from the first token that is observed [row, token] to the last evenly. A
    token counts by its distance from the middle of a place, none beyond that of the next.
    """
    count = tokens.shape[1]
    if observed is None:
        observed = torch.ones(1, count, dtype=torch.bool, device=tokens.device)
    position = torch.arange(count, device=tokens.device, dtype=tokens.dtype)
    first = torch.where(observed, position, count).amin(1, keepdim=True)
    last = torch.where(observed, position, -1).amax(1, keepdim=True)
    length = (last - first + 1).clamp(min=1)
    middle = (torch.arange(PLACES, device=tokens.device, dtype=tokens.dtype) + 0.5) / PLACES
    share = (position - first + 0.5) / length
    reach = (1 / length).clamp(min=1 / PLACES).unsqueeze(-1)
    near = (1 - (share.unsqueeze(1) - middle[:, None]).abs() / reach).clamp(min=0.0)
    near = near * observed.unsqueeze(1)
    weights = near / near.sum(-1, keepdim=True).clamp(min=1e-6)
    return weights @ tokens


class SetSummary(nn.Module):
    """Sums up a set of vectors by its mean, maximum and an attention over it.

    Features [batch, element, 1, channel] and where they are observed, [batch, element, 1], give
    [batch, 1, channel].
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.key = nn.Linear(channels, channels)
        self.query_weight = nn.Parameter(torch.eye(channels))
        self.mix = nn.Linear(3 * channels, channels)
        self.activation = nn.GELU()

    def forward(self, x: Tensor, observed: Tensor | None) -> Tensor:
        """One vector for each set; that of nothing, when nothing is observed."""
        x = keep(x, observed)
        attended = attention_pool(x, self.key(x), self.query_weight, observed=observed)
        parts = (mean_pool(x, observed=observed), _maximum(x, observed), attended)
        return self.activation(self.mix(torch.cat(parts, dim=-1)))


def _maximum(x: Tensor, observed: Tensor | None) -> Tensor:
    if observed is None:
        return x.amax(1)
    lowest = torch.finfo(x.dtype).min
    largest = torch.where(observed.unsqueeze(-1), x, lowest).amax(1)
    return torch.where(observed.any(1).unsqueeze(-1), largest, 0.0)
