"""The columns of the tables with data: the only place that knows who fits which."""

from collections.abc import Callable, Mapping
from typing import Any

from orderless.bench.models import classifiers, detectors, forecasts, series_forecasts
from orderless.errors import SettingError

COLUMNS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "long-term": forecasts.COLUMNS,
    "m4": series_forecasts.COLUMNS,
    "classification": classifiers.COLUMNS,
    "anomaly": detectors.COLUMNS,
}


def column(table: str, name: str) -> Callable[..., Any]:
    """What fits the column of that name; what it takes and gives is the same in all of a table."""
    known = COLUMNS[table]
    if name not in known:
        raise SettingError(
            f"There is no model {name!r} in the table {table}; choose one of {', '.join(known)}."
        )
    return known[name]
