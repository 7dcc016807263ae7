"""From windows to a stack of forecasts: which members there are, and what each earns.

Closed forms come first. Each is fitted without one block of time after the other and answers for
that block; on these answers their weights are found, and only then are they fitted on all training
windows. The networks follow: the context and the center of the best closed form are theirs. Their
weight comes from the selection windows, beside the stack of closed forms.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from orderless.data import Batch
from orderless.errors import SettingError
from orderless.models.folds import Folds, cut_folds
from orderless.models.forecasting.factor_ridge import fit_factor_ridge
from orderless.models.forecasting.naive import Naive
from orderless.models.forecasting.network import (
    QUANTILE_LOSS,
    ForecastingTask,
    NetworkForecast,
    training_settings,
    windows_per_step,
)
from orderless.models.forecasting.quantiles import quantile_table, width_of, with_quantiles
from orderless.models.forecasting.ridge import CrossFitted, Ridge, fit_ridges
from orderless.models.forecasting.windows import (
    DEFAULT_CONTEXT,
    MOST_ROWS_HELD_OUT,
    POOLED,
    Errors,
    ForecastingWindows,
    WindowEvaluator,
    thin,
)
from orderless.models.member import Member
from orderless.models.run import Run
from orderless.models.stack import Stack, keep_earners
from orderless.models.weights import fit_shrunk_weights
from orderless.nn import ForecastingNetwork, NetworkConfig
from orderless.training import LOSSES, Outcome
from orderless.training.losses import Loss, pinball

CLOSED = ("naive", "seasonal naive", "ridge", "coupled ridge", "factor ridge")
NETWORKS = ("network on ridge", "network")
CENTERS = ("mean", "last")
MOST_SCORED = 1024
"""Windows that weights are found on, of all folds together."""
MOST_ENTRIES = 2**18
"""Targets in them."""
Answer = Callable[[Batch], Tensor]
Part = tuple[Tensor, Tensor]
"""Answers [entry, column] on some windows (with quantiles, [entry, column, quantile]), and the
targets [entry]."""
PARTS = 4
"""Stretches of the selection windows, of which each is left out once to find a weight."""


@dataclass(frozen=True)
class Choices:
    """What the user may decide of a stack.

    members     kinds of members, of `CLOSED` and `NETWORKS`
    contexts    that closed forms look at, in rising order
    config      from a context to the network, centered as the ridges are if `center` is None
    refit       whether closed forms, once weighed, are fitted on selection windows too
    """

    members: Collection[str]
    contexts: tuple[int, ...]
    config: Callable[[int], NetworkConfig]
    center: str | None
    loss: str
    quantiles: tuple[float, ...] = ()
    refit: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes of a network before any work, also where there will be none."""
        for context in self.contexts:
            self.config(context)


@dataclass(frozen=True)
class FittedStack:
    """The stack, and what became of every member that was tried.

    table       quantiles of the errors of the closed forms, where quantiles are trained
    errors      on the calibration windows, which choose nothing, by name; the stack is not in it
    weights     by name; 0 where a member was left out
    outcomes    of the trainings, by name
    """

    stack: Stack
    table: Tensor | None
    errors: dict[str, Errors]
    weights: dict[str, float]
    outcomes: dict[str, Outcome]


def check_members(names: Any) -> tuple[str, ...]:
    """The kinds of members that a user asks for; all of them for None."""
    known = (*CLOSED, *NETWORKS)
    if names is None:
        return known
    asked = [names] if isinstance(names, str) else list(names)
    wrong = [name for name in asked if name not in known]
    if wrong or not asked:
        raise SettingError(
            f"`members` is {names!r}; choose one or more of {', '.join(known)}, or None for all."
        )
    return tuple(dict.fromkeys(asked))


