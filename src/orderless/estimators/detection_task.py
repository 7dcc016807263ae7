"""Detection as the training loop sees it: windows with holes, and what belongs in them."""

from collections.abc import Iterator
from dataclasses import asdict

import torch
from torch import Tensor, nn

from orderless.data import MOST_VARIABLES, Series, draw_variables
from orderless.estimators.fingerprint import fingerprint
from orderless.nn import ReconstructionNetwork
from orderless.training.losses import mse

PASSES = 4
"""Every entry is hidden in one of so many passes, and told from the entries that are not."""
ROWS_AT_ONCE = 4096
WITHIN = 5.0
"""Spreads from the mean within which the network sees every value: it has met next to none beyond
in training, and would make up the healthy sensors beside one that is further off."""


class DetectionTask:
    """Trains a `ReconstructionNetwork` to tell hidden stretches from the rest."""

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
        data = (series.flat, series.flat_observed, series.first, train, validation)
        self.fingerprint = fingerprint([asdict(module.config), context], *data)

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
        # What is told may lie beyond: rare pulses are ordinary where others tell them.
        seen = values.clamp(-WITHIN, WITHIN)
        rebuilt = module(seen, observed, members & observed.any(-1), hidden)
        return mse(rebuilt, values, hidden & observed)

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Mean squared error over every observed entry of the validation windows, each hidden."""
        total = count = torch.zeros((), dtype=torch.float64)
        for values, observed, rebuilt in self.rebuild(module, self.validation):
            error = torch.where(observed, rebuilt - values, 0.0)
            total = total + error.square().sum().double().cpu()
            count = count + observed.sum().cpu()
        return float(total / count.clamp(min=1))

    def rebuild(
        self, module: nn.Module, windows: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Values, observed and each value as told from the others, block by block."""
        variables = self.series.members.shape[1]
        for part in windows.split(max(1, ROWS_AT_ONCE // variables)):
            values, observed, members = self.series.gather(part, self.context)
            seen, rebuilt = values.clamp(-WITHIN, WITHIN), torch.zeros_like(values)
            living = members & observed.any(-1)
            for hidden in self.holes(living):
                told = module(seen, observed, living, hidden)
                rebuilt = torch.where(hidden, told, rebuilt)
            yield values, observed, rebuilt

    def holes(self, living: Tensor) -> Iterator[Tensor]:
        """The passes: neighbouring variables and stretches are hidden in different ones.

        Only `living` variables [window, variable] are counted: a dead one changes nothing.
        """
        stretch = torch.arange(self.context, device=living.device) // self.module.config.stride
        turn = (living.cumsum(1).unsqueeze(-1) - 1 + stretch) % PASSES
        for number in range(PASSES):
            yield turn == number


def neighbours(values: Tensor, known: Tensor) -> Tensor:
    """The mean of the nearest known values before and after; a baseline for hidden stretches."""
    position = torch.arange(values.shape[-1], device=values.device)
    before = torch.where(known, position, -1).cummax(-1).values
    after = torch.where(known, position, len(position)).flip(-1).cummin(-1).values.flip(-1)
    first = torch.where(before >= 0, before, after).clamp(max=len(position) - 1)
    second = torch.where(after < len(position), after, before).clamp(min=0)
    mean = (values.gather(-1, first) + values.gather(-1, second)) / 2
    return torch.where(known.any(-1, keepdim=True), mean, 0.0)
