"""The canonical form with factors: matrices that loadings make permutation-equivariant.

In:  orthonormal loadings [variable, factor], an equivariant function of the data, in blocks.
Out: the form I(x)own + sum over blocks of P_b(x)shared_b with P_b the projection on block b, its
     modes, the nearest matrix of this form, and a certificate of its stability.

With one block of one column 1 / sqrt(C) it is the form of Theorem 1. Derivation, and what the form
leaves out, in docs/concepts/factors.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.errors import ShapeError
from orderless.ops import Generator
from orderless.theory.modes import Mode, input_bound, mode

ORTHONORMAL = 1e-6
"""How far loadings may be from orthonormal columns."""


@dataclass(frozen=True)
class FactorForm:
    """I(x)own + sum over blocks of P_b(x)shared_b.

    own         [size, size]
    shared      [block, size, size]
    blocks      loadings of each block [variable, its factors]; all columns together orthonormal
    """

    own: Tensor
    shared: Tensor
    blocks: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if len(self.shared) != len(self.blocks):
            raise ShapeError(
                f"{len(self.shared)} shared matrices for {len(self.blocks)} blocks; each has one."
            )
        columns = torch.cat(self.blocks, 1)
        unit = torch.eye(columns.shape[1], dtype=columns.dtype, device=columns.device)
        if not (columns.mT @ columns - unit).abs().amax() < ORTHONORMAL:
            raise ShapeError("The loadings of all blocks together must have orthonormal columns.")

    @property
    def n_variables(self) -> int:
        """How many variables there are."""
        return len(self.blocks[0])

    @property
    def projections(self) -> tuple[Tensor, ...]:
        """On each block, and last on what all of them leave over: they add up to I."""
        found = [block @ block.mT for block in self.blocks]
        unit = torch.eye(self.n_variables, dtype=found[0].dtype, device=found[0].device)
        return *found, unit - sum(found)

    def matrix(self) -> Tensor:
        """The whole matrix, variable by variable."""
        parts = zip(self.projections, self.modes, strict=True)
        return sum((torch.kron(one, moves) for one, moves in parts), start=torch.zeros(()))

    @property
    def modes(self) -> tuple[Tensor, ...]:
        """What moves each block, [size, size], and last what moves the complement of all."""
        return *(self.own + one for one in self.shared), self.own

    @property
    def multiplicities(self) -> tuple[int, ...]:
        """How often each mode occurs."""
        ranks = [block.shape[1] for block in self.blocks]
        return *ranks, self.n_variables - sum(ranks)

    def eigenvalues(self) -> Tensor:
        """Every eigenvalue of `matrix()`, by small decompositions alone."""
        parts = zip(self.modes, self.multiplicities, strict=True)
        return torch.cat([torch.linalg.eigvals(one).repeat(times) for one, times in parts])


def nearest_factor_form(matrix: Tensor, blocks: Sequence[Tensor]) -> FactorForm:
    """The form with these loadings that is closest to `matrix` in the Frobenius norm.

    It is the average of U' M U over all orthogonal U that leave each block, and so the complement,
    in its place: the projections are orthogonal to each other, and each has the mean over its
    directions. Where factors leave no complement, `own` is the mean over all modes.
    """
    variables = len(blocks[0])
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] % variables:
        raise ShapeError(
            f"`matrix` is {tuple(matrix.shape)} and there are {variables} variables, which have "
            "vectors of one size."
        )
    size = matrix.shape[0] // variables
    cells = matrix.reshape(variables, size, variables, size)
    columns = torch.cat(tuple(blocks), 1)
    total = torch.einsum("vavb->ab", cells)
    each = [torch.einsum("vk,vawb,wk->ab", one, cells, one) for one in blocks]
    rest = variables - columns.shape[1]
    own = (total - sum(each)) / rest if rest else total / variables
    shared = [one / block.shape[1] - own for one, block in zip(each, blocks, strict=True)]
    return FactorForm(own, torch.stack(shared), tuple(blocks))


class FactorCertificate(NamedTuple):
    """What is certain about a system with k factors, whatever its loadings and their number."""

    complement: Mode
    factors: tuple[Mode, ...]
    input_bound: float
    """States stay below this times the largest input, both as root mean square over variables."""

    @property
    def rate(self) -> float:
        """The slowest decay of any mode, also of one that is partly on a factor.

        The diagonal of A + s W lies between those of A and of A + W for s from 0 to 1.
        """
        return max(one.rate for one in (self.complement, *self.factors))

    @property
    def holds(self) -> bool:
        """Whether all modes die out, for every number of variables."""
        return self.rate < 0.0

    @property
    def transient(self) -> float:
        """The most that a state can grow, without input, before it dies out."""
        return max(one.transient for one in (self.complement, *self.factors))


def certify_factors(own: Generator, factors: Sequence[Generator]) -> FactorCertificate:
    """The stability of the generator with `own` on the complement and one on each factor's block.

    The modes are orthogonal, so what holds for each of them holds for the whole system.
    """
    modes = tuple(mode(one) for one in factors)
    complement = mode(own)
    stable = all(one.rate < 0.0 for one in (complement, *modes))
    bound = input_bound(own, *factors) if stable else float("inf")
    return FactorCertificate(complement, modes, bound)
