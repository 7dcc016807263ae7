"""A linear forecast in closed form that sees factors: more of the others than their mean.

    y[c] = center[c] + own x[c] + shift x[c] + sum over b of (field_b f_b[c] + level_b v_b[c])
    f_b[c] = sum over c' other than c of P_b[c, c'] x[c']

x are contexts around their centers, P_b the projection on block b of the factors (`ops.factors`),
and block 0 is the mean of the variables. Weights are shared by all variables, and blocks of factors
have one each, so the forecast is equivariant together with the loadings, and neither the signs of
factors nor rotations within a block matter. A field leaves out the variable itself, so that it
means the same whatever the number of variables. v_b[c] is how far the center of a context lies from
what the blocks up to b make of the centers of all: a variable comes back to where its company is.
Company counts less where a context hardly moves, and not at all for a lone variable.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from orderless.nn.normalization import movement, normalize
from orderless.nn.ridge import Moments
from orderless.ops import presence
from orderless.ops.factors import BLOCKS, Loadings, factor_scores, orthonormal

FIELDS = ((0, 1), *((1 + begin, 1 + end) for begin, end in BLOCKS))
"""Columns of the mean and of each block, in a basis that begins with the mean."""
RECENT = 96
"""Time steps of company that are looked at; what is older says little beside the own history."""
FARTHEST = 6.0
"""Standard deviations from the center of training at which values are clipped in what is common."""
GONE = 4.0
"""Standard deviations from there at which a context, by its median, has left its company; half as
far it begins to."""
HARDLY = 0.1
"""Standard deviation of a context, in units of the scale, below which company moves it less."""


class FactorForecast(nn.Module):
    """`factor ridge`: the own history as a ridge has it, and what factors add.

    **Call** `forecast(x, loadings, observed=None, members=None)` with x [batch, variable, context];
    as for `LinearForecast`. `blocks` is how many blocks of factors there are; 0 is the mean alone.
    """

    def __init__(self, context: int, horizon: int, *, blocks: int, center: str = "mean") -> None:
        super().__init__()
        self.context, self.horizon, self.blocks, self.center = context, horizon, blocks, center
        self.recent = min(context, RECENT)
        # Fitted on data in float32, whatever torch's default is.
        self.own = nn.Parameter(torch.zeros(horizon, context, dtype=torch.float32))
        self.company = nn.Parameter(self.own.new_zeros(horizon, company_size(self.recent, blocks)))

    def forward(
        self,
        x: Tensor,
        loadings: Loadings,
        observed: Tensor | None = None,
        members: Tensor | None = None,
    ) -> Tensor:
        """The forecast of every variable."""
        given = self.regressors(x, loadings, observed, members)
        y = given.center + given.own @ self.own.mT + given.company @ self.company.mT
        return y if members is None else torch.where(members.unsqueeze(-1), y, 0.0)

    def regressors(
        self,
        x: Tensor,
        loadings: Loadings,
        observed: Tensor | None = None,
        members: Tensor | None = None,
    ) -> "FactorRegressors":
        """What the forecast is linear in."""
        mask = presence(members, observed)
        mask = None if mask is None else mask.expand_as(x)
        there = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask.any(-1)
        own, center, _ = normalize(x, mask, center=self.center, scale=False)
        middle, unit, trust = (part.unsqueeze(-1) for part in loadings[1:])
        now = (x if mask is None else torch.where(mask, x, torch.nan)).nanmedian(-1, True).values
        away = (now.nan_to_num() - middle).abs() * unit
        middle = torch.where(away < GONE, middle, now.nan_to_num())
        near = torch.clamp((x - middle) * unit, -FARTHEST, FARTHEST)
        moves, level, _ = normalize(near, mask, center=self.center, scale=False)
        # What has gone so far from where it was has left its company.
        stays = (2 - 2 * away / GONE).clamp(0.0, 1.0) * there.unsqueeze(-1)
        moves, level = stays * moves[..., -self.recent :], stays * level
        seen = None if mask is None else mask[..., -self.recent :]
        gains = loadings.gains[..., : FIELDS[self.blocks][1] - 1]
        mean, factors = (orthonormal(q, there) for q in (torch.ones_like(middle), gains))
        scores = torch.cat([factor_scores(moves, q, seen) for q in (mean, factors)], 1)
        basis = torch.cat((mean, factors), -1)
        fields, apart, levels = [], [], []
        for begin, end in FIELDS[: 1 + self.blocks]:
            q = basis[..., begin:end]
            share = q.square().sum(-1, keepdim=True)
            fields.append(q @ scores[:, begin:end] - share * moves)
            levels.append(q @ (q.mT @ level) - share * level)
            up_to = basis[..., 1 if begin else 0 : end]  # blocks up to this one, or the mean
            apart.append(up_to @ (up_to.mT @ level) - level)
        # A level weighs as much as a history of as many steps as are looked at.
        levels = [trust * self.recent**0.5 * one for one in (*apart, *levels)]
        others = torch.cat((*fields, *levels), -1)
        count = there.sum(1).reshape(-1, 1, 1)
        moving = (movement(own, mask) * unit / HARDLY).clamp(max=1.0)
        company = torch.cat((own[..., -self.recent :], others / unit), -1) * moving * stays
        company = torch.where(there.unsqueeze(-1) & (count > 1), company, 0.0)
        return FactorRegressors(own, company, center, there, scores + basis.mT @ level)


class FactorRegressors(NamedTuple):
    """own [B,V,context]; company [B,V,regressor]; center [B,V,1]; there [B,V].

    Company is first the own recent history, to be weighed anew, then the field of each block, then
    for each block how far the level lies from it, and the level of the field. scores [B,K,recent]
    are those of the variables themselves, not of their deviations from the context.
    """

    own: Tensor
    company: Tensor
    center: Tensor
    there: Tensor
    scores: Tensor


class FactorStatistics:
    """Sums over windows, from which the factor ridge is solved for any penalty and any blocks."""

    def __init__(self, forecast: FactorForecast) -> None:
        self.forecast = forecast
        self._sums: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(
        self,
        x: Tensor,
        target: Tensor,
        loadings: Loadings,
        observed: Tensor | None = None,
        target_observed: Tensor | None = None,
        members: Tensor | None = None,
        counted: Tensor | None = None,
    ) -> None:
        """Add windows and what followed, as `RidgeStatistics.update` does."""
        given = self.forecast.regressors(x, loadings, observed, members)
        asked = given.there.unsqueeze(-1).expand_as(target)
        asked = asked if target_observed is None else asked & target_observed
        y = torch.where(asked, target - given.center, 0.0)
        own = torch.where(given.there.unsqueeze(-1), given.own, 0.0)
        parts = (given.company, own, y, asked, given.there.unsqueeze(-1))
        if counted is not None:
            parts = tuple(one.take_along_dim(counted.unsqueeze(-1), 1) for one in parts)
        company, own, y, asked, there = (one.flatten(0, 1).double() for one in parts)
        for block, (begin, end) in enumerate(FIELDS[: 1 + self.forecast.blocks]):
            series = given.scores[:, begin:end].flatten(0, 1).double()
            self._add(f"scores {block}", series.mT @ series)
        self._add("gram", company.mT @ company)
        self._add("own", company.mT @ own)
        self._add("y", company.mT @ y)
        self._add("asked", asked.sum(0))
        self._add("rows", there.sum())

    def moments(self, own: Tensor, blocks: int) -> Moments:
        """The problem of forecasting what `own` leaves over, with so many blocks of factors."""
        size, most = self.forecast.recent, self.forecast.blocks
        levels = (2 + most) * size + torch.arange(1 + blocks)
        kept = torch.cat((torch.arange((2 + blocks) * size), levels, levels + 1 + most))
        kept = kept.to(own.device)
        fill = self._sums["rows"] / self._sums["asked"].clamp(min=1.0)
        cross = self._sums["y"] * fill - self._sums["own"] @ own.double().mT
        return Moments(self._sums["gram"][kept][:, kept], cross[kept])

    def next_score(self, block: int) -> Moments:
        """The problem of forecasting the next score of a block from those before it."""
        gram = self._sums[f"scores {block}"]
        return Moments(gram[:-1, :-1], gram[:-1, -1:])

    def __add__(self, other: "FactorStatistics") -> "FactorStatistics":
        """The statistics of all windows of both."""
        both = FactorStatistics(self.forecast)
        both._sums = dict(self._sums)
        for name, value in other._sums.items():
            both._add(name, value)
        return both

    def _add(self, name: str, value: Tensor) -> None:
        self._sums[name] = self._sums[name] + value if name in self._sums else value


def company_size(recent: int, blocks: int) -> int:
    """How many regressors company has."""
    return (2 + blocks) * recent + 2 * (1 + blocks)
