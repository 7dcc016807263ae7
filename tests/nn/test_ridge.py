import pytest
import torch
from nn_cases import drawn, error, shaken

from orderless.errors import SettingError, ShapeError
from orderless.nn import ForecastingNetwork, LinearForecast, NetworkConfig, RidgeStatistics

CONTEXT, HORIZON = 6, 3


def windows(count, variables, seed, own=None, pooled=None, noise=0.01):
    """Look-backs, and targets that are linear in the own and the pooled look-back, and noise."""
    x, _, _ = drawn((count, variables, CONTEXT), seed)
    center = x.mean(-1, keepdim=True)
    y = center + (x - center) @ own.mT
    if pooled is not None:
        y = y + (x - center).mean(1, keepdim=True) @ pooled.mT
    return x, y + noise * drawn(y.shape, seed + 1)[0]


@pytest.fixture
def weights():
    """Their rows sum to zero, since a constant look-back says nothing beyond its level."""
    own, pooled = drawn((2, HORIZON, CONTEXT), 99)[0]
    return own - own.mean(-1, keepdim=True), pooled - pooled.mean(-1, keepdim=True)


def fitted(linear, train, validation):
    linear = linear.double()
    statistics = RidgeStatistics(linear), RidgeStatistics(linear)
    for part, (x, y) in zip(statistics, (train, validation), strict=True):
        for i in range(0, len(x), 7):
            part.update(x[i : i + 7], y[i : i + 7])
    return linear.fit(*statistics)


def test_own_history_ridge_is_least_squares_with_a_penalty(weights):
    train = windows(40, 3, 0, weights[0], noise=0.5)
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False)
    choice = fitted(linear, train, windows(20, 3, 5, weights[0]))
    x = (train[0] - train[0].mean(-1, keepdim=True)).flatten(0, 1)
    y = (train[1] - train[0].mean(-1, keepdim=True)).flatten(0, 1)
    gram = x.mT @ x
    penalty = choice.own * gram.trace() / CONTEXT * torch.eye(CONTEXT, dtype=x.dtype)
    torch.testing.assert_close(linear.own.mT, torch.linalg.solve(gram + penalty, x.mT @ y))


def test_coupled_ridge_finds_the_pooled_weights(weights):
    own, pooled = weights
    train, validation = (windows(300, 8, seed, own, pooled) for seed in (0, 10))
    linear = LinearForecast(CONTEXT, HORIZON, scale=False)
    fitted(linear, train, validation)
    test = windows(50, 8, 20, own, pooled, noise=0.0)
    assert error(linear(test[0]), test[1]) < 0.01
    alone = LinearForecast(CONTEXT, HORIZON, pooled=False)
    fitted(alone, train, validation)
    assert error(alone(test[0]), test[1]) > 0.1


def test_a_lone_variable_gets_the_forecast_of_its_own_history(weights):
    train, validation = (windows(100, 8, seed, *weights) for seed in (0, 10))
    coupled = LinearForecast(CONTEXT, HORIZON)
    alone = LinearForecast(CONTEXT, HORIZON, pooled=False)
    for linear in (coupled, alone):
        fitted(linear, train, validation)
    x, _ = windows(5, 1, 3, *weights)
    torch.testing.assert_close(coupled(x), alone(x))
    company = torch.cat((x, x.flip(0)), dim=1)
    assert error(coupled(company)[:, :1], alone(x)) > 1e-3


def test_company_that_does_not_help_is_left_out(weights):
    train, validation = (windows(20, 3, seed, weights[0], noise=3.0) for seed in (0, 10))
    linear = LinearForecast(CONTEXT, HORIZON)
    choice = fitted(linear, train, validation)
    assert choice.company is None
    assert (linear.pooled == 0).all()


def test_missing_targets_are_left_out_of_the_fit(weights):
    x, y = windows(4000, 2, 0, weights[0])
    asked = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.8
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False).double()
    train = RidgeStatistics(linear)
    train.update(x, torch.where(asked, y, torch.nan), target_present=asked)
    validation = RidgeStatistics(linear)
    validation.update(x, y)
    linear.fit(train, validation)
    assert error(linear.own, weights[0]) < 0.05


