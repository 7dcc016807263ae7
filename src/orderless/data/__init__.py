"""Frames, arrays and files in; panels, and windows that live on the device, out; simulation."""

from orderless.data.files import read_table, write_table
from orderless.data.frequency import Frequency, infer_frequency, regular_grid
from orderless.data.panel import Form, Panel, System, canonical_order
from orderless.data.reading import read_cases, read_labels, read_panel
from orderless.data.scaling import Scaler, fit_scaler, mean_and_scale
from orderless.data.ts_files import read_ts
from orderless.data.windows import (
    MOST_VARIABLES,
    Batch,
    Series,
    choose_variables,
    covering_starts,
    draw_variables,
    scores_over_time,
    split_in_time,
    window_starts,
)
from orderless.data.writing import write_forecast, write_scores

__all__ = [
    "MOST_VARIABLES",
    "Batch",
    "Form",
    "Frequency",
    "Panel",
    "Scaler",
    "Series",
    "System",
    "canonical_order",
    "choose_variables",
    "covering_starts",
    "draw_variables",
    "fit_scaler",
    "infer_frequency",
    "mean_and_scale",
    "read_cases",
    "read_labels",
    "read_panel",
    "read_table",
    "read_ts",
    "regular_grid",
    "scores_over_time",
    "split_in_time",
    "window_starts",
    "write_forecast",
    "write_scores",
    "write_table",
]
