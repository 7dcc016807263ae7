"""Classification as the training loop sees it: cases by index, cross-entropy, validation."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict

import torch
from torch import Tensor, nn

from orderless.data import Series, draw_variables
from orderless.nn import ClassificationNetwork
from orderless.training.losses import cross_entropy

ENTRIES_AT_ONCE = 2**20
"""Values in a forward pass without gradients."""


class ClassificationTask:
    """Trains a `ClassificationNetwork` on cases of any length, each ending at the last position."""

    slow_parameters = ()

    def __init__(
        self,
        module: ClassificationNetwork,
        series: Series,
        labels: Tensor,
        identities: Tensor | None,
        train: Tensor,
        validation: Tensor,
    ) -> None:
        self.module, self.series, self.labels = module, series, labels
        self.identities = identities
        self.train, self.validation = train, validation
        self.train_size = len(train)
        self.complete = bool(
            series.flat_observed.all()
            and series.members.all()
            and (series.lengths == series.lengths[0]).all()
        )
        digest = hashlib.sha256(json.dumps([asdict(module.config), module.classes]).encode())
        for tensor in (series.flat, series.flat_observed, labels, train, validation):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        self.fingerprint = digest.hexdigest()

    def to(self, device: torch.device) -> None:
        """Move the cases and the labels."""
        self.series, self.labels = self.series.to(device), self.labels.to(device)
        self.train, self.validation = self.train.to(device), self.validation.to(device)
        if self.identities is not None:
            self.identities = self.identities.to(device)

    def loss(self, module: nn.Module, index: Tensor) -> Tensor:
        """Cross-entropy of these cases, on all variables or a subset drawn for this step."""
        cases = self.train[index]
        variables = draw_variables(self.series.members[cases], torch.default_generator)
        return cross_entropy(self._scores(module, cases, variables), self.labels[cases])

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Cross-entropy of the validation cases."""
        scores = torch.cat(list(self.scores(module, self.validation)))
        return float(cross_entropy(scores, self.labels[self.validation]))

    def scores(self, module: nn.Module, cases: Tensor) -> Iterator[Tensor]:
        """Class scores of the cases, block by block."""
        size = int(self.series.lengths.max()) * self.series.members.shape[1]
        for part in cases.split(max(1, ENTRIES_AT_ONCE // size)):
            yield self._scores(module, part)

    def _scores(self, module: nn.Module, cases: Tensor, variables: Tensor | None = None) -> Tensor:
        lengths = self.series.lengths[cases]
        longest = int(lengths.max())
        index = torch.stack((cases, lengths - longest), dim=1)
        values, observed, members = self.series.gather(index, longest, variables)
        identities = self.identities
        if identities is not None:
            identities = identities[cases]
            if variables is not None:
                identities = identities.gather(1, variables)
        if self.complete:
            return module(values, None, None, identities)
        return module(values, observed, members & observed.any(-1), identities)
