"""Pools by loadings: what a set of variables has in common along a few directions.

Loadings say for each variable how it answers to a few factors. They are data, not weights: they
travel with their variable, so that everything here is equivariant together with them. Factors come
in blocks, {1}, {2}, {3, 4} and {5 ... 8}; what is computed depends on a block only through the
space that it spans, so neither signs nor rotations within a block have any influence.

In:  gains [batch, variable, factor], of mean square one over the variables they were learned from.
Out: a basis of orthonormal columns over the variables that are there, and scores along it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCKS = ((0, 1), (1, 2), (2, 4), (4, 8))
"""Factors from, and up to which, that share one generator."""
MOST = BLOCKS[-1][1]
FAINT = 0.25
"""Mean square gain below which a direction fades: of a factor whose sensor has left, what is left
would be blown up to full size."""


class Loadings(NamedTuple):
    """How variables answer: (x[c] - center[c]) unit[c] = sum over j of gains[c, j] factor[j].

    gains       [..., variable, factor]
    centers     [..., variable]
    units       [..., variable] 1, but where the scale of a variable is that of a calm or wild time
    trust       [..., variable] from 0 to 1: how far the center is known
    """

    gains: Tensor
    centers: Tensor
    units: Tensor
    trust: Tensor

    def of(self, rows: Any) -> "Loadings":
        """Those of some variables, of one system."""
        return Loadings(*(part[rows] for part in self))


def orthonormal(gains: Tensor, members: Tensor | None = None) -> Tensor:
    """Columns q over the variables that are there, such that q_b q_b' projects on block b.

    Block after block, each without what those before it span (Gram and Schmidt). Where all is well
    q' q = I; the eigenvalues of q_b q_b' are never above 1, and fade to 0 with `FAINT`: where there
    are fewer variables than factors, or a factor has lost its variables. 0 for who is not there.
    """
    gains = gains if members is None else torch.where(members.unsqueeze(-1), gains, 0.0)
    count = gains.shape[-2] if members is None else members.sum(-1)[..., None, None].clamp(min=1)
    found: list[Tensor] = []
    for begin, end in BLOCKS:
        block = gains[..., begin:end]
        for _ in range(2):  # once more, for what rounding has left
            for before in found:
                block = block - before @ (before.mT @ block)
        if block.shape[-1]:
            values, vectors = torch.linalg.eigh(block.mT @ block / count)
            size = (count * values.clamp(min=FAINT).unsqueeze(-2)).sqrt()
            found.append(block @ (vectors / size) @ vectors.mT)  # the nearest such columns
    return torch.cat(found, -1) if found else gains


def factor_scores(x: Tensor, basis: Tensor, observed: Tensor | None = None) -> Tensor:
    """The scores [batch, factor, time] of x [batch, variable, time] along `basis`.

    Where entries are missing, by least squares on the others, block after block: for one column of
    equal entries, the masked mean. It is shrunk as though the mean of one more variable were 0, so
    that a block whose variables are missing has a score of 0.
    """
    if observed is None:
        return basis.mT @ x
    x = torch.where(observed, x, 0.0)
    there = observed.to(x.dtype)
    shrink = (1 / there.amax(-1).sum(-1).clamp(min=1.0))[:, None, None, None]
    found = []
    for begin, end in _blocks(basis.shape[-1]):
        q = basis[..., begin:end]
        whole = q.mT @ q
        pairs = (q.unsqueeze(-1) * q.unsqueeze(-2)).flatten(-2)  # [B,V,ij]
        seen = (there.mT @ pairs).unflatten(-1, whole.shape[-2:])  # [B,T,i,j]
        # All of the block's share where nothing is missing, least squares where much is there.
        floor = torch.finfo(x.dtype).eps ** 0.5 * torch.eye(end - begin).to(whole)
        whole = whole.unsqueeze(-3) + floor
        rule = torch.lerp(seen + floor, whole, shrink)
        factor = torch.linalg.solve(rule, (x.mT @ q).unsqueeze(-1))
        score = (whole @ factor).squeeze(-1).mT
        x = torch.where(observed, x - q @ score, 0.0)
        found.append(score)
    return torch.cat(found, 1) if found else basis.mT @ x


def _blocks(factors: int) -> list[tuple[int, int]]:
    return [(begin, min(end, factors)) for begin, end in BLOCKS if begin < factors]
