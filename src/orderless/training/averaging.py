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
        # A tensor on the device: a recorded step reads its value anew at every replay.
        self.weight = torch.zeros((), device=next(module.parameters()).device)

    def prepare(self, step: int) -> None:
        """Get ready for the update after step number `step`, counted from 1."""
        self.weight.fill_(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self, source: nn.Module) -> None:
        """Move towards the weights of `source`."""
        mine: list[Tensor] = list(self.module.parameters())
        theirs: list[Tensor] = list(source.parameters())
        ahead = torch._foreach_sub(theirs, mine)
        torch._foreach_mul_(ahead, self.weight)
        torch._foreach_add_(mine, ahead)
        for buffer, current in zip(self.module.buffers(), source.buffers(), strict=True):
            buffer.copy_(current)
