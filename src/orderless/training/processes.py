"""Where a run computes, and what its processes agree on, if `torchrun` has started several.

Gradients are averaged in one message a step. That message also says whether anybody was asked to
stop, so that all of them stop after the same step.
"""

import atexit
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from orderless.errors import DtypeError

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")
"""What `torchrun` and its like set for each process."""


@dataclass(frozen=True)
class Processes:
    """One of the processes that train together; the only one, as a rule."""

    rank: int
    count: int
    device: torch.device

    def wait(self) -> None:
        """Until all have come here."""
        if self.count > 1:
            distributed.barrier()

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Give all of them the tensors of the first."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), 0)

    def agree(self, *numbers: float) -> list[float]:
        """The numbers of the first, for all: they must take the same decisions."""
        if self.count == 1:
            return list(numbers)
        shared = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, 0)
        return shared.tolist()

    def average_gradients(self, parameters: Sequence[nn.Parameter], stop: bool) -> bool:
        """Give each parameter the mean of its gradients; returns whether anybody is to stop.

        A parameter that none of them has used keeps none.
        """
        used = [parameter.grad is not None for parameter in parameters]
        each = [
            torch.zeros_like(one).flatten() if one.grad is None else one.grad.flatten()
            for one in parameters
        ]
        facts = torch.tensor([*used, stop], dtype=torch.float32, device=self.device)
        message = torch.cat([*each, facts])
        distributed.all_reduce(message)
        *sums, facts = message.split([*(len(one) for one in each), len(facts)])
        *uses, stops = facts.tolist()
        for parameter, total, count in zip(parameters, sums, uses, strict=True):
            parameter.grad = (total / self.count).view_as(parameter) if count else None
        return stops > 0


def find_processes(device: str) -> Processes:
    """Join the others, if there are any, and choose a device: with `auto` a GPU if there is one."""
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise DtypeError(
            "`device` is 'cuda', and PyTorch sees no CUDA device. Use device='auto', or run "
            "`orderless doctor`."
        )
    on_gpu = there and device != "cpu"
    if not _join():
        return Processes(0, 1, torch.device("cuda" if on_gpu else "cpu"))
    chosen = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    return Processes(distributed.get_rank(), distributed.get_world_size(), chosen)


def _join() -> bool:
    """Whether there are others; the group of them lasts as long as this process."""
    if not distributed.is_available():
        return False
    if not distributed.is_initialized():
        launched = all(name in os.environ for name in LAUNCHED)
        if not launched or int(os.environ["WORLD_SIZE"]) == 1:
            return False
        there = torch.cuda.is_available()
        if there:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        distributed.init_process_group("cpu:gloo,cuda:nccl" if there else "gloo")
        atexit.register(_leave)
    return True


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