def fit_stack(
    evaluator: WindowEvaluator,
    windows: ForecastingWindows,
    season: int,
    choices: Choices,
    run: Run,
    reporter: WindowEvaluator | None = None,
) -> FittedStack:
    """Fit every member, and weigh them.

    reporter: finds the errors that are reported, if others than the evaluator; it sees readings as
    they are, and not as they may teach.
    """
    losses = _losses_of(choices.loss)
    if season == 1:
        # It would be the naive forecast once more.
        members = ("naive" if one == "seasonal naive" else one for one in choices.members)
        choices = replace(choices, members=tuple(dict.fromkeys(members)))
    folds = cut_folds(windows.train, windows.selection, windows.horizon, held_out=windows.held_out)
    # Otherwise nothing would be left that has not seen the selection windows.
    choices = replace(choices, refit=choices.refit and folds.selection_apart)
    closed = _fit_closed_forms(evaluator, folds, season, choices, losses[0])
    parts = _answers(evaluator, folds, lambda fold: [one.of_fold[fold] for one in closed])
    kinds = set(choices.members)
    for kind in kinds & {"coupled ridge", "factor ridge"}:
        if not any(_kind(one.member) == kind for one in closed):
            # Of one variable, or where company adds nothing, it would be the same as the ridge.
            kinds = kinds - {kind} | {"ridge"}
    asked = [i for i, one in enumerate(closed) if _kind(one.member) in kinds]
    tried: list[Member] = [closed[i].member for i in asked]
    parts_asked = [(given[:, asked], target) for given, target in parts]
    weights = _weigh(parts_asked, losses, len(asked))
    networks, outcomes, idle = [], {}, []
    for kind in (one for one in NETWORKS if one in choices.members):
        best = _best_ridge(closed, parts, losses[0], pooled=choices.config(windows.context).coupled)
        start = best.of_fold[-1] if choices.refit else best.member
        network, outcome = _train(kind, evaluator, windows, start, choices, run)
        # Before any training, the network on a ridge is that ridge.
        unlearned = network.network.config.skip and outcome.best_epoch == 0 and best.member in tried
        (idle if unlearned else networks).append(network)
        outcomes[network.name] = outcome
        if outcome.interrupted:
            break

    def base(fold: int) -> Stack:
        return Stack(tuple(closed[i].of_fold[fold] for i in asked), tuple(weights.tolist()))

    table = _quantile_table(evaluator, folds, base, choices.quantiles)
    if networks:
        weights = _weigh_networks(evaluator, folds, base, weights, networks, table, losses)
        tried += networks
    stack = keep_earners(tried, weights)
    tried += idle
    known = {one.name: 0.0 for one in tried}
    known |= {one.name: w for one, w in zip(stack.members, stack.weights, strict=True)}
    reporter = reporter or evaluator
    errors = {one.name: reporter.errors(windows.calibration, one) for one in tried}
    return FittedStack(stack, table, errors, known, outcomes)


