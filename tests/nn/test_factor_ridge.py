"""The factor ridge: its sums, its symmetries, and what it learns."""

import pytest
import torch
from nn_cases import drawn

from orderless.nn import (
    FactorForecast,
    FactorStatistics,
    ScoreStatistics,
    fit_dynamics,
    fit_factor_forecasts,
)
from orderless.nn.factor_fit import _tame
from orderless.nn.factor_ridge import KINDS
from orderless.ops.factors import MOST, Loadings

CONTEXT, HORIZON = 12, 3


def loadings(batch, variables, seed=0):
    generator = torch.Generator().manual_seed(seed)
    gains = torch.randn(variables, MOST, generator=generator, dtype=torch.float64)
    one = torch.ones(batch, variables, dtype=torch.float64)
    return Loadings(gains.expand(batch, -1, -1), 0 * one, one, one)


def forecast(blocks=4, seed=0, center="mean"):
    generator = torch.Generator().manual_seed(seed)
    linear = FactorForecast(CONTEXT, HORIZON, blocks=blocks, center=center).double()
    for parameter in linear.parameters():
        parameter.data.normal_(generator=generator)
    linear.dynamics.data /= 100
    return linear.requires_grad_(False)


def test_sums_over_windows_are_those_of_the_dense_problem():
    x, members, observed = drawn((20, 6, CONTEXT), 0)
    y = drawn((20, 6, HORIZON), 1)[0]
    own, company, course = (
        drawn(size, 2)[0]
        for size in ((HORIZON, CONTEXT), (HORIZON, 6 * CONTEXT), (HORIZON, KINDS * 5))
    )
    linear, given = forecast(), loadings(20, 6)
    statistics = FactorStatistics(linear)
    statistics.update(x, y, given, observed, torch.ones_like(y, dtype=torch.bool), members)
    found = statistics.problem(own, 4, drifts=True).left_over(company, course)
    seen = linear.regressors(x, given, observed, members)
    there = seen.there
    left = y - seen.center - seen.own @ own.mT - seen.company @ company.mT
    left = (left - (seen.course * course.mT).sum(-2))[there]
    rows, ahead = seen.company[there], seen.course[there]
    torch.testing.assert_close(found.gram, rows.mT @ rows)
    torch.testing.assert_close(found.cross, rows.mT @ left)
    torch.testing.assert_close(found.corner, torch.einsum("rnh,rmh->hnm", ahead, ahead))
    torch.testing.assert_close(found.tip, torch.einsum("rnh,rh->hn", ahead, left))
    torch.testing.assert_close(found.side, torch.einsum("rnh,rp->hnp", ahead, rows))


def test_fewer_blocks_are_a_part_of_the_same_problem():
    x, y = drawn((20, 6, CONTEXT), 0)[0], drawn((20, 6, HORIZON), 1)[0]
    own, given = drawn((HORIZON, CONTEXT), 2)[0], loadings(20, 6)
    wide, narrow = forecast(4), forecast(1)
    narrow.load_state_dict(narrow.state_dict() | {k: getattr(wide, k) for k in ("own", "dynamics")})
    problems = []
    for one in (wide, narrow):
        statistics = FactorStatistics(one)
        statistics.update(x, y, given)
        problems.append(statistics.problem(own, 1, drifts=False))
    for a, b in zip(*problems, strict=True):
        torch.testing.assert_close(a, b)


def test_rows_of_some_variables_and_of_the_others_add_up_to_all():
    x, y = drawn((20, 6, CONTEXT), 0)[0], drawn((20, 6, HORIZON), 1)[0]
    own, given = drawn((HORIZON, CONTEXT), 2)[0], loadings(20, 6)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).expand(20, 6)
    problems = []
    for counted in (None, order[:, :2], order[:, 2:]):
        statistics = FactorStatistics(forecast())
        statistics.update(x, y, given, counted=counted)
        problems.append(statistics.problem(own, 4, drifts=True))
    for whole, some, others in zip(*problems, strict=True):
        torch.testing.assert_close(some + others, whole)


@pytest.mark.parametrize("center", ["mean", "last", "none"])
def test_variables_are_reordered_with_their_loadings(center):
    x, members, observed = drawn((4, 6, CONTEXT), 0)
    linear, given = forecast(center=center), loadings(4, 6)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    moved = Loadings(*(part[:, order] for part in given))
    expected = linear(x, given, observed, members)[:, order]
    found = linear(x[:, order], moved, observed[:, order], members[:, order])
    torch.testing.assert_close(found, expected)


def test_what_is_masked_may_hold_anything():
    x, members, observed = drawn((4, 6, CONTEXT), 0)
    linear, given = forecast(), loadings(4, 6)
    hidden = torch.where(observed & members.unsqueeze(-1), x, torch.nan)
    found = linear(hidden, given, observed, members)
    torch.testing.assert_close(found, linear(x, given, observed, members))
    assert not found[~members].any()


def test_a_lone_variable_is_forecast_from_its_own_history():
    x = drawn((4, 1, CONTEXT), 0)[0]
    linear = forecast()
    center = x.mean(-1, keepdim=True)
    expected = center + (x - center) @ linear.own.mT
    torch.testing.assert_close(linear(x, loadings(4, 1)), expected)


def test_a_context_that_stands_still_is_not_moved_by_the_others():
    x = drawn((4, 6, CONTEXT), 0)[0]
    x[:, 0] = 0.5
    found = forecast()(x, loadings(4, 6))
    torch.testing.assert_close(found[:, 0], torch.full_like(found[:, 0], 0.5))


