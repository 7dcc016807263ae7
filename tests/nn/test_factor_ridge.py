"""The factor ridge: its sums, its symmetries, and what it learns."""

import pytest
import torch
from nn_cases import drawn

from orderless.nn import FactorForecast, FactorStatistics, fit_factor_forecasts
from orderless.nn.factor_ridge import company_size
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
    return linear.requires_grad_(False)


def test_sums_over_windows_are_those_of_the_dense_problem():
    x, members, observed = drawn((20, 6, CONTEXT), 0)
    y, _, asked = drawn((20, 6, HORIZON), 1)
    asked = torch.ones_like(asked)
    own = drawn((HORIZON, CONTEXT), 2)[0]
    linear, given = forecast(), loadings(20, 6)
    statistics = FactorStatistics(linear)
    statistics.update(x, y, given, observed, asked, members)
    found = statistics.moments(own, 4)
    regressors = linear.regressors(x, given, observed, members)
    there = regressors.there
    company = regressors.company[there]
    left = (y - regressors.center - regressors.own @ own.mT)[there]
    torch.testing.assert_close(found.gram, company.mT @ company)
    torch.testing.assert_close(found.cross, company.mT @ left)


def test_fewer_blocks_are_a_part_of_the_same_problem():
    x, y = drawn((20, 6, CONTEXT), 0)[0], drawn((20, 6, HORIZON), 1)[0]
    own, given = drawn((HORIZON, CONTEXT), 2)[0], loadings(20, 6)
    wide, narrow = (FactorStatistics(forecast(blocks)) for blocks in (4, 1))
    for one in (wide, narrow):
        one.update(x, y, given)
    for a, b in zip(wide.moments(own, 1), narrow.moments(own, 1), strict=True):
        torch.testing.assert_close(a, b)


def test_rows_of_some_variables_and_of_the_others_add_up_to_all():
    x, y = drawn((20, 6, CONTEXT), 0)[0], drawn((20, 6, HORIZON), 1)[0]
    own, given = drawn((HORIZON, CONTEXT), 2)[0], loadings(20, 6)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).expand(20, 6)
    moments = []
    for counted in (None, order[:, :2], order[:, 2:]):
        statistics = FactorStatistics(forecast())
        statistics.update(x, y, given, counted=counted)
        moments.append(statistics.moments(own, 4))
    for whole, some, others in zip(*moments, strict=True):
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
        statistics.append(FactorStatistics(FactorForecast(CONTEXT, HORIZON, blocks=blocks)))
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
        one = FactorStatistics(FactorForecast(CONTEXT, HORIZON, blocks=2))
        span = slice(begin, begin + 100)
        one.update(x[span], y[span] + x[span].mean(-1, keepdim=True), loadings(100, 6))
        parts.append(one)
    a, b, c = parts
    own = [torch.zeros(HORIZON, CONTEXT)] * 4
    found = fit_factor_forecasts(own, a + b + c, [(a + b, c), (a + c, b), (b + c, a)])
    assert given.gains.shape[-1] == MOST
    assert not found[0].company.any()
    assert found[0].company.shape == (HORIZON, company_size(CONTEXT, found[0].blocks))
