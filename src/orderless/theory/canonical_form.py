"""Theorem 1 as functions: the matrices that commute with every reordering of the variables.

In:  any matrix over `n_variables` variables, each with a vector of the same size.
Out: the nearest matrix of the form I(x)own + 11'(x)shared, its distance, and its two modes.

With vectors of size 1 the form is alpha I + beta 11'.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from orderless.errors import ShapeError


@dataclass(frozen=True)
class CanonicalForm:
    """I(x)own + 11'(x)shared over `n_variables` variables; `own` and `shared` are [size, size]."""

    own: Tensor
    shared: Tensor
    n_variables: int

    def matrix(self) -> Tensor:
        """The whole matrix, [n_variables * size, n_variables * size], variable by variable."""
        n, size = self.n_variables, self.own.shape[-1]
        identity = torch.eye(n, dtype=self.own.dtype, device=self.own.device)
        blocks = identity[:, None, :, None] * self.own[:, None] + self.shared[:, None]
        return blocks.reshape(n * size, n * size)

    @property
    def difference_mode(self) -> Tensor:
        """What moves the deviations from the mean of the variables, [size, size]."""
        return self.own

    @property
    def mean_mode(self) -> Tensor:
        """What moves the mean of the variables, [size, size]."""
        return self.own + self.n_variables * self.shared

    def eigenvalues(self) -> Tensor:
        """Every eigenvalue of `matrix()`: the mean mode's once, the difference mode's C - 1 times.

        Costs two small decompositions, whatever the number of variables.
        """
        difference = torch.linalg.eigvals(self.difference_mode)
        mean = torch.linalg.eigvals(self.mean_mode)
        return torch.cat((mean, difference.repeat(self.n_variables - 1)))


def nearest_canonical_form(matrix: Tensor, n_variables: int) -> CanonicalForm:
    """The permutation-commuting form closest to `matrix` in the Frobenius norm.

    It is the average of P' M P over all permutations P: one mean over the blocks on the diagonal,
    one over the others. A single variable has nobody to share with, so `shared` is then 0.
    """
    blocks = _blocks(matrix, n_variables)
    on_diagonal = blocks.diagonal(dim1=0, dim2=1).sum(-1)
    if n_variables == 1:
        return CanonicalForm(on_diagonal, torch.zeros_like(on_diagonal), 1)
    elsewhere = blocks.sum((0, 1)) - on_diagonal
    shared = elsewhere / (n_variables * (n_variables - 1))
    return CanonicalForm(on_diagonal / n_variables - shared, shared, n_variables)


def distance_to_canonical_form(matrix: Tensor, n_variables: int) -> float:
    """How far `matrix` is from commuting with every permutation, relative to its norm.

    0 when it commutes; 1 when nothing of it does. Frobenius norm.
    """
    matrix = _as_numbers(matrix)
    largest = matrix.abs().max().item() if matrix.numel() else 0.0
    if largest == 0.0:
        return 0.0
    # By a power of two, which changes no digit: the squares of 1e200 have no place in a float.
    matrix = matrix / 2.0 ** (math.frexp(largest)[1] - 1)
    nearest = nearest_canonical_form(matrix, n_variables).matrix()
    return torch.linalg.norm(matrix - nearest).item() / torch.linalg.norm(matrix).item()


def _as_numbers(matrix: Tensor) -> Tensor:
    """Whole numbers as float64, in which means and norms are taken."""
    floating = matrix.is_floating_point() or matrix.is_complex()
    return matrix if floating else matrix.to(torch.float64)


def _blocks(matrix: Tensor, n_variables: int) -> Tensor:
    """[variable, variable, size, size]."""
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"`matrix` is {tuple(matrix.shape)}; a coupling matrix is square.")
    if n_variables < 1 or matrix.shape[0] % n_variables:
        raise ShapeError(
            f"`matrix` has {matrix.shape[0]} rows and `n_variables` is {n_variables}; "
            "every variable has a vector of the same size, so one must divide the other."
        )
    size = matrix.shape[0] // n_variables
    return _as_numbers(matrix).reshape(n_variables, size, n_variables, size).permute(0, 2, 1, 3)
