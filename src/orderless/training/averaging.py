"""An exponential average of the weights that does not lag when the run is short."""

import copy

import torch
from torch import Tensor, nn


class WeightAverage:
    """A copy of the module whose weights follow those of the module in training.

    The decay at step t is min(decay, (1 + t) / (10 + t)): the average always covers about the
    last tenth of the run, until that is longer than the decay asks for.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = copy.deepcopy(module).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, source: nn.Module, step: int) -> None:
        """Move towards the weights of `source` after its step number `step`, counted from 1."""
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        mine: list[Tensor] = list(self.module.parameters())
        theirs: list[Tensor] = list(source.parameters())
        torch._foreach_lerp_(mine, theirs, weight)
        for buffer, current in zip(self.module.buffers(), source.buffers(), strict=True):
            buffer.copy_(current)
