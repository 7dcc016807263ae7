"""Results back in the form the input came in: same library, wide or long, frame or array."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orderless.data.panel import Panel


def write_forecast(
    panel: Panel,
    forecast: Mapping[str, Sequence[np.ndarray]],
    *,
    origins: Sequence[np.ndarray] | None = None,
) -> Any:
    """A forecast in the form of the panel's input.

    forecast    for each column ending, the values of each system [variable, horizon], variables in
                the order of `system.variables`. The ending "" is the point forecast; others, such
                as "lo-80", follow the name with a hyphen.
    origins     for a backtest: for each system the positions in `times` [window] at which the
                forecast begins; the values are then [window, variable, horizon], and frames get a
                column "cutoff" with the last time stamp before each origin

    wide    time stamps, then a column a variable and ending (`pressure`, `pressure-lo-80`)
    long    variable, time, then a column an ending (`y`, `y-lo-80`); group columns first
    arrays  [horizon, variable] ([window, horizon, variable] for a backtest) as the input's axes
            were; with other endings than "", a dict from ending to array
    """
    raise NotImplementedError


def write_scores(panel: Panel, scores: Sequence[np.ndarray], *, name: str = "score") -> Any:
    """Scores or labels for the rows of the input, in the order of its rows.

    scores      for each system [time] or [variable, time]

    [time] gives a column `name` beside the time stamps (an array [time] for arrays). A long frame
    then has one row a time stamp, in order of time. [variable, time] gives a column for each
    variable (wide), a column `name` (long), or an array [time, variable].
    """
    raise NotImplementedError
