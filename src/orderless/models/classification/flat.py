"""The features of `flat ridge`: every value of a case, by name, or summaries over its variables."""

from dataclasses import asdict, dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from orderless.models.classification.cases import CaseBatch
from orderless.models.classification.channels import SUMMARIES, by_name, over_variables
from orderless.models.member import State

MOST = 4096
"""Features; of longer cases neighbouring time steps are averaged."""


@dataclass(frozen=True)
class FlatFeatures:
    """The last `length` time steps of each channel, averaged `every` so many.

    names   how many variables are known by name; 0 for exchangeable ones
    """

    names: int
    length: int
    every: int
    kind: ClassVar[str] = "flat ridge"

    @classmethod
    def of(cls, names: int, length: int) -> Self:
        """So fine that there are not too many features."""
        channels = names or SUMMARIES
        return cls(names, length, max(1, -(-length * channels // MOST)))

    def __call__(self, batch: CaseBatch) -> Tensor:
        """Features [case, channel x time]; 0 where nothing was observed."""
        values, observed, members = batch.values, batch.observed, batch.members
        if self.names:
            channels = by_name(batch, values, self.names)
        else:
            channels = over_variables(values, observed & members[..., None])
        channels = channels[..., -self.length :]
        if self.every > 1:
            channels = torch.nn.functional.avg_pool1d(channels, self.every, ceil_mode=True)
        return channels.flatten(1)

    def to(self, device: torch.device | str) -> Self:
        """Nothing lies on a device."""
        return self

    def state(self) -> State:
        """The sizes."""
        return State(asdict(self), {})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same sizes."""
        return cls(**state.facts)
