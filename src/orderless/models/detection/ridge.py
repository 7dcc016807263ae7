"""What a variable is expected to be by its own past and by the mean of the others.

One set of coefficients is shared by all variables, so it holds for any of them, also for those that
`fit` never saw.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.detection.inputs import WITHIN, is_evidence
from orderless.models.facts import STEPS
from orderless.models.member import State
from orderless.schema import record

LAGS = 8
PENALTY = 1e-3
STEPS_AT_ONCE = 2**18
"""Readings whose features lie in memory together."""


@dataclass(frozen=True)
class Ridge:
    """The member `ridge`.

    coefficients    [2 lags + 2] of the own past, of the mean of the others now and before, and of 1
    """

    coefficients: Tensor
    lags: int = LAGS
    kind: ClassVar[str] = "ridge"
    schema = staticmethod(record({"lags": STEPS}))

    @property
    def name(self) -> str:
        """A column of a table; the only one of its kind."""
        return self.kind

    @classmethod
    def fit(cls, batches: Iterable[Batch], lags: int = LAGS) -> Self:
        """By least squares with a small penalty, over all readings of all members."""
        size = 2 * lags + 2
        squares = torch.zeros(size, size + 1, dtype=torch.float64)
        count = 0
        for batch in batches:
            target = batch.values.clamp(-WITHIN, WITHIN)
            for begin, features in _features(batch, lags):
                part = slice(begin, begin + features.shape[-2])
                counts = (batch.observed & batch.members.unsqueeze(-1))[..., part]
                rows = torch.cat((features, target[..., part].unsqueeze(-1)), -1)[counts].double()
                squares += rows[:, :-1].T @ rows
                count += len(rows)
        squares /= max(count, 1)
        penalty = PENALTY * torch.eye(size, dtype=torch.float64)
        found = torch.linalg.solve(squares[:, :-1] + penalty, squares[:, -1])
        return cls(found.float(), lags)

    def __call__(self, batch: Batch) -> Tensor:
        """Errors [window, variable, time]; 0 where nothing was observed of a member."""
        past, company = _histories(batch, self.lags)
        length = batch.values.shape[-1]
        *weights, rest = self.coefficients.tolist()
        expected = torch.full_like(batch.values, rest)
        for lag, weight in enumerate(weights):
            source, begin = (past, lag) if lag < self.lags else (company, lag - self.lags)
            expected.add_(source[..., begin : begin + length], alpha=weight)
        counts = batch.observed & batch.members.unsqueeze(-1)
        return torch.where(counts, batch.values - expected, 0.0)

    def to(self, device: torch.device) -> None:
        """It is as fast on the CPU, where systems are prepared."""

    @property
    def module(self) -> nn.Module | None:
        """It has no weights to train."""
        return None

    def state(self) -> State:
        """The coefficients."""
        return State({"lags": self.lags}, {"coefficients": self.coefficients})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same coefficients."""
        return cls(state.tensors["coefficients"], state.facts["lags"])


def _histories(batch: Batch, lags: int) -> tuple[Tensor, Tensor]:
    """The own values and the mean of the others [window, variable, lags + time].

    Before the beginning everything is as at the beginning.
    """
    evidence = is_evidence(batch)
    values = torch.where(batch.observed, batch.values.clamp(-WITHIN, WITHIN), 0.0)
    own = _fill(values, batch.observed, lags)
    near = torch.where(evidence, batch.values, 0.0)
    others = near.sum(1, keepdim=True) - near
    count = evidence.sum(1, keepdim=True) - evidence.long()
    mean = others / count.clamp(min=1)
    past, company = (
        torch.nn.functional.pad(one, (lags, 0), mode="replicate") for one in (own, mean)
    )
    return past, company


def _features(batch: Batch, lags: int) -> Iterable[tuple[int, Tensor]]:
    """Features [window, variable, time, feature] of some time steps after the other."""
    past, company = _histories(batch, lags)
    length = batch.values.shape[-1]
    width = max(1, STEPS_AT_ONCE // max(1, batch.members.numel()))
    for begin in range(0, length, width):
        steps = min(width, length - begin)
        before = past[..., begin : begin + steps + lags - 1].unfold(-1, lags, 1)
        beside = company[..., begin : begin + steps + lags].unfold(-1, lags + 1, 1)
        one = torch.ones_like(before[..., :1])
        yield begin, torch.cat((before, beside, one), -1)


def _fill(values: Tensor, observed: Tensor, reach: int) -> Tensor:
    """The last reading in place of what is missing, if it is no older than `reach` time steps.

    Otherwise the next reading: where a sensor begins, or comes back after long, there is nothing to
    compare it with, and it is no error.
    """
    position = torch.arange(values.shape[-1], device=values.device)
    last = torch.where(observed, position, -1).cummax(-1).values
    after = torch.where(observed, position, len(position)).flip(-1).cummin(-1).values.flip(-1)
    recent = (last >= 0) & (position - last < reach)
    source = torch.where(recent | (after == len(position)), last, after).clamp(min=0)
    return values.gather(-1, source)
