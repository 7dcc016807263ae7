"""Pools: what a set of variables has in common at each time, whatever their order and number.

In:  features [batch, variable, time, channel], and who is there.
Out: one vector for each time, [batch, time, channel].

Every pool is one parallel reduction over the variables. An entry that is not there may hold
anything, NaN included; a time at which nobody is there pools to 0.
"""

import torch
from torch import Tensor

from orderless.errors import ShapeError


def presence(members: Tensor | None, observed: Tensor | None) -> Tensor | None:
    """True where a member was observed: [B,V,T] or [B,V,1]; None when nothing is masked."""
    if members is None:
        return observed
    members = members.unsqueeze(-1)
    return members if observed is None else members & observed


def keep(value: Tensor, present: Tensor | None) -> Tensor:
    """`value` [B,V,T,...] with 0 where nothing is present, in the value and in its gradient."""
    if present is None:
        return value
    # Not a product: 0 times NaN is NaN.
    return torch.where(present.reshape(*present.shape, *(1,) * (value.dim() - 3)), value, 0.0)


def mean_pool(
    features: Tensor, *, members: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """The mean over the variables that are present."""
    total, count = _total(features, presence(members, observed))
    return (total / count.clamp(min=1.0)).to(features.dtype)


def sum_pool(
    features: Tensor, *, members: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """The sum over the variables that are present, divided by the square root of their number.

    A raw sum of variables grows with their number; so divided, the sum of independent variables
    keeps its variance.
    """
    total, count = _total(features, presence(members, observed))
    return (total / count.clamp(min=1.0).sqrt()).to(features.dtype)


def attention_pool(
    values: Tensor,
    keys: Tensor,
    query_weight: Tensor,
    *,
    members: Tensor | None = None,
    observed: Tensor | None = None,
) -> Tensor:
    """A weighted mean of `values`, the weights a softmax over the variables that are present.

        weight[t,c] ~ exp(key[t,c] . query[t] / sqrt(K)),   query[t] = query_weight (mean key)[t]

    The query comes from the pooled keys, so it is the same for every variable. `keys` is
    [batch, variable, time, K] and `query_weight` [K, K].
    """
    present = presence(members, observed)
    _check(values, present)
    size = keys.shape[-1]
    if values.shape[:-1] != keys.shape[:-1] or query_weight.shape != (size, size):
        raise ShapeError(
            f"`values` {tuple(values.shape)}, `keys` {tuple(keys.shape)} and `query_weight` "
            f"{tuple(query_weight.shape)} do not fit: a variable has one key at each time it has "
            "a value, and the query is made from keys, as long as they are."
        )
    keys = keep(keys, present)
    query = mean_pool(keys, members=members, observed=observed) @ query_weight.mT
    scores = torch.einsum("bvtk,btk->bvt", keys, query) / size**0.5
    if present is None:
        weights = scores.softmax(1)
    else:
        # A finite floor and a second mask, not -inf: with nobody present a softmax of nothing but
        # -inf would be NaN.
        floor = torch.finfo(scores.dtype).min
        weights = torch.where(present, torch.where(present, scores, floor).softmax(1), 0.0)
    pooled = torch.einsum("bvt,bvtd->btd", weights, keep(values, present))
    return pooled.to(values.dtype)  # autocast computes a product in low precision


def _total(features: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum over present variables [B,T,D] and their number, in float32 at least."""
    _check(features, present)
    dtype = torch.promote_types(features.dtype, torch.float32)
    total = keep(features, present).sum(1, dtype=dtype)
    if present is None:
        return total, total.new_full((1, 1, 1), features.shape[1])
    return total, present.sum(1, dtype=dtype).unsqueeze(-1)


def _check(features: Tensor, present: Tensor | None) -> None:
    if features.dim() != 4:
        raise ShapeError(
            f"The features have {features.dim()} axes {tuple(features.shape)}; "
            "a pool needs four: [batch, variable, time, channel]."
        )
    batch, variables, time, _ = features.shape
    if variables == 0:
        raise ShapeError(
            f"The features have 0 variables {tuple(features.shape)}; a pool needs at least one."
        )
    if present is not None and tuple(present.shape) not in (
        (batch, variables, time),
        (batch, variables, 1),
    ):
        raise ShapeError(
            f"The mask has shape {tuple(present.shape)} and the features cover "
            f"{(batch, variables, time)} (batch, variable, time); give `members` [batch, variable] "
            "and `observed` [batch, variable, time] of the same system."
        )
