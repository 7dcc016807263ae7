"""Forecasts that cost nothing: the last value, and the value of one season ago.

Each takes contexts [window, variable, context] and where they were observed, and gives
[window, variable, horizon]. A context without a single observed entry gives 0.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.facts import STEPS
from orderless.models.member import State
from orderless.schema import optional, record


def naive(values: Tensor, observed: Tensor, horizon: int) -> Tensor:
    """The last observed value, repeated."""
    position = torch.arange(values.shape[-1], device=values.device)
    last = torch.where(observed, position, 0).amax(-1, keepdim=True)
    return values.gather(-1, last).expand(*values.shape[:-1], horizon)


def seasonal_naive(values: Tensor, observed: Tensor, horizon: int, season: int) -> Tensor:
    """The value of one season ago, or the last observed one of that phase; naive where none is.

    With a context shorter than the season this is the naive forecast.
    """
    plain = naive(values, observed, horizon)
    seasons = values.shape[-1] // season
    if season == 1 or seasons == 0:
        return plain
    folded = values[..., -seasons * season :].unflatten(-1, (seasons, season)).mT
    seen = observed[..., -seasons * season :].unflatten(-1, (seasons, season)).mT
    latest = naive(folded, seen, 1).squeeze(-1)
    phase = torch.arange(horizon, device=values.device) % season
    return torch.where(seen.any(-1)[..., phase], latest[..., phase], plain)


@dataclass(frozen=True)
class Naive:
    """The member `naive`; with a season, `seasonal naive`."""

    horizon: int
    season: int | None = None
    kind: ClassVar[str] = "naive"
    schema = staticmethod(record({"horizon": STEPS, "season": optional(STEPS)}))

    @property
    def name(self) -> str:
        """A column of a table."""
        return "naive" if self.season is None else "seasonal naive"

    def __call__(self, batch: Batch) -> Tensor:
        """The forecast of every variable."""
        if self.season is None:
            return naive(batch.values, batch.observed, self.horizon)
        return seasonal_naive(batch.values, batch.observed, self.horizon, self.season)

    def to(self, device: torch.device) -> None:
        """There is nothing to move."""

    @property
    def module(self) -> nn.Module | None:
        """It has no weights."""
        return None

    def state(self) -> State:
        """Facts alone."""
        return State({"horizon": self.horizon, "season": self.season}, {})

    @classmethod
    def restore(cls, state: State) -> Self:
        """From facts."""
        return cls(**state.facts)
