"""AdamW with groups, and the learning rate as a function of the step."""

import math
from typing import Any

import torch
from torch import nn

from orderless.training.config import TrainingConfig


def build_optimizer(module: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW that decays matrices only."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim >= 2]
    plain = [parameter for parameter in trained if parameter.ndim < 2]
    rate = config.learning_rate
    groups: list[dict[str, Any]] = [
        {"params": decayed, "rate": rate, "weight_decay": config.weight_decay},
        {"params": plain, "rate": rate, "weight_decay": 0.0},
    ]
    device = next(module.parameters()).device
    for group in groups:
        # A tensor on the device: a recorded step reads its value anew at every replay.
        group["lr"] = torch.tensor(group["rate"], device=device)
    return torch.optim.AdamW(
        [g for g in groups if g["params"]], fused=True, capturable=device.type == "cuda"
    )


def learning_rate_factor(step: int, total: int, warmup: float) -> float:
    """Linear rise over the first `warmup` share of the steps, then a cosine to zero."""
    rise = max(1, round(warmup * total))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Give every group its own rate times `factor`; nothing is remembered between steps."""
    for group in optimizer.param_groups:
        group["lr"].fill_(group["rate"] * factor)
