"""The network as a member: a few of them, each trained without one fold, averaged."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch, draw_variables
from orderless.models.classification.cases import Cases
from orderless.models.facts import NAMES, NETWORK, SIZE, rebuild
from orderless.models.fingerprint import fingerprint
from orderless.models.member import State
from orderless.nn import ClassificationNetwork, NetworkConfig
from orderless.schema import record, whole
from orderless.training.losses import cross_entropy

TRAINING = {"learning_rate": 2e-3, "patience": 12}
ENTRIES_PER_STEP = 2**22
"""Values in a training step: of large cases there are fewer than 16."""


class NetworkClassifier:
    """The member `network`: the mean of what its networks say."""

    kind: ClassVar[str] = "network"
    name = kind
    schema = staticmethod(
        record({"config": NETWORK, "classes": SIZE, "names": NAMES, "networks": whole(1, 100)})
    )

    def __init__(self, *networks: ClassificationNetwork) -> None:
        self.networks = nn.ModuleList(networks)

    def __call__(self, batch: Batch) -> Tensor:
        """Class probabilities [case, class]."""
        said = [network_scores(one, batch).softmax(-1) for one in self.networks]
        return torch.stack(said).mean(0)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.networks.to(device)

    @property
    def module(self) -> nn.Module | None:
        """All networks."""
        return self.networks

    def state(self) -> State:
        """Sizes and weights."""
        first: Any = self.networks[0]
        facts = {
            "config": asdict(first.config),
            "classes": first.classes,
            "names": list(first.names),
            "networks": len(self.networks),
        }
        return State(facts, self.networks.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same networks."""
        facts = state.facts
        config = NetworkConfig(**facts["config"])

        def build() -> nn.Module:
            several = range(facts["networks"])
            build_one = partial(ClassificationNetwork, config, facts["classes"])
            return nn.ModuleList([build_one(names=facts["names"]) for _ in several])

        networks: Any = rebuild(build, state.tensors, config.layers * facts["networks"])
        return cls(*networks)


def training_settings(cases: Cases) -> Mapping[str, Any]:
    """Large cases come few at a time."""
    size = cases.length * cases.names.shape[1]
    return TRAINING | {"batch_size": min(16, max(2, ENTRIES_PER_STEP // size))}


class ClassificationTask:
    """Trains a `ClassificationNetwork`; the epoch has the least cross-entropy on `validation`.

    Exchangeable variables are dropped at random, so that any number of them will do. Those known
    by name are not: each has a meaning of its own, which nothing replaces.
    """

    def __init__(
        self,
        module: ClassificationNetwork,
        cases: Cases,
        labels: Tensor,
        train: Tensor,
        validation: Tensor,
    ) -> None:
        self.module, self.cases, self.labels = module, cases, labels
        self.train, self.validation = train, validation
        self.train_size = len(train)
        self._complete = cases.complete

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the data, the folds and the settings."""
        series, module = self.cases.series, self.module
        settings = [asdict(module.config), module.classes, module.names]
        data = (series.flat, series.flat_observed, self.labels, self.train, self.validation)
        return fingerprint(settings, *data)

    def to(self, device: torch.device) -> None:
        """Move the cases and the labels."""
        self.cases, self.labels = self.cases.to(device), self.labels.to(device)
        self.train, self.validation = self.train.to(device), self.validation.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These cases, and for exchangeable variables a subset of them for this step."""
        chosen = self.train[index]
        if self.module.names:
            return chosen, None
        members = self.cases.series.members[chosen]
        return chosen, draw_variables(members, torch.default_generator)

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """Cross-entropy of these cases, on all variables or those given."""
        batch = self.cases.batch(samples, variables, complete=self._complete)
        return cross_entropy(network_scores(module, batch), self.labels[samples])

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Cross-entropy of the validation cases."""
        total = 0.0
        for places, batch in self.cases.batches(self.validation):
            labels = self.labels[self.validation[places]]
            total += len(places) * float(cross_entropy(network_scores(module, batch), labels))
        return total / len(self.validation)


def network_scores(module: Any, batch: Batch) -> Tensor:
    """Scores [case, class]; a network of exchangeable variables takes no names."""
    names = batch.static if module.names else None
    return module(batch.values, *batch.masks, names)
