import numpy as np
import pytest
import torch

from orderless.models.classification import Target
from orderless.models.classification.cases import fold_cases
from orderless.models.classification.fit import _weigh


def test_every_class_is_spread_over_the_folds():
    codes = np.repeat([0, 1, 2], [30, 7, 2])
    fold = fold_cases(codes, 3, 0)
    counts = np.array([[(fold[codes == c] == f).sum() for f in range(3)] for c in range(3)])
    assert (np.ptp(counts, axis=1) <= 1).all()
    assert np.ptp(counts.sum(0)) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_cut_and_no_fold_is_empty(seed):
    random = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(4), random.integers(0, 9, 60)])
    codes = random.integers(0, 3, 64)
    fold = fold_cases(codes, 4, seed, groups)
    assert set(fold) == set(range(4))
    for group in np.unique(groups):
        assert len(set(fold[groups == group])) == 1


def test_there_are_no_more_folds_than_groups():
    target = Target(torch.arange(12) % 2, 2, torch.arange(12) // 6)
    assert set(target.folds(5, 0).tolist()) == {0, 1}


def test_the_weight_goes_to_who_knows_and_is_shared_where_two_complete_each_other():
    random = torch.Generator().manual_seed(0)
    codes = torch.arange(80) % 2
    sure = torch.nn.functional.one_hot(codes, 2).float() * 0.8 + 0.1
    blind = torch.full((80, 2), 0.5)
    first = torch.where((torch.arange(80) < 40)[:, None], sure, blind)
    second = torch.where((torch.arange(80) < 40)[:, None], blind, sure)
    alone = _weigh(torch.stack((sure, blind), -1), Target(codes, 2), 0)
    assert alone.mean[0] > 0.95
    both = _weigh(torch.stack((first, second), -1), Target(codes, 2), 0)
    assert abs(float(both.mean[0]) - 0.5) < 0.1
    noise = torch.rand(80, 2, generator=random)
    noise = noise / noise.sum(-1, keepdim=True)
    assert _weigh(torch.stack((sure, noise), -1), Target(codes, 2), 0).mean[1] < 0.05
