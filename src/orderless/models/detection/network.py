"""The network as a member: how far hidden stretches are from what it made of the rest."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import MOST_VARIABLES, Batch, Series, covering_starts, draw_variables
from orderless.models.detection.inputs import FAR, WITHIN
from orderless.models.facts import NETWORK, STEPS, rebuild
from orderless.models.fingerprint import fingerprint
from orderless.models.member import State
from orderless.nn import NetworkConfig, ReconstructionNetwork
from orderless.schema import record
from orderless.training.losses import mse

PASSES = 4
"""Every entry is hidden in one of so many passes, and reconstructed from those that are not."""
ROWS_AT_ONCE = 4096
TRAINING = {"learning_rate": 2e-3, "patience": 4, "steps_per_epoch": 60}
ROWS_PER_STEP = 2048
"""Windows of one variable in a training step; with more than 64 variables there are fewer."""


@dataclass(frozen=True)
class Reconstruction:
    """The member `network`: windows that overlap by half, their reconstructions averaged."""

    network: ReconstructionNetwork
    context: int
    kind: ClassVar[str] = "network"
    schema = staticmethod(record({"config": NETWORK, "context": STEPS}))

    @property
    def name(self) -> str:
        """A column of a table; the only one of its kind."""
        return self.kind

    def __call__(self, batch: Batch) -> Tensor:
        """Errors [window, variable, time]; 0 where nothing was observed of a member."""
        device = next(self.network.parameters()).device
        length, context = batch.values.shape[-1], self.context
        assert batch.static is not None
        starts = covering_starts([length], context, stride=max(1, context // 2))[:, 1].tolist()
        total, count = torch.zeros_like(batch.values), batch.values.new_zeros(length)
        for place, numbers in enumerate(batch.static):
            values, observed = (
                torch.stack([_span(one[place], start, context) for start in starts])
                for one in (batch.values, batch.observed)
            )
            members = batch.members[place] & observed.any(-1)
            blocks = zip(
                *(one.split(self._windows_at_once(batch)) for one in (values, observed, members)),
                strict=True,
            )
            found = torch.cat(
                [
                    reconstruct(self.network, *(one.to(device) for one in (*block, numbers)))
                    for block in blocks
                ]
            ).to(total.device)
            for start, one in zip(starts, found, strict=True):
                inside = slice(max(start, 0), start + context)
                total[place, :, inside] += one[:, max(-start, 0) :]
                if place == 0:
                    count[inside] += 1
        counts = batch.observed & batch.members.unsqueeze(-1)
        return torch.where(counts, batch.values - total / count.to(total), 0.0)

    def _windows_at_once(self, batch: Batch) -> int:
        return max(1, ROWS_AT_ONCE // batch.values.shape[1])

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.network.to(device)

    @property
    def module(self) -> nn.Module | None:
        """The network."""
        return self.network

    def state(self) -> State:
        """Sizes and weights."""
        facts = {"config": asdict(self.network.config), "context": self.context}
        return State(facts, self.network.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same network."""
        config = NetworkConfig(**state.facts["config"])
        network = rebuild(lambda: ReconstructionNetwork(config), state.tensors, config.layers)
        return cls(network, state.facts["context"])


class ReconstructionTask:
    """Trains a `ReconstructionNetwork` to fill hidden stretches from the rest."""

    def __init__(
        self,
        module: ReconstructionNetwork,
        series: Series,
        context: int,
        train: Tensor,
        validation: Tensor,
    ) -> None:
        self.module, self.series, self.context = module, series, context
        self.train, self.validation = train, validation
        self.train_size = len(train)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the data, the windows and the settings."""
        series = self.series
        data = (series.flat, series.flat_observed, series.first, self.train, self.validation)
        return fingerprint([asdict(self.module.config), self.context], *data)

    def to(self, device: torch.device) -> None:
        """Move the series and the indices."""
        self.series = self.series.to(device)
        self.train, self.validation = self.train.to(device), self.validation.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These windows, and a subset of their variables for this step."""
        windows = self.train[index]
        members = self.series.members[windows[:, 0]]
        return windows, draw_variables(members, torch.default_generator, most=MOST_VARIABLES)

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """Squared error on entries of these windows that are hidden from the network."""
        values, observed, members = self.series.gather(samples, self.context, variables)
        stride = self.module.config.stride
        blocks = -(-self.context // stride)
        holes = torch.rand(*values.shape[:2], blocks, device=values.device) < 1 / PASSES
        hidden = holes.repeat_interleave(stride, dim=-1)[..., : self.context]
        # What is to be filled in may lie beyond: rare pulses are normal where others explain them,
        # but no broken sensor decides for all.
        seen = values.clamp(-WITHIN, WITHIN)
        rebuilt = module(seen, observed, members & observed.any(-1), hidden)
        return mse(rebuilt, values.clamp(-FAR, FAR), hidden & observed)

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Mean squared error over every observed entry of the validation windows, each hidden."""
        total = count = torch.zeros((), dtype=torch.float64)
        variables = self.series.members.shape[1]
        numbers = torch.arange(variables, device=self.series.flat.device)
        for part in self.validation.split(max(1, ROWS_AT_ONCE // variables)):
            values, observed, members = self.series.gather(part, self.context)
            rebuilt = reconstruct(module, values, observed, members & observed.any(-1), numbers)
            error = torch.where(observed, rebuilt - values.clamp(-FAR, FAR), 0.0)
            total = total + error.square().sum().double().cpu()
            count = count + observed.sum().cpu()
        return float(total / count.clamp(min=1))


def reconstruct(
    module: Any, values: Tensor, observed: Tensor, members: Tensor, numbers: Tensor
) -> Tensor:
    """Each entry [window, variable, time] as reconstructed from those of the other passes.

    The network sees every value within limits: it has met next to none beyond in training, and
    would make up the healthy sensors beside one that is further off.
    """
    seen, rebuilt = values.clamp(-WITHIN, WITHIN), torch.zeros_like(values)
    for hidden in _holes(members, numbers, values.shape[-1], module.config.stride):
        rebuilt = torch.where(hidden, module(seen, observed, members, hidden), rebuilt)
    return rebuilt


def _holes(members: Tensor, numbers: Tensor, length: int, stride: int) -> Iterator[Tensor]:
    """The passes: neighbouring variables and stretches are hidden in different ones.

    Only members [window, variable] are counted, in the order of their numbers [variable]: a dead
    one changes nothing, nor does the order in which they come.
    """
    last = numbers.max() + 1
    rank = torch.where(members, numbers, last).argsort(1).argsort(1)
    stretch = torch.arange(length, device=members.device) // stride
    turn = (rank.unsqueeze(-1) + stretch) % PASSES
    for number in range(PASSES):
        yield turn == number


def _span(values: Tensor, start: int, length: int) -> Tensor:
    """Time steps [..., length] from a start that may lie before the beginning; 0 is what is not."""
    inside = values[..., max(start, 0) : start + length]
    return torch.nn.functional.pad(inside, (max(-start, 0), 0))
