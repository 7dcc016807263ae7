"""A ridge classifier: its penalty by exact leave-one-out, its probabilities by a temperature.

There is a target of +1 or -1 for each class. With standardised features Z and an offset, the fitted
values are m + H (y - m), H = 1/n + Z (Z'Z + penalty)^-1 Z'. Fitted without the cases g, those cases
get the residuals (I - H_gg)^-1 (y - fitted)_g, exactly. The units of the features come from all
cases; they know no class.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

PENALTIES = 10.0 ** torch.arange(-3, 3.1, 0.5, dtype=torch.float64)
"""In units of the mean eigenvalue."""
SHARPNESS = 2.0 ** torch.arange(-2, 5.1, 0.25, dtype=torch.float64)
"""What scores are multiplied by before a softmax: the reciprocal of a temperature."""
CONSTANT = 1e-6
"""A feature with a smaller standard deviation says nothing."""


@dataclass(frozen=True)
class RidgeScores:
    """Features to class probabilities.

    center      [feature]; `unit` is one over the standard deviation, 0 for a constant
    weights     [feature, class]
    offset      [class]
    """

    center: Tensor
    unit: Tensor
    weights: Tensor
    offset: Tensor
    sharpness: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Probabilities [case, class]."""
        scores = ((features - self.center) * self.unit) @ self.weights + self.offset
        return (self.sharpness * scores).softmax(-1)

    def to(self, device: torch.device | str) -> Self:
        """The same map on another device."""
        return replace(self, **{name: value.to(device) for name, value in self.tensors().items()})

    def tensors(self) -> Mapping[str, Tensor]:
        """What it is made of, by name."""
        return dict(vars(self))


class FittedRidge(NamedTuple):
    """A ridge, and what it says of each case, [case, class], fitted without it or its group."""

    scores: RidgeScores
    held_out: Tensor


def fit_ridge(
    features: Tensor, codes: Tensor, classes: int, groups: Tensor | None = None
) -> FittedRidge:
    """The penalty and the sharpness have the least cross-entropy held out.

    features    [case, feature] float32: standardised in place
    codes       [case] the number of the class of each
    groups      [case] cases of one group are left out together; each case alone if None
    """
    deviation, center = torch.std_mean(features, 0, correction=0)
    unit = torch.where(deviation > CONSTANT, 1 / deviation, 0.0)
    features.sub_(center).mul_(unit)
    targets = 2.0 * torch.nn.functional.one_hot(codes, classes).double() - 1.0
    offset = targets.mean(0)
    basis = _decompose(features)
    along = basis.cases.T.to(targets) @ (targets - offset)
    best = None
    for penalty in (PENALTIES * basis.sizes.mean().cpu()).tolist():
        shrunk = 1 / (basis.sizes + penalty)
        fitted = offset + basis.cases @ (shrunk[:, None] * along)
        left_out = targets - _leave_out(basis.cases, shrunk, targets - fitted, groups)
        sharpness, loss = _sharpen(left_out, codes)
        if best is None or loss < best[0]:
            best = (loss, shrunk, sharpness, left_out)
    assert best is not None
    _, shrunk, sharpness, left_out = best
    weights = basis.weights(features, shrunk[:, None] * along)
    whole = RidgeScores(
        center, unit, weights.float(), offset.float(), torch.tensor(sharpness).to(center)
    )
    return FittedRidge(whole, (sharpness * left_out).softmax(-1))


class _Basis(NamedTuple):
    """Orthogonal directions of standardised features.

    cases       [case, direction] the features of each case along them
    sizes       [direction] the eigenvalues: the sum of squares along each
    directions  [feature, direction]; None where there are more features than cases
    """

    cases: Tensor
    sizes: Tensor
    directions: Tensor | None

    def weights(self, features: Tensor, inner: Tensor) -> Tensor:
        """Coefficients [direction, class] as those of the features, [feature, class]."""
        if self.directions is not None:
            return self.directions @ inner
        return features.T @ (self.cases @ (inner / self.sizes[:, None])).to(features)


def _decompose(features: Tensor) -> _Basis:
    cases, count = features.shape
    if cases <= count:
        sizes, vectors = torch.linalg.eigh((features @ features.T).double())
        kept = sizes > sizes[-1] * 1e-9
        if not kept.any():  # all features are constant
            kept[-1], sizes = True, torch.ones_like(sizes)
        sizes = sizes[kept]
        return _Basis(vectors[:, kept] * sizes.sqrt(), sizes, None)
    sizes, vectors = torch.linalg.eigh((features.T @ features).double())
    return _Basis((features @ vectors.to(features)).double(), sizes.clamp(min=0.0), vectors)


def _leave_out(
    cases: Tensor, shrunk: Tensor, residuals: Tensor, groups: Tensor | None
) -> Tensor:
    """Residuals [case, class] of cases that were left out, from those of a fit on all."""
    count = len(cases)
    if groups is None:
        leverage = 1 / count + cases.square() @ shrunk
        return residuals / (1 - leverage).clamp(min=1e-9)[:, None]
    results = torch.empty_like(residuals)
    for group in groups.unique():
        mine = groups == group
        own = cases[mine]
        hat = 1 / count + (own * shrunk) @ own.T
        eye = torch.eye(len(own), dtype=hat.dtype, device=hat.device)
        results[mine] = torch.linalg.solve(eye - hat, residuals[mine])
    return results


def _sharpen(scores: Tensor, codes: Tensor) -> tuple[float, float]:
    """The sharpness with the least cross-entropy, and that."""
    losses = [
        (float(torch.nn.functional.cross_entropy(scores * one, codes)), one)
        for one in SHARPNESS.tolist()
    ]
    loss, sharpness = min(losses)
    return sharpness, loss
