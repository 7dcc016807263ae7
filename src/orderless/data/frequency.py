"""The step of a time axis: found from time stamps, used to fill gaps and to name the future."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Frequency:
    """The step from one time stamp to the next.

    unit     "step" (numbers), "nanoseconds" (a fixed duration), "days" (calendar days of a time
             zone, which may last 23 or 25 hours) or "months"
    count    how many of them make one step; 3 months is a quarter, 12 a year
    anchor   for months: the day of the month, 31 standing for the last day
    time_zone    for days and months: the zone whose calendar counts
    """

    count: float
    unit: str
    anchor: int = 0
    time_zone: str | None = None

    def __str__(self) -> str:
        """For people: "15 minutes", "1 month"."""
        raise NotImplementedError

    def future(self, last, horizon: int) -> np.ndarray:
        """The `horizon` time stamps that follow `last`."""
        raise NotImplementedError


def infer_frequency(times: np.ndarray, time_zone: str | None = None) -> Frequency | None:
    """The regular step on which all of `times` (sorted, no duplicates) lie, gaps allowed.

    None for fewer than two time stamps. Raises DataError where no regular step fits.
    """
    raise NotImplementedError


def regular_grid(times: np.ndarray, frequency: Frequency) -> tuple[np.ndarray, np.ndarray]:
    """All time stamps from first to last without gaps, and where each of `times` lies in them."""
    raise NotImplementedError
