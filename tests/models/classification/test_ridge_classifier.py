import numpy as np
import pytest
import torch
from torch.nn import functional

from orderless.models.classification import Target
from orderless.models.classification.ridge import _decompose, _leave_out, fit_ridge


def fit_by_hand(features, targets, penalty, rows):
    """Scores of the rows that are left out, by a ridge with an offset on the others."""
    rest = np.setdiff1d(np.arange(len(features)), rows)
    # The features are centered by all cases, and then again by those that the ridge sees.
    center, offset = features[rest].mean(0), targets[rest].mean(0)
    x, y = features[rest] - center, targets[rest] - offset
    weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return (features[rows] - center) @ weights + offset


@pytest.mark.parametrize("features", [4, 60], ids=["fewer than cases", "more than cases"])
@pytest.mark.parametrize("groups", [None, np.arange(24) // 5], ids=["each case", "groups"])
@pytest.mark.parametrize("penalty", [0.1, 30.0])
def test_what_is_left_out_was_not_fitted_on(features, groups, penalty):
    random = np.random.default_rng(0)
    x = random.standard_normal((24, features)).astype(np.float32)
    x -= x.mean(0)
    targets = 2.0 * np.eye(3)[random.integers(0, 3, 24)] - 1.0
    basis = _decompose(torch.as_tensor(x))
    shrunk = 1 / (basis.sizes + penalty)
    y = torch.as_tensor(targets)
    offset = y.mean(0)
    residuals = y - offset - basis.cases @ (shrunk[:, None] * (basis.cases.T @ (y - offset)))
    numbers = None if groups is None else torch.as_tensor(groups)
    found = targets - _leave_out(basis.cases, shrunk, residuals, numbers).numpy()
    for number in range(24) if groups is None else range(5):
        rows = np.array([number]) if groups is None else np.flatnonzero(groups == number)
        expected = fit_by_hand(x.astype(np.float64), targets, penalty, rows)
        np.testing.assert_allclose(found[rows], expected, atol=1e-4)


@pytest.mark.parametrize("features", [4, 60])
def test_the_map_says_of_the_cases_what_the_best_penalty_fits(features):
    random = torch.Generator().manual_seed(0)
    codes = torch.arange(30) % 3
    x = torch.randn(30, features, generator=random)
    x[:, :3] += 3.0 * functional.one_hot(codes)
    scores, held_out = fit_ridge(x.clone(), Target(codes, 3))
    loss = [float(functional.cross_entropy(one, codes)) for one in (scores(x), held_out)]
    assert loss[0] < loss[1] < np.log(3)


def test_noise_is_not_believed():
    random = torch.Generator().manual_seed(0)
    codes = torch.arange(60) % 2
    _, held_out = fit_ridge(torch.randn(60, 500, generator=random), Target(codes, 2))
    assert abs(float(functional.cross_entropy(held_out, codes)) - np.log(2)) < 0.1


def test_constant_features_say_nothing():
    codes = torch.arange(10) % 2
    constant = torch.full((10, 3), 7.0)
    scores, _ = fit_ridge(constant.clone(), Target(codes, 2))
    torch.testing.assert_close(scores(100 * constant), torch.zeros(10, 2))


def test_an_emphasis_of_zero_removes_what_misleads():
    random = torch.Generator().manual_seed(0)
    codes = torch.arange(40) % 2
    x = torch.randn(40, 80, generator=random)
    x[:, :4] += 2.0 * codes[:, None]
    marked = torch.arange(80) >= 4
    emphases = [torch.where(marked, one, 1.0) for one in (0.0, 1.0)]
    scores, _ = fit_ridge(x.clone(), Target(codes, 2), emphases)
    changed = torch.where(marked, 100.0, x)
    torch.testing.assert_close(scores(changed), scores(x))
