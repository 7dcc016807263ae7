"""Losses over the observed entries only.

A masked entry may hold anything, NaN included, in prediction or target: it has no influence on
the value or the gradient. Without any observed entry a loss is 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def _error(prediction: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
    """Prediction less target, 0 where the mask is false.

    Taking a difference multiplies no gradient by what it is given, so what is masked may be NaN.
    """
    error = prediction - target
    return error if mask is None else torch.where(mask, error, 0)


def _mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the entries where the mask is true, of values that are 0 elsewhere."""
    if mask is None:
        return values.mean()
    return values.sum() / mask.expand_as(values).sum().clamp(min=1)


def l1(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean absolute error."""
    return _mean(_error(prediction, target, mask).abs(), mask)


def mse(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean squared error."""
    return _mean(_error(prediction, target, mask).square(), mask)


def huber(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Half the squared error below 1, linear above."""
    error = _error(prediction, target, mask)
    none = error.new_zeros(()).expand_as(error)
    return _mean(functional.huber_loss(error, none, reduction="none"), mask)


def smape(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Symmetric absolute percentage error, 0 to 2: |f - y| over the mean of |f| and |y|."""
    if mask is not None:  # before any arithmetic: the gradient of NaN * 0 is NaN
        prediction, target = torch.where(mask, prediction, 0), torch.where(mask, target, 0)
    size = (prediction.abs() + target.abs()) / 2
    return _mean((prediction - target).abs() / size.clamp(min=1e-8), mask)


def pinball(
    prediction: Tensor, target: Tensor, mask: Tensor | None = None, *, levels: Tensor
) -> Tensor:
    """Quantile loss; the last axis of `prediction` runs over `levels`, `target` lacks it."""
    mask = None if mask is None else mask.unsqueeze(-1)
    error = _error(prediction, target.unsqueeze(-1), mask)
    return _mean(torch.maximum(-levels * error, (1 - levels) * error), mask)


def cross_entropy(logits: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean negative log-likelihood of the true classes; `logits` [sample, class]."""
    if mask is None:
        return functional.cross_entropy(logits, target)
    logits, target = torch.where(mask.unsqueeze(-1), logits, 0), torch.where(mask, target, 0)
    each = functional.cross_entropy(logits, target, reduction="none")
    return _mean(torch.where(mask, each, 0), mask)


LOSSES: dict[str, Loss] = {"l1": l1, "mse": mse, "huber": huber, "smape": smape}
"""The losses of a point forecast, by the name a user types."""
