"""Our estimators with the data that chooses the epoch given from outside, as a protocol rules.

By themselves they hold out a share of what they are given.
"""

from dataclasses import replace
from typing import Self

import numpy as np
import torch
from torch import nn

from orderless import Classifier, Forecaster
from orderless.data import Panel, window_starts
from orderless.estimators.classification_task import ClassificationTask
from orderless.estimators.preparation import learn_scales, share_scale
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
        named = self.scores(module, self.validation).argmax(-1)
        return float((named != self.labels[self.validation]).double().mean())


class GivenCasesChooseEpoch(Classifier):
    """Fitted on cases, the epoch chosen by others, of which nothing else is learned."""

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
        self.teaching_, self.by_accuracy_ = len(cases), by_accuracy
        return self.fit(np.concatenate([cases, chooser]), np.concatenate([labels, chooser_labels]))

    def _build_task(self, panel: Panel, codes: np.ndarray):
        teaching = replace(panel, systems=panel.systems[: self.teaching_])
        lengths = [len(system.times) for system in teaching.systems]
        scales = learn_scales(teaching, lengths, across=True)
        self.scales_ = scales if self.identify else share_scale(scales)
        task = super()._build_task(panel, codes)
        if not self.by_accuracy_:
            return task
        return RightCasesChoose(
            task.module,
            task.series,
            task.length,
            task.labels,
            task.identities,
            task.train,
            task.validation,
        )

    def _split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        everything = np.arange(len(codes))
        return everything[: self.teaching_], everything[self.teaching_ :]
