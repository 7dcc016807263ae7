"""Losses over the observed entries only.

A masked entry may hold anything, NaN included, in prediction or target: it has no influence on
the value or the gradient. Without any observed entry a loss is 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the entries where the mask is true; 0 where there is none."""
    if mask is None:
        return values.mean()
    mask = mask.expand_as(values)
    return torch.where(mask, values, 0).sum() / mask.sum().clamp(min=1)


def _hide(prediction: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Replace masked entries before any arithmetic: the gradient of NaN * 0 is NaN."""
    if mask is None:
        return prediction, target
    return torch.where(mask, prediction, 0), torch.where(mask, target, 0)


def l1(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean absolute error."""
    prediction, target = _hide(prediction, target, mask)
    return masked_mean((prediction - target).abs(), mask)


def mse(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean squared error."""
    prediction, target = _hide(prediction, target, mask)
    return masked_mean((prediction - target).square(), mask)


def huber(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Half the squared error below 1, linear above."""
    prediction, target = _hide(prediction, target, mask)
    return masked_mean(functional.huber_loss(prediction, target, reduction="none"), mask)


def smape(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Symmetric absolute percentage error, 0 to 2: |f - y| over the mean of |f| and |y|."""
    prediction, target = _hide(prediction, target, mask)
    size = (prediction.abs() + target.abs()) / 2
    return masked_mean((prediction - target).abs() / size.clamp(min=1e-8), mask)


def pinball(
    prediction: Tensor, target: Tensor, mask: Tensor | None = None, *, levels: Tensor
) -> Tensor:
    """Quantile loss; the last axis of `prediction` runs over `levels`, `target` lacks it."""
    target = target.unsqueeze(-1)
    mask = None if mask is None else mask.unsqueeze(-1)
    prediction, target = _hide(prediction, target, mask)
    error = target - prediction
    return masked_mean(torch.maximum(levels * error, (levels - 1) * error), mask)


def cross_entropy(logits: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean negative log-likelihood of the true classes; `logits` [sample, class]."""
    if mask is not None:
        logits = torch.where(mask.unsqueeze(-1), logits, 0)
        target = torch.where(mask, target, 0)
    return masked_mean(functional.cross_entropy(logits, target, reduction="none"), mask)


LOSSES: dict[str, Loss] = {"l1": l1, "mse": mse, "huber": huber, "smape": smape}
"""The losses of a point forecast, by the name a user types."""