def _fit_closed_forms(
    evaluator: WindowEvaluator, folds: Folds, season: int, choices: Choices, loss: Loss
) -> list[CrossFitted]:
    """Those that were asked for, and a ridge where a network starts from one or learns its context.

    Contexts are centered by what does best held out: a series that wanders goes on from its last
    value, one that returns from its mean.
    """
    same = folds.count
    baselines = [Naive(evaluator.horizon), Naive(evaluator.horizon, season)]
    closed = [CrossFitted(one, [one] * same) for one in baselines if one.name in choices.members]
    if not {"ridge", "coupled ridge", "factor ridge", *NETWORKS} & set(choices.members):
        return closed
    contexts = choices.contexts
    middle = contexts[len(contexts) // 2]
    wide = evaluator.series.members.shape[1] > 1
    coupled = wide and ("coupled ridge" in choices.members or choices.config(middle).coupled)

    def fit(context: int, center: str) -> list[CrossFitted]:
        pooled = coupled and (context <= DEFAULT_CONTEXT or len(contexts) == 1)
        scale = choices.config(context).scale
        return fit_ridges(
            evaluator,
            folds,
            context,
            pooled=pooled,
            center=center,
            scale=scale,
            refit=choices.refit,
        )

    centers = CENTERS if choices.center is None else (choices.center,)
    tried = {center: fit(middle, center) for center in centers}

    def error(center: str) -> float:
        own = tried[center][0]
        parts = _answers(evaluator, folds, lambda fold: [own.of_fold[fold]])
        return _losses(parts, loss, 1)[0]

    center = min(centers, key=error) if len(centers) > 1 else centers[0]
    for context in contexts:
        closed += tried[center] if context == middle else fit(context, center)
    if evaluator.loadings is not None:
        closed += fit_factor_ridge(evaluator, folds, tried[center][0], refit=choices.refit)
    return closed


def _train(
    kind: str,
    evaluator: WindowEvaluator,
    windows: ForecastingWindows,
    start: Member,
    choices: Choices,
    run: Run,
) -> tuple[NetworkForecast, Outcome]:
    """A network with the context and the center of a ridge, on what it leaves over or alone."""
    assert isinstance(start, Ridge)
    linear = start.linear
    config = replace(
        choices.config(linear.context), skip=kind == "network on ridge", center=linear.center
    )
    device = evaluator.series.flat.device
    module = run.draw(
        lambda: ForecastingNetwork(
            config, linear.context, linear.horizon, quantiles=choices.quantiles
        )
    ).to(device)
    if config.skip:
        module.start_from(linear)
    task = ForecastingTask(module, evaluator, windows.train, windows.selection, choices.loss)
    width = evaluator.series.members.shape[1]
    rows = windows_per_step(width) * width
    outcome = run.train(task, kind, rows, training_settings(width))
    return NetworkForecast(module), outcome


def _weigh_networks(
    evaluator: WindowEvaluator,
    folds: Folds,
    base: Callable[[int], Stack],
    weights: Tensor,
    networks: Sequence[NetworkForecast],
    table: Tensor | None,
    losses: Sequence[Loss],
) -> Tensor:
    """Weights of closed forms and networks together, by the selection windows.

    What the closed forms keep is shared out among them as before. Where quantiles are trained, the
    loss is that of the quantiles.
    """
    levels = networks[0].network.levels if networks[0].network.quantiles else None

    def columns(fold: int) -> list[Answer]:
        closed = [base(fold)] if len(weights) else []
        if levels is None or table is None:
            return [*closed, *networks]
        return [
            *(partial(with_quantiles, one, table) for one in closed),
            *(one.quantiles for one in networks),
        ]

    if levels is not None and table is not None:
        losses = [partial(pinball, levels=levels.cpu())]
    parts = _split(_answers(evaluator, folds, columns, selection=True))
    found = _weigh(parts, losses, bool(len(weights)) + len(networks))
    kept, earned = found.tensor_split([len(found) - len(networks)])
    return torch.cat((weights * kept if len(weights) else weights, earned))


def _quantile_table(
    evaluator: WindowEvaluator,
    folds: Folds,
    base: Callable[[int], Stack],
    levels: Sequence[float],
) -> Tensor | None:
    """Quantiles of the held-out errors of the closed forms; None where no quantiles are trained."""
    if not levels:
        return None
    if not base(0).members:
        return torch.zeros(evaluator.horizon, len(levels))
    ahead = torch.arange(evaluator.horizon, dtype=torch.float32)

    def columns(fold: int) -> list[Answer]:
        def units(batch: Batch) -> Tensor:
            return width_of(batch).expand_as(batch.targets)

        return [base(fold), units, lambda batch: ahead.to(batch.targets).expand_as(batch.targets)]

    parts = _answers(evaluator, folds, columns)
    if not parts:
        return torch.zeros(evaluator.horizon, len(levels))
    point, unit, step = torch.cat([answers for answers, _ in parts]).unbind(1)
    errors = (torch.cat([target for _, target in parts]) - point) / unit
    return quantile_table(errors, step, evaluator.horizon, levels)


def _best_ridge(
    closed: Sequence[CrossFitted], parts: Sequence[Part], loss: Loss, *, pooled: bool
) -> CrossFitted:
    """The ridge with the least held-out loss; a coupled one, if `pooled` and there are any."""
    losses = _losses(parts, loss, len(closed))
    ridges = {i: one.member for i, one in enumerate(closed) if isinstance(one.member, Ridge)}
    alike = [i for i, one in ridges.items() if (one.linear.pooled is not None) == pooled]
    return closed[min(alike or ridges, key=losses.__getitem__)]


def _answers(
    evaluator: WindowEvaluator,
    folds: Folds,
    columns: Callable[[int], Sequence[Answer]],
    *,
    selection: bool = False,
) -> list[Part]:
    """What the columns of each fold answer on its windows, or on those of selection alone."""
    width = min(evaluator.series.members.shape[1], POOLED)
    most = max(1, min(MOST_SCORED, MOST_ROWS_HELD_OUT // width) // folds.count)
    parts = []
    for fold in range(folds.count):
        chosen = folds.fold == fold
        windows = thin(folds.windows[chosen & ~folds.training if selection else chosen], most)
        answers, targets = [], []
        with torch.inference_mode():
            for batch in evaluator.batches(windows) if len(windows) else ():
                there = batch.target_observed
                answers.append(torch.stack([one(batch)[there] for one in columns(fold)], 1).cpu())
                targets.append(batch.targets[there].cpu())
        if sum(map(len, targets)):
            every = max(1, sum(map(len, targets)) * folds.count // MOST_ENTRIES)
            parts.append((torch.cat(answers)[::every], torch.cat(targets)[::every]))
    return parts


def _split(parts: Sequence[Part]) -> list[Part]:
    """A single part as several stretches, so that each can be left out once."""
    if len(parts) != 1:
        return list(parts)
    answers, target = parts[0]
    return list(zip(answers.chunk(PARTS), target.chunk(PARTS), strict=True))


def _losses_of(name: str) -> list[Loss]:
    """What weights minimise: the trained loss, and where MAE and MSE are reported, both of them.

    Weights by one alone lose much on the other.
    """
    if name in ("smape", QUANTILE_LOSS):
        return [LOSSES["l1" if name == QUANTILE_LOSS else name]]
    return [LOSSES["l1"], LOSSES["mse"]] if name != "mse" else [LOSSES["mse"], LOSSES["l1"]]


def _weigh(parts: Sequence[Part], losses: Sequence[Loss], count: int) -> Tensor:
    """Weights of the columns, the mean over the losses; equal where nothing sets them apart."""
    if not parts or count < 2:
        return torch.full((count,), 1 / max(count, 1), dtype=torch.float64)

    def of(loss: Loss, answers: Tensor, target: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda weights: loss(answers.movedim(1, -1) @ weights, target, None)

    each = [fit_shrunk_weights([of(loss, *part) for part in parts], count) for loss in losses]
    return torch.stack(each).mean(0)


def _losses(parts: Sequence[Part], loss: Loss, count: int) -> list[float]:
    """The loss of each column, summed over the parts."""
    total = torch.zeros(count)
    for answers, target in parts:
        total += torch.stack([loss(column, target, None) for column in answers.unbind(1)])
    return total.tolist()


def _kind(member: Member) -> str:
    """The name without the context: what a user asks for."""
    return member.name.rstrip(" 0123456789")
