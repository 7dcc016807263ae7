"""The features of `convolutions`: what many small kernels find in a case.

Kernels of nine taps, at dilations 1, 2, 4 and so on, see the values and the changes of a few
channels added up with random signs. There are two kinds. Random kernels compete (as in HYDRA): at
each time step the one of eight with the largest output scores that output, and the one with the
least likewise. Fixed kernels of weights -1 and 2 are held against thresholds (as in MultiRocket):
the share of time above, how far above, when, and the longest stretch. All of it is continuous in
the values, so that rounding decides nothing.

Known by name, variables are channels. Exchangeable ones are seen alone, with their features pooled
over the variables, and together as channels that summarise them at each time step.
"""

from itertools import combinations
from math import log2
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from orderless.data import Batch
from orderless.models.classification.channels import (
    COUNT,
    SUMMARIES,
    by_name,
    extent,
    fill_gaps,
    over_variables,
)
from orderless.models.classification.ridge import frozen
from orderless.models.facts import SIZE, STEPS
from orderless.schema import record

TAPS = 9
COMPETING = 8
"""Kernels in a group."""
LEVELS = (0.25, 0.5, 0.8)
"""Quantiles of the outputs that are thresholds."""
SOFTNESS = 0.1
"""Width of a threshold, in standard deviations of the output."""
FAINT = 1e-4
"""Standard deviation of an output that says nothing; values have one of about 1."""
MOST_MIXED = 9
"""Channels added up."""
FLOOR = 1e-3
"""Added below a square root, whose slope would be infinite."""
POOLS = 4
"""Ways in which a feature is pooled over variables."""
EDGES = ("replicate", "constant")
"""What half of the kernels see outside of a case: values stay level there, changes are 0."""
ENTRIES_AT_ONCE = 2**22
"""Outputs of kernels that are held at a time."""
SAMPLE = 32
"""Cases that thresholds are learned from."""


