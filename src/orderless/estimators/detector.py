"""`Detector`: how anomalous every time step is, and which variables are to blame."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel, Series, System, read_panel, write_scores
from orderless.data.scaling import (
    learn_centers,
    learn_scales,
    scales_of_training,
    winsorised_mean_and_scale,
)
from orderless.data.transform import DEPARTURE, Scaled, Transform, never_changes
from orderless.errors import DataError
from orderless.estimators.base import (
    Answers,
    Estimator,
    all_or_nothing,
    check_count,
    check_ignored,
    check_share,
    draw_seed,
)
from orderless.estimators.drift import (
    Drift,
    describe_drift,
    describe_more_gaps,
    describe_other_frequencies,
    describe_short_systems,
    find_drift,
    learn_ranges,
    missing_share,
)
from orderless.estimators.frequencies import find_frequencies, restore_frequency
from orderless.estimators.report import describe_data, describe_trainings, member_table
from orderless.models.detection import (
    FAR,
    KINDS,
    DetectionWindows,
    Event,
    Units,
    check_members,
    check_part,
    combine,
    cut_detection_windows,
    find_events,
    fit_stack,
    follow_level,
    learn_factors,
    learn_threshold,
    learn_thresholds,
    to_batch,
    to_scores,
)
from orderless.models.settings import build_network_config
from orderless.models.threads import threads_for
from orderless.training import Outcome

LEAST_ADAPT, ADAPTS = 1000, 5
"""With adapt="auto", the level of a variable is that of a fifth of the time of `fit`, or more."""
CENTER = "the mean"
"""What expects every variable at its center: any member should make smaller errors."""


class Scores(NamedTuple):
    """Of each system: its time steps [time], and each of its variables [variable, time]."""

    steps: Answers
    each: Answers


class Detector(Estimator):
    """Scores how anomalous each time step of a system is.

    It is a stack of members, each of which expects every reading in its own way: `ridge` by the
    past of the variable and the mean of the others, `PCA` and `regression` by short windows of all
    variables that `fit` saw, `network` by reconstructing stretches that are hidden from it. The
    score of an entry is its squared error in a unit learned for the variable, the mean over the
    members that have an answer, averaged over the latest 1, 4 and 16 time steps; beyond 10 units an
    error counts by its size and not by its square. Members weigh alike: nothing is known of
    anomalies in `fit`. What `fit` did not see is scored by `ridge` and `network`, which know no
    names. A constant of `fit` has no unit: where it left its value by more than a millionth of it,
    it counts as an ordinary variable 10 standard deviations off, and elsewhere not at all.

    The threshold comes from held-out training data, never from the data that is scored. Where fewer
    variables are observed than was normal then, scores vary more: they are lowered, as much as they
    were higher on groups of so many variables, so that one threshold holds for all. Nothing is
    lowered for gaps in time, short data or another frequency, which `fit` did not see: a warning
    says that false alarms may increase.

    **Main parameters**
    - context: time steps in a window of the network; 96 or a quarter of the training data if None.
    - contamination: the share of normal time steps that may raise an alarm.
    - adapt: the level of a variable is the median of so many latest time steps, so a shift that
      lasts longer than half of them is said, and alarms end; "auto" is a fifth of the time steps of
      `fit` and at least 1000, None never. A fault that lasts as long becomes normal, too.
    - members: which members there are, of `ridge`, `PCA`, `regression` and `network`; all if None.
      The first three are closed forms: without the network, `fit` takes seconds.
    - preset, network, epochs, random_state: as for `Forecaster`.

    **Other parameters**
    - validation_share, strict_variables, training, device, precision, verbose: as for
      `Forecaster`.

    **Fitted**: `threshold_`, `thresholds_` (of each variable), `factors_`, `units_`, `ranges_`,
    `adapt_`, `variables_in_`, `context_`, `frequencies_` (of the training data, the commonest
    first), `stack_`, `weights_`, `errors_` (of each member, squared and held out), `history_`,
    `report_`, `seed_`.
    """

    kinds = KINDS

    def __init__(
        self,
        context: int | None = None,
        *,
        contamination: float = 0.01,
        adapt: int | str | None = "auto",
        members: Sequence[str] | str | None = None,
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
        self.adapt = adapt
        self.members = members
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
        """Learn what is normal from data with no or few anomalies; the rest as in `Forecaster`."""
        self._check_settings()
        check_ignored(y)
        panel = read_panel(data, time=time, variable=variable, value=value, group=group)
        columns = {"time": time, "variable": variable, "value": value, "group": group}
        self.columns_ = {role: label for role, label in columns.items() if label is not None}
        self.seed_ = draw_seed(self.random_state, checkpoint)
        windows = cut_detection_windows(panel, self.context, self.validation_share)
        self.context_ = windows.context
        self.adapt_ = self._find_adapt(panel)
        self.contamination_ = float(self.contamination)
        self._drift_is_said = False
        self.variables_in_ = panel.variables
        lengths = [len(system.times) for system in panel.systems]
        self.shortest_ = min(self.context_, *lengths)
        self.missing_ = missing_share(panel, self.context_)
        self.frequencies_ = find_frequencies(panel, windows.train)
        self.transform_ = self._learn_transform(panel, windows)
        judged = self.transform_.moving or set(panel.variables)
        check_part(panel, windows.held_out, "find the threshold", judged)
        self.ranges_ = learn_ranges(self.transform_.apply_all(panel), self.transform_.moving)
        systems = self._apply_all(panel)
        outcomes = self._fit_members(systems, windows, checkpoint)
        self._calibrate(systems, [begin for begin, _ in windows.held_out])
        self._write_report(panel, windows, outcomes)
        return self._finish(outcomes.values())

    def score(
        self, data: Any, y: Any = None, *, per_variable: bool = False, **columns: Hashable
    ) -> Any:
        """How anomalous each time step is, in the form the data came in; about 1 is normal.

        With `per_variable`, how anomalous each variable is at each time step: who is to blame. NaN
        where nothing was observed. `y` is ignored; scikit-learn gives it.
        """
        check_ignored(y)
        panel, scores = self._read_and_score(data, columns)
        return write_scores(panel, scores.each if per_variable else scores.steps, name="score")

    def decision_function(self, data: Any, **columns: Hashable) -> Any:
        """How far each time step is above `threshold_`, always 1-D; `predict` is where it is > 0.

        Of a pandas frame a series with its index, of other frames an array, a value for each row of
        a wide frame and for each time step of a long one. (scikit-learn has the opposite sign.)
        """
        panel, scores = self._read_and_score(data, columns)
        above = [one - self.threshold_ for one in scores.steps]
        table = write_scores(panel, above, name="score")
        if panel.form.kind in ("array", "arrays"):
            return table
        if isinstance(table, Mapping):
            return np.asarray(table["score"])
        column = nw.from_native(table, eager_only=True)["score"]
        return column.to_native() if column.implementation.is_pandas() else column.to_numpy()

    def predict(self, data: Any, *, per_variable: bool = False, **columns: Hashable) -> Any:
        """Whether each time step is an anomaly: its score above `threshold_`.

        With `per_variable`, whether each variable is one at each time step: its own score above its
        own of `thresholds_`, which `contamination` of its held-out scores are. A warning says where
        the held-out time steps of `fit` were too few for the share asked for.
        """
        panel, scores = self._read_and_score(data, columns)
        if self.too_few_ is not None:
            warnings.warn(
                f"{self.too_few_} held-out time steps are too few for so small a `contamination`: "
                "the threshold is the highest of their scores, and false alarms may increase. Fit "
                "on more data, or with a larger `validation_share`.",
                stacklevel=2,
            )
        alarms = self._alarms(panel, scores) if per_variable else self._alarm(scores)
        return write_scores(panel, alarms, name="anomaly")

    def events(self, data: Any, **columns: Hashable) -> list[Event]:
        """The anomalies as events: start, end, peak, score, lead and the variables to blame.

        Alarms with breaks of up to 16 time steps are one event. Times are those of `data`, in UTC
        where it names a time zone.
        """
        panel, scores = self._read_and_score(data, columns)
        return self.events_panel(panel, scores)

    def events_panel(self, panel: Panel, scores: Scores) -> list[Event]:
        """What `events` gives, for data that is read and scored."""
        found = zip(
            panel.systems, *scores, self._alarm(scores), self._alarms(panel, scores), strict=True
        )
        return [
            event
            for system, *rest in found
            for event in find_events(system.name, system.times, system.variables, *rest)
        ]

    def score_panel(self, panel: Panel) -> Scores:
        """Both that `score` gives, for data that is read, at the price of one."""
        self._check_fitted()
        self._check_variables(panel.variables)
        systems = self._apply_all(panel)
        each = self._score(systems)
        rows = [one[system.restore] for one, system in zip(each, systems, strict=True)]
        return Scores(combine(each, systems, self.transform_, self.factors_), rows)

    def member_errors(self, panel: Panel) -> Answers:
        """The errors [member, variable, time] of each member of `stack_`, before all units.

        In standard deviations; NaN where a member has no answer.
        """
        self._check_fitted()
        systems = self._apply_all(panel)
        errors = zip(self._errors(systems), systems, strict=True)
        return [one[:, system.restore] for one, system in errors]

    def answers(self, panel: Panel) -> Answers:
        """The scores of each system [variable, time]."""
        return self.score_panel(panel).each

    def batch(self, system: System) -> Batch:
        """The latest context of one system."""
        scaled = self.transform_.apply(system)
        begin = max(0, scaled.values.shape[1] - self.context_)
        return self._batch(scaled.pick(np.arange(len(scaled.names)), begin))

    def answer_unit(self, system: System, answer: np.ndarray) -> np.ndarray:
        """Scores count by their size, but not below 1."""
        return np.maximum(1.0, np.abs(answer))

    def asked(self, system: System, answer: np.ndarray) -> np.ndarray:
        """There is no score where nothing was observed."""
        return system.observed

    @property
    def reach(self) -> int:
        """Time steps that the network sees together."""
        return self.context_

    @property
    def known_frequencies(self) -> dict[str, Any]:
        """What `read_panel` takes to read the few rows that show no frequency at that of `fit`.

        Of many rows it would make gaps, which are as far from normal as another frequency.
        """
        return {"frequencies": self.frequencies_, "finer": 1}

    def read(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        """Data as `score` reads it."""
        self._check_fitted()
        return self._read(partial(read_panel, **self.known_frequencies), data, columns)

    def _read_and_score(self, data: Any, columns: Mapping[str, Hashable]) -> tuple[Panel, Scores]:
        panel = self.read(data, columns)
        scores = self.score_panel(panel)
        if panel is not data:  # otherwise whoever read it may ask
            self.warn_of_drift(panel, scores, stacklevel=4)
        return panel, scores

    def drift(self, panel: Panel, scores: Scores) -> Drift:
        """How data that was scored differs from that of `fit`: alarms, ranges, levels."""
        return find_drift(self.transform_.apply_all(panel), self.ranges_, self._alarm(scores))

    def warn_of_drift(self, panel: Panel, scores: Scores, *, stacklevel: int = 2) -> None:
        """Say where false alarms may increase because the data is not of the kind `fit` had.

        `score` and `predict` say it of data that they read themselves; that the data are not what
        was fitted, once.
        """
        found = [
            describe_other_frequencies(panel, self.frequencies_),
            describe_short_systems(panel, self.shortest_),
            describe_more_gaps(panel, self.context_, self.missing_),
        ]
        if not self._drift_is_said:
            steps = sum(len(one) for one in scores.steps)
            # What few held-out time steps could not show is no promise.
            share = self.contamination_ if self.too_few_ is None else 1.0
            words = describe_drift(self.drift(panel, scores), share, steps)
            found.append(words)
            self._drift_is_said = words is not None
        for words in filter(None, found):
            warnings.warn(words, stacklevel=stacklevel)

    def _alarm(self, scores: Scores) -> Answers:
        """Which time steps raise an alarm, [time] of each system."""
        return [one > self.threshold_ for one in scores.steps]

    def _alarms(self, panel: Panel, scores: Scores) -> Answers:
        """Which variables raise one of their own, [variable, time] of each system."""
        return [
            each > self._thresholds_of(system.variables)[:, None]
            for each, system in zip(scores.each, panel.systems, strict=True)
        ]

    def _thresholds_of(self, names: Sequence[str]) -> np.ndarray:
        """Of variables that `fit` did not see, the middle one; a constant has none to pass."""
        middle = float(np.median(list(self.thresholds_.values()))) if self.thresholds_ else 0.0
        constant = self.transform_.is_constant(names)
        return np.where(constant, 0.0, [self.thresholds_.get(name, middle) for name in names])

    def _check_settings(self) -> None:
        check_count("epochs", self.epochs, 1)
        check_members(self.members)
        if self.context is not None:
            check_count("context", self.context, 2)
        if self.adapt not in (None, "auto"):
            check_count("adapt", self.adapt, 16)
        check_share("contamination", self.contamination)
        check_share("validation_share", self.validation_share)

    def _find_adapt(self, panel: Panel) -> int | None:
        if self.adapt != "auto":
            return None if self.adapt is None else int(self.adapt)
        longest = max(len(system.times) for system in panel.systems)
        return max(LEAST_ADAPT, longest // ADAPTS)

    def _learn_transform(self, panel: Panel, windows: DetectionWindows) -> Transform:
        """Units of every variable with two readings in a system or more.

        Also of a sensor that begins in the held-out part. A single reading does not make a
        constant: it counts as new.
        """
        lengths = [len(system.times) for system in panel.systems]
        scales = learn_scales(panel, lengths, measure=winsorised_mean_and_scale)
        scales |= scales_of_training(panel, windows.ends, measure=winsorised_mean_and_scale)
        again = _read_twice(panel)
        scales = {name: pair for name, pair in scales.items() if name in again}
        if not scales:
            raise DataError(
                "No variable has two readings or more, so nothing shows what is normal. Give `fit` "
                "more rows."
            )
        several = panel.form.group is not None or len(panel.systems) > 1
        centers = learn_centers(panel, windows.ends) if several else None
        return Transform(scales, centers=centers, watch_constants=True)

    def _apply_all(self, panel: Panel) -> list[Scaled]:
        """Every system in the units of the members, around its level."""
        systems = self.transform_.apply_all(panel)
        if self.adapt_ is None:
            return systems
        return [follow_level(one, self.adapt_) for one in systems]

    def _fit_members(
        self,
        systems: Sequence[Scaled],
        windows: DetectionWindows,
        checkpoint: str | Path | None,
    ) -> Mapping[str, Outcome]:
        batches = [
            self._batch(one.pick(np.arange(len(one.names)), end=end))
            for one, end in zip(systems, windows.ends, strict=True)
        ]
        whole = [self._batch(one) for one in systems]
        series = Series.from_arrays(
            [one.values[0].numpy() for one in whole],
            [(one.observed & one.members.unsqueeze(-1))[0].numpy() for one in whole],
        )
        fitted = fit_stack(
            check_members(self.members),
            batches,
            windows,
            series,
            len(self.transform_.moving),
            lambda: build_network_config(
                self.preset, self.context_, self.network, center="none", scale=False, skip=False
            ),
            self._run(checkpoint),
        )
        self.stack_ = fitted.stack
        names = [one.name for one in self.stack_.members]
        self.weights_ = dict(zip(names, self.stack_.weights, strict=True))
        self.history_ = {name: one.history for name, one in fitted.outcomes.items()}
        return fitted.outcomes

    def _calibrate(self, systems: Sequence[Scaled], begins: Sequence[int]) -> None:
        """Which error is normal for each variable, and which score is not, on the held-out part."""
        parts = zip(self._errors(systems), systems, begins, strict=True)
        held_out, errors = [], []
        for found, system, begin in parts:
            part = system.pick(np.arange(len(system.names)), begin)
            near = part.observed & (np.abs(part.values) <= FAR)
            held_out.append(replace(part, observed=near))
            errors.append(np.where(near, found[..., begin:], np.nan))
        constant = all(never_changes(one.values, one.observed).all() for one in held_out)
        if constant and self.transform_.moving:
            warnings.warn(
                "No variable changes in the held-out part, at the end of the data: the threshold "
                "is that of constants, and false alarms may increase. Fit on data that ends before "
                "it becomes constant, or with a larger `validation_share`.",
                stacklevel=4,
            )
        self.units_ = Units.learn(errors, held_out, self.transform_.moving)
        each = self._in_units(errors, held_out)
        self.thresholds_ = learn_thresholds(
            each, held_out, self.transform_.moving, self.contamination
        )
        self.factors_ = learn_factors(
            each,
            held_out,
            self.transform_,
            self._score,
            share=self.contamination,
            seed=self.seed_,
        )
        self.threshold_, self.too_few_ = learn_threshold(
            each, held_out, self.transform_, self.factors_, self.contamination
        )
        if not self.transform_.moving:
            # It lies between 0 and the score of a departure.
            self.threshold_, self.too_few_ = DEPARTURE, None
        squares = {name: _mean_square(errors, i) for i, name in enumerate(self.weights_)}
        center = [np.where(one.observed, one.values, np.nan)[None] for one in held_out]
        self.errors_ = {CENTER: _mean_square(center, 0)} | squares

    def _score(self, systems: Sequence[Scaled]) -> Answers:
        """Scores [variable, time] of each system, variables in canonical order."""
        return self._in_units(self._errors(systems), systems)

    def _in_units(self, errors: Sequence[np.ndarray], systems: Sequence[Scaled]) -> Answers:
        return [
            to_scores(one, system, self.units_, self.stack_.weights)
            for one, system in zip(errors, systems, strict=True)
        ]

    @torch.inference_mode()
    def _errors(self, systems: Sequence[Scaled]) -> list[np.ndarray]:
        """Errors [member, variable, time] of each system, variables in canonical order."""
        results = []
        for system in systems:
            batch = self._batch(system)
            with threads_for(batch.values.numel() // self.context_):
                errors = torch.cat([member(batch) for member in self.stack_.members])
            counts = batch.observed & batch.members.unsqueeze(-1)
            results.append(torch.where(counts, errors, torch.nan).double().numpy())
        return results

    def _batch(self, system: Scaled) -> Batch:
        """A system as the members see it."""
        numbers = {name: number for number, name in enumerate(sorted(self.transform_.moving))}
        return to_batch(system, numbers)

    def _write_report(
        self, panel: Panel, windows: DetectionWindows, outcomes: Mapping[str, Outcome]
    ) -> None:
        share = f"{100 * self.contamination:g} %"
        meaning = f"at most {share} of the held-out time steps lie above it"
        if self.too_few_ is not None:
            meaning = f"the highest of {self.too_few_} held-out time steps, too few for {share}"
        if not self.transform_.moving:
            meaning = "nothing changes, and any change lies above it"
        self.report_ = [
            f"data      {describe_data(panel)}",
            f"windows   {len(windows.train):,} to train, {len(windows.validation):,} to validate; "
            f"context {self.context_}",
            *describe_trainings(outcomes),
            f"threshold {self.threshold_:.3g}: {meaning}",
            "errors    squared, of the held-out part; the unit is the variance of each variable",
            *member_table(
                {name: (error,) for name, error in self.errors_.items()}, self.weights_, ("MSE",)
            ),
        ]

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        facts |= {"context": self.context_, "threshold": self.threshold_}
        facts |= {"adapt": self.adapt_, "ranges": self.ranges_, "thresholds": self.thresholds_}
        facts |= {"contamination": self.contamination_}
        facts |= {"factors": self.factors_, "units": asdict(self.units_)}
        facts |= {"shortest": self.shortest_, "missing": self.missing_, "too_few": self.too_few_}
        facts |= {"frequencies": [asdict(one) for one in self.frequencies_]}
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.context_, self.threshold_ = facts["context"], facts["threshold"]
        self.adapt_, self.ranges_ = facts["adapt"], facts["ranges"]
        self.thresholds_, self.contamination_ = facts["thresholds"], facts["contamination"]
        self._drift_is_said = False
        self.shortest_, self.missing_ = facts["shortest"], facts["missing"]
        self.too_few_, self.units_ = facts["too_few"], Units(**facts["units"])
        self.frequencies_ = tuple(restore_frequency(one) for one in facts["frequencies"])
        self.factors_ = [(int(size), float(factor)) for size, factor in facts["factors"]]
        super()._restore(facts, tensors)


def _read_twice(panel: Panel) -> set[str]:
    """Variables with two readings or more in a system."""
    return {
        system.variables[row]
        for system in panel.systems
        for row in np.flatnonzero(system.observed.sum(-1) > 1).tolist()
    }


def _mean_square(errors: Sequence[np.ndarray], member: int) -> float:
    """Over all entries for which a member has an answer."""
    known = np.concatenate([one[member][np.isfinite(one[member])] for one in errors])
    return float(np.square(known).mean()) if len(known) else 0.0
