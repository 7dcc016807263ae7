"""The promises of one member of a stack, measured in float64, where rounding hides nothing."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, System
from orderless.estimators.base import Estimator
from orderless.models import Member
from orderless.nn import VI2DSSM
from orderless.theory import causality_error

EXACT = 0.0
ROUNDING_64 = 1e-10


@dataclass(frozen=True)
class Check:
    """One promise, how far the model is from keeping it, and how far it may be."""

    name: str
    promise: str
    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the error lies within the tolerance; a NaN does not."""
        return self.error <= self.tolerance


def check_member(
    estimator: Estimator, member: Member, system: System, random: np.random.Generator
) -> list[Check]:
    """Order, masks, padding and batch of one member, in float64."""
    member = copy.deepcopy(member)
    assert member.module is not None
    member.module.cpu().double().eval()
    given = estimator.batch(system)
    observed = given.observed & torch.as_tensor(random.random(given.observed.shape) > 0.1)
    given = replace(
        given,
        values=torch.where(observed, given.values.double(), 0.0),
        observed=observed,
        members=given.members & observed.any(-1),
        complete=False,
        **_facts(given, lambda one: one.double() if one.is_floating_point() else one),
    )
    with torch.no_grad():
        expected = member(given)
        known = expected.isfinite()
        scale = float(expected[known].square().mean().sqrt()) or 1.0

        def check(name: str, promise: str, other: Tensor, tolerance: float) -> Check:
            # A member that has no answer must have none either way.
            same = torch.equal(known, other.isfinite())
            error = float((other - expected)[known].abs().max()) / scale if same else float("inf")
            return Check(f"{name} ({member.name})", promise, error, tolerance)

        count = given.values.shape[1]
        order = torch.as_tensor(random.permutation(count))
        moved = member(_reorder(given, order))
        padded = member(_pad(given, 3))
        if estimator.per_variable:
            moved, padded = moved[:, order.argsort()], padded[:, :count]
        poisoned = replace(given, values=torch.where(observed, given.values, torch.nan))
        return [
            check(
                "order",
                "the member itself, without sorting by name, is the same in any order",
                moved,
                ROUNDING_64,
            ),
            check(
                "masked entries", "NaN in a masked entry changes nothing", member(poisoned), EXACT
            ),
            check(
                "padding",
                "three variables of padding that hold NaN change nothing",
                padded,
                ROUNDING_64,
            ),
            check(
                "batch",
                "a second series in the batch changes nothing",
                member(_with_its_reverse(given))[:1],
                ROUNDING_64,
            ),
            *_causal_scans(member),
        ]


def _reorder(batch: Batch, order: Tensor) -> Batch:
    return replace(
        batch,
        values=batch.values[:, order],
        observed=batch.observed[:, order],
        members=batch.members[:, order],
        **_facts(batch, lambda one: one[:, order]),
    )


def _pad(batch: Batch, count: int) -> Batch:
    """More variables, which do not belong to the set and hold NaN."""

    def wider(x: Tensor, fill: Any = 0) -> Tensor:
        return torch.cat((x, x.new_full((len(x), count, *x.shape[2:]), fill)), 1)

    return replace(
        batch,
        values=wider(batch.values, torch.nan),
        observed=wider(batch.observed, False),
        members=wider(batch.members, False),
        **_facts(batch, wider),
    )


def _with_its_reverse(batch: Batch) -> Batch:
    return replace(
        batch,
        values=torch.cat((batch.values, batch.values.flip(2))),
        observed=torch.cat((batch.observed, batch.observed.flip(2))),
        members=batch.members.expand(2, -1),
        **_facts(batch, lambda one: torch.cat((one, one))),
    )


def _facts(batch: Batch, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """What is known of the variables besides their values, changed with them."""
    static, loadings = batch.static, batch.loadings
    return {
        "static": None if static is None else change(static),
        "loadings": None if loadings is None else loadings._make(map(change, loadings)),
    }


def _causal_scans(member: Member) -> list[Check]:
    """The scans along time; that of the spectral branch runs along frequency, both ways."""
    assert member.module is not None
    worst, found = 0.0, False
    for name, layer in member.module.named_modules():
        if not isinstance(layer, VI2DSSM) or "spectral" in name:
            continue
        found = True
        random = torch.Generator().manual_seed(0)
        x = torch.randn(1, 3, 24, layer.channels, generator=random, dtype=torch.float64)
        worst = max(worst, causality_error(layer, x))
    promise = "in the scans along time, the future does not change the past"
    return [Check(f"causality ({member.name})", promise, worst, ROUNDING_64)] if found else []
