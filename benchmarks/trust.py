"""What broken data, short histories and odd frames do to the three estimators.

    python -m benchmarks.trust [--only NAME ...] [--short] [--seeds 4] [--ett ETTh1.parquet]

Each case is a number and what it must be; `docs/concepts/trust.md` shows them. Models have their
closed forms alone unless it says otherwise: what a reading may do to units, selection and
intervals is the same, and a case takes seconds. Cases that are not named keep what the record has.
ETTh1 is read from the catalogue's folder, or from the file named.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.records import RESULTS, write_record
from orderless import Classifier, Detector, Forecaster
from orderless.data import read_panel
from orderless.data.simulate import plant

CLOSED = ["naive", "seasonal naive", "ridge", "coupled ridge", "factor ridge"]
CASES: dict[str, Callable[[argparse.Namespace], Iterator["Row"]]] = {}


@dataclass(frozen=True)
class Row:
    """A case, what was found, and what must be: from `least` to `most`."""

    case: str
    found: list[float]
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether every figure lies within the limits."""
        low = self.least is None or min(self.found) >= self.least
        return low and (self.most is None or max(self.found) <= self.most)


def case(measure: Callable[[argparse.Namespace], Iterator[Row]]) -> Callable:
    CASES[measure.__name__] = measure
    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--short", action="store_true", help="one seed, and no record")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--ett", type=Path, help="a parquet file of ETTh1")
    options = parser.parse_args()
    if options.short:
        options.seeds = 1
    warnings.simplefilter("ignore")  # they are what is asked for
    path = RESULTS / "trust.json"
    known = json.loads(path.read_text())["results"] if path.exists() else {}
    for name in options.only:
        rows = list(CASES[name](options))
        known[name] = [vars(row) | {"met": row.met} for row in rows]
        for row in rows:
            shown = ", ".join(f"{one:.3g}" for one in row.found)
            print(f"{'ok  ' if row.met else 'MISS'} {row.case}: {shown}", flush=True)
    if not options.short:
        print("wrote", write_record("trust", known))


