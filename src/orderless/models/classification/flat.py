"""The features of `flat ridge`: every value of a case, by name, or summaries over its variables."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from orderless.data import Batch
from orderless.models.classification.channels import COUNT, SUMMARIES, by_name, over_variables
from orderless.models.facts import STEPS
from orderless.schema import record

MOST = 4096
"""Features; of longer cases neighbouring time steps are averaged."""


class FlatFeatures(nn.Module):
    """The last `length` time steps of each channel, the mean of `every` so many.

    names   how many variables are known by name; 0 for exchangeable ones
    """

    kind: ClassVar[str] = "flat ridge"
    schema = staticmethod(record({"names": COUNT, "length": STEPS}))
    layers = 0

    def __init__(self, names: int, length: int) -> None:
        super().__init__()
        self.names, self.length = names, length
        self.every = max(1, -(-length * (names or SUMMARIES) // MOST))

    @property
    def count(self) -> int:
        """How many features there are."""
        return (self.names or SUMMARIES) * -(-self.length // self.every)

    def facts(self) -> dict[str, Any]:
        """The arguments."""
        return {"names": self.names, "length": self.length}

    def forward(self, batch: Batch) -> Tensor:
        """Features [case, channel x time]; 0 where nothing was observed."""
        mask = batch.observed & batch.members[..., None]
        if self.names:
            channels = by_name(batch, torch.where(mask, batch.values, 0.0), self.names)
        else:
            channels = over_variables(batch.values, mask)
        channels = channels[..., -self.length :]
        if self.every > 1:
            channels = functional.avg_pool1d(channels, self.every, ceil_mode=True)
        return channels.flatten(1)
