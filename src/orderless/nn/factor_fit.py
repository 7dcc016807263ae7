"""Weights of the factor ridge, in closed form and in stages, from statistics of windows."""

from collections.abc import Sequence

import torch
from torch import Tensor

from orderless.nn.factor_ridge import FactorForecast, FactorStatistics, company_size
from orderless.nn.ridge import PENALTIES, Moments, cross_fit


def fit_factor_forecasts(
    own: Sequence[Tensor],
    final: FactorStatistics,
    folds: Sequence[tuple[FactorStatistics, FactorStatistics]],
    penalties: Sequence[float] = PENALTIES,
) -> list[FactorForecast]:
    """The forecast fitted on `final`, and for each fold; without weights where nothing is added.

    own: weights of the own history [horizon, context], of `final` and for each fold.

    There are few independent times to learn from, however many variables, so weights are first
    sought among few: fields are continued by an autoregression, and for each step ahead it is found
    how much of that is of use; what a variable has of its own, its history without fields, is
    forecast from many variables. What this leaves over is forecast by a ridge on everything.
    The number of blocks is that with the least squared error on what folds hold out, but there are
    no more than folds agree on: a further block has to be better by more than the standard error
    over folds. So have the levels of fields, which tell where all variables are in all that was.
    """
    base = final.forecast
    statistics = [final, *(train for train, _ in folds)]
    held_out = [test for _, test in folds]
    continued = [
        _continue(statistics, held_out, block, penalties) for block in range(1 + base.blocks)
    ]

    def fit(blocks: int, *, absolute: bool) -> tuple[list[Tensor], Tensor]:
        """Weights for each fit, and their excess [fold]."""
        directions = (
            [
                _continuations(own[i], [one[i] for one in continued[: 1 + blocks]])
                for i in range(len(own))
            ],
            [_without_fields(base.recent, blocks).to(own[0].device)] * len(own),
        )
        fitted_on = [one.moments(w, blocks) for one, w in zip(statistics, own, strict=True)]
        scored_on = [one.moments(w, blocks) for one, w in zip(held_out, own[1:], strict=True)]
        if not absolute:
            fitted_on, scored_on = (
                [_relative(m, blocks) for m in each] for each in (fitted_on, scored_on)
            )
        found = [torch.zeros_like(one.cross.mT) for one in fitted_on]
        total = torch.zeros(len(folds), dtype=torch.float64, device=own[0].device)
        for along in (*directions, *directions, None):
            rest = [_left_over(one, w) for one, w in zip(fitted_on, found, strict=True)]
            tests = [_left_over(one, w) for one, w in zip(scored_on, found[1:], strict=True)]
            more, excess = _fit_along(along, rest, tests, penalties)
            found = [one + further for one, further in zip(found, more, strict=True)]
            total = total + excess
        return found, total

    best = 0, *fit(0, absolute=False)
    for blocks in range(1, 1 + base.blocks):
        found, excess = fit(blocks, absolute=False)
        if _is_better(excess, best[2]):
            best = blocks, found, excess
    found, excess = fit(best[0], absolute=True)
    if _is_better(excess, best[2]):
        best = best[0], found, excess
    blocks, weights, excess = best
    if not _is_better(excess, torch.zeros_like(excess)):
        weights = [torch.zeros_like(one) for one in weights]
    each = []
    for history, company in zip(own, weights, strict=True):
        one = FactorForecast(base.context, base.horizon, blocks=blocks, center=base.center)
        each.append(one.to(history.device).requires_grad_(False))
        one.load_state_dict({"own": history, "company": company})
    return each


def _relative(moments: Moments, blocks: int) -> Moments:
    """The problem without the levels of fields, which a drift of all variables moves."""
    kept = torch.ones_like(moments.gram[0])
    kept[-(1 + blocks) :] = 0.0
    return Moments(moments.gram * kept * kept[:, None], moments.cross * kept[:, None])


def _continue(
    statistics: Sequence[FactorStatistics],
    held_out: Sequence[FactorStatistics],
    block: int,
    penalties: Sequence[float],
) -> list[Tensor]:
    """What an autoregression makes of the scores of a block, [horizon, recent], for each fit."""
    problems = [one.next_score(block) for one in statistics]
    tests = [one.next_score(block) for one in held_out]
    found, _ = cross_fit(problems[0], list(zip(problems[1:], tests, strict=True)), penalties)
    maps = []
    for (weights,) in found:
        recent = len(weights) + 1
        history = torch.eye(recent, dtype=weights.dtype, device=weights.device)
        for _ in range(statistics[0].forecast.horizon):
            history = torch.cat((history, (weights @ history[-len(weights) :]).unsqueeze(0)))
        maps.append(history[recent:])
    return maps


