"""Convex weights that make the least loss on answers that no member was fitted on."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Loss = Callable[[Tensor], Tensor]
"""Weights [member] to the loss of the weighted answers."""
STEPS = 200
RATE = 0.5
"""Of the multiplicative update, over the largest slope that was seen."""


def fit_weights(loss: Loss, members: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Weights [member], none negative, that add up to 1 and make the least of a convex loss.

    By exponentiated gradient from equal weights: weights stay on the simplex by construction. The
    mean of the later half of the steps is returned.
    """
    logits = torch.zeros(members, device=device, dtype=torch.float64)
    total = torch.zeros_like(logits)
    largest = 0.0
    for step in range(STEPS):
        weights = logits.softmax(0).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(loss(weights.float()), weights)
        slope = slope - slope.mean()
        largest = max(largest, float(slope.abs().max()))
        if largest == 0.0:
            return weights.detach().cpu()
        logits = logits - RATE * (1 + members) * slope / largest * (1 + step) ** -0.25
        if 2 * step >= STEPS:
            total += logits.softmax(0)
    return (total / total.sum()).cpu()


def fit_shrunk_weights(
    losses: Sequence[Loss], members: int, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Weights that few data cannot make bold: the mean over fits that each leave one part out.

    losses: of each part (a fold) alone.
    """
    if len(losses) == 1:
        return fit_weights(losses[0], members, device=device)

    def without(left_out: int) -> Loss:
        rest = [loss for number, loss in enumerate(losses) if number != left_out]
        return lambda weights: torch.stack([loss(weights) for loss in rest]).mean()

    each = [fit_weights(without(one), members, device=device) for one in range(len(losses))]
    return torch.stack(each).mean(0)
