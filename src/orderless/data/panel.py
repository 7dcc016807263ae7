"""What flows between the rooms: independent systems, each a set of variables along time.

Values lie [variable, time] on a regular grid of time stamps. What was not observed is marked in
`observed`; its value is NaN and must not be used. Systems may differ in length and in variables.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from orderless.data.frequency import Frequency


@dataclass(frozen=True)
class Form:
    """How the data came in, so that results can go out the same way.

    `kind` is "wide", "long", "array" (one array) or "arrays" (a list or a 3-D array of systems).
    `library` is the narwhals name of the frame library, "dict" for a mapping of columns, or None
    for arrays. `index` says that the time stamps were the index of a pandas frame. `labels` maps
    the name of a variable to the column label it had.
    """

    kind: str
    library: str | None = None
    time: Hashable = None
    variable: Hashable = None
    value: Hashable = None
    group: Hashable = None
    index: bool = False
    time_type: str = "step"
    time_zone: str | None = None
    dimensions: int = 2
    labels: tuple[tuple[str, Hashable], ...] = ()


@dataclass(frozen=True)
class System:
    """One system: a set of variables observed together.

    values      [variable, time] float64, NaN where not observed
    observed    [variable, time] bool
    variables   a name for each row of `values`, in the order the input had them, no name twice
    times       [time] regular: datetime64[ns] (UTC where a zone was given), int64 or float64
    frequency   the step from one time to the next; None where a single time stamp tells nothing
    rows        [input row] where each row of the input lies in `times`
    row_variables   [input row] which variable each row of a long frame holds; None otherwise
    name        the value of the group column, or the number of the system
    """

    values: np.ndarray
    observed: np.ndarray
    variables: tuple[str, ...]
    times: np.ndarray
    frequency: Frequency | None
    rows: np.ndarray
    row_variables: np.ndarray | None = None
    name: Hashable = 0


@dataclass(frozen=True)
class Panel:
    """Independent systems and the form they came in. Nothing couples one system to another."""

    systems: tuple[System, ...]
    form: Form

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable name of any system, each once, in order of first appearance."""
        raise NotImplementedError

    @property
    def missing_share(self) -> float:
        """The share of all (variable, time) entries that was not observed."""
        raise NotImplementedError

    @property
    def frequency(self) -> Frequency | None:
        """The step that most systems have; None where no system has two time stamps."""
        raise NotImplementedError


def canonical_order(variables: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Two index arrays: `order` sorts the variables by name, `restore` undoes it.

    `values[order]` is the same array for every order of the columns, so a computation on it is
    the same bit for bit; `result[restore]` puts the results back in the caller's order.
    """
    raise NotImplementedError
