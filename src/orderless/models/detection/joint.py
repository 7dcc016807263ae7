"""What the variables that `fit` saw are expected to be by each other, over a few time steps.

Two members share one shape, a covariance of short windows of all known variables:

- `PCA`: what the leading components do not explain, as probabilistic PCA has it.
- `regression`: each reading against all others of its window, the own past among them.

Both give the error of the last time step of a window, so nothing that follows changes a score.
What is missing, or too far off to be evidence, is expected by the rest; variables that a system
does not have are left out of the covariance. Those that `fit` did not see have no error here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.detection.inputs import WITHIN, is_evidence
from orderless.models.facts import STEPS
from orderless.models.member import State
from orderless.schema import number, optional, record, whole

PCA, REGRESSION = "PCA", "regression"
WINDOW = {PCA: 10, REGRESSION: 3}
WIDEST = 2048
"""Entries of a window at most: the time to fit grows with their cube. Of more variables windows are
shorter, and of still more there is no such member."""
EXPLAINED = 0.9
"""The share of the variance that the components keep."""
PENALTY = 0.01
"""Variance of the noise that `regression` adds to every entry."""
LEAST_NOISE = 1e-4
"""Of `PCA`, where the components explain all."""
ROWS_AT_ONCE = 4096
ROUNDS = 6
"""Of conjugate gradients, by which missing entries are filled."""


@dataclass(frozen=True)
class Joint:
    """The members `PCA` and `regression`.

    covariance  [window x variable, window x variable] in float64, time steps outermost
    count       how many variables `fit` saw moving
    noise       the variance of what the components of `PCA` leave over: its errors are what is left
                of an entry. None for `regression`: errors of expecting an entry by the rest
    """

    covariance: Tensor
    count: int
    noise: float | None
    kind: ClassVar[str] = "joint"
    schema = staticmethod(
        record({"window": STEPS, "count": whole(1), "noise": optional(number(0))})
    )
    _latest: dict[tuple[int, ...], tuple[Tensor, Tensor]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """A column of a table."""
        return REGRESSION if self.noise is None else PCA

    @property
    def window(self) -> int:
        """Time steps in a window."""
        return len(self.covariance) // self.count

    @classmethod
    def fit(cls, batches: Sequence[Batch], name: str, count: int) -> Self:
        """From windows of all systems; pairs that never met are taken as unrelated."""
        window = max(1, min(WINDOW[name], WIDEST // count))
        variances, vectors = torch.linalg.eigh(_moments(batches, window, count))
        variances = variances.clamp(min=0.0)
        noise = None
        if name == REGRESSION:
            variances = variances + PENALTY
        else:
            share = variances.flip(0).cumsum(0) / variances.sum().clamp(min=1e-300)
            # All but one at most: all of them would explain everything.
            kept = min(int((share < EXPLAINED).sum()) + 1, len(variances) - 1)
            rest = variances[: len(variances) - kept]
            noise = rest.mean().clamp(min=LEAST_NOISE)
            variances = torch.cat(
                (noise.expand(len(rest)), variances[len(rest) :].clamp(min=noise))
            )
        covariance = (vectors * variances) @ vectors.T
        return cls(covariance, count, None if noise is None else float(noise))

    def __call__(self, batch: Batch) -> Tensor:
        """Errors [window, variable, time]: 0 where nothing was observed, NaN if not known."""
        errors = torch.full_like(batch.values, torch.nan)
        assert batch.static is not None
        evidence = is_evidence(batch)
        for place, numbers in enumerate(batch.static):
            rows = (batch.members[place] & (numbers < self.count)).nonzero()[:, 0]
            if len(rows):
                observed = batch.observed[place, rows].T
                values = torch.where(observed, batch.values[place, rows].T, 0.0)
                found = self._errors(numbers[rows], values, observed, evidence[place, rows].T)
                errors[place, rows] = found.T
        return torch.where(batch.observed, errors, 0.0)

    def _errors(
        self, numbers: Tensor, values: Tensor, observed: Tensor, evidence: Tensor
    ) -> Tensor:
        """Errors [time, variable] of the variables with these numbers."""
        whole, present = self._precisions(tuple(numbers.tolist()))
        last = slice(-len(numbers), None)
        scale = 1 / whole.diagonal()[last] if self.noise is None else self.noise
        credible = values.clone()
        far = (observed & ~evidence).any(1).nonzero()[:, 0]
        if len(far):
            # By the others at that time: windows would take many times as long.
            known = evidence[far]
            filled = _fill(torch.where(known, values[far], 0.0), known, present)
            credible[far] = torch.where(observed[far], filled, 0.0)
        parts = []
        for windows, gaps, known in _windows(credible, observed, self.window):
            if len(gaps):
                windows[gaps] = _fill(windows[gaps], known, whole)
            parts.append((windows @ whole[:, last]) * scale)
        # What was filled in is what was expected, more or less.
        return torch.cat(parts) + values - credible

    def _precisions(self, numbers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The inverse of the covariance of these variables, over a window and at one time."""
        if numbers not in self._latest:
            entries = torch.tensor(numbers)
            present = self.covariance[entries][:, entries]
            entries = (torch.arange(self.window)[:, None] * self.count + entries).flatten()
            whole = self.covariance[entries][:, entries]
            self._latest.clear()
            self._latest[numbers] = (
                torch.linalg.inv(whole).float(),
                torch.linalg.inv(present).float(),
            )
        return self._latest[numbers]

    def to(self, device: torch.device) -> None:
        """It stays on the CPU, where systems are prepared."""

    @property
    def module(self) -> nn.Module | None:
        """It has no weights to train."""
        return None

    def state(self) -> State:
        """The covariance."""
        facts = {"window": self.window, "count": self.count, "noise": self.noise}
        return State(facts, {"covariance": self.covariance})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same covariance."""
        return cls(state.tensors["covariance"], state.facts["count"], state.facts["noise"])


def _moments(batches: Sequence[Batch], window: int, count: int) -> Tensor:
    """The second moments of windows, each pair over the windows that have both."""
    size = window * count
    sums = torch.zeros(size, size, dtype=torch.float64)
    pairs = torch.zeros_like(sums)
    for batch in batches:
        assert batch.static is not None
        for place, numbers in enumerate(batch.static):
            rows = (batch.members[place] & (numbers < count)).nonzero()[:, 0]
            seen = torch.zeros(batch.values.shape[-1], count, dtype=torch.bool)
            seen[:, numbers[rows]] = batch.observed[place, rows].T
            values = batch.values.new_zeros(seen.shape)
            values[:, numbers[rows]] = batch.values[place, rows].T.clamp(-WITHIN, WITHIN)
            for windows, gaps, known in _windows(torch.where(seen, values, 0.0), seen, window):
                sums += (windows.T @ windows).double()
                pairs += len(windows) - len(gaps) + (known.float().T @ known.float()).double()
    return sums / pairs.clamp(min=1.0)


def _windows(values: Tensor, known: Tensor, window: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Windows that end at each time step [row, window x variable], some after the other.

    With each block which of its rows have gaps, and what is known of these rows. What lies before
    the beginning is not known.
    """
    before = (0, 0, window - 1, 0)
    padded = torch.nn.functional.pad(values, before)
    marked = torch.nn.functional.pad(known, before)
    incomplete = (~marked.all(1)).unfold(0, window, 1).any(1)
    for begin in range(0, len(values), ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, len(values))
        windows, marks = (
            one[begin : end + window - 1].unfold(0, window, 1).transpose(1, 2)
            for one in (padded, marked)
        )
        gaps = incomplete[begin:end].nonzero()[:, 0]
        yield windows.flatten(1), gaps, marks[gaps].flatten(1)


def _fill(values: Tensor, known: Tensor, precision: Tensor) -> Tensor:
    """Windows with what is not known as the known entries make it most likely.

    By conjugate gradients, which end early: what little is left to find would be near the center.
    """
    free = (~known).to(values.dtype)
    rest = -(values @ precision) * free
    direction, size = rest, (rest * rest).sum(1, keepdim=True)
    for _ in range(ROUNDS):
        bent = (direction @ precision) * free
        length = size / (direction * bent).sum(1, keepdim=True).clamp(min=1e-30)
        values = values + length * direction
        rest = rest - length * bent
        new = (rest * rest).sum(1, keepdim=True)
        direction, size = rest + new / size.clamp(min=1e-30) * direction, new
    return values
