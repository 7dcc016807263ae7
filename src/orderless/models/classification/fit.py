"""From cases to a stack: which members there are, and what each earns.

Closed forms come first: what they say of a case that is left out is exact and free. The networks
follow, each trained without one fold of the cases, which chooses its epoch and tells its weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orderless.errors import SettingError
from orderless.models.classification.cases import Cases, Target, answer
from orderless.models.classification.closed_form import (
    CrossFitted,
    fit_commonest_class,
    fit_convolutions,
    fit_flat_ridge,
)
from orderless.models.classification.network import (
    ClassificationTask,
    NetworkClassifier,
    training_settings,
)
from orderless.models.run import Run
from orderless.models.stack import LEAST_WEIGHT, Stack, keep_earners
from orderless.models.weights import fit_weights
from orderless.nn import ClassificationNetwork, NetworkConfig
from orderless.training import Outcome

CLOSED = ("commonest class", "flat ridge", "convolutions")
NETWORK = "network"
NETWORKS = 3
"""Folds, and networks that are averaged."""
STEPS = 1000
"""Of training, for all networks of a stack that must not take long."""
VALUES = 1e8
"""In them."""
PARTS = 5
"""Of the cases; each is left out once to find weights."""
LEAST_PROBABILITY = 1e-6


@dataclass(frozen=True)
class Held:
    """How a member did on cases that it was not fitted on."""

    wrong: float
    cross_entropy: float


@dataclass(frozen=True)
class NetworkPlan:
    """The sizes of a network, and the names of the variables that it tells apart."""

    config: NetworkConfig
    names: tuple[str, ...]


@dataclass(frozen=True)
class FittedStack:
    """The stack, and what became of every member that was tried.

    held        by name
    together    of the stack, with weights that were found without the cases in question
    weights     by name; 0 where a member was left out
    outcomes    of the trainings, by name
    """

    stack: Stack
    held: dict[str, Held]
    together: Held
    weights: dict[str, float]
    outcomes: dict[str, Outcome]


def check_members(names: Any) -> tuple[str, ...]:
    """The members that a user asks for; all of them for None."""
    known = (*CLOSED, NETWORK)
    if names is None:
        return known
    asked = [names] if isinstance(names, str) else list(names)
    wrong = [name for name in asked if name not in known]
    if wrong or not asked:
        raise SettingError(
            f"`members` is {names!r}; choose one or more of {', '.join(known)}, or None for all."
        )
    return tuple(dict.fromkeys(asked))


def fit_closed_forms(
    cases: Cases, target: Target, names: int, kinds: Sequence[str] = CLOSED
) -> list[CrossFitted]:
    """Those of these kinds, and always the baseline.

    names   how many variables are known by name; 0 for exchangeable ones
    """
    fits = {"flat ridge": fit_flat_ridge, "convolutions": fit_convolutions}
    chosen = [fit for kind, fit in fits.items() if kind in kinds]
    return [fit_commonest_class(target), *(fit(cases, target, names) for fit in chosen)]


def fit_stack(
    cases: Cases,
    target: Target,
    closed: Sequence[CrossFitted],
    members: Sequence[str],
    network: NetworkPlan | None,
    run: Run,
) -> FittedStack:
    """Train the networks, if there are to be any, and weigh all members.

    closed      from `fit_closed_forms`; those that are not among `members` are only shown
    """
    tried = [one for one in closed if one.member.name in members]
    held = {one.member.name: judge(one.held_out, target.codes) for one in closed}
    weights = dict.fromkeys(held, 0.0)
    outcomes: dict[str, Outcome] = {}
    if network is not None:
        trained, seen = _cross_fit_networks(cases, target, tried, network, run, outcomes)
        held[NETWORK] = judge(trained.held_out[seen], target.codes[seen])
        weights[NETWORK] = 0.0
        if len(seen) == len(cases):
            tried.append(trained)
    answers = torch.stack([one.held_out for one in tried], -1)
    found = _weigh(answers, target, run.seed)
    stack = keep_earners([one.member for one in tried], found.mean)
    weights |= {one.name: w for one, w in zip(stack.members, stack.weights, strict=True)}
    together = judge((answers * found.without[:, None].to(answers)).sum(-1), target.codes)
    return FittedStack(stack, held, together, weights, outcomes)


def judge(probabilities: Tensor, codes: Tensor) -> Held:
    """How probabilities [case, class] did."""
    wrong = (probabilities.argmax(-1) != codes).double().mean()
    said = probabilities.gather(1, codes[:, None]).clamp(min=LEAST_PROBABILITY)
    return Held(float(wrong), float(-said.log().mean()))


def affordable_epochs(cases: Cases) -> int:
    """How many epochs keep all networks within `STEPS` steps and `VALUES` values."""
    batch = training_settings(cases)["batch_size"]
    seen = len(cases) * (NETWORKS - 1)
    steps = max(1.0, seen / batch)
    return int(min(STEPS / steps, VALUES / (seen * cases.length * cases.names.shape[1])))


def build_task(
    cases: Cases,
    target: Target,
    train: Tensor,
    validation: Tensor,
    plan: NetworkPlan,
    run: Run,
    kind: type[ClassificationTask] = ClassificationTask,
) -> ClassificationTask:
    """A network drawn by the seed, some cases to train on, and others that choose its epoch."""
    module = run.draw(
        lambda: ClassificationNetwork(plan.config, target.classes, names=plan.names)
    ).to(target.codes.device)
    return kind(module, cases, target.codes, train, validation)


def train_network(task: ClassificationTask, run: Run, name: str) -> Outcome:
    """Train the network of a task; large cases come few at a time."""
    settings = training_settings(task.cases)
    return run.train(task, name, settings["batch_size"] * task.cases.names.shape[1], settings)


def _cross_fit_networks(
    cases: Cases,
    target: Target,
    beside: Sequence[CrossFitted],
    plan: NetworkPlan,
    run: Run,
    outcomes: dict[str, Outcome],
) -> tuple[CrossFitted, Tensor]:
    """A network for each fold, and the cases that one of them was not trained on: all of them.

    Where the first earns nothing beside the closed forms it is the last, and those are its fold.
    """
    fold = target.folds(NETWORKS, run.seed)
    count = int(fold.max()) + 1
    size = (len(cases), target.classes)
    held_out = torch.zeros(size, dtype=torch.float32, device=target.codes.device)
    networks: list[ClassificationNetwork] = []
    for number in range(count):
        train = (fold != number).nonzero().squeeze(1)
        validation = (fold == number).nonzero().squeeze(1)
        name = f"{NETWORK} {number + 1}"
        task = build_task(cases, target, train, validation, plan, run)
        module = task.module
        outcomes[name] = train_network(task, run, name)
        networks.append(module)
        with torch.inference_mode():
            held_out[validation] = answer(NetworkClassifier(module), cases, validation)
        if outcomes[name].interrupted:
            seen = (fold <= number).nonzero().squeeze(1)
            return CrossFitted(NetworkClassifier(*networks), held_out), seen
        if number == 0 and beside and count > 1:
            answers = torch.stack([*(one.held_out for one in beside), held_out], -1)[validation]
            here = Target(target.codes[validation], target.classes)
            if float(_weigh(answers, here, run.seed).mean[-1]) < LEAST_WEIGHT:
                return CrossFitted(NetworkClassifier(module), held_out), validation
    return CrossFitted(NetworkClassifier(*networks), held_out), torch.arange(len(cases))


class _Weights(NamedTuple):
    """Weights [member] from all cases, and for each case [case, member] from other cases."""

    mean: Tensor
    without: Tensor


def _weigh(answers: Tensor, target: Target, seed: int) -> _Weights:
    """Convex weights with the least cross-entropy on answers [case, class, member] held out.

    The mean over fits that each leave a part of the cases out: few cases make no bold weights.
    """
    said = answers[torch.arange(len(answers)), target.codes].clamp(min=LEAST_PROBABILITY)
    part = target.folds(PARTS, seed).cpu()
    count = int(part.max()) + 1

    def without(number: int) -> Tensor:
        rest = said[(part != number).to(said.device)] if count > 1 else said
        return fit_weights(lambda w: -(rest @ w).log().mean(), said.shape[1], device=said.device)

    each = torch.stack([without(number) for number in range(count)])
    return _Weights(each.mean(0), each[part])
