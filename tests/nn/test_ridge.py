import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_cases import drawn, error, shaken

from orderless.errors import SettingError, ShapeError
from orderless.nn import ForecastingNetwork, LinearForecast, NetworkConfig, RidgeStatistics

CONTEXT, HORIZON = 6, 3


def windows(count, variables, seed, own=None, pooled=None, noise=0.01):
    """Contexts, and targets that are linear in the own and the pooled context, and noise."""
    x, _, _ = drawn((count, variables, CONTEXT), seed)
    center = x.mean(-1, keepdim=True)
    y = center + (x - center) @ own.mT
    if pooled is not None:
        y = y + (x - center).mean(1, keepdim=True) @ pooled.mT
    return x, y + noise * drawn(y.shape, seed + 1)[0]


@pytest.fixture
def weights():
    """Their rows sum to zero, since a constant context says nothing beyond its level."""
    own, pooled = drawn((2, HORIZON, CONTEXT), 99)[0]
    return own - own.mean(-1, keepdim=True), pooled - pooled.mean(-1, keepdim=True)


def statistics(linear, x, y, block=7):
    found = RidgeStatistics(linear)
    for i in range(0, len(x), block):
        found.update(x[i : i + block], y[i : i + block])
    return found


def fitted(linear, train, held_out, **more):
    """Fitted on one part, with the penalty that is best on the other."""
    linear = linear.double()
    train, held_out = (statistics(linear, *part) for part in (train, held_out))
    linear.fit(train, [(train, held_out)], **more)
    return linear


def assert_same_weights(one, other):
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_own_history_ridge_is_least_squares_with_a_penalty(weights):
    x, y = windows(40, 3, 0, weights[0], noise=0.5)
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False)
    fitted(linear, (x, y), windows(20, 3, 5, weights[0]), penalties=(0.1,))
    center = x.mean(-1, keepdim=True)
    x, y = (x - center).flatten(0, 1), (y - center).flatten(0, 1)
    gram = x.mT @ x
    penalty = 0.1 * gram.trace() / CONTEXT * torch.eye(CONTEXT, dtype=x.dtype)
    torch.testing.assert_close(linear.own.mT, torch.linalg.solve(gram + penalty, x.mT @ y))


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), pooled=st.booleans())
def test_a_fold_has_the_weights_of_a_fit_without_it(seed, pooled):
    """One penalty for all; the sums of a block are left out, not its influence guessed."""
    own, of_others = drawn((2, HORIZON, CONTEXT), seed)[0]
    x, y = windows(60, 4, seed, own, of_others, noise=0.5)
    linear = LinearForecast(CONTEXT, HORIZON, pooled=pooled).double()
    block = torch.arange(60) // 20
    pairs = [
        (
            statistics(linear, x[block != k], y[block != k]),
            statistics(linear, x[block == k], y[block == k]),
        )
        for k in range(3)
    ]
    whole = pairs[0][0] + pairs[0][1]
    each = linear.fit(whole, pairs, penalties=(0.03,))
    for k, found in enumerate(each):
        part = x[block != k], y[block != k]
        alone = LinearForecast(CONTEXT, HORIZON, pooled=pooled)
        assert_same_weights(found, fitted(alone, part, part, penalties=(0.03,)))
    alone = LinearForecast(CONTEXT, HORIZON, pooled=pooled)
    assert_same_weights(linear, fitted(alone, (x, y), (x, y), penalties=(0.03,)))


def test_the_penalty_is_the_best_of_all_folds_together(weights):
    """By brute force."""
    x, y = windows(40, 2, 3, weights[0], noise=3.0)
    penalties = tuple(10.0**k for k in range(-4, 3))
    block = torch.arange(40) % 4

    def held_out_error(penalty):
        total = 0.0
        for k in range(4):
            part = x[block != k], y[block != k]
            one = LinearForecast(CONTEXT, HORIZON, pooled=False)
            fitted(one, part, part, penalties=(penalty,))
            total += (one(x[block == k]) - y[block == k]).square().sum()
        return total

    best = min(penalties, key=held_out_error)
    assert penalties[0] < best < penalties[-1]
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False).double()
    pairs = [
        tuple(statistics(linear, x[some], y[some]) for some in (block != k, block == k))
        for k in range(4)
    ]
    linear.fit(pairs[0][0] + pairs[0][1], pairs, penalties)
    expected = LinearForecast(CONTEXT, HORIZON, pooled=False)
    assert_same_weights(linear, fitted(expected, (x, y), (x, y), penalties=(best,)))


def test_coupled_ridge_finds_the_pooled_weights(weights):
    own, pooled = weights
    train, held_out = (windows(300, 8, seed, own, pooled) for seed in (0, 10))
    linear = fitted(LinearForecast(CONTEXT, HORIZON, scale=False), train, held_out)
    test = windows(50, 8, 20, own, pooled, noise=0.0)
    assert error(linear(test[0]), test[1]) < 0.01
    alone = fitted(LinearForecast(CONTEXT, HORIZON, pooled=False), train, held_out)
    assert error(alone(test[0]), test[1]) > 0.1


def test_a_lone_variable_gets_the_forecast_of_its_own_history(weights):
    train, held_out = (windows(100, 8, seed, *weights) for seed in (0, 10))
    coupled = fitted(LinearForecast(CONTEXT, HORIZON), train, held_out)
    alone = fitted(LinearForecast(CONTEXT, HORIZON, pooled=False), train, held_out)
    x, _ = windows(5, 1, 3, *weights)
    torch.testing.assert_close(coupled(x), alone(x))
    torch.testing.assert_close(coupled.without_company()(x), alone(x))
    company = torch.cat((x, x.flip(0)), dim=1)
    assert error(coupled(company)[:, :1], alone(x)) > 1e-3