def waves(seed: int, cases: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that seven of eight sensors tell by their period: [case, variable, 60]."""
    random = np.random.default_rng(seed)
    labels = np.arange(cases) % 2
    period = np.where(labels == 0, 20.0, 8.0)[:, None, None]
    phase = random.uniform(0, 2 * np.pi, (cases, 8, 1))
    signal = np.sin(2 * np.pi * np.arange(60) / period + phase)
    signal[:, 7] = random.standard_normal((cases, 60))
    return signal + 0.5 * random.standard_normal(signal.shape), labels


@case
def classifier(options: argparse.Namespace) -> Iterator[Row]:
    clean, one_reading, at_predict, sensor = [], [], [], []
    for seed in range(options.seeds):
        values, labels = waves(seed)
        test, truth = waves(100 + seed)
        model = Classifier(verbose=False, random_state=seed).fit(values, labels)
        clean.append(model.score(test, truth))
        broken = values.copy()
        broken[17, 7, 30] = 1e6
        again = Classifier(verbose=False, random_state=seed).fit(broken, labels)
        one_reading.append(again.score(test, truth))
        spiked, scaled = test.copy(), test.copy()
        random = np.random.default_rng(seed)
        for series in spiked:
            series[random.integers(8), random.integers(60)] = 1e3
        scaled[:, random.integers(8)] *= 100.0
        at_predict.append(model.score(spiked, truth))
        sensor.append(model.score(scaled, truth))
    yield Row("Classifier, clean: accuracy", clean, least=0.98)
    yield Row("Classifier, one reading of 57,600 at 1e6 in `fit`: accuracy", one_reading, 0.98)
    yield Row("Classifier, at predict one reading of each case at 1e3", at_predict, 0.9)
    yield Row("Classifier, at predict one of 8 sensors times 100", sensor, 0.9)


@case
def detector(options: argparse.Namespace) -> Iterator[Row]:
    for size in (None, 1e3, 1e6):
        found = []
        for seed in range(options.seeds):
            values, _ = plant(seed, sensors=12, steps=2600)
            train, test = values[:2000].copy(), values[2000:].copy()
            if size is not None:
                train[[1700, 1800, 1900], 3] += size * train[:, 3].std()
            rows = np.arange(20) * 28 + 30
            test[rows, 8] += 8.0 * train[:, 8].std()
            model = Detector(verbose=False).fit(train)
            found.append(int(np.asarray(model.predict(test))[rows].sum()))
        what = "clean" if size is None else f"3 readings at +{size:.0e} in the held-out part"
        yield Row(f"Detector, {what}: 8-sd faults elsewhere found, of 20", found, least=14)


def mae(model: Forecaster, values: np.ndarray, sensors: list[int], begin: int) -> float:
    """Of these sensors, from every fifth origin after `begin`."""
    horizon = model.horizon_
    errors = []
    for at in range(begin, len(values) - horizon, 5):
        forecast = model.predict(values[at - 336 : at])
        errors.append(np.abs(forecast - values[at : at + horizon])[:, sensors])
    return float(np.mean(errors))


@case
def forecaster_held_out(options: argparse.Namespace) -> Iterator[Row]:
    """One sensor broken in the held-out part of `fit`; the errors of the others on clean data."""
    faults = {
        "30-sd noise": lambda x, draw: x + 30 * x.std() * draw.standard_normal(len(x)),
        "alternating 1e6": lambda x, draw: 1e6 * (-1.0) ** np.arange(len(x)),
        "3 spikes of 1e6": lambda x, draw: np.where(
            np.isin(np.arange(len(x)), [50, 150, 250]), 1e6, x
        ),
    }
    for sensors in (4, 12):
        worse: dict[str, list[float]] = {name: [] for name in faults}
        for seed in range(options.seeds):
            values, _ = plant(seed, sensors=sensors, steps=2600)
            others = list(range(1, sensors))

            def fit(train: np.ndarray) -> Forecaster:
                return Forecaster(24, members=CLOSED, verbose=False).fit(train)

            clean = mae(fit(values[:2000]), values, others, 2000)
            for name, fault in faults.items():
                broken = values[:2000].copy()
                broken[1600:, 0] = fault(broken[1600:, 0], np.random.default_rng(seed))
                worse[name].append(100 * (mae(fit(broken), values, others, 2000) / clean - 1))
        for name, found in worse.items():
            words = f"Forecaster, {name} of one of {sensors} sensors in the held-out part"
            yield Row(f"{words}: % more MAE of the others", found, most=3.0)


def faults_of(x: np.ndarray, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Eighteen ways in which the history of a sensor [time] breaks."""
    steps, sd, places = np.arange(len(x)), x.std(), draw.random(len(x))
    dead = np.where(steps > len(x) // 2, np.nan, x)
    return {
        "dead": np.full(len(x), np.nan),
        "dead for half": dead,
        "half missing": np.where(places < 0.5, np.nan, x),
        "zero": np.zeros(len(x)),
        "stuck": np.where(steps > len(x) // 2, x[len(x) // 2], x),
        "stuck at 1e6": np.full(len(x), 1e6),
        "last reading 1e3": np.where(steps == len(x) - 1, 1e3, x),
        "last reading 1e9": np.where(steps == len(x) - 1, 1e9, x),
        "1 % spikes of 1e6": np.where(places < 0.01, 1e6, x),
        "10 % spikes of 100 sd": np.where(places < 0.1, x + 100 * sd, x),
        "shift of 10 sd": x + 10 * sd,
        "step of 30 sd": np.where(steps > len(x) - 24, x + 30 * sd, x),
        "times 100": 100 * x,
        "noise of 30 sd": x + 30 * sd * draw.standard_normal(len(x)),
        "alternating 1e6": 1e6 * (-1.0) ** steps,
        "upside down": 2 * x.mean() - x,
        "shuffled": draw.permutation(x),
        "drift to 100 sd": x + 100 * sd * steps / len(x),
    }


@case
def forecaster_faults(options: argparse.Namespace) -> Iterator[Row]:
    for sensors in (8,):
        worst = {}
        for seed in range(options.seeds):
            values, _ = plant(seed, sensors=sensors, steps=2600)
            model = Forecaster(24, members=CLOSED, verbose=False).fit(values[:2000])
            errors: dict[str, list[float]] = {}
            for at in range(2000, 2570, 19):
                past, future = values[at - 336 : at], values[at : at + 24, 1:]
                broken = faults_of(past[:, 0], np.random.default_rng(at))
                for name, sensor in {"clean": past[:, 0], **broken}.items():
                    given = past.copy()
                    given[:, 0] = sensor
                    error = np.abs(model.predict(given)[:, 1:] - future).mean()
                    errors.setdefault(name, []).append(float(error))
            means = {name: float(np.mean(each)) for name, each in errors.items()}
            clean = means.pop("clean")
            for name, mean in means.items():
                worst.setdefault(name, []).append(100 * (mean / clean - 1))
        for name, found in sorted(worst.items(), key=lambda one: -max(one[1]))[:3]:
            words = f"Forecaster, at predict one of {sensors} sensors: {name}"
            yield Row(f"{words}: % more MAE of the others", found, most=4.0)


@case
def forecaster_adversary(options: argparse.Namespace) -> Iterator[Row]:
    """A history of one of eight sensors that is sought to harm the forecasts of the others."""
    found = []
    for seed in range(options.seeds):
        values, _ = plant(seed, sensors=8, steps=2600)
        model = Forecaster(24, members=CLOSED, verbose=False).fit(values[:2000])
        before, after = [], []
        for at in range(2000, 2570, 57):
            (system,) = read_panel(values[:at]).systems
            batch = model.batch(system)
            center, scale = (getattr(model._past(system), one) for one in ("center", "scale"))
            target = torch.tensor((values[at : at + 24].T - center) / scale, dtype=torch.float32)
            base = batch.values.detach().clone()
            attack = torch.zeros_like(base[0, 0]).requires_grad_()
            best = 0.0
            optimizer = torch.optim.Adam([attack], lr=1.0)
            for turn in range(60):
                given = base.clone()
                given[0, 0] = base[0, 0] + attack
                changed = type(batch)(**(vars(batch) | {"values": given}))
                error = (model.stack_(changed)[0, 1:] - target[1:]).abs().mean()
                if turn == 0:
                    before.append(float(error))
                best = max(best, float(error))
                optimizer.zero_grad()
                (-error).backward()
                optimizer.step()
            after.append(best)
        found.append(100 * (np.mean(after) / np.mean(before) - 1))
    yield Row("Forecaster, a gradient adversary at one of 8 sensors: % more MAE", found, most=10.0)


@case
def intervals(options: argparse.Namespace) -> Iterator[Row]:
    """Share of values within 80 % intervals, of sensors that `fit` did not see."""
    sets: dict[str, list[tuple[np.ndarray, int, list[int]]]] = {
        "a simulated plant": [
            (plant(seed, sensors=24, steps=4000)[0], 3200, list(range(12)))
            for seed in range(options.seeds)
        ]
    }
    if options.ett is not None:
        ett = pd.read_parquet(options.ett).select_dtypes("number").to_numpy(float)[:14400]
        parts = ([1, 3, 5], [0, 2, 4, 6], [4, 5, 6], [0, 1, 2, 3])
        sets["ETTh1"] = [(ett, 11520, list(part)) for part in parts[: options.seeds]]
    limits = {"a simulated plant": (0.77, 0.85), "ETTh1": (0.72, 0.90)}
    for name, runs in sets.items():
        inside: dict[int, list[float]] = {}
        for values, end, seen in runs:
            unseen = [one for one in range(values.shape[1]) if one not in seen]
            names = {one: f"s{one:02d}" for one in range(values.shape[1])}
            train = pd.DataFrame(values[:end, seen], columns=[names[one] for one in seen])
            model = Forecaster(24, members=CLOSED, verbose=False).fit(train)
            for rows in (336, 96, 48, 24):
                share = covered(model, values, end, rows, {one: names[one] for one in unseen})
                inside.setdefault(rows, []).append(share)
        for rows, found in inside.items():
            least, most = limits[name]
            words = f"80 % intervals of unseen sensors of {name}, {rows} rows given, mean"
            yield Row(f"{words} coverage", [float(np.mean(found))], least, most)


def covered(
    model: Forecaster, values: np.ndarray, end: int, rows: int, names: dict[int, str]
) -> float:
    origins = range(end + 336, len(values) - 24, 23)
    columns, labels = list(names), list(names.values())
    parts = [pd.DataFrame(values[at - rows : at, columns], columns=labels) for at in origins]
    frame = pd.concat([part.assign(origin=at) for part, at in zip(parts, origins, strict=True)])
    found = model.predict(frame, level=80, group="origin")
    low, high = (
        found[[f"{one}-{end}-80" for one in labels]].to_numpy().reshape(len(origins), 24, -1)
        for end in ("lo", "hi")
    )
    truth = np.stack([values[at : at + 24, columns] for at in origins])
    return float(((truth >= low) & (truth <= high)).mean())


if __name__ == "__main__":
    main()
