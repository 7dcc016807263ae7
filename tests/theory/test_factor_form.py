"""The statements of docs/concepts/factors.md, each against dense matrices."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from orderless.errors import ShapeError
from orderless.ops import Generator
from orderless.ops.factors import BLOCKS, orthonormal
from orderless.theory import (
    FactorForm,
    certify_factors,
    nearest_canonical_form,
    nearest_factor_form,
)


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def form(variables=9, factors=4, size=2, seed=0):
    basis = torch.linalg.qr(drawn(variables, factors, seed=seed))[0]
    ends = [(a, min(b, factors)) for a, b in BLOCKS if a < factors]
    blocks = tuple(basis[:, a:b] for a, b in ends)
    shared = drawn(len(blocks), size, size, seed=seed + 2)
    return FactorForm(drawn(size, size, seed=seed + 1), shared, blocks)


def rotation(form, seed=3):
    """An orthogonal matrix that leaves each block and the complement in its place."""
    turned = torch.zeros(form.n_variables, form.n_variables, dtype=torch.float64)
    for number, one in enumerate(form.projections):
        values, vectors = torch.linalg.eigh(one)
        basis = vectors[:, values > 0.5]
        size = basis.shape[1]
        turn = torch.linalg.qr(drawn(size, size, seed=seed + number))[0]
        turn = (
            turn * drawn(size, seed=seed + number + 5000).sign()
        )  # else its diagonal has one sign
        turned += basis @ turn @ basis.mT
    return turned


@pytest.mark.parametrize(
    ("variables", "factors"), [(1, 1), (2, 1), (7, 3), (9, 4), (12, 8), (8, 8)]
)
def test_the_modes_are_those_of_the_dense_matrix(variables, factors):
    one = form(variables, factors)
    expected, found = np.linalg.eigvals(one.matrix().numpy()), one.eigenvalues().numpy()
    for shift in (0.3, -1.7 + 0.4j, 2.0 + 1.1j):  # the same characteristic polynomial
        assert np.prod(found - shift) == pytest.approx(np.prod(expected - shift), rel=1e-9)


@pytest.mark.parametrize(("variables", "factors"), [(7, 3), (9, 4), (12, 8), (8, 8)])
@pytest.mark.parametrize("step", [0.01, 0.7, 3.0])
def test_the_exact_hold_splits_in_modes(variables, factors, step):
    one = form(variables, factors)
    dense = expm(step * one.matrix().numpy())
    parts = zip(one.projections, one.modes, strict=True)
    split = sum(np.kron(p.numpy(), expm(step * m.numpy())) for p, m in parts)
    np.testing.assert_allclose(split, dense, atol=1e-10 * np.abs(dense).max())


def test_the_state_is_an_ordinary_scan_and_a_few_scans_without_variables():
    one, state = form(7, 3), drawn(7, 2, seed=9)
    dense = torch.from_numpy(expm(0.4 * one.matrix().numpy())) @ state.flatten()
    own = torch.from_numpy(expm(0.4 * one.own.numpy()))
    found = state @ own.mT
    for block, moves in zip(one.blocks, one.modes[:-1], strict=True):
        scores = block.mT @ state
        factor = scores @ torch.from_numpy(expm(0.4 * moves.numpy())).mT
        found = found + block @ (factor - block.mT @ (state @ own.mT))
    torch.testing.assert_close(found.flatten(), dense, atol=1e-10, rtol=0)


def test_the_mean_is_one_factor_of_equal_loadings():
    matrix = drawn(10, 10)
    equal = torch.full((5, 1), 5**-0.5, dtype=torch.float64)
    found = nearest_factor_form(matrix, [equal])
    expected = nearest_canonical_form(matrix, 5)
    torch.testing.assert_close(found.matrix(), expected.matrix())
    torch.testing.assert_close(found.modes[0], expected.mean_mode)


def test_the_form_moves_with_its_loadings_under_every_permutation():
    one = form()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    moved = FactorForm(one.own, one.shared, tuple(block[order] for block in one.blocks))
    wide = torch.kron(torch.eye(9, dtype=torch.float64)[order], torch.eye(2).double())
    torch.testing.assert_close(moved.matrix(), wide @ one.matrix() @ wide.mT)


def test_the_form_commutes_with_what_leaves_its_blocks_in_place():
    one = form()
    wide = torch.kron(rotation(one), torch.eye(2).double())
    torch.testing.assert_close(wide @ one.matrix(), one.matrix() @ wide)
    # And with no other rotation: it is not all that is equivariant, but all with this symmetry.
    other = torch.kron(torch.linalg.qr(drawn(9, 9, seed=8))[0].contiguous(), torch.eye(2).double())
    assert (other @ one.matrix() - one.matrix() @ other).norm() > 0.1


def test_signs_and_rotations_within_a_block_change_nothing():
    one = form(12, 8)
    turned = tuple(
        -block @ torch.linalg.qr(drawn(block.shape[1], block.shape[1]))[0] for block in one.blocks
    )
    torch.testing.assert_close(FactorForm(one.own, one.shared, turned).matrix(), one.matrix())


def test_what_the_form_leaves_out():
    """Crossings of factors change with a sign, squared loadings with a turn of the variables."""
    one = form(6, 3, size=1)
    l1, l2 = one.blocks[0], one.blocks[1]
    for matrix in (l1 @ l2.mT, torch.diag(l1[:, 0].square())):
        nearest = nearest_factor_form(matrix, one.blocks).matrix()
        assert (matrix - nearest).norm() > 0.3 * matrix.norm()
        order = torch.tensor([5, 0, 3, 1, 4, 2])
        moved = [block[order] for block in one.blocks]
        again = nearest_factor_form(matrix[order][:, order], moved).matrix()
        torch.testing.assert_close(again, nearest[order][:, order])


def test_the_nearest_form_is_the_average_over_the_group():
    one, matrix = form(5, 2, size=1), drawn(5, 5, seed=6)
    nearest = nearest_factor_form(matrix, one.blocks).matrix()
    turns = [rotation(one, seed=10 * number) for number in range(4000)]
    average = torch.stack([turn.mT @ matrix @ turn for turn in turns]).mean(0)
    assert (average - nearest).abs().max() < 0.1
    assert (average - matrix).abs().max() > 0.5


def test_the_nearest_form_leaves_an_error_orthogonal_to_every_form():
    one, matrix = form(), drawn(18, 18, seed=5)
    nearest = nearest_factor_form(matrix, one.blocks)
    other = FactorForm(drawn(2, 2, seed=7), drawn(3, 2, 2, seed=8), one.blocks)
    assert abs(((matrix - nearest.matrix()) * other.matrix()).sum()) < 1e-10
    again = nearest_factor_form(nearest.matrix(), one.blocks)
    torch.testing.assert_close(again.matrix(), nearest.matrix())


def generator(h, v, vh):
    return Generator(*(torch.tensor([[one]], dtype=torch.float64) for one in (h, v, vh)))


def as_matrix(one):
    return torch.tensor([[one.h, 0.0], [one.vh, one.v]], dtype=torch.float64)


def test_a_certificate_bounds_the_dense_system_for_every_number_of_variables():
    own, factors = (
        generator(-1.0, -0.4, 3.0),
        [generator(-0.2, -2.0, -4.0), generator(-0.5, -0.6, 1.0)],
    )
    certificate = certify_factors(own, factors)
    assert certificate.holds
    for variables in (3, 20):
        basis = torch.linalg.qr(drawn(variables, 2))[0]
        shared = torch.stack([as_matrix(one) - as_matrix(own) for one in factors])
        dense = FactorForm(as_matrix(own), shared, (basis[:, :1], basis[:, 1:])).matrix().numpy()
        assert np.linalg.eigvals(dense).real.max() == pytest.approx(certificate.rate, abs=1e-7)
        norms = [np.linalg.norm(expm(t * dense), 2) for t in np.linspace(0, 20, 200)]
        assert max(norms) == pytest.approx(certificate.transient, rel=0.01)
        assert np.trapezoid(norms, dx=20 / 199) < 1.01 * certificate.input_bound


def test_one_unstable_factor_is_enough_to_fail():
    certificate = certify_factors(generator(-1.0, -1.0, 0.0), [generator(0.1, -1.0, 0.0)])
    assert not certificate.holds
    assert certificate.input_bound == float("inf")


def test_a_factor_that_fades_is_as_stable_as_its_ends():
    own, factor = generator(-1.0, -0.3, 5.0), generator(-0.2, -2.0, -3.0)
    rate = certify_factors(own, [factor]).rate
    gains = drawn(1, 12, 8)
    members = torch.arange(12)[None] < 3
    basis = orthonormal(gains, members)[0, :, 4:]  # no full columns are left for the last block
    faded = basis @ basis.mT
    assert 0 < torch.linalg.eigvalsh(faded).max() < 1 + 1e-9
    dense = torch.kron(torch.eye(12).double(), as_matrix(own))
    dense = dense + torch.kron(faded, as_matrix(factor) - as_matrix(own))
    assert np.linalg.eigvals(dense.numpy()).real.max() <= rate + 1e-9


def test_loadings_that_are_not_orthonormal_are_refused():
    with pytest.raises(ShapeError, match="orthonormal"):
        FactorForm(drawn(2, 2), drawn(1, 2, 2), (torch.ones(4, 1).double(),))
