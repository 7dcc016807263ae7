"""Weights of the factor ridge, in closed form and in stages, from statistics of windows.

There are few independent times to learn from, however many variables: what is common is one series.
So its dynamics have few terms, and of weights, too, few are sought first.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from orderless.nn.factor_ridge import FactorForecast
from orderless.nn.factor_statistics import FactorStatistics, Problem, ScoreStatistics
from orderless.nn.ridge import PENALTIES, Moments, cross_fit

MOST_TERMS = 24
"""Of the autoregression of a factor."""
INDEPENDENT = 1e-4
"""Share of the variance of a term that the others must leave over for it to count."""
Weights = tuple[Tensor, Tensor]
"""Of company [horizon, regressor] and of the course [horizon, number]."""


@torch.no_grad()
def fit_dynamics(
    final: ScoreStatistics, folds: Sequence[tuple[ScoreStatistics, ScoreStatistics]]
) -> Tensor:
    """The autoregression of scores, [factor, factor, recent - 1], the latest time last.

    Of the mean by itself and all factors, of each factor by all factors. Terms are taken one after
    the other, each time the one that explains most; as many as make the least error on what folds
    hold out.
    """
    count, recent = final.gram.shape[:2]
    dynamics = final.gram.new_zeros(count, count, recent - 1)
    if recent < 2:
        return dynamics.float()
    for factor in range(count):
        by = slice(min(factor, 1), count)
        problems = [_next_score(one, factor, by) for one, _ in folds]
        tests = [_next_score(one, factor, by) for _, one in folds]
        losses = torch.stack(
            [
                torch.stack([w @ (test.gram @ w - 2 * test.cross) for w in _term_by_term(problem)])
                for problem, test in zip(problems, tests, strict=True)
            ]
        ).sum(0)
        terms = int(losses.argmin())
        weights = _term_by_term(_next_score(final, factor, by))[terms]
        dynamics[factor, by] = weights.unflatten(0, (-1, recent - 1))
    return _tame(dynamics).float()


def _tame(dynamics: Tensor) -> Tensor:
    """The same, with the eigenvalues drawn into the unit circle in proportion if any is beyond."""
    count, _, lags = dynamics.shape
    companion = torch.diag(dynamics.new_ones(count * (lags - 1)), -count)
    companion[:count] = dynamics.flip(2).transpose(1, 2).flatten(1)
    radius = float(torch.linalg.eigvals(companion).abs().max())
    ages = torch.arange(lags, 0, -1, dtype=dynamics.dtype, device=dynamics.device)
    return dynamics * min(1.0, 1 / max(radius, 1e-300)) ** ages


def _next_score(statistics: ScoreStatistics, factor: int, by: slice) -> Moments:
    """The problem of forecasting a score by those of some factors before it."""
    gram = statistics.gram
    before = gram[by, :-1].flatten(0, 1)
    return Moments(before[:, by, :-1].flatten(1), before[:, factor, -1])


def _term_by_term(problem: Moments) -> list[Tensor]:
    """Weights with no term, with one, and so on up to `MOST_TERMS`, or all that are independent."""
    gram, cross = problem
    size = gram.diagonal().clone()
    found, terms = [torch.zeros_like(cross)], []
    rows = gram.new_zeros(MOST_TERMS, len(cross))  # of the Cholesky factor
    rest, left = cross.clone(), size.clone()
    while len(found) <= MOST_TERMS:
        gain = torch.where(left > INDEPENDENT * size, rest.square() / left, 0.0)
        best = int(gain.argmax())
        if len(terms) == MOST_TERMS or not gain[best] > 0:
            found.append(found[-1])
            continue
        number = len(terms)
        rows[number] = (gram[best] - rows[:number, best] @ rows[:number]) / left[best].sqrt()
        rest = rest - rows[number] * (rest[best] / left[best].sqrt())
        left = left - rows[number].square()
        terms.append(best)
        weights = torch.zeros_like(cross)
        weights[terms] = torch.linalg.solve(gram[terms][:, terms], cross[terms])
        found.append(weights)
    return found


@torch.no_grad()
def fit_factor_forecasts(
    own: Sequence[Tensor],
    final: FactorStatistics,
    folds: Sequence[tuple[FactorStatistics, FactorStatistics]],
    penalties: Sequence[float] = PENALTIES,
) -> list[FactorForecast]:
    """The forecast fitted on `final`, and for each fold; without weights where nothing is added.

    own: weights of the own history [horizon, context], of `final` and for each fold.

    First the course of blocks is weighed, and what a variable has of its own, its history without
    fields, which is learned from many variables; what these leave over is forecast by a ridge on
    everything. The number of blocks is that with the least squared error on what folds hold out,
    but there are no more than folds agree on: a further block has to be better by more than the
    standard error over folds. So has the course of levels.
    """
    base = final.forecast
    statistics = [final, *(train for train, _ in folds)]
    held_out = [test for _, test in folds]

    def fit(blocks: int, *, drifts: bool) -> tuple[list[Weights], Tensor]:
        """Weights for each fit, and their excess [fold] over none."""
        problems, tests = (
            [one.problem(w, blocks, drifts=drifts) for one, w in zip(each, some, strict=True)]
            for each, some in ((statistics, own), (held_out, own[1:]))
        )
        without = _without_fields(base.recent, blocks).to(own[0].device)
        return _fit_stages(problems, tests, without, penalties)

    chosen = 0, False, *fit(0, drifts=False)
    for blocks in range(1, 1 + base.blocks):
        weights, excess = fit(blocks, drifts=False)
        if _is_better(excess, chosen[-1]):
            chosen = blocks, False, weights, excess
    weights, excess = fit(chosen[0], drifts=True)
    if _is_better(excess, chosen[-1]):
        chosen = chosen[0], True, weights, excess
    blocks, drifts, weights, excess = chosen
    worth = float(_is_better(excess, torch.zeros_like(excess)))
    each = []
    for history, (company, course) in zip(own, weights, strict=True):
        one = FactorForecast(base.context, base.horizon, blocks=blocks, center=base.center)
        if not drifts:
            course = torch.cat((course, course.new_zeros(len(course), 1 + blocks)), 1)
        one.load_state_dict(
            {
                "own": history,
                "company": worth * company,
                "course": worth * course,
                "dynamics": base.dynamics,
            }
        )
        each.append(one.to(history.device).requires_grad_(False))
    return each


def _fit_stages(
    problems: Sequence[Problem],
    tests: Sequence[Problem],
    without: Tensor,
    penalties: Sequence[float],
) -> tuple[list[Weights], Tensor]:
    """The course and the own part in turn, twice, and then everything."""
    weights = [(torch.zeros_like(one.cross.mT), torch.zeros_like(one.tip)) for one in problems]
    total = torch.zeros(())
    for stage in ("course", "own", "course", "own", "all"):
        rest = [one.left_over(*some) for one, some in zip(problems, weights, strict=True)]
        left = [one.left_over(*some) for one, some in zip(tests, weights[1:], strict=True)]
        if stage == "course":
            found, excess = _fit_course(rest, left, penalties)
            more = [
                (torch.zeros_like(one), course)
                for (one, _), course in zip(weights, found, strict=True)
            ]
        else:
            along = without if stage == "own" else None
            rows = [_project(one, along) for one in rest]
            pairs = list(zip(rows[1:], (_project(one, along) for one in left), strict=True))
            found, excess = cross_fit(rows[0], pairs, penalties)
            found = [one if along is None else one @ along.mT for one in found]
            more = [
                (company, torch.zeros_like(one))
                for company, (_, one) in zip(found, weights, strict=True)
            ]
        weights = [(a + c, b + d) for (a, b), (c, d) in zip(weights, more, strict=True)]
        total = total + excess
    return weights, total


def _fit_course(
    problems: Sequence[Problem], tests: Sequence[Problem], penalties: Sequence[float]
) -> tuple[list[Tensor], Tensor]:
    """Weights of the course [horizon, number] for each fit, and their excess [fold] over none.

    Each number is shrunk in its own units: they are few, and not alike.
    """

    def solve(one: Problem, penalty: float) -> Tensor:
        size = one.corner.diagonal(dim1=-2, dim2=-1)
        # What does not vary but by rounding may vary elsewhere.
        counts = size > INDEPENDENT * size.amax(-1, keepdim=True)
        corner = one.corner * counts.unsqueeze(-1) * counts.unsqueeze(-2)
        corner = corner + torch.diag_embed(torch.where(counts, penalty * size, 1.0))
        return torch.linalg.solve(corner, one.tip * counts)

    def excess(one: Problem, weights: Tensor) -> Tensor:
        answer = (one.corner @ weights.unsqueeze(-1)).squeeze(-1)
        return (weights * (answer - 2 * one.tip)).sum()

    each = torch.stack(
        [
            torch.stack(
                [
                    excess(test, solve(problem, penalty))
                    for problem, test in zip(problems[1:], tests, strict=True)
                ]
            )
            for penalty in penalties
        ]
    )
    best = int(each.sum(1).argmin())
    if not each[best].sum() < 0:
        return [torch.zeros_like(one.tip) for one in problems], torch.zeros_like(each[best])
    return [solve(one, penalties[best]) for one in problems], each[best]


def _without_fields(recent: int, blocks: int) -> Tensor:
    """Directions of the own history without what factors say of it, [regressor, direction]."""
    one = torch.eye(recent, dtype=torch.float64)
    parts = [one] + [torch.zeros_like(one)] * (1 + blocks)
    for block in range(1, 1 + blocks) if blocks else (0,):
        parts[1 + block] = -one
    return torch.cat(parts)


def _project(problem: Problem, along: Tensor | None) -> Moments:
    """The problem of company alone, in terms of a few directions if any are given."""
    if along is None:
        return Moments(problem.gram, problem.cross)
    return Moments(along.mT @ problem.gram @ along, along.mT @ problem.cross)


def _is_better(one: Tensor, other: Tensor) -> bool:
    """Whether losses [fold] are less, by more than the standard error over folds."""
    gain = other - one
    chance = gain.std() / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(gain.mean() > chance)
