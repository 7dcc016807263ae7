"""Members in closed form: fixed features of a case, and a ridge on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from orderless.data import Batch
from orderless.models.classification.cases import Cases, Target, answer
from orderless.models.classification.convolutions import SAMPLE, ConvolutionFeatures
from orderless.models.classification.flat import FlatFeatures
from orderless.models.classification.ridge import RidgeScores, fit_ridge, frozen
from orderless.models.facts import SIZE, rebuild
from orderless.models.member import Member, State
from orderless.schema import mapping, plain, record, text

GROUPS = 64
"""Of competing kernels at each dilation."""
MANY_CASES = 3000
"""With more, the ridge is solved by features, of which there must not be more than"""
MOST_FEATURES = 3000
ENTRIES = 2**28
"""Features of all cases that are held at a time."""
OUTPUTS = 3e9
"""Of kernels, over all cases: half a minute on a core."""
EMPHASES = (0.0, 0.5, 1.0)
"""What features of changes may be multiplied by."""
FEATURES: Mapping[str, type[Any]] = {one.kind: one for one in (FlatFeatures, ConvolutionFeatures)}
"""The modules that make features of a case: `kind`, `facts()` to build it, a batch in, features
[case, feature] out."""


class CrossFitted(NamedTuple):
    """A member, and what it says of each case fitted without it, [case, class]."""

    member: Member
    held_out: Tensor


class CommonestClass:
    """The member `commonest class`: the share of each class in `fit`, whatever the case."""

    kind: ClassVar[str] = "commonest class"
    name = kind
    module: nn.Module | None = None
    schema = staticmethod(record({"classes": SIZE}))

    def __init__(self, shares: Tensor) -> None:
        self.shares = shares

    def __call__(self, batch: Batch) -> Tensor:
        """The same probabilities for every case."""
        return self.shares.expand(len(batch.values), -1)

    def to(self, device: torch.device) -> None:
        """Move to a device."""
        self.shares = self.shares.to(device)

    def state(self) -> State:
        """The shares."""
        return State({"classes": len(self.shares)}, {"shares": self.shares})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same shares."""
        shares = nn.ParameterDict({"shares": frozen(state.facts["classes"])})
        return cls(rebuild(lambda: shares.to("meta"), state.tensors, 1)["shares"].data)


@dataclass(frozen=True)
class ClosedForm:
    """The members `flat ridge` and `convolutions`: a ridge on fixed features.

    module  the features, then the scores
    """

    module: Any
    kind: ClassVar[str] = "closed form"

    @property
    def name(self) -> str:
        """A column of a table."""
        return self.module[0].kind

    def __call__(self, batch: Batch) -> Tensor:
        """Class probabilities [case, class]."""
        return self.module(batch)

    def to(self, device: torch.device) -> None:
        """Move to a device."""
        self.module.to(device)

    @staticmethod
    def schema(facts: Any, where: str) -> None:
        """What builds the features, and the number of classes."""
        outer = {"kind": text("|".join(FEATURES)), "classes": SIZE, "features": mapping(plain)}
        record(outer)(facts, where)
        FEATURES[facts["kind"]].schema(facts["features"], f"{where}.features")

    def state(self) -> State:
        """What builds the features, and all tensors."""
        features, scores = self.module
        facts = {
            "kind": features.kind,
            "classes": len(scores.offset),
            "features": features.facts(),
        }
        return State(facts, self.module.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same features and the same ridge."""
        with torch.device("meta"):
            features = FEATURES[state.facts["kind"]](**state.facts["features"])
            scores = RidgeScores(features.count, state.facts["classes"])
        module = nn.Sequential(features, scores)
        return cls(rebuild(lambda: module, state.tensors, layers=features.layers))


def fit_commonest_class(target: Target) -> CrossFitted:
    """The shares of the classes, no case left out: that would always favour the other classes."""
    counts = torch.bincount(target.codes, minlength=target.classes).float()
    shares = counts / counts.sum()
    return CrossFitted(CommonestClass(shares), shares.expand(len(target.codes), -1))


def fit_flat_ridge(cases: Cases, target: Target, names: int) -> CrossFitted:
    """A ridge on all values; `names` is 0 for exchangeable variables."""
    features = FlatFeatures(names, cases.length)
    fitted = fit_ridge(answer(features, cases), target)
    return CrossFitted(ClosedForm(nn.Sequential(features, fitted.scores)), fitted.held_out.float())


def fit_convolutions(cases: Cases, target: Target, names: int) -> CrossFitted:
    """A ridge on convolutions; `names` is 0 for exchangeable variables.

    How much changes count beside values is chosen with the penalty where there are few cases.
    """
    device = target.codes.device
    many = len(cases) > MANY_CASES
    most = min(MOST_FEATURES if many else ENTRIES, ENTRIES // len(cases))
    features = ConvolutionFeatures(names, cases.length, GROUPS)
    steps = int(cases.series.lengths.sum())
    cost = steps * features.outputs(cases.names.shape[1])
    share = min(1.0, most / features.count, OUTPUTS / cost)
    if share < 1.0:
        features = ConvolutionFeatures(names, cases.length, max(2, int(GROUPS * share)))
    features.to(device)
    spread = torch.linspace(0, len(cases) - 1, min(SAMPLE, len(cases)), device=device).long()
    features.draw(cases.batch(spread))
    changes = features.of_changes().to(device)
    emphases = [torch.where(changes, one, 1.0) for one in ((0.5,) if many else EMPHASES)]
    fitted = fit_ridge(answer(features, cases), target, emphases)
    return CrossFitted(ClosedForm(nn.Sequential(features, fitted.scores)), fitted.held_out.float())
