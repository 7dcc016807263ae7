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
from orderless.schema import mapping, plain, record, text, whole

GROUPS = 64
"""Of competing kernels at each dilation."""
MANY_CASES = 3000
"""With more, the ridge is solved by features, of which there must not be more than"""
MOST_FEATURES = 3000
RIDGES = 3
"""At most, where one cannot take all features."""
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
    """The members `flat ridge` and `convolutions`: the mean of ridges on fixed features.

    module  a list of pairs: the features, then the scores
    """

    module: Any
    kind: ClassVar[str] = "closed form"

    @classmethod
    def of(cls, *pairs: tuple[Any, RidgeScores]) -> Self:
        """Features and scores, each with kernels of their own."""
        return cls(nn.ModuleList([nn.Sequential(*pair) for pair in pairs]))

    @property
    def name(self) -> str:
        """A column of a table."""
        return self.module[0][0].kind

    def __call__(self, batch: Batch) -> Tensor:
        """Class probabilities [case, class]."""
        return torch.stack([one(batch) for one in self.module]).mean(0).softmax(-1)

    def to(self, device: torch.device) -> None:
        """Move to a device."""
        self.module.to(device)

    @staticmethod
    def schema(facts: Any, where: str) -> None:
        """What builds the features, how often, and the number of classes."""
        outer = {"kind": text("|".join(FEATURES)), "classes": SIZE, "features": mapping(plain)}
        record(outer | {"ridges": whole(1, RIDGES)})(facts, where)
        FEATURES[facts["kind"]].schema(facts["features"], f"{where}.features")

    def state(self) -> State:
        """What builds the features, and all tensors."""
        features, scores = self.module[0]
        facts = {
            "kind": features.kind,
            "classes": len(scores.offset),
            "features": features.facts(),
            "ridges": len(self.module),
        }
        return State(facts, self.module.state_dict())

    @classmethod
    def restore(cls, state: State) -> Self:
        """The same features and the same ridges."""
        facts = state.facts

        def build() -> tuple[Any, RidgeScores]:
            features = FEATURES[facts["kind"]](**facts["features"])
            return features, RidgeScores(features.count, facts["classes"])

        with torch.device("meta"):
            pairs = [build() for _ in range(facts["ridges"])]
        layers = sum(features.layers for features, _ in pairs)
        return cls(rebuild(lambda: cls.of(*pairs).module, state.tensors, layers))


def fit_commonest_class(target: Target) -> CrossFitted:
    """The shares of the classes, no case left out: that would always favour the other classes."""
    counts = torch.bincount(target.codes, minlength=target.classes).float()
    shares = counts / counts.sum()
    return CrossFitted(CommonestClass(shares), shares.expand(len(target.codes), -1))


def fit_flat_ridge(cases: Cases, target: Target, names: int) -> CrossFitted:
    """A ridge on all values; `names` is 0 for exchangeable variables."""
    features = FlatFeatures(names, cases.length)
    fitted = fit_ridge(answer(features, cases), target)
    return CrossFitted(ClosedForm.of((features, fitted.scores)), fitted.held_out.softmax(-1))


def fit_convolutions(cases: Cases, target: Target, names: int) -> CrossFitted:
    """A ridge on convolutions; `names` is 0 for exchangeable variables.

    Of few cases one ridge takes all features, and chooses how much changes count beside values. Of
    many cases there are several ridges with fewer features each: their cost grows with the third
    power of those.
    """
    device = target.codes.device
    many = len(cases) > MANY_CASES
    features = ConvolutionFeatures(names, cases.length, GROUPS)
    cost = int(cases.series.lengths.sum()) * features.outputs(cases.names.shape[1])
    groups = GROUPS * min(1.0, OUTPUTS / cost)
    most = min(MOST_FEATURES if many else ENTRIES, ENTRIES // len(cases))
    needed = features.count * groups / GROUPS / most
    ridges = min(RIDGES, max(1, round(needed)))
    groups = max(2, int(groups / max(needed, 1.0)))
    spread = torch.linspace(0, len(cases) - 1, min(SAMPLE, len(cases)), device=device).long()
    pairs, held_out = [], []
    for seed in range(ridges):
        features = ConvolutionFeatures(names, cases.length, groups).to(device)
        features.draw(cases.batch(spread), seed)
        changes = features.of_changes().to(device)
        emphases = [torch.where(changes, one, 1.0) for one in ((0.5,) if many else EMPHASES)]
        fitted = fit_ridge(answer(features, cases), target, emphases)
        pairs.append((features, fitted.scores))
        held_out.append(fitted.held_out)
    return CrossFitted(ClosedForm.of(*pairs), torch.stack(held_out).mean(0).softmax(-1))
