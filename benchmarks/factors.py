"""What factors earn beyond the mean: fleets, sensors held out, and plants with a known truth.

    python -m benchmarks.factors fleet --data DIR [--every 1] [--sets NAME ...]
    python -m benchmarks.factors plant [--seeds 0 1 2]
    python -m benchmarks.factors loadings

`fleet`: one set a file; rows 70 / 10 / 20 % train, select and test; gains are in percent of the
error of a ridge on the own history, on every test window. Held-out sensors (every second one) are
not in `fit`; their units and loadings come from the rows before the test part. `plant`: 64 sensors
of random sign, 32 to fit, beside the best that is possible, a Kalman filter that knows all
parameters. `loadings`: time and memory for 100,000 variables.
"""

import argparse
import resource
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from benchmarks.records import write_record
from orderless.data import (
    Batch,
    Panel,
    Series,
    System,
    canonical_order,
    read_panel,
    window_starts,
)
from orderless.data.factors import MOST_ROWS, Factors, principal_loadings, stack_loadings
from orderless.data.scaling import scales_of_training
from orderless.data.simulate import plant
from orderless.data.transform import Scaled, Transform, stack_facts
from orderless.models.folds import cut_folds
from orderless.models.forecasting.factor_ridge import fit_factor_ridge
from orderless.models.forecasting.ridge import fit_ridges
from orderless.models.forecasting.windows import WindowEvaluator
from orderless.models.member import Member

