"""`Forecaster`: fit on some variables, forecast any."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Frequency, Panel, Series, System, read_panel, write_forecast
from orderless.data.reading import FINER
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
    Estimator,
    all_or_nothing,
    check_count,
    check_ignored,
    check_share,
    choose_device,
    draw_seed,
)
from orderless.estimators.baselines import POOLED, Ridges, fit_ridges, naive, seasonal_naive
from orderless.estimators.conformal import (
    ErrorTable,
    PointAndWidth,
    column_endings,
    fit_error_table,
    in_units,
    stay,
    width_of,
)
from orderless.estimators.forecasting_task import (
    QUANTILE_LOSS,
    Errors,
    ForecastingTask,
    Judge,
    rows_of,
)
from orderless.estimators.forecasting_windows import ForecastingWindows, cut_forecasting_windows
from orderless.estimators.look_backs import learn_usual_spreads, look_back, stack_usual
from orderless.estimators.preparation import (
    Prepared,
    scales_of_fit,
    stack,
    stack_facts,
    unchanged,
)
from orderless.estimators.report import MODEL, describe_data, describe_training, table, verdict
from orderless.estimators.season import find_season
from orderless.estimators.settings import build_network_config
from orderless.estimators.steps import find_steps, restore_step
from orderless.estimators.threads import threads_for
from orderless.nn import ForecastingNetwork, LinearForecast, NetworkConfig
from orderless.training import LOSSES, Outcome

TRAINING = {"learning_rate": 3e-3, "patience": 3, "steps_per_epoch": 100}
ROWS_PER_STEP = 1024
"""Look-backs of one variable in a training step; with more variables there are fewer windows."""
FEWEST_WINDOWS = 16
"""In a training step: many variables at few times teach less than some at more."""
BLENDS = tuple(round(0.05 * k, 2) for k in range(21))
SYSTEMS_AT_ONCE = 64
CENTERS = ("mean", "last")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
NARROWEST = 1e-6
"""Between the outer quantiles, in units of a variable's spread; errors are divided by it."""


