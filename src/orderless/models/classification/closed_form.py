"""Members in closed form: fixed features of a case, and a ridge on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from orderless.models.classification.cases import CaseBatch, Cases, answer
from orderless.models.classification.flat import FlatFeatures
from orderless.models.classification.ridge import RidgeScores, fit_ridge
from orderless.models.member import Member, State


class Features(Protocol):
    """Numbers that say something about a case, whatever its length."""

    kind: ClassVar[str]

    def __call__(self, batch: CaseBatch) -> Tensor:
        """Features [case, feature]."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """The same features on another device."""
        ...

    def state(self) -> State:
        """Facts and tensors, from which `restore` makes the same."""
        ...

    @classmethod
    def restore(cls, state: State) -> Self:
        """What `state` was taken from."""
        ...


KINDS: Mapping[str, type[Any]] = {one.kind: one for one in (FlatFeatures,)}


class CrossFitted(NamedTuple):
    """A member, and what it says of each case fitted without it, [case, class]."""

    member: Member
    held_out: Tensor


class CommonestClass:
    """The member `commonest class`: the share of each class in `fit`, whatever the case."""

    kind: ClassVar[str] = "commonest class"
    name = kind
    module: nn.Module | None = None

    def __init__(self, shares: Tensor) -> None:
        self.shares = shares

    def __call__(self, batch: CaseBatch) -> Tensor:
        """The same probabilities for every case."""
        return self.shares.expand(len(batch.values), -1)

    def to(self, device: torch.device) -> None:
        """Move to a device."""
        self.shares = self.shares.to(device)

    def state(self) -> State:
        """The shares."""
        return State({}, {"shares": self.shares})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same shares."""
        return cls(state.tensors["shares"])


class ClosedForm:
    """The members `flat ridge` and `convolutions`: a ridge on features."""

    kind: ClassVar[str] = "closed form"
    module: nn.Module | None = None

    def __init__(self, features: Features, scores: RidgeScores) -> None:
        self.features, self.scores = features, scores

    @property
    def name(self) -> str:
        """A column of a table."""
        return self.features.kind

    def __call__(self, batch: CaseBatch) -> Tensor:
        """Class probabilities [case, class]."""
        return self.scores(self.features(batch))

    def to(self, device: torch.device) -> None:
        """Move to a device."""
        self.features, self.scores = self.features.to(device), self.scores.to(device)

    def state(self) -> State:
        """That of the features, and the ridge."""
        inner = self.features.state()
        tensors = {f"features/{name}": value for name, value in inner.tensors.items()}
        tensors |= {f"scores/{name}": value for name, value in self.scores.tensors().items()}
        return State({"kind": self.features.kind, "features": inner.facts}, tensors)

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same features and the same ridge."""
        parts: dict[str, dict[str, Tensor]] = {"features": {}, "scores": {}}
        for key, value in state.tensors.items():
            part, _, name = key.partition("/")
            parts[part][name] = value
        inner = State(state.facts["features"], parts["features"])
        return cls(KINDS[state.facts["kind"]].restore(inner), RidgeScores(**parts["scores"]))


def fit_commonest_class(codes: Tensor, classes: int) -> CrossFitted:
    """The shares of the classes, and those without each case; none is 0, for nothing is certain."""
    counts = torch.bincount(codes, minlength=classes).double() + 1 / classes
    others = counts.expand(len(codes), -1).clone()
    others[torch.arange(len(codes), device=codes.device), codes] -= 1.0
    shares = [one / one.sum(-1, keepdim=True) for one in (counts, others)]
    return CrossFitted(CommonestClass(shares[0].float()), shares[1].float())


def fit_closed_form(
    features: Features, cases: Cases, codes: Tensor, classes: int, groups: Tensor | None
) -> CrossFitted:
    """A ridge on these features of the cases."""
    fitted = fit_ridge(answer(features, cases), codes, classes, groups)
    return CrossFitted(ClosedForm(features, fitted.scores), fitted.held_out.float())
