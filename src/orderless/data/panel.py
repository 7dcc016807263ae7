"""What flows between the modules: independent systems, each a set of variables along time.

Values lie [variable, time] on a regular grid of time stamps. What was not observed is marked in
`observed`; its value is NaN and must not be used. Systems may differ in length and in variables.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orderless.data.frequency import Frequency


@dataclass(frozen=True)
class TimeForm:
    """How time stamps were written.

    kind        "none" (rows were counted), "number", "datetime", "date", "duration" or "text"
    name        of the column or index
    index       True where they were the index of a pandas frame
    time_zone   the name of the zone of zone-aware time stamps
    dtype       of the column or index in its own library
    unit        in which that type counts, as NumPy calls it: "D" to "ns"
    floats      whether numbers were floating-point numbers
    pattern     for text and for numbers that are dates: how to write a time stamp, as for
                `strftime`, with `%3f` for three digits of a second
    period      for an index of pandas periods: their frequency
    """

    kind: str = "none"
    name: Hashable = None
    index: bool = False
    time_zone: str | None = None
    dtype: Any = None
    unit: str = "ns"
    floats: bool = False
    pattern: str | None = None
    period: str | None = None

    @property
    def only_counts(self) -> bool:
        """Whether rows were counted, by nobody or by an index of numbers without a name."""
        return self.kind == "none" or (self.kind == "number" and self.index and self.name is None)


@dataclass(frozen=True)
class Form:
    """How the data came in, so that results can go out the same way.

    kind        "wide", "long", "array" (one array) or "arrays" (several systems)
    library     the frame library as narwhals calls it; None for arrays and for a dict of columns
    dimensions  for arrays: of each system's array, 1 or 2, or one number for all; of one 3-D
                array, 3
    labels      from the name of a variable to the label it had: any hashable value
    row_labels  the index of a pandas frame
    dtypes      from the label of the group or variable column to its type in its own library
    """

    kind: str
    library: Any = None
    time: TimeForm = TimeForm()
    variable: Hashable = None
    value: Hashable = None
    group: Hashable = None
    dimensions: int | tuple[int, ...] = 2
    row_labels: Any = None
    labels: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """One system: a set of variables observed together.

    values      [variable, time] float64, NaN where not observed
    observed    [variable, time] bool
    variables   a name for each row of `values`, in the order the input had them, no name twice
    times       [time] regular: datetime64[ns] (UTC where a zone was given), timedelta64[ns], int64
                or float64
    frequency   the step from one time to the next; None where a single time stamp shows none,
                and none is known otherwise
    rows        [input row] where each row of the system's input lies in `times`
    input_rows  [input row] the number of that row in the whole input
    row_variables   [input row] which variable each row of a long frame holds; None otherwise
    name        the value of the group column, or the number of the system
    """

    values: np.ndarray
    observed: np.ndarray
    variables: tuple[str, ...]
    times: np.ndarray
    frequency: Frequency | None
    rows: np.ndarray
    input_rows: np.ndarray
    row_variables: np.ndarray | None = None
    name: Any = 0


@dataclass(frozen=True)
class Panel:
    """Independent systems and the form they came in. Nothing couples one system to another."""

    systems: tuple[System, ...]
    form: Form

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable name of any system, each once, in order of first appearance."""
        return tuple(dict.fromkeys(name for system in self.systems for name in system.variables))

    @property
    def widest(self) -> int:
        """How many variables the system with the most of them has."""
        return max(len(system.variables) for system in self.systems)

    @property
    def missing_share(self) -> float:
        """The share of all (variable, time) entries that was not observed."""
        entries = sum(system.observed.size for system in self.systems)
        return 1.0 - sum(int(system.observed.sum()) for system in self.systems) / entries

    @property
    def frequency(self) -> Frequency | None:
        """The step that most systems have; None where no system has two time stamps."""
        known = Counter(one.frequency for one in self.systems if one.frequency is not None)
        return known.most_common(1)[0][0] if known else None


def canonical_order(variables: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Two index arrays: `order` sorts the variables by name, `restore` undoes it.

    `values[order]` is the same array for every order of the columns, so a computation on it is
    the same bit for bit; `result[restore]` puts the results back in the caller's order.
    """
    order = np.array(sorted(range(len(variables)), key=variables.__getitem__), np.int64)
    restore = np.empty_like(order)
    restore[order] = np.arange(len(order))
    return order, restore