def test_missing_look_backs_and_padding_add_nothing_to_the_fit(weights):
    x, y = windows(50, 3, 0, *weights)
    rubbish = torch.full_like(x, torch.nan)
    members = torch.arange(6).expand(50, -1) < 3
    present = torch.ones(50, 6, CONTEXT, dtype=torch.bool)
    plain, padded = (LinearForecast(CONTEXT, HORIZON).double() for _ in range(2))
    one, other = RidgeStatistics(plain), RidgeStatistics(padded)
    one.update(x, y)
    y_padded = torch.cat((y, torch.full_like(y, torch.nan)), dim=1)
    other.update(torch.cat((x, rubbish), dim=1), y_padded, present, members=members)
    plain.fit(one, one)
    padded.fit(other, other)
    for a, b in zip(plain.parameters(), padded.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_order_of_variables_and_the_size_of_blocks_do_not_change_the_fit(weights):
    x, y = windows(50, 5, 0, *weights)
    order = [3, 1, 4, 0, 2]
    one, other = (LinearForecast(CONTEXT, HORIZON) for _ in range(2))
    fitted(one, (x, y), (x, y))
    other = other.double()
    statistics = RidgeStatistics(other)
    statistics.update(x[:, order], y[:, order])
    other.fit(statistics, statistics)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_forecaster_starts_exactly_at_ridge(weights):
    train, validation = (windows(100, 5, seed, *weights) for seed in (0, 10))
    linear = LinearForecast(CONTEXT, HORIZON)
    fitted(linear, train, validation)
    config = NetworkConfig(patch=4, stride=2, channels=8, states=2)
    network = ForecastingNetwork(config, CONTEXT, HORIZON).double()
    network.start_from(linear)
    x, members, present = drawn((4, 5, CONTEXT), 7)
    assert torch.equal(network(x, present, members).point, linear(x, present, members))


def test_penalties_must_be_positive():
    linear = LinearForecast(CONTEXT, HORIZON)
    with pytest.raises(SettingError, match="positive"):
        linear.fit(RidgeStatistics(linear), RidgeStatistics(linear), penalties=(0.0,))


def test_a_fit_needs_windows():
    linear = LinearForecast(CONTEXT, HORIZON)
    with pytest.raises(ShapeError, match="No window"):
        linear.fit(RidgeStatistics(linear), RidgeStatistics(linear))


@pytest.mark.parametrize("center", ["mean", "last"])
def test_a_look_back_that_stands_still_is_not_moved_by_the_others(weights, center):
    x, _, present = drawn((4, 5, CONTEXT), 3)
    present[..., 0] = True
    x[:, 1], x[:, 2] = 0.25, 0.25 + 1e-6 * x[:, 2]
    linear = LinearForecast(CONTEXT, HORIZON, center=center).double()
    with torch.no_grad():
        linear.own.copy_(weights[0])
        linear.pooled.copy_(1e3 * weights[1])
    config = NetworkConfig(patch=4, stride=2, channels=8, states=2, center=center)
    network = shaken(ForecastingNetwork(config, CONTEXT, HORIZON), 1)
    network.start_from(linear)
    for forecast in (linear(x, present), network(x, present).point):
        assert (forecast[:, 1] - 0.25).abs().max() < 1e-9
        assert (forecast[:, 2] - 0.25).abs().max() < 0.1
        assert (forecast[:, 0] - x[:, 0, -1:]).abs().max() > 1


def test_rows_of_some_variables_and_of_the_others_add_up_to_all(weights):
    x, y = windows(20, 6, 0, *weights)
    own = drawn((HORIZON, CONTEXT), 1)[0]
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).expand(20, 6)
    moments = []
    for counted in (None, order[:, :2], order[:, 2:]):
        statistics = RidgeStatistics(LinearForecast(CONTEXT, HORIZON).double())
        statistics.update(x, y, counted=counted)
        moments.append((*statistics.own(), *statistics.company(own)))
    for whole, some, others in zip(*moments, strict=True):
        torch.testing.assert_close(some + others, whole)
