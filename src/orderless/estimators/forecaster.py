"""`Forecaster`: fit on some variables, forecast any."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel, Series, System, read_panel, write_forecast
from orderless.data.extremes import draw_in
from orderless.data.factors import Factors, stack_loadings
from orderless.data.reading import FINER
from orderless.data.scaling import fit_scaler, learn_baselines, scales_of_training
from orderless.data.transform import Scaled, Transform, never_changes, stack_facts, stack_systems
from orderless.errors import SettingError
from orderless.estimators.backtest import (
    Backtest,
    Scored,
    compare,
    coverage,
    find_origins,
    score,
    warn_empty,
)
from orderless.estimators.base import (
    Answers,
    Estimator,
    all_or_nothing,
    check_count,
    check_ignored,
    check_share,
    draw_seed,
    name_some,
)
from orderless.estimators.calibration import calibrate
from orderless.estimators.drift import (
    Drift,
    describe_drift,
    describe_other_frequencies,
    find_drift,
    learn_ranges,
)
from orderless.estimators.frequencies import find_frequencies, restore_frequency
from orderless.estimators.intervals import (
    FEWEST_STEPS,
    ErrorTable,
    PointAndWidth,
    column_endings,
    hold_constants,
    in_units,
)
from orderless.estimators.report import MODEL, describe_data, describe_trainings, member_table
from orderless.models import choose_device
from orderless.models.forecasting import (
    KINDS,
    Choices,
    FactorRidge,
    FittedStack,
    ForecastingWindows,
    WindowEvaluator,
    check_members,
    cut_forecasting_windows,
    fit_stack,
)
from orderless.models.forecasting.network import QUANTILE_LOSS
from orderless.models.forecasting.quantiles import point_and_width
from orderless.models.forecasting.season import find_season
from orderless.models.forecasting.windows import POOLED, choose_contexts
from orderless.models.settings import build_network_config
from orderless.models.threads import threads_for
from orderless.training import LOSSES

if TYPE_CHECKING:
    from orderless.live.streams import ForecastStream

SYSTEMS_AT_ONCE = 64
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Forecaster(Estimator):
    """Forecasts every variable of a system from its own history and that of the others.

    It is a stack of members: naive and seasonal naive forecasts, ridges on the own history, on that
    and the pooled one at several contexts, and on what variables have in common, and networks of 2D
    state space layers, on what a ridge leaves over and alone. Each has the weight that it earned on
    data that it was not fitted on, so the forecast is as good as the best of them or better; `fit`
    prints what each earned.
    Variables may be added, dropped, reordered or missing after `fit`; their order changes nothing,
    to the bit.

    **Main parameters**
    - horizon: how many steps to forecast.
    - context: how many steps of history members look at; None lets each have its own, up to 720 or
      a third of the training data. A ridge takes the cube of it: thousands of steps take many
      minutes and gigabytes.
    - members: which kinds of members there are, of `naive`, `seasonal naive`, `ridge`,
      `coupled ridge`, `factor ridge`, `network on ridge` and `network`; all if None. The first five
      are closed forms: without the networks, `fit` takes seconds.
    - preset: `default`, `tiny` or `paper`, the network; `network` changes single settings of it
      (`orderless.nn.NetworkConfig`), such as {"coupling": "none"}.
    - epochs: passes over the training windows at most, for each network.
    - random_state: a number makes the result repeatable.

    **Other parameters**
    - loss: l1, mse, huber, smape, or quantile: l1, and beside it quantiles, whose distance makes
      the intervals of `predict` wider where the future is less certain. Weights are found by it.
    - season: steps in a season; found in the data if None.
    - validation_share: the last part of each system, for selection (its first half) and for
      intervals and the report (its second half).
    - refit: whether closed forms, once they are weighed, are fitted again with the rows of
      selection, which are the latest but for those of intervals.
    - strict_variables: whether other variables than those of `fit` are an error.
    - training: further settings of `orderless.training.TrainingConfig`.
    - device: auto, cpu or cuda. precision: no, bf16 or fp16, for training.
    - verbose: whether `fit` says what it inferred and how it did.

    **Fitted**: `variables_in_`, `horizon_`, `context_`, `season_`, `frequencies_` (of the training
    data), `ranges_` (of the scaled readings of each variable), `stack_` (the members and their
    weights), `weights_` and `errors_` (of every member that was tried, and the errors of `this
    model`: MAE and MSE on windows that chose nothing), `history_`, `report_`, `seed_`.
    """

    kinds = KINDS

    def __init__(
        self,
        horizon: int = 24,
        context: int | None = None,
        *,
        members: Sequence[str] | str | None = None,
        preset: str = "default",
        network: Mapping[str, Any] | None = None,
        epochs: int = 5,
        loss: str = "l1",
        season: int | None = None,
        validation_share: float = 0.2,
        refit: bool = True,
        strict_variables: bool = False,
        training: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "auto",
        precision: str = "no",
        verbose: bool = True,
    ) -> None:
        self.horizon = horizon
        self.context = context
        self.members = members
        self.preset = preset
        self.network = network
        self.epochs = epochs
        self.loss = loss
        self.season = season
        self.validation_share = validation_share
        self.refit = refit
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
        """Learn from a frame, an array [time, variable] or a list of arrays.

        The columns are as in `orderless.data.read_panel`; most are found. With `checkpoint`, a
        folder, a run that was stopped is continued by the same call. `y` is ignored; scikit-learn
        gives it.
        """
        self._check_settings()
        check_ignored(y)
        panel = read_panel(data, time=time, variable=variable, value=value, group=group)
        columns = {"time": time, "variable": variable, "value": value, "group": group}
        self.columns_ = {role: label for role, label in columns.items() if label is not None}
        self.seed_ = draw_seed(self.random_state, checkpoint)
        self.horizon_, self.quantiles_ = int(self.horizon), self._find_quantiles()
        windows = self._cut_windows(panel)
        self.context_ = windows.context
        choices, run = self._choices(), self._run(checkpoint)
        self.frequencies_ = find_frequencies(panel, windows.train)
        self.variables_in_ = panel.variables
        self.transform_ = Transform(
            scales_of_training(panel, windows.ends), learn_baselines(panel, windows.ends)
        )
        self._drift_is_said = False
        self.ranges_ = learn_ranges(self.transform_.apply_all(panel), self.transform_.moving)
        systems = [self.transform_.apply(one, last=len(one.times)) for one in panel.systems]
        self.season_ = self._find_season(systems, windows.ends)
        windows = windows.lengthen(self.reach)
        self.factors_ = self._learn_factors(panel, systems, windows.ends)
        systems = [self._with_loadings(*pair) for pair in zip(panel.systems, systems, strict=True)]
        teaching = draw_in(systems, windows.ends, stacklevel=4)
        reporter, evaluator = self._evaluator(systems), self._evaluator(teaching)
        fitted = fit_stack(evaluator, windows, self.season_, choices, run, reporter)
        self.stack_, self.weights_ = fitted.stack, fitted.weights
        if not any(isinstance(one, FactorRidge) for one in fitted.stack.members):
            self.factors_ = None
        self.quantile_table_ = fitted.table
        self.history_ = {name: one.history for name, one in fitted.outcomes.items()}
        self.error_table_ = calibrate(self._answer, evaluator, windows, stacklevel=4)
        self._write_report(panel, reporter, windows, fitted)
        return self._finish(fitted.outcomes.values())

    def predict(
        self,
        data: Any,
        *,
        level: Sequence[float] | float | None = None,
        quantiles: Sequence[float] | float | None = None,
        **columns: Hashable,
    ) -> Any:
        """The next `horizon` steps of every variable, in the form the data came in.

        level=[80, 95] adds the ends of central intervals (`-lo-80`, `-hi-80`), quantiles=[.1, .9]
        the quantiles themselves (`-q0.1`), both from errors on held-out windows; a warning says
        where these are too few. After a short history intervals are wider, as much as held-out
        errors grow when all but so many readings are hidden. A variable with nothing observed
        within the context has no forecast: its values are NaN. One that `fit` did not see has no
        interval after less than 6 time steps: how much it varies is unknown.

        Time stamps that lie on the step of `fit` with gaps are read at it, where they are few, or a
        little coarser (then a warning says so), and at their own frequency otherwise.
        """
        self._check_fitted()
        endings = column_endings(level, quantiles)
        panel = self.read(data, columns)
        self.warn_of_drift(panel, stacklevel=3)
        return write_forecast(panel, self.forecast_panel(panel, endings))

    def drift(self, panel: Panel) -> Drift:
        """How the readings that forecasts look at differ from those of `fit`: ranges, levels."""
        recent = [
            replace(
                one, values=one.values[:, -self.reach :], observed=one.observed[:, -self.reach :]
            )
            for one in panel.systems
        ]
        return find_drift([self.transform_.apply(one) for one in recent], self.ranges_)

    def warn_of_drift(self, panel: Panel, *, stacklevel: int = 2) -> None:
        """Say where forecasts may be far off because the data is not of the kind `fit` had.

        `predict` and `backtest` say it of data that they read; that the data are not what was
        fitted, once, and then it stands in `report_`.
        """
        harm = "forecasts may be far off"
        found = [describe_other_frequencies(panel, self.frequencies_, harm)]
        if not self._drift_is_said and (words := describe_drift(self.drift(panel))):
            found.append(words)
            self._drift_is_said = True
            self.report_ = [*self.report_, f"drift     {words}"]
        for words in filter(None, found):
            warnings.warn(words, stacklevel=stacklevel)

    def forecast_panel(
        self, panel: Panel, endings: Mapping[str, float] | None = None
    ) -> dict[str, Answers]:
        """The point forecast of each system [variable, horizon] under the ending "", and quantiles.

        endings: the quantile for each further ending. For data that is read; nothing is written.
        """
        self._check_fitted()
        self._check_variables(panel.variables)
        self.error_table_.warn_beyond(endings or {}, moving=_moving(panel))
        systems = [self._past(system) for system in panel.systems]
        shifts = self._shifts(systems, endings or {})
        return in_units(systems, self._forecast(systems), shifts)

    def forecast_systems(
        self, systems: Sequence[System], endings: Mapping[str, float]
    ) -> dict[str, Answers]:
        """The same without a check or a warning."""
        pasts = [self._past(system) for system in systems]
        shifts = [self.error_table_.shifts(endings, past) for past in pasts]
        return in_units(pasts, self._forecast(pasts), shifts)

    def stream(
        self,
        *,
        level: Sequence[float] | float | None = None,
        quantiles: Sequence[float] | float | None = None,
        group: Hashable = None,
    ) -> "ForecastStream":
        """Forecasts tick by tick: `push` readings and a time, and get what `predict` would say.

        level and quantiles are as in `predict`; group names the system, where `fit` saw several.
        """
        from orderless.live.streams import ForecastStream

        self._check_fitted()
        endings = column_endings(level, quantiles)
        self.error_table_.warn_beyond(endings, moving=True)
        return ForecastStream(self, group, endings)

    def answers(self, panel: Panel) -> Answers:
        """The forecast of each system [variable, horizon]."""
        return self.forecast_panel(panel)[""]

    def batch(self, system: System) -> Batch:
        """The past of one system."""
        return self._batch([self._past(system)])

    def answer_unit(self, system: System, answer: np.ndarray) -> np.ndarray:
        """The standard deviation of each variable."""
        return fit_scaler(system.values, system.observed).scale

    def backtest(
        self,
        data: Any,
        windows: int = 5,
        *,
        stride: int | None = None,
        level: Sequence[float] | float | None = None,
        **columns: Hashable,
    ) -> Backtest:
        """Forecast the last part of the data from several origins, without fitting again.

        The origins lie `stride` time steps apart (the horizon, if None), the last one `horizon`
        steps before the end. Give data that `fit` has not seen: what it has seen flatters it. The
        naive forecasts beside it are scored where the model has a forecast, and nowhere else.

        Time stamps are read as in `predict`, whose forecasts are to be judged: daily rows given to
        an hourly model are met by one forecast in 24. A warning says in how many windows there is
        nothing to score; with stride=24 each of them ends with a row.
        """
        self._check_fitted()
        windows = check_count("windows", windows, 1)
        stride = check_count("stride", self.horizon_ if stride is None else stride, 1)
        endings = column_endings(level, None)
        panel = self.read(data, columns)
        self.warn_of_drift(panel, stacklevel=3)
        self.error_table_.warn_beyond(endings, moving=_moving(panel))
        origins = [find_origins(one, windows, stride, self.horizon_) for one in panel.systems]
        pairs = zip(panel.systems, origins, strict=True)
        systems = [self._compare(system, starts, endings) for system, starts in pairs]
        warn_empty(systems)
        scores = {name: score(systems, name) for name in systems[0].forecasts}
        for percent in np.atleast_1d([] if level is None else level):
            share = coverage(systems, f"lo-{percent:g}", f"hi-{percent:g}")
            scores[MODEL][f"coverage-{percent:g}"] = share
        blocks = {ending: [one.blocks[ending] for one in systems] for ending in ("", *endings)}
        return Backtest(write_forecast(panel, blocks, origins=origins), scores)

    def _check_settings(self) -> None:
        check_count("horizon", self.horizon, 1)
        check_count("epochs", self.epochs, 1)
        check_members(self.members)
        if self.context is not None:
            check_count("context", self.context, 1)
        if self.season is not None:
            check_count("season", self.season, 1)
        losses = (*LOSSES, QUANTILE_LOSS)
        if self.loss not in losses:
            raise SettingError(f"`loss` is {self.loss!r}; choose one of {', '.join(losses)}.")
        check_share("validation_share", self.validation_share)

    def _cut_windows(self, panel: Panel) -> ForecastingWindows:
        context = None if self.context is None else int(self.context)
        return cut_forecasting_windows(panel, self.horizon_, context, self.validation_share)

    def _find_quantiles(self) -> tuple[float, ...]:
        return QUANTILES if self.loss == QUANTILE_LOSS else ()

    def _find_season(self, systems: Sequence[Scaled], ends: Sequence[int]) -> int:
        if self.season is not None:
            return int(self.season)
        return find_season(
            [one.values[:, :end] for one, end in zip(systems, ends, strict=True)],
            [one.observed[:, :end] for one, end in zip(systems, ends, strict=True)],
        )

    @property
    def reach(self) -> int:
        """Time steps of history that members see; the seasonal naive forecast needs a season."""
        return max(self.context_, self.season_)

    def _evaluator(self, systems: Sequence[Scaled]) -> WindowEvaluator:
        series = Series.from_arrays(
            [one.values for one in systems],
            [one.observed for one in systems],
            device=choose_device(self.device),
        )
        changes = stack_facts([~one.constant for one in systems]).to(series.flat.device)
        baselines = stack_facts([one.baseline for one in systems]).float().to(changes.device)
        loadings = stack_loadings([one.loadings for one in systems], changes.device)
        return WindowEvaluator(series, changes, baselines, self.reach, self.horizon_, loadings)

    def _choices(self) -> Choices:
        user = self.network or {}
        return Choices(
            members=check_members(self.members),
            contexts=choose_contexts(self.context_) if self.context is None else (self.context_,),
            config=lambda context: build_network_config(self.preset, context, self.network),
            center=user.get("center"),
            loss=self.loss,
            quantiles=self.quantiles_,
            refit=bool(self.refit),
        )

    def _write_report(
        self,
        panel: Panel,
        evaluator: WindowEvaluator,
        windows: ForecastingWindows,
        fitted: FittedStack,
    ) -> None:
        model = evaluator.errors(windows.calibration, self.stack_)
        errors = fitted.errors | {MODEL: model}
        self.errors_ = {name: asdict(error) for name, error in errors.items()}
        seen = "held-out" if windows.held_out else "TRAINING (too little data to hold any out)"
        some = f" with {POOLED:,} variables each" if panel.widest > POOLED else ""
        self.report_ = [
            f"data      {describe_data(panel)}",
            f"windows   {len(windows.train):,} to train, {len(windows.selection):,} to select, "
            f"{len(windows.calibration):,} to calibrate; context {self.context_}, horizon "
            f"{self.horizon_}, season {self.season_}",
            *describe_trainings(fitted.outcomes),
            f"errors    on {len(windows.calibration):,} {seen} windows{some} that were used "
            "for nothing else; 1 is the standard deviation of a variable",
            *member_table(
                {name: (e.mae, e.mse) for name, e in errors.items()}, fitted.weights, ("MAE", "MSE")
            ),
        ]

    @property
    def known_frequencies(self) -> dict[str, Any]:
        """What `read_panel` takes to read time at the frequencies of `fit`.

        At least two readings that are regular must fit a context, or forecasts would be of none.
        """
        return {"frequencies": self.frequencies_, "finer": min(FINER, self.context_ // 2)}

    def read(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        """Data as `predict` reads it: at the frequencies of `fit`, where it fits them."""
        return self._read(partial(read_panel, **self.known_frequencies), data, columns)

    def _compare(self, system: System, origins: np.ndarray, endings: Mapping[str, float]) -> Scored:
        """What a backtest scores, and writes, of one system."""
        pasts = [self._past(system, at) for at in origins]
        shifts = [self.error_table_.shifts(endings, past) for past in pasts]
        return compare(system, origins, pasts, self._forecast(pasts), shifts, season=self.season_)

    def _past(self, system: System, end: int | None = None) -> Scaled:
        """What lies before `end`, in the units of the members."""
        past = self.transform_.apply(system, last=self.reach, end=end)
        return self._with_loadings(system, past, end)

    def _with_loadings(self, system: System, past: Scaled, end: int | None = None) -> Scaled:
        """With those of the factors, where a member asks for them."""
        if self.factors_ is None:
            return past
        return replace(past, loadings=self.factors_.of(system, past, end))

    def _learn_factors(
        self, panel: Panel, systems: Sequence[Scaled], ends: Sequence[int]
    ) -> Factors | None:
        """Loadings of training rows, where a member asks for them and variables have company."""
        if panel.widest == 1 or "factor ridge" not in check_members(self.members):
            return None
        return Factors.learn(panel.systems, systems, ends)

    def _forecast(self, systems: Sequence[Scaled]) -> list[PointAndWidth[np.ndarray]]:
        """Forecasts [variable, horizon] in scaled units; NaN where nothing was observed."""
        results = []
        for begin in range(0, len(systems), SYSTEMS_AT_ONCE):
            some = systems[begin : begin + SYSTEMS_AT_ONCE]
            batch = self._batch(some)
            with threads_for(batch.members.numel()):
                found = self._answer(batch)
            point = torch.where(batch.members.unsqueeze(-1), found.point, torch.nan).cpu()
            points, widths = point.double().numpy(), found.width.expand_as(point).cpu().numpy()
            results += [
                hold_constants(one, points[i, : len(one.names)], widths[i, : len(one.names)])
                for i, one in enumerate(some)
            ]
        return results

    def _shifts(
        self, systems: Sequence[Scaled], endings: Mapping[str, float]
    ) -> list[dict[str, np.ndarray]]:
        """Of each system; a warning names variables whose history is too short for an interval."""
        short = {
            one.names[row]
            for one in systems
            for row in np.flatnonzero(self.error_table_.too_short(one) & one.observed.any(1))
        }
        if short and endings:
            warnings.warn(
                f"No interval for {name_some(sorted(short))}: `fit` did not see them, and their "
                f"history is shorter than {FEWEST_STEPS} time steps. Give earlier rows with them.",
                stacklevel=4,
            )
        return [self.error_table_.shifts(endings, one) for one in systems]

    @torch.inference_mode()
    def _answer(self, batch: Batch) -> PointAndWidth[Tensor]:
        """The forecast, and the unit of its errors."""
        return PointAndWidth(*point_and_width(self.stack_, self.quantile_table_, batch))

    def _batch(self, systems: Sequence[Scaled]) -> Batch:
        """Pasts as the members see them, where the members lie."""
        values, observed = stack_systems(systems, self.reach)
        members = observed[..., -self.context_ :].any(-1)
        device = self.stack_.device
        return Batch(
            values.to(device),
            observed.to(device),
            members.to(device),
            complete=bool(observed.all()),
            baseline=stack_facts([one.baseline for one in systems]).float().to(device),
            loadings=stack_loadings([one.loadings for one in systems], device),
        )

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        facts |= {"context": self.context_, "season": self.season_, "horizon": self.horizon_}
        facts |= {"quantiles": list(self.quantiles_)}
        facts |= {"calibration_errors": self.error_table_.count}
        facts |= {"frequencies": [asdict(one) for one in self.frequencies_]}
        facts["factors"], loadings = ({}, {}) if self.factors_ is None else self.factors_.state()
        tensors |= loadings
        facts |= {"ranges": self.ranges_}
        facts |= {"histories": list(self.error_table_.histories)}
        tensors["error_table"] = torch.as_tensor(self.error_table_.quantiles)
        tensors["history_factors"] = torch.as_tensor(self.error_table_.factors)
        if self.quantile_table_ is not None:
            tensors["quantile_table"] = self.quantile_table_
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.context_, self.season_ = facts["context"], facts["season"]
        self.horizon_, self.quantiles_ = facts["horizon"], tuple(facts["quantiles"])
        self.ranges_, self._drift_is_said = facts["ranges"], False
        self.frequencies_ = tuple(restore_frequency(one) for one in facts["frequencies"])
        self.error_table_ = ErrorTable(
            tensors["error_table"].numpy(),
            int(facts["calibration_errors"]),
            tuple(facts["histories"]),
            tensors["history_factors"].numpy(),
        ).check(self.horizon_)
        self.quantile_table_ = tensors.get("quantile_table")
        self.factors_ = Factors.restore(facts["factors"], tensors) if facts["factors"] else None
        super()._restore(facts, tensors)


def _moving(panel: Panel) -> bool:
    return not all(never_changes(one.values, one.observed).all() for one in panel.systems)