class Forecaster(Estimator):
    """Forecasts every variable of a system from its own history and that of the others.

    The forecast starts from a linear one, in closed form, on the own and the pooled history; a
    network of 2D state space layers learns what to add, on random subsets of the variables, and a
    blend of the two is chosen on validation data cut from the end of the training data. Variables
    may be added, dropped, reordered or missing after `fit`; their order changes nothing, to the
    bit.

    **Main parameters**
    - horizon: how many steps to forecast.
    - context: how many steps to look back, at most as many as `fit` is given; 336 or a third of the
      training data if None. The linear start takes the cube of it: thousands of steps take many
      minutes and gigabytes.
    - preset: `default`, `tiny` or `paper`, the network; `network` changes single settings of it
      (`orderless.nn.NetworkConfig`), such as {"coupling": "none"}.
    - epochs: passes over the training windows at most; 0 is the linear forecast alone.
    - random_state: a number makes the result repeatable.

    **Other parameters**
    - loss: l1, mse, huber, smape, or quantile: l1, and beside it quantiles whose spread makes the
      intervals of `predict` wider where the future is less certain.
    - season: steps in a season, for the seasonal naive forecast it is compared with.
    - validation_share: the last part of each system, for selection (its first half) and for
      intervals and the report (its second half).
    - strict_variables: whether other variables than those of `fit` are an error.
    - training: further settings of `orderless.training.TrainingConfig`.
    - device: auto, cpu or cuda. precision: no, bf16 or fp16, for training.
    - verbose: whether `fit` says what it inferred and how it did.

    **Fitted**: `variables_in_`, `horizon_`, `context_`, `season_`, `frequencies_` (the steps of
    time that it was trained at), `network_`, `blend_`, `errors_` (held-out MAE and MSE of the model
    and of the baselines), `history_`, `report_`, `seed_`.
    """

    frequencies_: Sequence[Frequency] = ()  # the first models knew none
    usual_spreads_: Mapping[str, float] | None = None  # nor these

    def __init__(
        self,
        horizon: int = 24,
        context: int | None = None,
        *,
        preset: str = "default",
        network: Mapping[str, Any] | None = None,
        epochs: int = 5,
        loss: str = "l1",
        season: int | None = None,
        validation_share: float = 0.2,
        strict_variables: bool = False,
        training: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "auto",
        precision: str = "no",
        verbose: bool = True,
    ) -> None:
        self.horizon = horizon
        self.context = context
        self.preset = preset
        self.network = network
        self.epochs = epochs
        self.loss = loss
        self.season = season
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
        self.frequencies_ = find_steps(panel, windows.train)
        self.variables_in_ = panel.variables
        self.scales_ = scales_of_fit(panel, windows.ends)
        self.usual_spreads_ = learn_usual_spreads(panel, windows.ends)
        systems = [self._look_back(one, last=len(one.times)) for one in panel.systems]
        self.season_ = self._find_season(systems, windows.ends)
        series = Series.from_arrays(
            [one.values for one in systems],
            [one.observed for one in systems],
            device=choose_device(self.device),
        )
        config = build_network_config(self.preset, self.context_, self.network)
        changes = stack_facts([~one.still for one in systems]).to(series.flat.device)
        judge = Judge(series, changes, self.context_, self.horizon_)
        task, ridges = self._start(config, judge, windows)
        windows_at_once = min(64, max(FEWEST_WINDOWS, ROWS_PER_STEP // panel.widest))
        outcome = self._train(task, TRAINING | {"batch_size": windows_at_once}, checkpoint)
        self.blend_ = self._choose_blend(task, outcome)
        self.network_.set_blend(self.blend_)
        self.error_table_ = self._calibrate(judge, windows, systems)
        self._write_report(panel, judge, windows, ridges, outcome)
        return self

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
        where these are too few. A variable with nothing observed within the context has no
        forecast: its values are NaN. One that `fit` did not see, with a single reading, stays what
        it is and has no interval: nothing tells how much it varies.

        Time stamps that lie on the step of `fit` with gaps are read at it, where they are few, or a
        little coarser (then a warning says so), and at the step they tell themselves otherwise.
        """
        self._check_fitted()
        endings = column_endings(level, quantiles)
        panel = self._read_at_known_step(data, columns)
        self.error_table_.warn_beyond(endings, moving=_moving(panel))
        systems = [self._look_back(system) for system in panel.systems]
        forecasts = self._forecast(systems)
        shifts = self.error_table_.shifts(endings)
        return write_forecast(panel, in_units(systems, forecasts, shifts))

    def backtest(
        self,
        data: Any,
        windows: int = 5,
        *,
        step: int | None = None,
        level: Sequence[float] | float | None = None,
        **columns: Hashable,
    ) -> Backtest:
        """Forecast the last part of the data from several origins, without fitting again.

        The origins lie `step` steps apart (the horizon, if None), the last one `horizon` steps
        before the end. Give data that `fit` has not seen: what it has seen flatters it. The naive
        forecasts beside it are scored where the model has a forecast, and nowhere else.

        Time stamps are read as in `predict`, whose forecasts are to be judged: daily rows given to
        an hourly model are met by one forecast in 24. A warning says in how many windows there is
        nothing to score; with step=24 each of them ends with a row.
        """
        self._check_fitted()
        windows = check_count("windows", windows, 1)
        step = check_count("step", self.horizon_ if step is None else step, 1)
        endings = column_endings(level, None)
        panel = self._read_at_known_step(data, columns)
        self.error_table_.warn_beyond(endings, moving=_moving(panel))
        origins = [find_origins(one, windows, step, self.horizon_) for one in panel.systems]
        shifts = self.error_table_.shifts(endings)
        pairs = zip(panel.systems, origins, strict=True)
        systems = [self._compare(system, starts, shifts) for system, starts in pairs]
        warn_empty(systems)
        scores = {name: score(systems, name) for name in systems[0].forecasts}
        for percent in np.atleast_1d([] if level is None else level):
            low, high = (self.error_table_.at(0.5 + sign * percent / 200) for sign in (-1, 1))
            scores[MODEL][f"coverage-{percent:g}"] = coverage(systems, low, high)
        blocks = {ending: [one.blocks[ending] for one in systems] for ending in ("", *endings)}
        return Backtest(write_forecast(panel, blocks, origins=origins), scores)

    def _check_settings(self) -> None:
        check_count("horizon", self.horizon, 1)
        check_count("epochs", self.epochs, 0)
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

    def _find_season(self, systems: Sequence[Prepared], ends: Sequence[int]) -> int:
        if self.season is not None:
            return int(self.season)
        return find_season(
            [one.values[:, :end] for one, end in zip(systems, ends, strict=True)],
            [one.observed[:, :end] for one, end in zip(systems, ends, strict=True)],
        )

    def _start(
        self, config: NetworkConfig, judge: Judge, windows: ForecastingWindows
    ) -> tuple[ForecastingTask, Ridges]:
        """The network at its linear start, centred by what does best on the selection windows.

        A series that wanders goes on from its last value, one that returns from its mean. A center
        that the user has chosen is kept.
        """
        chosen = "center" in (self.network or {}) or not config.skip
        starts = {
            center: fit_ridges(
                judge.series,
                windows.train,
                windows.selection,
                self.context_,
                self.horizon_,
                center=center,
                scale=config.scale,
            )
            for center in ((config.center,) if chosen else CENTERS)
        }

        def errors(linear: LinearForecast) -> Errors:
            return judge.errors(windows.selection, _linear(linear))

        def best(ridges: Ridges) -> LinearForecast:
            return ridges.coupled if config.coupled else ridges.own

        reference = errors(next(iter(starts.values())).own)
        center = min(starts, key=lambda one: errors(best(starts[one])).relative_to(reference))
        ridges = starts[center]
        module = self._draw_network(replace(config, center=center)).to(judge.series.flat.device)
        if config.skip:
            module.start_from(best(ridges))
        task = ForecastingTask(
            module, judge, windows.train, windows.selection, self.loss, errors(ridges.own)
        )
        return task, ridges

    def _build_network(self, config: NetworkConfig) -> ForecastingNetwork:
        return ForecastingNetwork(config, self.context_, self.horizon_, quantiles=self.quantiles_)

    @torch.no_grad()
    def _choose_blend(self, task: ForecastingTask, outcome: Outcome) -> float:
        """How much of what the network adds to keep: what does best on the selection windows."""
        if not self.network_.config.skip:
            return 1.0
        if outcome.best_epoch == 0:
            return 0.0
        # Sums over the same entries for every blend: no need to divide by their number.
        sums = torch.zeros(len(BLENDS), 2, dtype=torch.float64)
        for batch, masks in task.judge.batches(task.selection):
            forecast = self.network_(batch.values, *masks)
            added = forecast.point - forecast.linear
            for row, blend in enumerate(BLENDS):
                error = forecast.linear + blend * added - batch.targets
                error = torch.where(batch.target_observed, error, 0.0)
                sums[row, 0] += error.abs().sum().double().cpu()
                sums[row, 1] += error.square().sum().double().cpu()
        scores = [Errors(mae, mse).relative_to(task.reference) for mae, mse in sums.tolist()]
        return BLENDS[int(np.argmin(scores))]

    def _calibrate(
        self, judge: Judge, windows: ForecastingWindows, systems: Sequence[Prepared]
    ) -> ErrorTable:
        """The errors on the calibration windows, each in units of the width of its forecast."""
        usual = stack_usual(systems, judge.changes.device)
        assert usual is not None
        usual = rows_of(usual, windows.calibration, None)
        errors, observed, moved = [], [], False
        for batch, masks in judge.batches(windows.calibration):
            stays = batch.targets == naive(batch.values, batch.observed, self.horizon_)
            moved = moved or bool((batch.target_observed & ~stays).any())
            here, usual = usual[: len(batch.values)], usual[len(batch.values) :]
            if batch.variables is not None:
                here = here.gather(1, batch.variables)
            forecast = self._run(batch.values, *masks, usual=here)
            errors.append(((batch.targets - forecast.point) / forecast.width).cpu().numpy())
            observed.append(batch.target_observed.cpu().numpy())
        table = fit_error_table(np.concatenate(errors), np.concatenate(observed))
        if table.count and not moved:
            warnings.warn(
                "No variable moves in the held-out windows, at the end of the data: they tell "
                "neither which forecast is good nor how wide an interval must be. Fit on data that "
                "ends before it stands still, or with a larger `validation_share`.",
                stacklevel=4,
            )
        return table if moved else replace(table, count=0)

    def _write_report(
        self,
        panel: Panel,
        judge: Judge,
        windows: ForecastingWindows,
        ridges: Ridges,
        outcome: Outcome,
    ) -> None:
        rivals = {
            "naive": lambda b, m: naive(b.values, b.observed, self.horizon_),
            "seasonal naive": lambda b, m: seasonal_naive(
                b.values, b.observed, self.horizon_, self.season_
            ),
            "ridge": _linear(ridges.own),
            "coupled ridge": _linear(ridges.coupled),
            MODEL: lambda b, m: self._run(b.values, *m).point,
        }
        if len(panel.variables) == 1:
            del rivals["coupled ridge"]
        past = {"seasonal naive": max(self.context_, self.season_)}
        errors = {
            name: judge.errors(windows.calibration, run, past.get(name))
            for name, run in rivals.items()
        }
        self.errors_ = {name: asdict(error) for name, error in errors.items()}
        weights = sum(p.numel() for p in self.network_.parameters())
        seen = "held-out" if windows.held_out else "TRAINING (too little data to hold any out)"
        some = f" with {POOLED:,} variables each" if panel.widest > POOLED else ""
        self.report_ = [
            f"data      {describe_data(panel)}",
            f"windows   {len(windows.train):,} to train, {len(windows.selection):,} to select, "
            f"{len(windows.calibration):,} to calibrate; context {self.context_}, horizon "
            f"{self.horizon_}, season {self.season_}",
            f"network   {self.preset}, {describe_training(outcome, weights)}; "
            f"blend {self.blend_:g}; look-backs centred by their {self.network_.config.center}",
            f"errors    on {len(windows.calibration):,} {seen} windows{some}, in units of each "
            "variable's spread",
            *table({name: (e.mae, e.mse) for name, e in errors.items()}, ("MAE", "MSE")),
            verdict({name: e.mae for name, e in errors.items()}, MODEL),
        ]
        self._tell()

    @property
    def known_steps(self) -> dict[str, Any]:
        """What `read_panel` takes to read time at the steps of `fit`.

        At least two readings that are regular must fit a look-back, or forecasts would be of none.
        """
        return {"frequencies": self.frequencies_, "finer": min(FINER, self.context_ // 2)}

    def _read_at_known_step(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        return self._read(partial(read_panel, **self.known_steps), data, columns)

    def _compare(
        self, system: System, origins: np.ndarray, shifts: Mapping[str, np.ndarray]
    ) -> Scored:
        """What a backtest scores, and writes, of one system."""
        pasts = [self._look_back(system, at) for at in origins]
        forecasts = self._forecast(pasts)
        return compare(
            system, origins, pasts, forecasts, shifts, context=self.context_, season=self.season_
        )

    def _look_back(
        self, system: System, end: int | None = None, last: int | None = None
    ) -> Prepared:
        """What lies before `end`, ready for the network: the context, or `last` steps."""
        last = self.context_ if last is None else last
        return look_back(system, self.scales_, self.usual_spreads_, last=last, end=end)

    def _forecast(self, systems: Sequence[Prepared]) -> list[PointAndWidth[np.ndarray]]:
        """Forecasts [variable, horizon] in scaled units; NaN where nothing was observed."""
        device = next(self.network_.parameters()).device
        results = []
        for begin in range(0, len(systems), SYSTEMS_AT_ONCE):
            some = systems[begin : begin + SYSTEMS_AT_ONCE]
            values, observed, complete = stack(some, self.context_)
            masks: tuple[Tensor | None, Tensor | None] = (None, None)
            members = observed.any(-1)
            if not complete:
                masks = observed.to(device), members.to(device)
            usual = stack_usual(some, device)
            with threads_for(len(values) * values.shape[1]):
                found = self._run(values.to(device), *masks, usual=usual)
            point = found.point.cpu()
            if not complete:
                point = torch.where(members.unsqueeze(-1), point, torch.nan)
            points, widths = point.double().numpy(), found.width.expand_as(point).cpu().numpy()
            results += [
                stay(one, points[i, : len(one.names)], widths[i, : len(one.names)])
                for i, one in enumerate(some)
            ]
        return results

    @torch.inference_mode()
    def _run(
        self,
        values: Tensor,
        observed: Tensor | None = None,
        members: Tensor | None = None,
        usual: Tensor | None = None,
    ) -> PointAndWidth[Tensor]:
        """The forecast; without the network where the blend keeps nothing of it.

        usual: [batch, variable], usual spreads; None in the first models, which were calibrated in
        units of the spread in `fit`.
        """
        network = self.network_
        if self.blend_ == 0.0 and network.linear is not None and not network.quantiles:
            point, quantiles = network.linear(values, observed, members), None
        else:
            point, _, quantiles = network(values, observed, members)
        if quantiles is not None:
            width = (quantiles[..., -1] - quantiles[..., 0]).clamp(min=NARROWEST)
        elif usual is None:
            width = torch.ones_like(point[..., :1])
        else:
            width = width_of(values, observed, usual)
        return PointAndWidth(point, width)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        facts |= {"context": self.context_, "season": self.season_, "blend": self.blend_}
        facts |= {"horizon": self.horizon_, "quantiles": list(self.quantiles_)}
        facts |= {"calibration_errors": self.error_table_.count}
        facts |= {"frequencies": [asdict(one) for one in self.frequencies_]}
        facts |= {"usual_spreads": self.usual_spreads_}
        tensors["error_table"] = torch.as_tensor(self.error_table_.quantiles)
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.context_, self.season_ = facts["context"], facts["season"]
        self.blend_ = facts["blend"]
        # The first models were saved without these; their parameters are those of `fit`.
        self.horizon_ = facts.get("horizon", self.horizon)
        self.quantiles_ = tuple(facts.get("quantiles", self._find_quantiles()))
        # Without them, time stamps are read at the step that they tell by themselves.
        self.frequencies_ = tuple(restore_step(one) for one in facts.get("frequencies", ()))
        usual = facts.get("usual_spreads")
        self.usual_spreads_ = usual and {name: float(spread) for name, spread in usual.items()}
        count = facts.get("calibration_errors")
        self.error_table_ = ErrorTable(
            tensors["error_table"].numpy(), None if count is None else int(count)
        )
        super()._restore(facts, tensors)


def _moving(panel: Panel) -> bool:
    return not all(unchanged(one.values, one.observed).all() for one in panel.systems)


def _linear(ridge: LinearForecast) -> Callable[[Batch, Any], Tensor]:
    """A ridge as a forecast of batches; it needs masks only where the network does."""
    return lambda batch, masks: ridge(batch.values, *masks)
