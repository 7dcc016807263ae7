"""A linear forecast in closed form that sees factors: more of the others than their mean.

    y[c] = center[c] + own x[c] + shift x[c] + sum over b of (field_b f_b[c] + course_b z_b[c])
    f_b[c] = sum over c' other than c of P_b[c, c'] x[c']

x are contexts around their centers, P_b the projection on block b of the factors (`ops.factors`),
and block 0 is the mean of the variables. Weights are shared by all variables, and blocks of factors
have one each, so the forecast is equivariant together with the loadings and the dynamics of the
factors, which come from the same data. A field leaves out the variable itself, so that it means the
same whatever the number of variables. z_b[c] is what is to come of block b, by few numbers for each
step ahead: the course of its factors by their own autoregression, what the own weights make of the
field, and how far the center of a context lies from what the blocks up to b make of the centers of
all: a variable comes back to where its company is. Company counts less where a context hardly
moves, and not at all for a lone variable.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from orderless.nn.normalization import movement, normalize
from orderless.ops import presence
from orderless.ops.factors import BLOCKS, MOST, Loadings, factor_scores, orthonormal

FIELDS = ((0, 1), *((1 + begin, 1 + end) for begin, end in BLOCKS))
"""Columns of the mean and of each block, in a basis that begins with the mean."""
KINDS = 4
"""Of what is to come of a block: the course of its factors, the own weights on its field, the level
in its company, and the course of its level."""
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

    dynamics: Tensor
    own: Tensor
    company: Tensor
    course: Tensor

    def __init__(self, context: int, horizon: int, *, blocks: int, center: str = "mean") -> None:
        super().__init__()
        self.context, self.horizon, self.blocks, self.center = context, horizon, blocks, center
        self.recent = min(context, RECENT)
        for name, *size in (
            ("own", horizon, context),
            ("company", horizon, (2 + blocks) * self.recent),
            ("course", horizon, KINDS * (1 + blocks)),
            ("dynamics", 1 + MOST, 1 + MOST, self.recent - 1),
        ):
            # Fitted on data in float32, whatever torch's default is.
            self.register_parameter(name, nn.Parameter(torch.zeros(size, dtype=torch.float32)))

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
        y = y + (given.course * self.course.mT).sum(-2)
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
        own, center, _ = normalize(x, mask, center=self.center, scale=False)
        common = self.common(x, loadings, observed, members)
        trust, unit = loadings.trust.unsqueeze(-1), loadings.units.unsqueeze(-1)
        recent, blocks = slice(-self.recent, None), FIELDS[: 1 + self.blocks]
        fields, shifts, apart = [], [], []
        for begin, end in blocks:
            q = common.basis[..., begin:end]
            share = q.square().sum(-1, keepdim=True)
            field = q @ common.scores[:, begin:end] - share * common.moves
            # Around its center at the times at which the variable itself was observed.
            field, shift, _ = normalize(field, mask, center=self.center, scale=False)
            fields.append(field[..., recent] / unit)
            shifts.append(shift)
            first = 1 if begin else 0  # blocks up to this one, or the mean
            up_to = common.basis[..., first:end]
            level = up_to @ (up_to.mT @ common.level) - common.level
            level = level + torch.stack(shifts[first and 1 :]).sum(0)
            apart.append((trust * level / unit).expand(*x.shape[:2], self.horizon))
        level = common.basis.mT @ common.level
        still = self._continue(level.expand(-1, -1, self.recent))
        moves = self._continue(common.scores[..., recent] + level) - still
        moves = [
            (common.basis[..., a:b] @ moves[:, a:b] - shift) / unit
            for (a, b), shift in zip(blocks, shifts, strict=True)
        ]
        drifts = [
            trust / unit * (common.basis[..., a:b] @ (still - level)[:, a:b]) for a, b in blocks
        ]
        seen = [one @ self.own[:, recent].mT for one in fields]
        course = torch.stack((*moves, *seen, *apart, *drifts), -2)
        moving = (movement(own, mask) * unit / HARDLY).clamp(max=1.0)
        company = torch.cat((own[..., recent], *fields), -1) * (moving * common.stays)
        course = course * (moving * common.stays).unsqueeze(-1)
        lone = (common.stays > 0).sum(1, keepdim=True) <= 1
        return FactorRegressors(
            own,
            company.masked_fill(lone, 0.0),
            course.masked_fill(lone.unsqueeze(-1), 0.0),
            center,
            common.there,
        )

    def common(
        self,
        x: Tensor,
        loadings: Loadings,
        observed: Tensor | None = None,
        members: Tensor | None = None,
    ) -> "Common":
        """What the variables have in common, in the units of the loadings."""
        mask = presence(members, observed)
        mask = None if mask is None else mask.expand_as(x)
        there = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask.any(-1)
        middle, unit = loadings.centers.unsqueeze(-1), loadings.units.unsqueeze(-1)
        now = (x if mask is None else torch.where(mask, x, torch.nan)).nanmedian(-1, True).values
        away = (now.nan_to_num() - middle).abs() * unit
        middle = torch.where(away < GONE, middle, now.nan_to_num())
        near = torch.clamp((x - middle) * unit, -FARTHEST, FARTHEST)
        moves, level, _ = normalize(near, mask, center=self.center, scale=False)
        # What has gone so far from where it was has left its company.
        stays = (2 - 2 * away / GONE).clamp(0.0, 1.0) * there.unsqueeze(-1)
        moves, level = stays * moves, stays * level
        mean, factors = (orthonormal(q, there) for q in (torch.ones_like(middle), loadings.gains))
        scores = torch.cat([factor_scores(moves, q, mask) for q in (mean, factors)], 1)
        return Common(torch.cat((mean, factors), -1), scores, moves, level, stays, there)

    def _continue(self, scores: Tensor) -> Tensor:
        """What the dynamics make of scores [batch, factor, recent]: [batch, factor, horizon]."""
        recent, dynamics = self.recent, self.dynamics.flatten(1)
        series = torch.cat((scores, scores.new_zeros(*scores.shape[:2], self.horizon)), -1)
        for at in range(recent, recent + self.horizon):
            series[..., at] = series[..., at - recent + 1 : at].flatten(1) @ dynamics.mT
        return series[..., recent:]


class Common(NamedTuple):
    """basis [B,V,K]; scores [B,K,context]; moves [B,V,context]; level, stays [B,V,1]; there [B,V].

    The first column is the mean. Scores and moves are around the context's center, level is where
    that is, and stays is from 0, for what has left its company, to 1.
    """

    basis: Tensor
    scores: Tensor
    moves: Tensor
    level: Tensor
    stays: Tensor
    there: Tensor


class FactorRegressors(NamedTuple):
    """own [B,V,context]; company [B,V,regressor]; course [B,V,number,horizon]; center; there.

    Company is first the own recent history, to be weighed anew, then the field of each block; the
    course is for each of `KINDS` what is to come of each block.
    """

    own: Tensor
    company: Tensor
    course: Tensor
    center: Tensor
    there: Tensor
