"""A ridge classifier: its penalty by exact leave-one-out, its probabilities by a temperature.

There is a target of +1 or -1 for each class. With standardised features Z and an offset, the fitted
values are m + H (y - m), H = 1/n + Z (Z'Z + penalty)^-1 Z'. Fitted without the cases g, those cases
get the residuals (I - H_gg)^-1 (y - fitted)_g, exactly. The units of the features come from all
cases; they know no class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from orderless.models.classification.cases import Target

PENALTIES = 10.0 ** torch.arange(-3, 3.1, 0.5, dtype=torch.float64)
"""Times the mean eigenvalue."""
SHARPNESS = 2.0 ** torch.arange(-4, 5.1, 0.25, dtype=torch.float64)
"""Of scores, before a softmax."""
SMALLEST = 1e-9
"""Share of the largest eigenvalue below which one is rounding."""
CONSTANT = 1e-6
"""A feature with a smaller standard deviation says nothing."""


class RidgeScores(nn.Module):
    """Features to logits: a softmax makes class probabilities of them.

    center      [feature]; `unit` is one over the standard deviation, 0 for a constant
    weights     [feature, class]
    offset      [class]
    sharpness   what scores are multiplied by before a softmax: the reciprocal of a temperature
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.center, self.unit = frozen(features), frozen(features)
        self.weights, self.offset = frozen(features, classes), frozen(classes)
        self.sharpness = frozen()

    def forward(self, features: Tensor) -> Tensor:
        """Logits [case, class]."""
        scores = ((features - self.center) * self.unit) @ self.weights + self.offset
        return self.sharpness * scores


class FittedRidge(NamedTuple):
    """A ridge, and the logits [case, class] of each case, fitted without it or its group."""

    scores: RidgeScores
    held_out: Tensor


def fit_ridge(features: Tensor, target: Target, emphases: Sequence[Tensor] = ()) -> FittedRidge:
    """The emphasis, the penalty and the sharpness have the least cross-entropy held out.

    features    [case, feature] float32: standardised in place
    target      cases of one group are left out together; without groups, each case alone
    emphases    [feature] what standardised features may be multiplied by; nothing, if there is none
    """
    deviation, center = torch.std_mean(features, 0, correction=0)
    unit = torch.where(deviation > CONSTANT, 1 / deviation, 0.0)
    features.sub_(center).mul_(unit)
    targets = 2.0 * functional.one_hot(target.codes, target.classes).double() - 1.0
    tried = [_fit(features * one, targets, target) for one in emphases]
    tried = tried or [_fit(features, targets, target)]
    best = min(range(len(tried)), key=lambda number: tried[number].loss)
    weights, sharpness, held_out, _ = tried[best]
    scores = RidgeScores(len(center), target.classes).to(center.device)
    scores.center.copy_(center)
    scores.unit.copy_(unit * emphases[best] if emphases else unit)
    scores.weights.copy_(weights)
    scores.offset.copy_(targets.mean(0))
    scores.sharpness.fill_(sharpness)
    return FittedRidge(scores, (sharpness * held_out).float())


class _Fit(NamedTuple):
    """Weights [feature, class], and how scores [case, class] did held out."""

    weights: Tensor
    sharpness: float
    held_out: Tensor
    loss: float


def _fit(features: Tensor, targets: Tensor, target: Target) -> _Fit:
    """With the best penalty."""
    offset = targets.mean(0)
    basis = _decompose(features)
    along = basis.cases.T @ (targets - offset)
    best: tuple[float, Tensor, float, Tensor] | None = None
    for penalty in (PENALTIES * float(basis.sizes.sum()) / max(1, len(basis.sizes))).tolist():
        shrunk = 1 / (basis.sizes + penalty)
        residuals = targets - offset - basis.cases @ (shrunk[:, None] * along)
        held_out = targets - _leave_out(basis.cases, shrunk, residuals, target.groups)
        sharpness, loss = _sharpen(held_out, target.codes)
        if best is None or loss < best[0]:
            best = (loss, shrunk, sharpness, held_out)
    assert best is not None
    loss, shrunk, sharpness, held_out = best
    weights = basis.weights(features, shrunk[:, None] * along).float()
    return _Fit(weights, sharpness, held_out, loss)


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
    few = cases <= count
    gram = features @ features.T if few else features.T @ features
    sizes, vectors = torch.linalg.eigh(gram.double())
    real = sizes > SMALLEST * sizes[-1].clamp(min=SMALLEST)
    sizes, vectors = sizes[real], vectors[:, real]
    if few:
        return _Basis(vectors * sizes.sqrt(), sizes, None)
    return _Basis((features @ vectors.to(features)).double(), sizes, vectors)


def _leave_out(cases: Tensor, shrunk: Tensor, residuals: Tensor, groups: Tensor | None) -> Tensor:
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
    """The sharpness with the least cross-entropy, and that.

    As if one more case had belonged to all classes alike: n cases do not make certain of one in n.
    """
    doubt = 1 / (1 + len(codes))
    losses = [
        (float(functional.cross_entropy(scores * one, codes, label_smoothing=doubt)), one)
        for one in SHARPNESS.tolist()
    ]
    loss, sharpness = min(losses)
    return sharpness, loss


def frozen(*shape: int) -> nn.Parameter:
    """A parameter that no optimiser changes, in float32 whatever torch's default is."""
    return nn.Parameter(torch.zeros(shape, dtype=torch.float32), requires_grad=False)
