"""What a member is: one way to answer, beside others, in a stack.

A member answers a batch of contexts; the stack gives each member the weight that it earned on data
that no member was fitted on. Everything that uses members (the stack, reports, benchmarks, saving)
knows no more of them than this page.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch


class State(NamedTuple):
    """All that a member needs to answer: facts that are JSON, and tensors by name."""

    facts: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


class Member(Protocol):
    """A fitted way to answer.

    `kind` says how to read `state`: it is the key of the class in a table of members.
    """

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Unique in a stack, and a column of every table: "ridge 336"."""
        ...

    def __call__(self, batch: Batch) -> Tensor:
        """The answer for each window: a forecast, class scores, or errors."""
        ...

    def to(self, device: torch.device) -> None:
        """Move to a device."""

    @property
    def module(self) -> nn.Module | None:
        """What holds the weights, if any: `verify` and `certify` look into it."""
        ...

    @staticmethod
    def schema(facts: Any, where: str, /) -> None:
        """Refuse facts of a saved member that `restore` could not read."""

    def state(self) -> State:
        """Facts and tensors, from which `restore` makes the same member."""
        ...

    @classmethod
    def restore(cls, state: State) -> Self:
        """The member that `state` was taken from, on the CPU."""
        ...
