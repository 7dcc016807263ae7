"""The stack: members and the weights they earned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orderless.data import Batch
from orderless.errors import ModelFileError
from orderless.models.member import Member, State
from orderless.nn import VI2DSSM
from orderless.schema import listing, mapping, number, plain, record, text
from orderless.theory import Certificate, certify

LEAST_WEIGHT = 0.05
"""A member with less is left out: it costs time and changes nothing."""

MEMBERS = listing(
    record({"kind": text(), "name": text(), "weight": number(0, 1), "facts": mapping(plain)})
)
"""The members of a saved stack; the facts of each have a schema of their own."""


@dataclass(frozen=True)
class Stack:
    """Members with convex weights; together they answer as one."""

    members: tuple[Member, ...]
    weights: tuple[float, ...]

    def __call__(self, batch: Batch) -> Tensor:
        """The weighted mean of what the members answer."""
        answers = (
            weight * member(batch)
            for member, weight in zip(self.members, self.weights, strict=True)
        )
        total = next(answers)
        for answer in answers:
            total = total + answer
        return total

    def to(self, device: torch.device) -> None:
        """Move every member."""
        for member in self.members:
            member.to(device)

    @property
    def device(self) -> torch.device:
        """Where the weights lie; the CPU where no member has any."""
        for member in self.members:
            if member.module is not None:
                return next(member.module.parameters()).device
        return torch.device("cpu")

    def state(self) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """Facts of each member as JSON, and the tensors of all under their numbers."""
        facts, tensors = [], {}
        for place, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            state = member.state()
            facts.append(
                {"kind": member.kind, "name": member.name, "weight": weight, "facts": state.facts}
            )
            tensors |= {f"members/{place}/{name}": value for name, value in state.tensors.items()}
        return facts, tensors

    @classmethod
    def restore(
        cls,
        facts: Sequence[Mapping[str, Any]],
        tensors: Mapping[str, Tensor],
        kinds: Mapping[str, type[Any]],
    ) -> "Stack":
        """What `state` gave; `kinds` are the classes of the task's members by kind."""
        if not facts:
            raise ModelFileError("The stack has no member.")
        members = []
        for place, one in enumerate(facts):
            if one["kind"] not in kinds:
                known = ", ".join(kinds)
                raise ModelFileError(f"There is no member of kind {one['kind']!r}, only {known}.")
            kind = kinds[one["kind"]]
            kind.schema(one["facts"], f"member {place}")
            start = f"members/{place}/"
            own = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
            members.append(kind.restore(State(one["facts"], own)))
        return cls(tuple(members), tuple(float(one["weight"]) for one in facts))


def keep_earners(members: Sequence[Member], weights: Tensor) -> Stack:
    """The members that earned a weight worth its time, with weights that add up to 1."""
    kept = [i for i, weight in enumerate(weights.tolist()) if weight >= LEAST_WEIGHT]
    if not kept:
        kept = [int(weights.argmax())]
    chosen = weights[kept] / weights[kept].sum()
    return Stack(tuple(members[i] for i in kept), tuple(chosen.tolist()))


def certify_members(
    stack: Stack, variables: int, smallest_step: float | None = None
) -> dict[str, Certificate]:
    """A certificate of stability for each member with dynamics, by name."""
    modules = {one.name: one.module for one in stack.members if one.module is not None}
    return {
        name: certify(module, variables, smallest_step)
        for name, module in modules.items()
        if any(isinstance(layer, VI2DSSM) for layer in module.modules())
    }