HOURLY, DAILY = (96, 24), (28, 7)
FLEET = {
    **{f"beijing_air/{name}": HOURLY for name in ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3")},
    **{f"beijing_air/{name}": HOURLY for name in ("TEMP", "PRES", "DEWP", "RAIN", "WSPM")},
    "gefcom2012/load": (168, 24),
    "gefcom2012/temp": HOURLY,
    "gefcom2012/wp": HOURLY,
    "irish_wind/irish_wind": DAILY,
    **{f"la_haute_borne/{name}": HOURLY for name in ("power_kW", "wind_speed", "outdoor_temp")},
    "nn5_daily/nn5": DAILY,
    "noaa_daily_1990/Tmax": DAILY,
    "noaa_daily_1990/Tmin": DAILY,
    "simbench_res/load": (192, 96),
    "simbench_res/pv": (192, 96),
    "simbench_res/wind": HOURLY,
}
"""Context and horizon of each set."""
HISTORIES = (1000, 100, 20)


class Fitted:
    """Members fitted on some sensors of a system, and what it takes to score them on others."""

    def __init__(
        self, system: System, context: int, horizon: int, ends: tuple[int, int], every: int
    ) -> None:
        self.context, self.horizon, self.every = context, horizon, every
        panel = Panel((system,), read_panel(np.zeros((2, 1))).form)
        self.transform = Transform(scales_of_training(panel, [ends[0]]))
        scaled = self.transform.apply(system, last=len(system.times))
        self.factors = Factors.learn([system], [scaled], [ends[0]])
        self.evaluator = self._evaluator(system, scaled)
        train, select = (self._windows(one, system) for one in ((0, ends[0]), ends))
        self.folds = cut_folds(train, select, horizon)
        ridges = fit_ridges(self.evaluator, self.folds, context, pooled=True, refit=True)
        found = fit_factor_ridge(self.evaluator, self.folds, ridges[0], refit=True)
        self.members: dict[str, Member] = {"ridge": ridges[0].member}
        self.members["mean"] = ridges[-1].member
        self.members["factors"] = found[0].member if found else ridges[0].member
        self.blocks = found[0].member.forecast.blocks if found else None

    def score(self, system: System, begin: int) -> dict[str, tuple[float, float]]:
        """MSE and MAE of each member from `begin` on, in units of the scale of training."""
        scaled = self.transform.apply(system, last=len(system.times))
        evaluator = self._evaluator(system, scaled)
        windows = self._windows((begin, len(system.times)), system)
        found = {name: evaluator.errors(windows, one) for name, one in self.members.items()}
        return {name: (one.mse, one.mae) for name, one in found.items()}

    def score_unseen(
        self, system: System, train: int, origins: list[int], unseen: list[int], history: int
    ) -> dict[str, np.ndarray]:
        """Of each sensor [row, 3]: squared error, absolute error and count.

        Sensors that `fit` did not see are forecast as a user would do it: at each origin they have
        so many rows of history, and nothing else is known of them, neither scale nor loadings.
        Errors are in units of the scale of the first `train` rows.
        """
        order, restore = canonical_order(system.variables)
        scale = self.transform.apply(_cut(system, 0, train), last=train).scale
        totals = {name: np.zeros((len(order), 3)) for name in self.members}
        for at in origins:
            past = _cut(system, max(0, at - MOST_ROWS), at)
            observed = past.observed.copy()
            observed[unseen, :-history] = False
            values = np.where(observed, past.values, np.nan)
            past = replace(past, values=values, observed=observed)
            scaled = self.transform.apply(past, last=self.context)
            loadings = stack_loadings([self.factors.of(past, scaled)])
            values, observed = (torch.from_numpy(o[None]) for o in (scaled.values, scaled.observed))
            values = torch.where(observed, values, 0.0).float()
            batch = Batch(values, observed, observed.any(-1), loadings=loadings)
            actual = system.values[order, at : at + self.horizon]
            there = scaled.observed.any(-1) & ~np.isnan(scaled.scale[:, 0])
            for name, member in self.members.items():
                with torch.inference_mode():
                    answer = scaled.undo(member(batch)[0].double().numpy())
                error = (answer - actual) / scale
                counts = ~np.isnan(error) & there[:, None]
                error = np.where(counts, error, 0.0)
                sums = (error**2).sum(1), np.abs(error).sum(1), counts.sum(1)
                totals[name] += np.stack(sums, 1)[restore]
        return totals

    def _evaluator(self, system, scaled: Scaled, loadings=None) -> WindowEvaluator:
        if loadings is None:
            loadings = self.factors.of(system, scaled)
        series = Series.from_arrays([scaled.values], [scaled.observed])
        changes = stack_facts([~scaled.constant])
        return WindowEvaluator(
            series,
            changes,
            torch.ones(changes.shape),
            self.context,
            self.horizon,
            stack_loadings([loadings]),
        )

    def _windows(self, span: tuple[int, int], system: System) -> torch.Tensor:
        length = [len(system.times)]
        starts = window_starts(length, self.context, self.horizon, targets=[span])
        return starts[:: self.every]


def gains(scores: dict[str, tuple[float, float]]) -> dict[str, list[float]]:
    """Percent less than the ridge on the own history: MSE and MAE."""
    mse, mae = scores["ridge"]
    return {
        name: [round(100 * (1 - a / mse), 2), round(100 * (1 - b / mae), 2)]
        for name, (a, b) in scores.items()
        if name != "ridge"
    }


def measure_set(path: Path, context: int, horizon: int, every: int, origins: int) -> dict:
    panel = read_panel(pl.read_parquet(path))
    (system,) = panel.systems
    steps = len(system.times)
    ends = int(0.7 * steps), int(0.8 * steps)
    begun = time.perf_counter()
    fitted = Fitted(system, context, horizon, ends, every)
    seconds = time.perf_counter() - begun
    scores = fitted.score(system, ends[1])
    row = {"sensors": len(system.variables), "context": context, "horizon": horizon}
    row |= {"ridge": [round(one, 4) for one in scores["ridge"]], "all": gains(scores)}
    row |= {"blocks": fitted.blocks, "fit_seconds": round(seconds, 1)}
    if origins:
        row["held_out"] = measure_held_out(system, context, horizon, ends, every, origins)
    return row


def measure_held_out(system, context, horizon, ends, every, count) -> dict:
    sensors = range(len(system.variables))
    fitted = Fitted(_rows(system, [*sensors[::2]]), context, horizon, ends, every)
    others = [*sensors[1::2]]
    alone = _rows(system, others)
    origins = spread_origins(system, ends[1], horizon, count)
    row: dict = {"blocks": fitted.blocks}
    for history in (one for one in HISTORIES if one <= ends[1]):
        beside = fitted.score_unseen(system, ends[0], origins, others, history)
        apart = fitted.score_unseen(alone, ends[0], origins, [*range(len(others))], history)
        row[str(history)] = {
            "beside the known": gains({k: pooled(one[others]) for k, one in beside.items()}),
            "alone": gains({k: pooled(one) for k, one in apart.items()}),
        }
    return row


def pooled(sums: np.ndarray) -> tuple[float, float]:
    """MSE and MAE of sensors [row, 3]."""
    squares, absolute, count = sums.sum(0)
    return float(squares / count), float(absolute / count)


def spread_origins(system: System, begin: int, horizon: int, count: int) -> list[int]:
    """So many origins, evenly, from `begin` to the last."""
    return np.linspace(begin, len(system.times) - horizon, count).astype(int).tolist()


class Linear(NamedTuple):
    """x[t] = offset + read z[t] + white noise; z[t] = move z[t - 1] + noise of covariance drive."""

    offset: np.ndarray
    read: np.ndarray
    move: np.ndarray
    drive: np.ndarray
    noise: float


def plant_truth(seed: int, sensors: int, steps: int, period: int, mixed: bool) -> Linear:
    """The parameters that `orderless.data.simulate.plant` draws."""
    random = np.random.default_rng(seed)
    random.standard_normal((2, steps))
    profile, drive = random.uniform(0.7, 1.3, (2, sensors))
    offset = random.normal(0.0, 2.0, sensors)
    random.standard_normal((2, steps, sensors))
    sign = random.choice([-1.0, 1.0], sensors) if mixed else 1.0
    read = np.zeros((sensors, period + 1 + sensors))
    read[:, 0], read[:, period] = profile * sign, 0.5 * drive * sign
    read[:, period + 1 :] = 0.5 * np.eye(sensors)
    move = np.zeros((read.shape[1],) * 2)
    move[0, period - 1] = 0.95
    move[1:period, : period - 1] = np.eye(period - 1)
    move[period, period] = 0.98
    move[period + 1 :, period + 1 :] = 0.7 * np.eye(sensors)
    diagonal = np.zeros(len(move))
    diagonal[0], diagonal[period], diagonal[period + 1 :] = 1 - 0.95**2, 1 - 0.98**2, 1 - 0.7**2
    return Linear(offset, read, move, np.diag(diagonal), 0.6)


def three_factors(seed: int, sensors: int, steps: int) -> tuple[np.ndarray, Linear]:
    """Sensors that follow three hidden AR(1) drives with gains of any sign, and own ones."""
    random = np.random.default_rng([seed, 3])
    rates = np.array([0.98, 0.95, 0.9, *[0.7] * sensors])
    read = np.concatenate((random.normal(0, 0.6, (sensors, 3)), 0.5 * np.eye(sensors)), 1)
    drive = 1 - rates**2
    state = random.standard_normal(len(rates))
    values = np.empty((steps, sensors))
    offset = random.normal(0.0, 2.0, sensors)
    for t in range(steps):
        values[t] = offset + read @ state + 0.6 * random.standard_normal(sensors)
        state = rates * state + np.sqrt(drive) * random.standard_normal(len(rates))
    return values, Linear(offset, read, np.diag(rates), np.diag(drive), 0.6)


def kalman(values: np.ndarray, truth: Linear, origins: list[int], horizon: int) -> np.ndarray:
    """The best forecasts there are, [origin, sensor, horizon], from all of the past."""
    move, read = truth.move, truth.read
    covariance = np.eye(len(move))
    for _ in range(1000):
        inner = read @ covariance @ read.T + truth.noise**2 * np.eye(len(read))
        gain = np.linalg.solve(inner, read @ covariance).T
        after = covariance - gain @ read @ covariance
        covariance, before = move @ after @ move.T + truth.drive, covariance
        if np.abs(covariance - before).max() < 1e-9:
            break
    ahead = [read]
    for _ in range(horizon):
        ahead.append(ahead[-1] @ move)
    state, found = np.zeros(len(move)), []
    for t in range(origins[-1]):
        state = move @ state
        state = state + gain @ (values[t] - truth.offset - read @ state)
        if t + 1 in origins:
            found.append(np.stack([truth.offset + one @ state for one in ahead[1:]], 1))
    return np.stack(found)


def measure_plant(seed: int, kind: str, origins: int) -> dict:
    """MAE of each way to forecast on known and on held-out sensors, all 64 of them in company.

    Beside it which share of what the filter earns over the ridge on the own history each earns.
    """
    context, horizon, train, select, steps = 96, 24, 2000, 2400, 3000
    if kind == "three factors":
        values, truth = three_factors(seed, 64, steps)
    else:
        mixed = kind == "mixed signs"
        values, _ = plant(seed, steps=steps, mixed_signs=mixed)
        truth = plant_truth(seed, 64, steps, 48, mixed)
    (system,) = read_panel(values).systems
    parts = {"known": [*range(32)], "held out": [*range(32, 64)]}
    fitted = Fitted(_rows(system, parts["known"]), context, horizon, (train, select), 1)
    ends = spread_origins(system, select, horizon, origins)
    best = kalman(values, truth, ends, horizon)
    actual = np.stack([values[t : t + horizon].T for t in ends])
    error = (np.abs(best - actual) / values[:train].std(0)[:, None]).mean((0, 2))
    row: dict = {"seed": seed, "kind": kind, "blocks": fitted.blocks}
    for history in HISTORIES:
        found = fitted.score_unseen(system, train, ends, parts["held out"], history)
        row[str(history)] = {}
        for part, rows in parts.items():
            mae = {name: pooled(one[rows])[1] for name, one in found.items()}
            mae["filter"] = float(error[rows].mean())
            worth = mae["ridge"] - mae["filter"]
            shares = {k: round((mae["ridge"] - v) / worth, 3) for k, v in mae.items()}
            mae = {k: round(v, 4) for k, v in mae.items()}
            row[str(history)][part] = {"mae": mae, "share": shares}
    return row


def measure_loadings(variables: int = 100_000, steps: int = 1000) -> dict:
    """Seconds, and gigabytes at the peak, those of the data among them."""
    random = np.random.default_rng(0)
    values = random.standard_normal((variables, steps), dtype=np.float32)
    values += random.standard_normal((variables, 1), np.float32) * values[:1]
    observed = np.ones(values.shape, bool)
    begun = time.perf_counter()
    principal_loadings(values, observed)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"variables": variables, "steps": steps, "seconds": seconds, "peak_gb": peak}