def test_a_sensor_that_has_gone_far_away_has_left_its_company():
    x = drawn((4, 6, CONTEXT), 0)[0]
    linear, given = forecast(), loadings(4, 6)
    far, further = x.clone(), x.clone()
    far[:, 0] += 50
    further[:, 0] = -1e4 - x[:, 0]
    torch.testing.assert_close(linear(far, given)[:, 1:], linear(further, given)[:, 1:])
    alone = far[:, 0].mean(-1, keepdim=True)
    expected = alone + (far[:, 0] - alone) @ linear.own.mT
    torch.testing.assert_close(linear(far, given)[:, 0], expected)


def test_each_variable_but_itself_is_in_its_field():
    x, other = drawn((4, 6, CONTEXT), 0)[0], drawn((4, 6, CONTEXT), 5)[0]
    linear, given = forecast(), loadings(4, 6)
    other[:, 1:] = x[:, 1:]
    fields = slice(CONTEXT, 6 * CONTEXT)
    one, changed = (linear.regressors(v, given).company[:, 0, fields] for v in (x, other))
    torch.testing.assert_close(one, changed)


@pytest.mark.parametrize("lag", [1, 5])
def test_dynamics_are_found_with_few_terms(lag):
    generator = torch.Generator().manual_seed(0)
    series = torch.randn(3000, generator=generator, dtype=torch.float64)
    for t in range(lag, 3000):
        series[t] = 0.9 * series[t - lag] + 0.3 * series[t]
    linear = FactorForecast(CONTEXT, HORIZON, blocks=1).double()
    given = loadings(1, 2)
    given = given._replace(
        gains=torch.cat((torch.ones(1, 2, 1), torch.zeros(1, 2, 7)), -1).double()
    )
    parts = []
    for third in series.chunk(3):
        statistics = ScoreStatistics(linear)
        for row in third.unfold(0, CONTEXT, 1).split(100):
            x = row.unsqueeze(1).expand(-1, 2, -1)
            statistics.update(
                x, Loadings(*(part.expand(len(row), *part.shape[1:]) for part in given))
            )
        parts.append(statistics)
    a, b, c = parts
    found = fit_dynamics(a + b + c, [(a + b, c), (b + c, a)])
    assert (found[1, 1] != 0).sum() < 8
    assert found[1, 1, -lag] == pytest.approx(0.9, abs=0.05)
    assert not found[2:].any()


def test_dynamics_never_grow_without_bound():
    dynamics = torch.zeros(2, 2, CONTEXT - 1, dtype=torch.float64)
    dynamics[0, 0, -1], dynamics[1, 0, -3], dynamics[1, 1, -2] = 1.4, 5.0, -1.2
    tame = _tame(dynamics)
    state = torch.ones(2, CONTEXT - 1, dtype=torch.float64)
    for _ in range(500):
        following = torch.einsum("ijt,jt->i", tame, state)
        state = torch.cat((state[:, 1:], following[:, None]), 1)
    assert state.abs().max() < 1000
    assert torch.equal(_tame(dynamics / 10), dynamics / 10)


def windows(count, seed, sign):
    """What follows is the own last value and twice the hidden common one, seen by all."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 1, CONTEXT, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, 10, CONTEXT, generator=generator, dtype=torch.float64)
    x = sign.unsqueeze(-1) * hidden + noise
    y = sign.unsqueeze(-1) * 2 * hidden[..., -HORIZON:]
    return x, y


def fitted(sign, blocks):
    gains = torch.zeros(1, 10, MOST, dtype=torch.float64)
    gains[..., 0] = sign
    own = [torch.zeros(HORIZON, CONTEXT)] * 3
    statistics = []
    for seed in range(4):
        x, y = windows(400, seed, sign)
        one = torch.ones(400, 10, dtype=torch.float64)
        given = Loadings(gains.expand(400, -1, -1), 0 * one, one, one)
        statistics.append(
            FactorStatistics(FactorForecast(CONTEXT, HORIZON, blocks=blocks).double())
        )
        statistics[-1].update(x, y, given)
    a, b, c, d = statistics
    return fit_factor_forecasts(own, a + b, [(a, c), (b, d)])[0]


def test_factors_see_what_the_mean_is_blind_to():
    sign = torch.tensor([1.0, -1.0] * 5, dtype=torch.float64)
    x, y = windows(200, 9, sign)
    one = torch.ones(200, 10, dtype=torch.float64)
    gains = torch.zeros(200, 10, MOST, dtype=torch.float64)
    gains[..., 0] = sign
    given = Loadings(gains, 0 * one, one, one)
    errors = [(fitted(sign, blocks).double()(x, given) - y).square().mean() for blocks in (0, 1)]
    # The own history tells half of it, ten sensors tell nearly all.
    assert errors[0] > 1.7
    assert errors[1] < 0.7


def test_noise_is_given_no_weights():
    x, y = drawn((300, 6, CONTEXT), 0)[0], drawn((300, 6, HORIZON), 1)[0]
    given = loadings(300, 6)
    parts = []
    for begin in (0, 100, 200):
        one = FactorStatistics(FactorForecast(CONTEXT, HORIZON, blocks=2).double())
        span = slice(begin, begin + 100)
        one.update(x[span], y[span] + x[span].mean(-1, keepdim=True), loadings(100, 6))
        parts.append(one)
    a, b, c = parts
    own = [torch.zeros(HORIZON, CONTEXT)] * 4
    found = fit_factor_forecasts(own, a + b + c, [(a + b, c), (a + c, b), (b + c, a)])
    assert given.gains.shape[-1] == MOST
    assert not found[0].company.any()
    assert not found[0].course.any()
