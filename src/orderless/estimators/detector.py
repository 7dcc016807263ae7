"""`Detector`: how odd every moment is, and which variables are to blame."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import (
    Panel,
    Series,
    covering_starts,
    read_panel,
    scores_over_time,
    write_scores,
)
from orderless.data.frequency import Frequency
from orderless.errors import DataError
from orderless.estimators.base import (
    Estimator,
    all_or_nothing,
    check_count,
    check_ignored,
    check_share,
    draw_seed,
)
from orderless.estimators.detection_scores import (
    combine,
    in_usual,
    learn_factors,
    learn_threshold,
    learn_usual,
    pick,
)
from orderless.estimators.detection_task import DetectionTask, neighbours
from orderless.estimators.detection_windows import (
    DetectionWindows,
    check_part,
    cut_detection_windows,
)
from orderless.estimators.frequencies import find_steps, restore_step
from orderless.estimators.preparation import (
    MOVE,
    Prepared,
    check_observed,
    learn_levels,
    learn_scales,
    match_groups,
    prepare,
    scales_of_fit,
    stood_still,
    unchanged,
)
from orderless.estimators.report import MODEL, describe_data, describe_training, table, verdict
from orderless.estimators.settings import build_network_config
from orderless.estimators.threads import threads_for
from orderless.estimators.unlike_fit import (
    missing_share,
    tell_more_gaps,
    tell_other_steps,
    tell_short_systems,
)
from orderless.nn import NetworkConfig, ReconstructionNetwork
from orderless.training import Outcome

TRAINING = {"learning_rate": 2e-3, "patience": 4, "steps_per_epoch": 60}
ROWS_PER_STEP = 2048
"""Windows of one variable in a training step; with more than 64 variables there are fewer."""


class Scores(NamedTuple):
    """Of each system: its moments [time], and each of its variables [variable, time]."""

    moments: list[np.ndarray]
    each: list[np.ndarray]


class Detector(Estimator):
    """Scores how odd each moment of a system is.

    Stretches of the data are hidden and told from the rest, of the same variable and of the
    others; the score of an entry is the squared error of that, in units of what is usual for the
    variable. One that stood still in `fit` is told to stay: where it left its constant by more than
    a millionth of it, it counts as an ordinary one 10 spreads off, and elsewhere not at all.

    The threshold comes from held-out training data, never from the data that is scored. Where fewer
    variables are observed than were usual then, errors are larger and vary more: scores of such
    moments are lowered, as much as they were higher on groups of so many variables, so that one
    threshold holds for all. Nothing is lowered for gaps in time, short data or another time step,
    which `fit` did not see: a warning says so.

    **Main parameters**
    - context: time steps in a window; 96 or a quarter of the training data if None.
    - contamination: the share of ordinary moments that may ring the alarm.
    - preset, network, epochs, random_state: as for `Forecaster`.

    **Other parameters**
    - validation_share, strict_variables, training, device, precision, verbose: as for
      `Forecaster`.

    **Fitted**: `threshold_`, `factors_`, `variables_in_`, `context_`, `frequencies_` (the steps of
    the training data, the commonest first), `network_`, `errors_`, `history_`, `report_`, `seed_`.
    """

    # The first models had none, and took what stood still in its own unit.
    factors_: Sequence[tuple[int, float]] = ()
    marked_ = False
    # And they do not know what they were fitted on.
    frequencies_: Sequence[Frequency] = ()
    missing_: float | None = None
    too_few_: int | None = None

    def __init__(
        self,
        context: int | None = None,
        *,
        contamination: float = 0.01,
        preset: str = "tiny",
        network: Mapping[str, Any] | None = None,
        epochs: int = 20,
        validation_share: float = 0.2,
        strict_variables: bool = False,
        training: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "auto",
        precision: str = "no",
        verbose: bool = True,
    ) -> None:
        self.context = context
        self.contamination = contamination
        self.preset = preset
        self.network = network
        self.epochs = epochs
        self.validation_share = validation_share
        self.strict_variables = strict_variables
        self.training = training
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        time: Hashable = None,
        variable: Hashable = None,
        value: Hashable = None,
        group: Hashable = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn what is usual from data with no or few anomalies; the rest as in `Forecaster`."""
        self._check_settings()
        check_ignored(y)
        panel = read_panel(data, time=time, variable=variable, value=value, group=group)
        check_observed(panel)
        columns = {"time": time, "variable": variable, "value": value, "group": group}
        self.columns_ = {role: label for role, label in columns.items() if label is not None}
        self.seed_ = draw_seed(self.random_state, checkpoint)
        windows = cut_detection_windows(panel, self.context, self.validation_share)
        self.context_ = windows.context
        self.variables_in_ = panel.variables
        lengths = [len(system.times) for system in panel.systems]
        self.shortest_ = min(self.context_, *lengths)
        self.missing_ = missing_share(panel, self.context_)
        self.frequencies_ = find_steps(panel, windows.train)
        # Also of a sensor that begins in the held-out part. A single reading does not tell that one
        # stands still: it counts as new.
        scales = learn_scales(panel, lengths) | scales_of_fit(panel, windows.ends)
        again = _read_twice(panel)
        self.scales_ = {name: pair for name, pair in scales.items() if name in again}
        if not self.scales_:
            raise DataError(
                "No variable has two readings or more, so nothing tells what is usual. Give `fit` "
                "more rows."
            )
        self.marked_ = True
        judged = self._moved() or set(panel.variables)
        check_part(panel, windows.usual, "find the threshold", judged)
        several = panel.form.group is not None or len(panel.systems) > 1
        self.levels_ = learn_levels(panel, windows.ends) if several else None
        systems = self._prepare(panel)
        task = self._build_task(systems, windows)
        windows_at_once = min(32, max(8, ROWS_PER_STEP // panel.widest))
        outcome = self._train(task, TRAINING | {"batch_size": windows_at_once}, checkpoint)
        self._calibrate(systems, [begin for begin, _ in windows.usual])
        self._write_report(panel, task, outcome)
        return self

    def score(
        self, data: Any, y: Any = None, *, per_variable: bool = False, **columns: Hashable
    ) -> Any:
        """How odd each moment is, in the form the data came in; 1 is usual, less for few variables.

        With `per_variable`, how odd each variable is at each moment: who is to blame. NaN where
        nothing was observed. `y` is ignored; scikit-learn gives it.
        """
        self._check_fitted()
        check_ignored(y)
        panel = self._read_at_known_step(data, columns)
        scores = self.score_panel(panel)
        return write_scores(panel, scores.each if per_variable else scores.moments, name="score")

    def score_panel(self, panel: Panel) -> "Scores":
        """Both that `score` gives, for data that is read, at the price of one."""
        self._check_fitted()
        self._check_variables(panel.variables)
        systems = self._prepare(panel)
        each = self._score(systems)
        rows = [one[system.restore] for one, system in zip(each, systems, strict=True)]
        return Scores(combine(each, systems, self.scales_, self.factors_), rows)

    def predict(self, data: Any, **columns: Hashable) -> Any:
        """Whether each moment is an anomaly: its score above `threshold_`.

        A warning says where the held-out moments of `fit` were too few to tell the share asked for.
        """
        self._check_fitted()
        panel = self._read_at_known_step(data, columns)
        if self.too_few_ is not None:
            warnings.warn(
                f"{self.too_few_} held-out moments cannot tell a `contamination` as small as was "
                "asked for: the threshold is the highest of their scores, and more moments may "
                "ring. Fit on more data, or with a larger `validation_share`.",
                stacklevel=2,
            )
        alarms = [one > self.threshold_ for one in self.score_panel(panel).moments]
        return write_scores(panel, alarms, name="anomaly")

    @property
    def known_steps(self) -> dict[str, Any]:
        """What `read_panel` takes to read the few rows that tell no step at that of `fit`.

        Of many rows it would make gaps, which are as far from ordinary as another step.
        """
        return {"frequencies": self.frequencies_, "finer": 1}

    def _read_at_known_step(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        panel = self._read(partial(read_panel, **self.known_steps), data, columns)
        if panel is not data:  # otherwise whoever read it may ask
            self.warn_unlike_fit(panel, stacklevel=4)
        return panel

    def warn_unlike_fit(self, panel: Panel, *, stacklevel: int = 2) -> None:
        """Say where ordinary moments may ring because the data is not of the kind `fit` had.

        `score` and `predict` say it of data that they read themselves.
        """
        said = (
            tell_other_steps(panel, self.frequencies_),
            tell_short_systems(panel, self.shortest_),
            tell_more_gaps(panel, self.context_, self.missing_),
        )
        for words in filter(None, said):
            warnings.warn(words, stacklevel=stacklevel)

    def _check_settings(self) -> None:
        check_count("epochs", self.epochs, 0)
        if self.context is not None:
            check_count("context", self.context, 2)
        check_share("contamination", self.contamination)
        check_share("validation_share", self.validation_share)

    def _build_task(self, systems: Sequence[Prepared], windows: DetectionWindows) -> DetectionTask:
        config = build_network_config(
            self.preset, self.context_, self.network, center="none", scale=False, skip=False
        )
        network = self._draw_network(config)
        series = _series(systems)
        return DetectionTask(network, series, self.context_, windows.train, windows.validation)

    def _build_network(self, config: NetworkConfig) -> ReconstructionNetwork:
        return ReconstructionNetwork(config)

    def _prepare(self, panel: Panel) -> list[Prepared]:
        """Around the mean of `fit`; of groups or several systems each around its own.

        One that has no name among several, or that `fit` did not see, is centred by itself.
        """
        if self.levels_ is None:
            return [prepare(one, self.scales_, marked=self.marked_) for one in panel.systems]
        if panel.form.group is not None:
            names = match_groups(panel.systems, self.levels_)
            levels = [{} if name is None else self.levels_[name] for name in names]
        else:
            # Where there was one group, data without a name is of that.
            only = next(iter(self.levels_.values())) if len(self.levels_) == 1 else {}
            levels = [only] * len(panel.systems)
        return [
            prepare(system, self.scales_, levels=own, marked=self.marked_)
            for system, own in zip(panel.systems, levels, strict=True)
        ]

    def _calibrate(self, systems: Sequence[Prepared], begins: Sequence[int]) -> None:
        """What error is usual for each variable, and which score is not, on the held-out part."""
        held_out = [
            pick(one, np.arange(len(one.names)), begin)
            for one, begin in zip(systems, begins, strict=True)
        ]
        still = all(unchanged(one.values, one.observed).all() for one in held_out)
        if still and self._moved():
            warnings.warn(
                "No variable moves in the held-out part, at the end of the data: the threshold is "
                "that of nothing moving, and most ordinary moments may ring. Fit on data that ends "
                "before it stands still, or with a larger `validation_share`.",
                stacklevel=4,
            )
        errors = [one[:, begin:] for one, begin in zip(self._errors(systems), begins, strict=True)]
        self.usual_, self.overall_ = learn_usual(errors, held_out, self.scales_)
        each = in_usual(errors, held_out, self.usual_, self.overall_)
        self.factors_ = learn_factors(
            each, held_out, self.scales_, self._score, share=self.contamination, seed=self.seed_
        )
        self.threshold_, self.too_few_ = learn_threshold(
            each, held_out, self.scales_, self.factors_, self.contamination
        )
        if stood_still(list(self.usual_), self.scales_).all():
            # Where nothing moves, it lies between what is usual, 1, and a move, 100.
            self.threshold_, self.too_few_ = MOVE, None

    def _moved(self) -> set[str]:
        """Variables that `fit` saw a change of."""
        return {name for name, (_, spread) in self.scales_.items() if spread > 0}

    def _score(self, systems: Sequence[Prepared]) -> list[np.ndarray]:
        """Scores [variable, time] of each system, variables in canonical order."""
        return in_usual(self._errors(systems), systems, self.usual_, self.overall_)

    def _errors(self, systems: Sequence[Prepared]) -> list[np.ndarray]:
        """Squared errors [variable, time] of each system, variables in canonical order."""
        lengths = [one.values.shape[1] for one in systems]
        windows = covering_starts(lengths, self.context_, stride=max(1, self.context_ // 2))
        task = DetectionTask(self.network_, _series(systems), self.context_, windows, windows[:0])
        task.to(next(self.network_.parameters()).device)
        blocks = []
        with torch.inference_mode(), threads_for(windows.shape[0] * task.series.members.shape[1]):
            for values, observed, rebuilt in task.rebuild(self.network_, task.train):
                error = torch.where(observed, (values - rebuilt).square(), torch.nan)
                blocks.append(error.cpu().numpy())
        widest = scores_over_time(np.concatenate(blocks), windows.numpy(), lengths)
        # What stood still needs no network: beside others, and in any window, it is the same.
        return [
            np.where(np.isnan(system.moves), one[: len(system.names)], system.moves**2)
            for one, system in zip(widest, systems, strict=True)
        ]

    @torch.inference_mode()
    def _write_report(self, panel: Panel, task: DetectionTask, outcome: Outcome) -> None:
        sums = dict.fromkeys(("the mean", "neighbours in time", MODEL), 0.0)
        count = 0
        for values, observed, rebuilt in task.rebuild(self.network_, task.validation):
            simple = torch.zeros_like(values)
            for hidden in task.holes(observed.any(-1)):
                simple = torch.where(hidden, neighbours(values, observed & ~hidden), simple)
            guesses = (torch.zeros_like(values), simple, rebuilt)
            for name, guess in zip(sums, guesses, strict=True):
                error = torch.where(observed, values - guess, 0.0)
                sums[name] += float(error.square().sum())
            count += int(observed.sum())
        self.errors_ = {name: total / max(count, 1) for name, total in sums.items()}
        weights = sum(parameter.numel() for parameter in self.network_.parameters())
        share = f"{100 * self.contamination:g} %"
        meaning = f"at most {share} of the held-out moments lie above it"
        if self.too_few_ is not None:
            meaning = f"the highest of {self.too_few_} held-out moments, too few to tell {share}"
        if not self._moved():
            meaning = "nothing moves, and any move lies above it"
        self.report_ = [
            f"data      {describe_data(panel)}",
            f"windows   {len(task.train):,} to train, {len(task.validation):,} to validate; "
            f"context {self.context_}",
            f"network   {self.preset}, {describe_training(outcome, weights)}",
            f"threshold {self.threshold_:.3g}: {meaning}",
            "errors    squared, of telling hidden stretches of the validation windows",
            *table({name: (error,) for name, error in self.errors_.items()}, ("MSE",)),
            verdict(self.errors_, MODEL),
        ]
        self._tell()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        facts |= {"context": self.context_, "threshold": self.threshold_, "usual": self.usual_}
        facts |= {"levels": self.levels_, "factors": self.factors_, "marked": self.marked_}
        facts |= {"overall": self.overall_, "shortest": self.shortest_, "missing": self.missing_}
        facts |= {"frequencies": [asdict(one) for one in self.frequencies_]}
        facts |= {"too_few": self.too_few_}
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.context_, self.threshold_ = facts["context"], facts["threshold"]
        self.usual_ = dict(facts["usual"])
        # Models saved before kept it under the empty name.
        self.overall_ = facts["overall"] if "overall" in facts else self.usual_.pop("")
        self.shortest_ = facts.get("shortest", self.context_)
        self.missing_, self.too_few_ = facts.get("missing"), facts.get("too_few")
        self.frequencies_ = tuple(restore_step(one) for one in facts.get("frequencies", ()))
        self.levels_ = facts.get("levels")  # the first models were saved without these three
        self.factors_ = [(int(size), float(factor)) for size, factor in facts.get("factors", [])]
        self.marked_ = facts.get("marked", False)
        super()._restore(facts, tensors)


def _read_twice(panel: Panel) -> set[str]:
    """Variables with two readings or more in a system."""
    return {
        system.variables[row]
        for system in panel.systems
        for row in np.flatnonzero(system.observed.sum(-1) > 1).tolist()
    }


def _series(systems: Sequence[Prepared]) -> Series:
    return Series.from_arrays([one.values for one in systems], [one.observed for one in systems])
