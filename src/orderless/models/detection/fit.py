"""From prepared systems to a stack: every member that was asked for, each with the same weight.

Weights that need no labels were tried. By agreement with the others, or by how well members find
faults that are simulated, one member gets nearly all: simulated faults are of single sensors and
favour `regression`, those of real machines favour `ridge` (`docs/experiments/detection.md`). So
members count alike; each has its own units, so that none is louder than the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orderless.data import Batch, Series
from orderless.errors import SettingError
from orderless.models.detection.joint import PCA, REGRESSION, WIDEST, Joint
from orderless.models.detection.network import (
    ROWS_PER_STEP,
    TRAINING,
    Reconstruction,
    ReconstructionTask,
)
from orderless.models.detection.ridge import Ridge
from orderless.models.detection.windows import DetectionWindows
from orderless.models.member import Member
from orderless.models.run import Run
from orderless.models.stack import Stack
from orderless.nn import NetworkConfig, ReconstructionNetwork
from orderless.training import Outcome

KINDS: Mapping[str, Any] = {one.kind: one for one in (Ridge, Joint, Reconstruction)}
CLOSED = (Ridge.kind, PCA, REGRESSION)
"""Closed forms: the default. The network made the stack worse wherever it was tried."""
MEMBERS = (*CLOSED, Reconstruction.kind)
"""What a user may ask for."""


@dataclass(frozen=True)
class FittedStack:
    """The stack, and how its network was trained, by name."""

    stack: Stack
    outcomes: Mapping[str, Outcome]


def check_members(members: Sequence[str] | str | None) -> tuple[str, ...]:
    """The names of members that a user asked for; the closed forms if None."""
    if members is None:
        return CLOSED
    asked = (members,) if isinstance(members, str) else tuple(members)
    if not asked or any(one not in MEMBERS for one in asked) or len(set(asked)) < len(asked):
        raise SettingError(f"`members` is {members!r}; choose from {', '.join(MEMBERS)}.")
    return tuple(one for one in MEMBERS if one in asked)


def fit_stack(
    names: Sequence[str],
    batches: Sequence[Batch],
    wholes: Sequence[Batch],
    windows: DetectionWindows,
    known: int,
    config: Callable[[], NetworkConfig],
    run: Run,
) -> FittedStack:
    """Fit the members of these names.

    batches: the training part of each system. wholes: all of it, for the windows of the network.
    known: how many variables move in `fit`. Members of them all together need at least one, and
    not too many; where only they were asked for and cannot be had, there is a ridge.
    """
    members: list[Member] = []
    outcomes = {}
    for name in names:
        if name == Ridge.kind:
            members.append(Ridge.fit(batches))
        elif name == Reconstruction.kind:
            network = run.draw(lambda: ReconstructionNetwork(config()))
            series = Series.from_arrays(
                [one.values[0].numpy() for one in wholes],
                [(one.observed & one.members.unsqueeze(-1))[0].numpy() for one in wholes],
            )
            task = ReconstructionTask(
                network, series, windows.context, windows.train, windows.validation
            )
            variables = max(1, series.members.shape[1])
            at_once = min(32, max(8, ROWS_PER_STEP // variables))
            settings = TRAINING | {"batch_size": at_once}
            outcomes[name] = run.train(task, name, at_once * variables, settings)
            members.append(Reconstruction(network, windows.context))
        elif 0 < known <= WIDEST:
            members.append(Joint.fit(batches, name, known))
    members = members or [Ridge.fit(batches)]
    weights = (1 / len(members),) * len(members)
    return FittedStack(Stack(tuple(members), weights), outcomes)
