"""Metrics: arrays in, one number out, each named for exactly what it is."""

from orderless.metrics.anomaly import (
    affiliation_f1,
    auc_pr,
    point_adjusted_f1,
    point_f1,
    range_f1,
    vus_pr,
)
from orderless.metrics.classification import accuracy
from orderless.metrics.forecasting import (
    interval_coverage,
    mae,
    mape,
    mase,
    mse,
    owa,
    quantile_loss,
    smape,
)

__all__ = [
    "accuracy",
    "affiliation_f1",
    "auc_pr",
    "interval_coverage",
    "mae",
    "mape",
    "mase",
    "mse",
    "owa",
    "point_adjusted_f1",
    "point_f1",
    "quantile_loss",
    "range_f1",
    "smape",
    "vus_pr",
]
