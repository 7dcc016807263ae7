"""What a table of the paper is: its cells, how to run one, and how its figures are printed."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from orderless.bench.config import CellConfig
from orderless.bench.records import Outcome


@dataclass(frozen=True)
class Metric:
    """A figure of a cell: its name in the results, and how it is printed and compared.

    scientific  printed as 1.2e-06
    rounding    whether the least is rounding, so that none of those is better than another
    """

    name: str
    label: str
    digits: int
    higher_is_better: bool = False
    scientific: bool = False
    rounding: bool = False

    def text(self, value: float) -> str:
        """The figure as it is printed."""
        return f"{value:.{self.digits}{'e' if self.scientific else 'f'}}"


@dataclass(frozen=True)
class Table:
    """A table or an analysis of the paper.

    metrics     for each protocol that it has, the figures it shows
    setting     what a setting is called; empty where there is one a set
    simulated   whether it needs no data
    by_series   whether an average counts every series of M4 once, not every row
    peers       models of other libraries, and the package that each needs
    reference   the model that the others are compared with, where there is one
    comparable  whether published figures are of the same data and units, and may be ranked
    fit_of      what a cell is fitted on, where others can be fitted on the same
    """

    name: str
    title: str
    cells: Callable[[str, Sequence[int]], list[CellConfig]]
    run: Callable[[CellConfig], Outcome]
    models: tuple[str, ...]
    metrics: Mapping[str, tuple[Metric, ...]]
    setting: str = ""
    simulated: bool = False
    by_series: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    comparable: bool = True
    fit_of: Callable[[CellConfig], Hashable] = lambda cell: cell

    def heading(self, protocol: str) -> str:
        """Its title under a protocol."""
        return self.title if self.simulated else f"{self.title}, protocol `{protocol}`"
