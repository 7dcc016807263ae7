"""Tiny files in the layout of the data folder."""

import numpy as np
import polars as pl


def write_exchange(folder, rows=500, variables=8, seed=0):
    """A daily-looking sine with noise in each variable, under the name of a set split by shares."""
    (folder / "ltsf").mkdir(exist_ok=True)
    generator = np.random.default_rng(seed)
    time = np.arange(rows)
    columns = {"date": [str(row) for row in time]}
    for variable in range(variables):
        noise = generator.normal(0, 0.1, rows)
        columns[str(variable)] = np.sin(2 * np.pi * (time + variable) / 12) + noise
    pl.DataFrame(columns).write_parquet(folder / "ltsf" / "exchange_rate.parquet")


def write_m4(folder, group="Quarterly", horizon=8, series=5):
    (folder / "m4").mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    rows = [np.tile([1.0, 4.0, 2.0, 8.0], 10)[i:] + generator.random(40 - i) for i in range(series)]
    ids = [f"{group[0]}{i}" for i in range(series)]
    train = pl.DataFrame({"id": ids, "values": [row[:-horizon].tolist() for row in rows]})
    test = pl.DataFrame({"id": ids, "values": [row[-horizon:].tolist() for row in rows]})
    train.write_parquet(folder / "m4" / f"{group}-train.parquet")
    test.write_parquet(folder / "m4" / f"{group}-test.parquet")
    test.write_parquet(folder / "m4" / "naive2.parquet")


def write_cases(folder, name="BasicMotions", variables=6):
    (folder / "uea").mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    labels = np.array(["calm", "wild"] * 10)
    scale = np.where(labels == "calm", 0.0, 1.0)[:, None, None]
    cases = scale * np.sin(np.arange(12) / 2) + generator.normal(0, 0.3, (20, variables, 12))
    np.savez(
        folder / "uea" / f"{name}.npz", X_train=cases, y_train=labels, X_test=cases, y_test=labels
    )


def write_monitored(folder, names=("machine-1-1", "machine-1-2"), variables=38, rows=400):
    """Variables that move together, except in the anomalies."""
    (folder / "anomaly" / "SMD").mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        common = generator.normal(size=(2 * rows, 1))
        values = common + generator.normal(0, 0.1, (2 * rows, variables))
        label = np.zeros(rows, bool)
        label[100:120] = label[300:340] = True
        values[rows:][label] += generator.normal(0, 3, (60, variables))
        np.savez(
            folder / "anomaly" / "SMD" / f"{name}.npz",
            train=values[:rows],
            test=values[rows:],
            label=label,
        )