def test_company_that_does_not_help_is_left_out(weights):
    train, held_out = (windows(20, 3, seed, weights[0], noise=3.0) for seed in (0, 10))
    linear = fitted(LinearForecast(CONTEXT, HORIZON), train, held_out)
    assert (linear.pooled == 0).all()
    assert (linear.shift == 0).all()
    assert (linear.own != 0).any()


def test_history_that_does_not_help_is_left_out():
    """Of noise around its own mean, nothing but the mean is known."""
    x, y = drawn((40, 2, CONTEXT), 0)[0], drawn((40, 2, HORIZON), 1)[0]
    quiet = x.mean(-1, keepdim=True) + 1e-3 * y
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False)
    fitted(linear, (x[:20], y[:20]), (x[20:], quiet[20:]))
    assert (linear.own == 0).all()


def test_missing_targets_are_left_out_of_the_fit(weights):
    x, y = windows(4000, 2, 0, weights[0])
    asked = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.8
    linear = LinearForecast(CONTEXT, HORIZON, pooled=False).double()
    train = RidgeStatistics(linear)
    train.update(x, torch.where(asked, y, torch.nan), target_observed=asked)
    linear.fit(train, [(train, statistics(linear, x, y))])
    assert error(linear.own, weights[0]) < 0.05


def test_missing_contexts_and_padding_add_nothing_to_the_fit(weights):
    x, y = windows(50, 3, 0, *weights)
    rubbish = torch.full_like(x, torch.nan)
    members = torch.arange(6).expand(50, -1) < 3
    observed = torch.ones(50, 6, CONTEXT, dtype=torch.bool)
    plain, padded = (LinearForecast(CONTEXT, HORIZON).double() for _ in range(2))
    one, other = RidgeStatistics(plain), RidgeStatistics(padded)
    one.update(x, y)
    y_padded = torch.cat((y, torch.full_like(y, torch.nan)), dim=1)
    other.update(torch.cat((x, rubbish), dim=1), y_padded, observed, members=members)
    plain.fit(one, [(one, one)])
    padded.fit(other, [(other, other)])
    assert_same_weights(plain, padded)


def test_the_order_of_variables_and_the_size_of_blocks_do_not_change_the_fit(weights):
    x, y = windows(50, 5, 0, *weights)
    order = [3, 1, 4, 0, 2]
    one = fitted(LinearForecast(CONTEXT, HORIZON), (x, y), (x, y))
    other = LinearForecast(CONTEXT, HORIZON).double()
    whole = statistics(other, x[:, order], y[:, order], block=50)
    other.fit(whole, [(whole, whole)])
    assert_same_weights(one, other)


def test_the_network_on_a_ridge_starts_exactly_at_the_ridge(weights):
    train, held_out = (windows(100, 5, seed, *weights) for seed in (0, 10))
    linear = fitted(LinearForecast(CONTEXT, HORIZON), train, held_out)
    config = NetworkConfig(patch=4, stride=2, channels=8, states=2)
    network = ForecastingNetwork(config, CONTEXT, HORIZON).double()
    network.start_from(linear)
    x, members, observed = drawn((4, 5, CONTEXT), 7)
    assert torch.equal(network(x, observed, members).point, linear(x, observed, members))
    # Of a ridge without company a coupled network takes what there is.
    network.start_from(linear.without_company())
    assert torch.equal(network.linear.own, linear.own)


def test_penalties_must_be_positive():
    linear = LinearForecast(CONTEXT, HORIZON)
    with pytest.raises(SettingError, match="positive"):
        linear.fit(RidgeStatistics(linear), [], penalties=(0.0,))


def test_a_fit_needs_windows():
    linear = LinearForecast(CONTEXT, HORIZON)
    with pytest.raises(ShapeError, match="window"):
        linear.fit(RidgeStatistics(linear), [])


@pytest.mark.parametrize("center", ["mean", "last"])
def test_a_constant_context_is_not_moved_by_the_others(weights, center):
    x, _, observed = drawn((4, 5, CONTEXT), 3)
    observed[..., 0] = True
    x[:, 1], x[:, 2] = 0.25, 0.25 + 1e-6 * x[:, 2]
    linear = LinearForecast(CONTEXT, HORIZON, center=center).double()
    with torch.no_grad():
        linear.own.copy_(weights[0])
        linear.pooled.copy_(1e3 * weights[1])
    config = NetworkConfig(patch=4, stride=2, channels=8, states=2, center=center)
    network = shaken(ForecastingNetwork(config, CONTEXT, HORIZON), 1)
    network.start_from(linear)
    for forecast in (linear(x, observed), network(x, observed).point):
        assert (forecast[:, 1] - 0.25).abs().max() < 1e-9
        assert (forecast[:, 2] - 0.25).abs().max() < 0.1
        assert (forecast[:, 0] - x[:, 0, -1:]).abs().max() > 1


def test_rows_of_some_variables_and_of_the_others_add_up_to_all(weights):
    x, y = windows(20, 6, 0, *weights)
    own = drawn((HORIZON, CONTEXT), 1)[0]
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).expand(20, 6)
    moments = []
    for counted in (None, order[:, :2], order[:, 2:]):
        one = RidgeStatistics(LinearForecast(CONTEXT, HORIZON).double())
        one.update(x, y, counted=counted)
        moments.append((*one.own(), *one.company(own)))
    for whole, some, others in zip(*moments, strict=True):
        torch.testing.assert_close(some + others, whole)
