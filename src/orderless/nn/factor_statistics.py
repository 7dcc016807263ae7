"""Sums over windows, from which the dynamics of factors and the factor ridge are solved."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from orderless.nn.factor_ridge import KINDS, FactorForecast
from orderless.ops.factors import Loadings


class _Sums:
    """Named sums, in float64."""

    def __init__(self, forecast: FactorForecast) -> None:
        self.forecast = forecast
        self._sums: dict[str, Tensor] = {}

    def __add__(self, other: Self) -> Self:
        """Those of all windows of both."""
        both = type(self)(self.forecast)
        both._sums = dict(self._sums)
        for name, value in other._sums.items():
            both._add(name, value)
        return both

    def _add(self, name: str, value: Tensor) -> None:
        self._sums[name] = self._sums[name] + value if name in self._sums else value


class ScoreStatistics(_Sums):
    """How the scores of factors at one time go with those at others."""

    @torch.no_grad()
    def update(
        self,
        x: Tensor,
        loadings: Loadings,
        observed: Tensor | None = None,
        members: Tensor | None = None,
    ) -> None:
        """Add windows."""
        common = self.forecast.common(x, loadings, observed, members)
        scores = common.scores[..., -self.forecast.recent :] + common.basis.mT @ common.level
        scores = scores.flatten(1).double()
        self._add("gram", scores.mT @ scores)

    @property
    def gram(self) -> Tensor:
        """[factor, time, factor, time] over the times of a recent history."""
        recent = self.forecast.recent
        return self._sums["gram"].unflatten(1, (-1, recent)).unflatten(0, (-1, recent))


class Problem(NamedTuple):
    """What is to be forecast from company and from the course of factors, as sums.

    gram [p, p], cross [p, horizon]     of company, and with what is forecast
    corner [horizon, n, n], tip [horizon, n]    the same of the course
    side [horizon, n, p]                the course with company
    """

    gram: Tensor
    cross: Tensor
    corner: Tensor
    tip: Tensor
    side: Tensor

    def left_over(self, company: Tensor, course: Tensor) -> "Problem":
        """What weights [horizon, p] and [horizon, n] leave over."""
        cross = self.cross - self.gram @ company.mT
        cross = cross - (course.unsqueeze(1) @ self.side).squeeze(1).mT
        tip = self.tip - (self.corner @ course.unsqueeze(-1)).squeeze(-1)
        tip = tip - (self.side @ company.unsqueeze(-1)).squeeze(-1)
        return self._replace(cross=cross, tip=tip)


class FactorStatistics(_Sums):
    """All that the weights of company and course follow from, for any number of blocks."""

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
        course = given.course.transpose(-1, -2).flatten(2)  # step ahead by step ahead
        parts = (given.company, course, own, y, asked, given.there.unsqueeze(-1))
        if counted is not None:
            parts = tuple(one.take_along_dim(counted.unsqueeze(-1), 1) for one in parts)
        company, course, own, y, asked, there = (one.flatten(0, 1).double() for one in parts)
        ahead = course.unflatten(1, (y.shape[1], -1)).transpose(0, 1)  # [horizon, row, n]
        self._add("gram", company.mT @ company)
        self._add("own", company.mT @ own)
        self._add("y", company.mT @ y)
        self._add("side", course.mT @ company)
        self._add("course own", course.mT @ own)
        self._add("corner", ahead.mT @ ahead)
        self._add("tip", (ahead.mT @ y.mT.unsqueeze(-1)).squeeze(-1))
        self._add("asked", asked.sum(0))
        self._add("rows", there.sum())

    def problem(self, own: Tensor, blocks: int, *, drifts: bool) -> Problem:
        """Of forecasting what `own` leaves over, with so many blocks of factors.

        drifts: whether the course of levels counts, that is where all variables are in all that was
        """
        s, widest = self._sums, 1 + self.forecast.blocks
        size = (2 + blocks) * self.forecast.recent
        kinds = torch.arange(KINDS if drifts else KINDS - 1)
        some = (kinds[:, None] * widest + torch.arange(1 + blocks)).flatten().to(own.device)
        fill = s["rows"] / s["asked"].clamp(min=1.0)
        own = own.double()
        cross = s["y"] * fill - s["own"] @ own.mT
        steps = (len(own), KINDS * widest)
        tip = s["tip"] * fill[:, None]
        tip = tip - (s["course own"].unflatten(0, steps) @ own.unsqueeze(-1)).squeeze(-1)
        return Problem(
            s["gram"][:size, :size],
            cross[:size],
            s["corner"][:, some][:, :, some],
            tip[:, some],
            s["side"].unflatten(0, steps)[:, some, :size],
        )