def _continuations(own: Tensor, continued: Sequence[Tensor]) -> Tensor:
    """Directions in the weights of company, [horizon, regressor, direction].

    For each block its continuation; the own weights on it, which have seen it already; and levels.
    """
    blocks = len(continued) - 1
    horizon, recent = continued[0].shape
    own = own[:, -recent:].double()
    columns = own.new_zeros(horizon, company_size(recent, blocks), 4 * (1 + blocks))
    level = (2 + blocks) * recent
    for block, ahead in enumerate(continued):
        span = slice((1 + block) * recent, (2 + block) * recent)
        apart, absolute = level + block, level + 1 + blocks + block
        columns[:, span, 4 * block] = ahead
        columns[:, absolute, 4 * block] = (ahead.sum(1) - 1) / recent**0.5
        columns[:, span, 4 * block + 1] = own
        columns[:, apart, 4 * block + 2] = 1.0
        columns[:, absolute, 4 * block + 3] = 1.0
    return columns


def _without_fields(recent: int, blocks: int) -> Tensor:
    """Directions of the own history without what factors say of it, [1, regressor, direction]."""
    one = torch.eye(recent, dtype=torch.float64)
    columns = one.new_zeros(1, company_size(recent, blocks), recent)
    columns[0, :recent] = one
    for block in range(1, 1 + blocks) if blocks else (0,):
        columns[0, (1 + block) * recent : (2 + block) * recent] = -one
    return columns


def _fit_along(
    directions: Sequence[Tensor] | None,
    fitted_on: Sequence[Moments],
    scored_on: Sequence[Moments],
    penalties: Sequence[float],
) -> tuple[list[Tensor], Tensor]:
    """Weights [horizon, regressor] for each fit, and their excess [fold] over none.

    directions  for each fit [horizon, regressor, direction], of which weights are made, those of
                each step ahead of their own; [1, ...] where all have the same, None for any weights
    """
    if directions is None or len(directions[0]) == 1:
        along = None if directions is None else [one[0] for one in directions]
        problems = _project(fitted_on, along)
        pairs = list(zip(problems[1:], _project(scored_on, along and along[1:]), strict=True))
        found, excess = cross_fit(problems[0], pairs, penalties)
        return found if along is None else [
            one @ a.mT for one, a in zip(found, along, strict=True)
        ], excess
    problems, tests = _project(fitted_on, directions), _project(scored_on, directions[1:])

    def solve(problem: Moments, penalty: float) -> Tensor:
        size = problem.gram.diagonal(dim1=-2, dim2=-1).clamp(min=torch.finfo(torch.float32).tiny)
        return torch.linalg.solve(problem.gram + penalty * torch.diag_embed(size), problem.cross)

    def excess_of(problem: Moments, test: Moments, penalty: float) -> Tensor:
        weights = solve(problem, penalty)
        return (weights * (test.gram @ weights - 2 * test.cross)).sum()

    each = torch.stack(
        [
            torch.stack([excess_of(*pair, one) for pair in zip(problems[1:], tests, strict=True)])
            for one in penalties
        ]
    )
    best = int(each.sum(1).argmin())
    if not each[best].sum() < 0:
        return [torch.zeros_like(one.cross.mT) for one in fitted_on], torch.zeros_like(each[best])
    found = [solve(problem, penalties[best]) for problem in problems]
    return [(a @ one).squeeze(-1) for a, one in zip(directions, found, strict=True)], each[best]


def _project(moments: Sequence[Moments], directions: Sequence[Tensor] | None) -> Sequence[Moments]:
    """The same problems in terms of a few directions."""
    if directions is None:
        return moments
    return [
        Moments(
            a.mT @ (one.gram @ a),
            a.mT @ (one.cross if a.dim() == 2 else one.cross.mT.unsqueeze(-1)),
        )
        for one, a in zip(moments, directions, strict=True)
    ]


def _left_over(moments: Moments, weights: Tensor) -> Moments:
    """The problem of forecasting what weights [horizon, regressor] leave over."""
    return Moments(moments.gram, moments.cross - moments.gram @ weights.mT)


def _is_better(one: Tensor, other: Tensor) -> bool:
    """Whether losses [fold] are less, by more than the standard error over folds."""
    gain = other - one
    chance = gain.std() / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(gain.mean() > chance)
