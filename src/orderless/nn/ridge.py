"""Linear forecasts in closed form: the strong, simple start of the forecaster, and a baseline.

A forecast is linear in the centered context of the variable itself and in the context pooled over
the variables, with weights shared by all of them. That is the most a linear map can do
without knowing an order among the variables (Theorem 1, for inputs).

    y[c] = center[c] + own x[c] + s (shift x[c] + deviation[c] pooled p),   s = 1 - 1 / C

with C the number of variables observed, and deviation[c] the standard deviation of the context. A
lone variable has s = 0 and gets the forecast of its own history, whatever the rest learned from
company.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orderless.errors import SettingError, ShapeError
from orderless.nn.normalization import movement, normalize
from orderless.ops import mean_pool, presence

PENALTIES = tuple(10.0**k for k in range(-8, 3))


class LinearForecast(nn.Module):
    """`ridge` (own history), or with `pooled` `coupled ridge`; fitted by `fit`, not by descent.

    **Call** `linear(x, observed=None, members=None)` with x [batch, variable, context], `observed`
    of the same shape (False where a value is missing) and `members` [batch, variable]. Returns
    [batch, variable, horizon] in the units of x; 0 for non-members.
    """

    def __init__(
        self,
        context: int,
        horizon: int,
        *,
        pooled: bool = True,
        center: str = "mean",
        scale: bool = True,
    ) -> None:
        super().__init__()
        self.context, self.horizon = context, horizon
        self.center, self.scale = center, scale
        # Fitted on data in float32, whatever torch's default is.
        start = torch.zeros(horizon, context, dtype=torch.float32)
        self.own = nn.Parameter(start)
        self.shift = nn.Parameter(start.clone()) if pooled else None
        self.pooled = nn.Parameter(start.clone()) if pooled else None

    def forward(
        self, x: Tensor, observed: Tensor | None = None, members: Tensor | None = None
    ) -> Tensor:
        """The forecast of every variable."""
        given = self.regressors(x, observed, members)
        y = given.center + given.own @ self.own.mT
        if self.pooled is not None and self.shift is not None:
            common = (given.pooled @ self.pooled.mT).unsqueeze(1)
            y = y + given.company * (given.own @ self.shift.mT + given.deviation * common)
        return y if members is None else torch.where(members.unsqueeze(-1), y, 0.0)

    def regressors(
        self, x: Tensor, observed: Tensor | None = None, members: Tensor | None = None
    ) -> "Regressors":
        """What the forecast is linear in."""
        mask = presence(members, observed)
        values, center, scale = normalize(x, mask, center=self.center, scale=self.scale)
        seen = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask.any(-1)
        count = seen.sum(1).clamp(min=1)
        return Regressors(
            own=values * scale,
            pooled=mean_pool(values.unsqueeze(-1), observed=mask).squeeze(-1),
            center=center,
            deviation=scale * movement(values, mask) if self.scale else scale,
            company=(1 - 1 / count.to(x.dtype)).reshape(-1, 1, 1),
            seen=seen,
        )

    @torch.no_grad()
    def fit(
        self,
        final: "RidgeStatistics",
        folds: Sequence[tuple["RidgeStatistics", "RidgeStatistics"]],
        penalties: Sequence[float] = PENALTIES,
    ) -> list["LinearForecast"]:
        """Set the weights in closed form from `final`, with the penalties that do best on folds.

        folds: for each, statistics of what is fitted on and of what is held out. First the own
        history alone, then what company adds to it; for both, no weights at all are a candidate.
        Penalties are in units of the mean variance of the regressors.

        Returns the same forecast as fitted for each fold.
        """
        if not penalties or min(penalties) <= 0:
            raise SettingError(f"penalties={penalties} must be one or more positive numbers.")
        each = [self._empty(pooled=self.pooled is not None) for _ in folds]
        pairs = [(train.own(), held_out.own()) for train, held_out in folds]
        weights, _ = cross_fit(final.own(), pairs, penalties)
        for linear, own in zip((self, *each), weights, strict=True):
            linear.own.copy_(own)
        if self.pooled is None or self.shift is None:
            return each
        pairs = [
            (train.company(own), held_out.company(own))
            for (train, held_out), own in zip(folds, weights[1:], strict=True)
        ]
        weights, _ = cross_fit(final.company(weights[0]), pairs, penalties)
        for linear, both in zip((self, *each), weights, strict=True):
            shift, pooled = both.tensor_split(2, dim=1)
            linear.load_state_dict({"own": linear.own, "shift": shift, "pooled": pooled})
        return each

    def without_company(self) -> "LinearForecast":
        """The part that rests on the own history alone."""
        alone = self._empty(pooled=False)
        alone.own.copy_(self.own)
        return alone

    def _empty(self, *, pooled: bool) -> "LinearForecast":
        empty = LinearForecast(
            self.context, self.horizon, pooled=pooled, center=self.center, scale=self.scale
        )
        return empty.to(self.own).requires_grad_(False)


class Regressors(NamedTuple):
    """own [B,V,L]; pooled [B,L]; center, deviation [B,V,1]; company [B,1,1]; seen [B,V]."""

    own: Tensor
    pooled: Tensor
    center: Tensor
    deviation: Tensor
    company: Tensor
    seen: Tensor

    def of(self, variables: Tensor) -> "Regressors":
        """Those of some variables [batch, chosen]."""
        return self._replace(
            own=_rows(self.own, variables),
            center=_rows(self.center, variables),
            deviation=_rows(self.deviation, variables),
            seen=self.seen.gather(1, variables),
        )


class Moments(NamedTuple):
    """All that least squares needs to know: regressors by regressors, and regressors by targets."""

    gram: Tensor
    cross: Tensor


class RidgeStatistics:
    """Sums over windows from which ridge is solved for any penalty; feed it block by block.

    Kept in float64 on the device of the windows. Missing targets are left out of the sums, which
    are then rescaled to the full number of windows: exact when targets go missing at random.
    """

    def __init__(self, linear: LinearForecast) -> None:
        self.linear = linear
        self._sums: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(
        self,
        x: Tensor,
        target: Tensor,
        observed: Tensor | None = None,
        target_observed: Tensor | None = None,
        members: Tensor | None = None,
        counted: Tensor | None = None,
    ) -> None:
        """Add windows x [batch, variable, context] and what followed [batch, variable, horizon].

        counted: the variables [batch, chosen] whose rows are added; the others have their say in
        the pooled context alone.
        """
        given = self.linear.regressors(x, observed, members)
        if counted is not None:
            given, target = given.of(counted), _rows(target, counted)
            target_observed = None if target_observed is None else _rows(target_observed, counted)
        rows = given.seen
        asked = (
            torch.ones_like(target, dtype=torch.bool)
            if target_observed is None
            else target_observed
        )
        asked = asked & rows.unsqueeze(-1)
        y = torch.where(asked, target - given.center, 0.0).double()
        own = torch.where(rows.unsqueeze(-1), given.own, 0.0).double()
        self._add("rows", rows.sum().double())
        self._add("asked", asked.sum((0, 1)).double())
        self._add("own_own", _outer(own, own))
        self._add("own_y", _outer(own, y))
        if self.linear.pooled is None:
            return
        company, pooled = given.company.double(), given.pooled.double()
        deviation = torch.where(rows.unsqueeze(-1), given.deviation, 0.0).double()
        # The pooled context is one series a window: summing the variables first saves the work.
        self._add("self_own", _outer(company * own, own))
        self._add("self_self", _outer(company * own, company * own))
        self._add("pooled_own", pooled.mT @ (company * deviation * own).sum(1))
        self._add("pooled_self", pooled.mT @ (company.square() * deviation * own).sum(1))
        self._add("self_y", _outer(company * own, y))
        self._add("pooled_y", pooled.mT @ (company * deviation * y).sum(1))
        squares = (company * deviation).square().sum(1)
        self._add("pooled_pooled", pooled.mT @ (squares * pooled))

    def own(self) -> Moments:
        """The problem of forecasting from the own history."""
        if not self._sums:
            raise ShapeError("No window was added to these statistics; call `update` first.")
        return Moments(self._sums["own_own"], self._sums["own_y"] * self._fill())

    def company(self, own: Tensor) -> Moments:
        """The problem of forecasting what `own` leaves over, in company."""
        s = self._sums
        gram = torch.cat(
            (
                torch.cat((s["self_self"], s["pooled_self"].mT), dim=1),
                torch.cat((s["pooled_self"], s["pooled_pooled"]), dim=1),
            )
        )
        cross = torch.cat((s["self_y"], s["pooled_y"])) * self._fill()
        explained = torch.cat((s["self_own"], s["pooled_own"])) @ own.double().mT
        return Moments(gram, cross - explained)

    def __add__(self, other: "RidgeStatistics") -> "RidgeStatistics":
        """The statistics of all windows of both."""
        both = RidgeStatistics(self.linear)
        both._sums = dict(self._sums)
        for name, value in other._sums.items():
            both._add(name, value)
        return both

    def _fill(self) -> Tensor:
        return self._sums["rows"] / self._sums["asked"].clamp(min=1.0)

    def _add(self, name: str, value: Tensor) -> None:
        self._sums[name] = self._sums[name] + value if name in self._sums else value


def _rows(value: Tensor, variables: Tensor) -> Tensor:
    return value.take_along_dim(variables.unsqueeze(-1), 1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a.flatten(0, 1).mT @ b.flatten(0, 1)


def cross_fit(
    final: Moments, folds: Sequence[tuple[Moments, Moments]], penalties: Sequence[float]
) -> tuple[list[Tensor], Tensor]:
    """Weights [horizon, regressor] from `final` and for each fold, all with one penalty.

    It makes the least squared error on what the folds hold out; none at all may be the best. Beside
    them how much less that error is without any weights, [fold], a negative number.
    """
    solvers = [_Solver(train) for train, _ in folds]
    excess = torch.stack(
        [
            solver.excess(held_out, penalties)
            for solver, (_, held_out) in zip(solvers, folds, strict=True)
        ]
    )
    total = excess.sum(0)
    best = int(total.argmin())
    if not total[best] < 0:
        nothing = torch.zeros_like(final.cross).mT
        return [nothing] * (1 + len(folds)), torch.zeros_like(excess[:, best])
    solvers = [_Solver(final), *solvers]
    return [solver.weights(penalties[best]) for solver in solvers], excess[:, best]


class _Solver:
    """Ridge for any penalty, by one eigendecomposition."""

    def __init__(self, moments: Moments) -> None:
        values, self.vectors = torch.linalg.eigh(moments.gram)
        self.values = values.clamp(min=0.0)
        self.unit = self.values.mean().clamp(min=torch.finfo(values.dtype).tiny)
        self.rotated = self.vectors.mT @ moments.cross

    def weights(self, penalty: float) -> Tensor:
        """[horizon, regressor]."""
        return (self.vectors @ self._in_modes(penalty)).mT

    def excess(self, held_out: Moments, penalties: Sequence[float]) -> Tensor:
        """Squared error for each penalty, less that of no weights at all."""
        gram = self.vectors.mT @ held_out.gram @ self.vectors
        cross = self.vectors.mT @ held_out.cross
        modes = (self._in_modes(penalty) for penalty in penalties)
        return torch.stack([(one * (gram @ one - 2 * cross)).sum() for one in modes])

    def _in_modes(self, penalty: float) -> Tensor:
        return self.rotated / (self.values + penalty * self.unit).unsqueeze(-1)
