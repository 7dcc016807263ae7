"""Classification as the training loop sees it: cases by index, cross-entropy, validation."""

from dataclasses import asdict

import torch
from torch import Tensor, nn

from orderless.data import Series, draw_variables
from orderless.estimators.fingerprint import fingerprint
from orderless.nn import ClassificationNetwork
from orderless.training.losses import cross_entropy

ENTRIES_AT_ONCE = 2**20
"""Values in a forward pass without gradients."""


class ClassificationTask:
    """Trains a `ClassificationNetwork` on cases of any length.

    A case is padded in front to `length`, or, where it is longer, not at all: what is said of it
    must not depend on the length of the cases it happens to be batched with.
    """

    def __init__(
        self,
        module: ClassificationNetwork,
        series: Series,
        length: int,
        labels: Tensor,
        identities: Tensor | None,
        train: Tensor,
        validation: Tensor,
    ) -> None:
        self.module, self.series, self.labels = module, series, labels
        self.length = length
        self.identities = identities
        self.train, self.validation = train, validation
        self.train_size = len(train)
        self.complete = bool(
            series.flat_observed.all() and series.members.all() and (series.lengths == length).all()
        )
        data = (series.flat, series.flat_observed, labels, train, validation)
        self.fingerprint = fingerprint([asdict(module.config), module.classes], *data)

    def to(self, device: torch.device) -> None:
        """Move the cases and the labels."""
        self.series, self.labels = self.series.to(device), self.labels.to(device)
        self.train, self.validation = self.train.to(device), self.validation.to(device)
        if self.identities is not None:
            self.identities = self.identities.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These cases, and a subset of their variables for this step."""
        cases = self.train[index]
        variables = draw_variables(self.series.members[cases], torch.default_generator)
        return cases, variables

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """Cross-entropy of these cases, on all variables or those given."""
        return cross_entropy(
            self._scores(module, samples, self.length, variables), self.labels[samples]
        )

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Cross-entropy of the validation cases."""
        scores = self.scores(module, self.validation)
        return float(cross_entropy(scores, self.labels[self.validation]))

    def scores(self, module: nn.Module, cases: Tensor) -> Tensor:
        """Class scores [case, class], computed block by block."""
        lengths = self.series.lengths[cases].clamp(min=self.length)
        results = self.series.flat.new_empty(len(cases), self.module.classes)
        for length in lengths.unique().tolist():
            places = (lengths == length).nonzero().squeeze(1)
            size = length * self.series.members.shape[1]
            for part in places.split(max(1, ENTRIES_AT_ONCE // size)):
                results[part] = self._scores(module, cases[part], length)
        return results

    def _scores(
        self, module: nn.Module, cases: Tensor, length: int, variables: Tensor | None = None
    ) -> Tensor:
        index = torch.stack((cases, self.series.lengths[cases] - length), dim=1)
        values, observed, members = self.series.gather(index, length, variables)
        identities = self.identities
        if identities is not None:
            identities = identities[cases]
            if variables is not None:
                identities = identities.gather(1, variables)
        if self.complete:
            return module(values, None, None, identities)
        return module(values, observed, members & observed.any(-1), identities)
