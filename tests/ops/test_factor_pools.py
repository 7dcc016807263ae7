"""Pools by loadings: what they depend on, and what they do not."""

import pytest
import torch

from orderless.ops import mean_pool
from orderless.ops.factors import BLOCKS, MOST, factor_scores, orthonormal


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def projections(basis):
    return [basis[..., a:b] @ basis[..., a:b].mT for a, b in BLOCKS if a < basis.shape[-1]]


def test_columns_are_orthonormal():
    basis = orthonormal(drawn(3, 20, MOST))
    torch.testing.assert_close(basis.mT @ basis, torch.eye(MOST).double().expand(3, -1, -1))


def test_signs_and_rotations_within_a_block_change_no_projection():
    gains = drawn(2, 12, MOST)
    turned = gains.clone()
    for number, (begin, end) in enumerate(BLOCKS):
        turn = torch.linalg.qr(drawn(end - begin, end - begin, seed=number))[0]
        turned[..., begin:end] = gains[..., begin:end] @ -turn
    for one, other in zip(
        projections(orthonormal(gains)), projections(orthonormal(turned)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_fewer_variables_than_factors_have_no_more_directions_than_variables():
    gains = drawn(1, 12, MOST)
    members = torch.arange(12)[None] < 3
    basis = orthonormal(gains, members)
    assert not basis[:, 3:].any()
    total = sum(projections(basis))
    assert torch.linalg.eigvalsh(total).max() < 1 + 1e-9
    assert torch.linalg.matrix_rank(total, atol=1e-6) == 3


def test_a_factor_whose_sensor_has_left_is_not_blown_up():
    gains = torch.cat((torch.ones(30, 1), 1e-3 * torch.ones(30, 1)), 1).double()
    gains[0, 1] = 30**0.5
    gains[1::2, 1] *= -1
    everyone, without = torch.ones(1, 30, dtype=torch.bool), torch.arange(30)[None] > 0
    assert orthonormal(gains[None], everyone)[..., 1].square().sum() == pytest.approx(1.0)
    assert orthonormal(gains[None], without)[..., 1].square().sum() < 1e-4


def test_a_common_factor_keeps_its_size_among_few_variables():
    basis = orthonormal(torch.ones(1, 1000, 1).double(), torch.arange(1000)[None] < 5)
    torch.testing.assert_close(basis[0, :5, 0], torch.full((5,), 5**-0.5).double())


def test_one_column_of_equal_entries_is_the_mean_over_what_is_observed():
    x, seen = drawn(2, 50, 7), drawn(2, 50, 7, seed=1) > -1
    basis = orthonormal(torch.ones(2, 50, 1).double())
    found = factor_scores(torch.where(seen, x, torch.nan), basis, seen)[:, 0] / 50**0.5
    expected = mean_pool(x.unsqueeze(-1), observed=seen)[..., 0]
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_masks_with_everything_there_change_nothing():
    x, basis = drawn(2, 9, 5), orthonormal(drawn(2, 9, MOST, seed=1))
    everything = torch.ones(x.shape, dtype=torch.bool)
    torch.testing.assert_close(factor_scores(x, basis, everything), basis.mT @ x)


def test_missing_entries_of_what_follows_the_factors_exactly_cost_little():
    basis = orthonormal(drawn(1, 200, MOST))
    scores = drawn(1, MOST, 4, seed=1)
    seen = drawn(1, 200, 4, seed=2) > -0.5
    found = factor_scores(basis @ scores, basis, seen)
    assert (found - scores).norm() < 0.35 * scores.norm()
    alone = factor_scores((basis @ scores), basis[..., :1], torch.ones_like(seen))
    torch.testing.assert_close(alone, scores[:, :1])


def test_scores_at_a_time_without_any_reading_are_zero():
    seen = torch.zeros(1, 6, 3, dtype=torch.bool)
    assert not factor_scores(drawn(1, 6, 3), orthonormal(drawn(1, 6, MOST)), seen).any()