def _cut(system: System, begin: int, end: int) -> System:
    span = slice(begin, end)
    return replace(
        system,
        values=system.values[:, span],
        observed=system.observed[:, span],
        times=system.times[span],
    )


def _rows(system: System, rows: list[int]) -> System:
    return replace(
        system,
        values=system.values[rows],
        observed=system.observed[rows],
        variables=tuple(system.variables[row] for row in rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fleet", "plant", "loadings"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of all windows, every n-th")
    parser.add_argument("--sets", nargs="+", default=list(FLEET))
    parser.add_argument("--origins", type=int, default=200, help="of held-out sensors; 0 for none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--dry", action="store_true", help="write no record")
    options = parser.parse_args()
    results: dict = {}
    if options.what == "fleet":
        for name in options.sets:
            path = options.data / f"{name}.parquet"
            results[name] = measure_set(path, *FLEET[name], options.every, options.origins)
            print(name, results[name], flush=True)
    if options.what == "plant":
        kinds = ("one sign", "mixed signs", "three factors")
        results["rows"] = []
        for seed, kind in product(options.seeds, kinds):
            results["rows"].append(measure_plant(seed, kind, options.origins))
            print(results["rows"][-1], flush=True)
    if options.what == "loadings":
        results = measure_loadings()
        print(results)
    if not options.dry:
        print("wrote", write_record(f"factors_{options.what}", results))


if __name__ == "__main__":
    main()
