"""Our estimators with the data that chooses the epoch given from outside, as a protocol rules.

By themselves they hold out a share of what they are given.
"""

from dataclasses import replace
from typing import Self

import numpy as np
import torch
from torch import nn

from orderless import Classifier, Forecaster
from orderless.data import Panel, read_cases, window_starts
from orderless.estimators.base import draw_seed
from orderless.estimators.classifier import learn_units
from orderless.models import Stack
from orderless.models.classification import (
    NETWORK,
    ClassificationTask,
    NetworkClassifier,
    answer,
    build_task,
    judge,
    train_network,
)
from orderless.models.classification.network import network_scores
from orderless.models.forecasting import ForecastingWindows


class EndChoosesEpoch(Forecaster):
    """Fitted on systems whose last `horizon` steps choose the epoch and the blend, and no others.

    Nothing else is learned from those steps. Every earlier target teaches, if at least `horizon`
    steps come before it.
    """

    def _cut_windows(self, panel: Panel) -> ForecastingWindows:
        lengths = [len(system.times) for system in panel.systems]
        ends = [length - self.horizon for length in lengths]
        context, horizon = int(self.context), int(self.horizon)

        def cut(targets: list[tuple[int, int]], shortest: int):
            return window_starts(
                lengths, context, self.horizon, targets=targets, shortest_context=shortest
            )

        train = cut([(0, end) for end in ends], self.horizon)
        last = cut(list(zip(ends, lengths, strict=True)), 1)
        return ForecastingWindows(context, horizon, train, last, last, ends, held_out=True)


class RightCasesChoose(ClassificationTask):
    """The epoch is the one that names the most validation cases rightly, however surely."""

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """The share of the validation cases that are named wrongly."""
        wrong = 0
        for places, batch in self.cases.batches(self.validation):
            labels = self.labels[self.validation[places]]
            wrong += int((network_scores(module, batch).argmax(-1) != labels).sum())
        return wrong / len(self.validation)


class GivenCasesChooseEpoch(Classifier):
    """The network alone; its epoch is chosen by cases of which nothing else is learned."""

    def fit_with(
        self,
        cases: np.ndarray,
        labels: np.ndarray,
        chooser: np.ndarray,
        chooser_labels: np.ndarray,
        *,
        by_accuracy: bool = False,
    ) -> Self:
        """Learn from cases [case, variable, time]; the epoch does best on `chooser`.

        Best is the least cross-entropy, or the highest accuracy.
        """
        panel = read_cases(np.concatenate([cases, chooser]))
        self.columns_, self.seed_ = {}, draw_seed(self.random_state)
        self.identify_ = self.identify
        target = self._learn_classes(panel, np.concatenate([labels, chooser_labels]))
        teaching = replace(panel, systems=panel.systems[: len(cases)])
        self.transform_ = learn_units(teaching, by_name=self.identify == "name")
        gathered = self._gather(panel.systems, self.transform_).to(target.codes.device)
        train, validation = torch.arange(len(target.codes)).split([len(cases), len(chooser)])
        kind = RightCasesChoose if by_accuracy else ClassificationTask
        run = self._run(None)
        task = build_task(gathered, target, train, validation, self._plan(), run, kind)
        outcome = train_network(task, run, NETWORK)
        member = NetworkClassifier(task.module)
        self.stack_, self.weights_ = Stack((member,), (1.0,)), {NETWORK: 1.0}
        held = judge(answer(member, task.cases, task.validation), task.labels[task.validation])
        self.errors_ = {NETWORK: held.wrong}
        self.history_, self.report_ = {NETWORK: outcome.history}, []
        return self