class ConvolutionFeatures(nn.Module):
    """Features of a case, the same for every order of its variables.

    names       how many variables are known by name; 0 for exchangeable ones
    length      of the longest case: how far dilations go
    groups      of competing kernels, at each dilation
    """

    kind: ClassVar[str] = "convolutions"
    schema = staticmethod(record({"names": COUNT, "length": STEPS, "groups": SIZE}))

    def __init__(self, names: int, length: int, groups: int) -> None:
        super().__init__()
        self.names, self.length, self.groups = names, length, groups
        dilations = [2**k for k in range(1 + int(log2(max(1, (length - 1) / (TAPS - 1)))))]

        def banks(channels: int, groups: int) -> nn.ModuleList:
            return nn.ModuleList(
                [Bank(channels, max(2, groups), one, edge) for edge in EDGES for one in dilations]
            )

        self.together = banks(names or SUMMARIES, groups if names else -(-groups // 2))
        self.alone = nn.ModuleList() if names else banks(1, -(-groups // 4))

    def facts(self) -> dict[str, Any]:
        """The arguments."""
        return {"names": self.names, "length": self.length, "groups": self.groups}

    @property
    def layers(self) -> int:
        """How many banks of kernels there are."""
        return len(self.together) + len(self.alone)

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self.of_changes())

    def of_changes(self) -> Tensor:
        """Which features [feature] are those of changes."""
        marks = []
        for banks, pools in ((self.together, 1), (self.alone, POOLS)):
            half = sum(pools * one.count for one in banks.modules() if isinstance(one, Bank)) // 2
            marks += [torch.full((half,), changes, device="cpu") for changes in (False, True)]
        return torch.cat(marks)

    def outputs(self, variables: int) -> int:
        """Outputs of kernels at each time step of a case with so many variables: what it costs."""
        return sum(
            rows * one.outputs
            for banks, rows in ((self.together, 1), (self.alone, variables))
            for one in banks.modules()
            if isinstance(one, Bank)
        )

    def draw(self, batch: Batch, seed: int = 0) -> None:
        """Draw the kernels; thresholds are learned from some cases."""
        random = torch.Generator().manual_seed(seed)
        for one in self.modules():
            if isinstance(one, Bank):
                one.draw(random)
        for channels, banks, valid in self._sights(batch):
            for bank, seen, there in _pair(banks, channels, valid):
                bank.learn_thresholds(seen, there)

    def forward(self, batch: Batch) -> Tensor:
        """Features [case, feature]."""
        width = batch.values.shape[-1] * (1 if self.names else batch.values.shape[1])
        at_once = max(1, ENTRIES_AT_ONCE // (width * COMPETING * self.groups))
        count = len(batch.values)
        return torch.cat(
            [self._features(_rows(batch, i, at_once)) for i in range(0, count, at_once)]
        )

    def _features(self, batch: Batch) -> Tensor:
        features = []
        for channels, banks, valid in self._sights(batch):
            found = torch.cat(
                [b(seen, there) for b, seen, there in _pair(banks, channels, valid)], 1
            )
            if banks is self.alone:
                members = batch.members & batch.observed.any(-1)
                found = _pool(found.view(*members.shape, -1), members)
            features.append(found)
        return torch.cat(features, 1)

    def _sights(self, batch: Batch) -> list[tuple[Tensor, nn.ModuleList, Tensor]]:
        """Channels [row, channel, time], the kernels that see them, and where a case is."""
        observed = batch.observed & batch.members[..., None]
        values = fill_gaps(batch.values, observed)
        valid = extent(batch)
        if self.names:
            return [(by_name(batch, values, self.names), self.together, valid)]
        members = observed.any(-1, keepdim=True)
        channels = over_variables(values, members.expand(values.shape))
        each = valid[:, None].expand(values.shape).flatten(0, 1)
        return [
            (channels, self.together, valid),
            (values.flatten(0, 1).unsqueeze(1), self.alone, each),
        ]


class Bank(nn.Module):
    """Kernels of one dilation; half of the groups see 0 outside of a case, half what `edge` says.

    Channels [row, channel, time] and where the case is [row, time] give features [row, feature].
    """

    def __init__(self, channels: int, groups: int, dilation: int, edge: str) -> None:
        super().__init__()
        self.dilation, self.edge = dilation, edge
        fixed = max(2, round(84 / 64 * groups))
        self.competing = frozen(groups, COMPETING, TAPS)
        self.mix_competing = frozen(groups, channels)
        self.held = frozen(fixed, TAPS)
        self.mix_held = frozen(fixed, channels)
        self.thresholds = frozen(fixed, len(LEVELS))

    @torch.no_grad()
    def draw(self, random: torch.Generator) -> None:
        """Kernels that add up to zero, and the channels that each of them sees."""
        competing = torch.randn(self.competing.shape, generator=random)
        competing -= competing.mean(-1, keepdim=True)
        self.competing.copy_(competing / competing.abs().sum(-1, keepdim=True))
        kernels = _fixed_kernels()
        order = torch.randperm(len(kernels), generator=random)
        self.held.copy_(kernels[order[torch.arange(len(self.held)) % len(kernels)]])
        for mix in (self.mix_competing, self.mix_held):
            count, channels = mix.shape
            mix.copy_(_mix(channels, count, random))

    @property
    def count(self) -> int:
        """How many features there are."""
        return 2 * self.competing[..., 0].numel() + 4 * self.thresholds.numel()

    @property
    def outputs(self) -> int:
        """Outputs of its kernels at each time step."""
        return self.competing[..., 0].numel() + self.thresholds.numel()

    @torch.no_grad()
    def learn_thresholds(self, channels: Tensor, valid: Tensor) -> None:
        """Quantiles of the outputs; a kernel is scaled so that a threshold is one unit wide."""
        outputs = self._convolve(channels, valid, self.mix_held, self.held.unsqueeze(1))
        each = outputs.transpose(0, 1)[:, valid]
        if not each.shape[1]:
            return
        each = each[:, :: max(1, each.shape[1] // 2**14)]
        deviation = each.std(1, correction=0)
        # Where all that is left of channels that cancel out is rounding, it stays small.
        width = torch.where(deviation > FAINT, SOFTNESS * deviation, 1.0)
        levels = torch.tensor(LEVELS, dtype=each.dtype, device=each.device)
        self.held.div_(width[:, None])
        self.thresholds.copy_(torch.quantile(each / width[:, None], levels, dim=1).T)

    def forward(self, channels: Tensor, valid: Tensor) -> Tensor:
        """Features [row, feature]."""
        there = valid[:, None].to(channels)
        steps = there.sum(-1).clamp(min=1.0)
        return torch.cat(
            (
                self._compete(channels, valid, there, steps),
                self._hold(channels, valid, there, steps),
            ),
            1,
        )

    def _compete(self, channels: Tensor, valid: Tensor, there: Tensor, steps: Tensor) -> Tensor:
        outputs = self._convolve(channels, valid, self.mix_competing, self.competing)
        outputs = outputs.unflatten(1, self.competing.shape[:2])
        scores = []
        for best, sign in (
            (outputs.amax(2, keepdim=True), 1.0),
            (outputs.amin(2, keepdim=True), -1.0),
        ):
            size = (sign * best).clamp(min=0.0) * there.unsqueeze(1)
            won = (outputs == best).to(size) @ size.transpose(2, 3)
            scores.append((won.squeeze(-1) / steps.unsqueeze(-1) + FLOOR).sqrt().flatten(1))
        return torch.cat(scores, 1)

    def _hold(self, channels: Tensor, valid: Tensor, there: Tensor, steps: Tensor) -> Tensor:
        outputs = self._convolve(channels, valid, self.mix_held, self.held.unsqueeze(1))
        time = there.cumsum(-1) / steps.unsqueeze(-1)
        sums = torch.cat((there, time), 1).transpose(1, 2)
        found = []
        for level in self.thresholds.unbind(1):
            excess = outputs - level[:, None]
            above = (excess + 0.5).clamp_(0.0, 1.0) * there
            count, when = (above @ sums).unbind(-1)
            size = (excess.clamp_(min=0.0) @ sums[..., :1]).squeeze(-1)
            some = count.clamp(min=1.0)
            found += [count / steps, size / some, when / some, _longest(above) / steps]
        return torch.cat(found, 1)

    def _convolve(self, channels: Tensor, valid: Tensor, mix: Tensor, kernels: Tensor) -> Tensor:
        """Outputs [row, group x kernel, time] of kernels [group, kernel, tap]."""
        reach = self.dilation * (TAPS // 2)
        half = len(mix) // 2
        inside = channels * valid[:, None]
        parts = []
        for seen, mode, some in (
            (inside, "constant", slice(0, half)),
            (channels, self.edge, slice(half, None)),
        ):
            mixed = torch.einsum("gc,rct->rgt", mix[some], seen)
            parts.append(
                functional.conv1d(
                    functional.pad(mixed, (reach, reach), mode=mode),
                    kernels[some].flatten(0, 1).unsqueeze(1),
                    dilation=self.dilation,
                    groups=mixed.shape[1],
                )
            )
        return torch.cat(parts, 1)


def _pair(
    banks: nn.ModuleList, channels: Tensor, valid: Tensor
) -> list[tuple[Any, Tensor, Tensor]]:
    """Each bank with what it sees: the first half the values, the second half the changes."""
    changes = channels.diff(dim=-1, prepend=channels[..., :1])
    # The first step of a case has nothing before it.
    changed = valid & functional.pad(valid, (1, -1))
    half = len(banks) // 2
    return [
        (bank, channels, valid) if number < half else (bank, changes, changed)
        for number, bank in enumerate(banks)
    ]


def _pool(features: Tensor, members: Tensor) -> Tensor:
    """Features [case, variable, feature] as their mean, deviation, maximum and minimum."""
    there = members.unsqueeze(-1)
    some = there.sum(1).clamp(min=1)
    mean = torch.where(there, features, 0.0).sum(1) / some
    square = torch.where(there, features - mean.unsqueeze(1), 0.0).square().sum(1) / some
    highest = torch.where(there, features, -torch.inf).amax(1)
    lowest = torch.where(there, features, torch.inf).amin(1)
    present = members.any(1, keepdim=True)
    ends = [torch.where(present, one, 0.0) for one in (highest, lowest)]
    return torch.stack((mean, (square + FLOOR**2).sqrt(), *ends), -1).flatten(1)


def _longest(above: Tensor) -> Tensor:
    """The longest stretch of ones [..., time]; what is between 0 and 1 fades a stretch."""
    stretch = longest = torch.zeros_like(above[..., 0])
    for now in above.permute(-1, *range(above.ndim - 1)).contiguous():
        stretch = (stretch + 1.0) * now
        longest = torch.maximum(longest, stretch)
    return longest


def _mix(channels: int, count: int, random: torch.Generator) -> Tensor:
    """A few channels added up with random signs, [count, channel]: mostly one, at most nine."""
    mix = torch.zeros(count, channels)
    for row in mix:
        some = int(2 ** (torch.rand((), generator=random) * log2(min(channels, MOST_MIXED) + 1)))
        chosen = torch.randperm(channels, generator=random)[:some]
        row[chosen] = (2.0 * torch.randint(0, 2, (some,), generator=random) - 1.0) / some**0.5
    return mix


def _fixed_kernels() -> Tensor:
    """The 84 kernels with three weights of 2 and six of -1, [84, 9]."""
    places = torch.tensor(list(combinations(range(TAPS), 3)))
    return torch.full((len(places), TAPS), -1.0).scatter_(1, places, 2.0)


def _rows(batch: Batch, begin: int, count: int) -> Batch:
    some = slice(begin, begin + count)
    static = None if batch.static is None else batch.static[some]
    return Batch(batch.values[some], batch.observed[some], batch.members[some], static=static)
