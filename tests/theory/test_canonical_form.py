import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.errors import ShapeError
from orderless.theory import distance_to_canonical_form, nearest_canonical_form

sizes = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(0, 10_000))


def random_matrix(n_variables, size, seed):
    random = torch.Generator().manual_seed(seed)
    n = n_variables * size
    return torch.randn(n, n, generator=random, dtype=torch.float64)


def permutation_matrix(order, size):
    rows = torch.eye(len(order), dtype=torch.float64)[list(order)]
    return torch.kron(rows, torch.eye(size, dtype=torch.float64))


@settings(max_examples=30)
@given(sizes)
def test_the_nearest_form_is_the_average_over_all_permutations(drawn):
    n_variables, size, seed = drawn
    matrix = random_matrix(n_variables, size, seed)
    average = torch.zeros_like(matrix)
    orders = list(itertools.permutations(range(n_variables)))
    for order in orders:
        p = permutation_matrix(order, size)
        average += p.T @ matrix @ p / len(orders)
    torch.testing.assert_close(nearest_canonical_form(matrix, n_variables).matrix(), average)


@settings(max_examples=30)
@given(sizes)
def test_projecting_twice_changes_nothing_and_what_is_cut_off_is_orthogonal(drawn):
    n_variables, size, seed = drawn
    matrix = random_matrix(n_variables, size, seed)
    nearest = nearest_canonical_form(matrix, n_variables).matrix()
    torch.testing.assert_close(nearest_canonical_form(nearest, n_variables).matrix(), nearest)
    assert abs(((matrix - nearest) * nearest).sum().item()) < 1e-9


@settings(max_examples=30)
@given(sizes)
def test_the_two_modes_have_the_spectrum_of_the_whole_matrix(drawn):
    n_variables, size, seed = drawn
    form = nearest_canonical_form(random_matrix(n_variables, size, seed), n_variables)
    found, whole = form.eigenvalues(), form.matrix()
    # Repeated eigenvalues are ill-conditioned one by one; their power sums are not.
    for power in range(1, 5):
        trace = torch.linalg.matrix_power(whole, power).trace()
        scale = torch.linalg.norm(whole).item() ** power
        assert abs((found**power).sum().real.item() - trace.item()) < 1e-9 * scale
    brute = torch.linalg.eigvals(whole)
    nearest = (found[:, None] - brute).abs().amin(1).max().item()
    assert nearest < 1e-6 * torch.linalg.norm(whole).item()


def test_distance_is_zero_for_the_form_itself_and_one_for_what_shares_nothing_with_it():
    n_variables = 5
    identity = torch.eye(n_variables, dtype=torch.float64)
    inside = 0.3 * identity - 2.0 * torch.ones_like(identity)
    assert distance_to_canonical_form(inside, n_variables) < 1e-15
    antisymmetric = torch.zeros_like(identity)
    antisymmetric[0, 1], antisymmetric[1, 0] = 1.0, -1.0
    assert distance_to_canonical_form(antisymmetric, n_variables) == 1.0
    assert distance_to_canonical_form(torch.zeros_like(identity), n_variables) == 0.0


def test_distance_is_that_of_the_numbers_whatever_their_kind_and_size():
    matrix = torch.tensor([[2, 1, 0], [0, 2, 1], [1, 0, 3]])
    expected = distance_to_canonical_form(matrix.double(), 3)
    assert 0 < expected < 1
    assert distance_to_canonical_form(matrix, 3) == expected
    assert nearest_canonical_form(matrix, 1).eigenvalues().isfinite().all()
    for size in (1e200, 1e-200, 1.7e308 / 3):
        assert distance_to_canonical_form(size * matrix.double(), 3) == pytest.approx(expected)
    huge = 1e20 * matrix.float()
    assert distance_to_canonical_form(huge, 3) == pytest.approx(expected, rel=1e-6)


def test_sizes_that_do_not_divide_are_named():
    with pytest.raises(ShapeError, match="5 rows and `n_variables` is 2"):
        nearest_canonical_form(torch.eye(5), 2)
    with pytest.raises(ShapeError, match="square"):
        nearest_canonical_form(torch.ones(2, 3), 1)
