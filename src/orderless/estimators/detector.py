"""`Detector`: how anomalous every time step is, and which variables are to blame."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel, System, read_panel, write_scores
from orderless.data.frequency import Frequency
from orderless.data.transform import Scaled
from orderless.estimators.alarms import Alarms, Scores, find_alarms, flatten, list_events
from orderless.estimators.base import (
    Answers,
    Estimator,
    all_or_nothing,
    check_count,
    check_ignored,
    check_share,
    draw_seed,
)
from orderless.estimators.drift import Drift, Origin, describe_drift, find_drift
from orderless.estimators.report import describe_data, describe_trainings, member_table
from orderless.models.detection import (
    KINDS,
    Calibration,
    DetectionWindows,
    Event,
    HeldOut,
    check_members,
    check_part,
    choose_adapt,
    combine,
    cut_detection_windows,
    fit_stack,
    follow_level,
    learn_transform,
    to_batch,
    to_scores,
)
from orderless.models.settings import build_network_config
from orderless.models.threads import threads_for
from orderless.training import Outcome

if TYPE_CHECKING:
    from orderless.live.streams import ScoreStream

CENTER = "the mean"
"""What expects every variable at its center: any member should make smaller errors."""


class Detector(Estimator):
    """Scores how anomalous each time step of a system is.

    It is a stack of members, each of which expects every reading in its own way: `ridge` by the
    past of the variable and the mean of the others, `PCA` and `regression` by short windows of all
    variables that `fit` saw and, if asked for, `network` by reconstructing stretches that are
    hidden from it. The score of an entry is its squared error in a unit learned for the variable,
    the mean over the members that have an answer, averaged over the latest 1, 4 and 16 time steps;
    beyond 10 units an error counts by its size and not by its square. Members weigh alike: nothing
    is known of anomalies in `fit`. What `fit` did not see is scored by `ridge` and `network`, which
    know no names. A constant of `fit` has no unit: where it left its value by more than a millionth
    of it, it counts as an ordinary variable 10 standard deviations off, and elsewhere not at all.

    The threshold comes from held-out training data, never from the data that is scored. Where fewer
    variables are observed than was normal then, scores vary more: they are lowered, as much as they
    were higher on groups of so many variables, so that one threshold holds for all. Nothing is
    lowered for gaps in time, short data or another frequency, which `fit` did not see: a warning
    says that false alarms may increase.

    **Main parameters**
    - context: time steps in a window of the network; 96 or a quarter of the training data if None.
    - contamination: the share of normal time steps that may raise an alarm.
    - adapt: where the median of so many latest time steps is beyond the range of `fit`, it is the
      level of the variable: a shift that lasts longer than half of them is said, and alarms end;
      "auto" is a fifth of the time steps of `fit` and at least 1000, None never. A fault that lasts
      as long becomes normal, too.
    - members: which members there are, of `ridge`, `PCA`, `regression` and `network`. None is the
      first three: closed forms, fitted in seconds. The network takes minutes, and what it adds was
      not worth its weight so far.
    - preset, network, epochs, random_state: as for `Forecaster`.

    **Other parameters**
    - validation_share, strict_variables, training, device, precision, verbose: as for
      `Forecaster`.

    **Fitted**: `threshold_`, `calibration_` (units and all thresholds), `origin_` (what the data
    were like), `frequencies_`, `adapt_`, `context_`, `variables_in_`, `stack_`, `weights_`,
    `errors_` (of each member, squared and held out), `history_`, `report_`, `seed_`.
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
        self.adapt_ = choose_adapt(self.adapt, [len(one.times) for one in panel.systems])
        self.contamination_ = float(self.contamination)
        self._drift_is_said = False
        self.variables_in_ = panel.variables
        self.transform_ = learn_transform(panel, windows.ends)
        judged = self.transform_.moving or set(panel.variables)
        check_part(panel, windows.held_out, "find the threshold", judged)
        systems = self.transform_.apply_all(panel)
        self.origin_ = Origin.learn(
            panel, windows.train, self.context_, systems, self.transform_.moving
        )
        systems = self._follow(systems)
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
        return flatten(panel, write_scores(panel, above, name="score"), "score")

    def predict(self, data: Any, *, per_variable: bool = False, **columns: Hashable) -> Any:
        """Whether each time step is an anomaly: its score above `threshold_`.

        With `per_variable`, whether each variable is one at each time step: its own score above its
        own of `thresholds_`, which `contamination` of its held-out scores are. A warning says where
        the held-out time steps of `fit` were too few for the share asked for.
        """
        panel, scores = self._read_and_score(data, columns)
        if (few := self.calibration_.too_few) is not None:
            warnings.warn(
                f"{few} held-out time steps are too few for so small a `contamination`: the "
                "threshold is the highest of their scores, and false alarms may increase. Fit on "
                "more data, or with a larger `validation_share`.",
                stacklevel=2,
            )
        found = self.alarms_panel(panel, scores)
        alarms = found.each if per_variable else found.steps
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
        return list_events(panel, scores, self.alarms_panel(panel, scores))

    def alarms_panel(self, panel: Panel, scores: Scores) -> Alarms:
        """What `predict` gives, with and without `per_variable`."""
        own = [
            self.calibration_.thresholds_of(system.variables, self.transform_)
            for system in panel.systems
        ]
        return find_alarms(scores, self.threshold_, own)

    def score_panel(self, panel: Panel) -> Scores:
        """Both that `score` gives, for data that is read, at the price of one."""
        self._check_fitted()
        self._check_variables(panel.variables)
        return self.score_scaled(self.apply_all(panel))

    def score_scaled(
        self, systems: Sequence[Scaled], members: Sequence[np.ndarray] | None = None
    ) -> Scores:
        """Both scores of systems, or of the end of them, in the units of `apply_all`.

        members: which variables [variable] of each are some; found in the time steps if None.
        """
        units, weights = self.calibration_.units, self.stack_.weights
        each = [
            to_scores(errors, system, units, weights)
            for errors, system in zip(self._errors(systems, members), systems, strict=True)
        ]
        rows = [one[system.restore] for one, system in zip(each, systems, strict=True)]
        return Scores(combine(each, systems, self.transform_, self.calibration_.factors), rows)

    def stream(self, *, group: Hashable = None) -> "ScoreStream":
        """Scores tick by tick: `push` readings and a time, and get what `score` would say.

        group names the system, where `fit` saw several.
        """
        from orderless.live.streams import ScoreStream

        self._check_fitted()
        return ScoreStream(self, group)

    def member_errors(self, panel: Panel) -> Answers:
        """The errors [member, variable, time] of each member of `stack_`, before all units.

        In standard deviations; NaN where a member has no answer.
        """
        self._check_fitted()
        systems = self.apply_all(panel)
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
        alarms = self.alarms_panel(panel, scores).steps
        return find_drift(self.transform_.apply_all(panel), self.origin_.ranges, alarms)

    def warn_of_drift(self, panel: Panel, scores: Scores, *, stacklevel: int = 2) -> None:
        """Say where false alarms may increase because the data is not of the kind `fit` had.

        `score` and `predict` say it of data that they read themselves; that the data are not what
        was fitted, once.
        """
        found = self.origin_.describe_differences(panel)
        if not self._drift_is_said:
            steps = sum(len(one) for one in scores.steps)
            # What few held-out time steps could not show is no promise.
            share = self.contamination_ if self.calibration_.too_few is None else 1.0
            if words := describe_drift(self.drift(panel, scores), share, steps):
                found.append(words)
                self._drift_is_said = True
        for words in found:
            warnings.warn(words, stacklevel=stacklevel)

    def _check_settings(self) -> None:
        check_count("epochs", self.epochs, 1)
        check_members(self.members)
        if self.context is not None:
            check_count("context", self.context, 2)
        if self.adapt not in (None, "auto"):
            check_count("adapt", self.adapt, 16)
        check_share("contamination", self.contamination)
        check_share("validation_share", self.validation_share)

    def apply_all(self, panel: Panel) -> list[Scaled]:
        """Every system in the units of the members, around its level."""
        return self._follow(self.transform_.apply_all(panel))

    def _follow(self, systems: Sequence[Scaled]) -> list[Scaled]:
        """Every system around its level."""
        if self.adapt_ is None:
            return list(systems)
        return [follow_level(one, self.adapt_, self.origin_.ranges) for one in systems]

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
        fitted = fit_stack(
            check_members(self.members),
            batches,
            [self._batch(one) for one in systems],
            windows,
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
        held_out = HeldOut.cut(systems, self._errors(systems), begins)
        if held_out.constant and self.transform_.moving:
            warnings.warn(
                "No variable changes in the held-out part, at the end of the data: the threshold "
                "is that of constants, and false alarms may increase. Fit on data that ends before "
                "it becomes constant, or with a larger `validation_share`.",
                stacklevel=4,
            )
        self.calibration_ = Calibration.learn(
            held_out,
            self.transform_,
            self.stack_.weights,
            self._errors,
            self.contamination_,
            self.seed_,
        )
        squares = {name: held_out.mean_square(i) for i, name in enumerate(self.weights_)}
        self.errors_ = {CENTER: held_out.mean_square(None)} | squares

    @property
    def threshold_(self) -> float:
        """The score above which a time step raises an alarm."""
        return self.calibration_.threshold

    @property
    def frequencies_(self) -> Sequence[Frequency]:
        """Those of the training data, the commonest first."""
        return self.origin_.frequencies

    @torch.inference_mode()
    def _errors(
        self, systems: Sequence[Scaled], members: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Errors [member, variable, time] of each system, variables in canonical order."""
        results = []
        for place, system in enumerate(systems):
            batch = self._batch(system)
            if members is not None:
                batch = replace(batch, members=torch.from_numpy(members[place])[None])
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
        self.report_ = [
            f"data      {describe_data(panel)}",
            f"windows   {len(windows.train):,} to train, {len(windows.validation):,} to validate; "
            f"context {self.context_}",
            *describe_trainings(outcomes),
            f"threshold {self.calibration_.describe(self.contamination_)}",
            "errors    squared, of the held-out part; the unit is the variance of each variable",
            *member_table(
                {name: (error,) for name, error in self.errors_.items()}, self.weights_, ("MSE",)
            ),
        ]

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        facts |= {"context": self.context_, "contamination": self.contamination_}
        facts |= {"adapt": self.adapt_, "origin": asdict(self.origin_)}
        return facts | {"calibration": asdict(self.calibration_)}, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.context_, self.contamination_ = facts["context"], facts["contamination"]
        self.adapt_, self.origin_ = facts["adapt"], Origin.from_facts(facts["origin"])
        self.calibration_ = Calibration.from_facts(facts["calibration"])
        self._drift_is_said = False
        super()._restore(facts, tensors)
