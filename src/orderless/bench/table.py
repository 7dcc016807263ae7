"""What a table of the paper is: its cells, how to run one, and how its figures are printed."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orderless.bench.config import DETERMINISTIC_SEEDS, CellConfig, frozen
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome

Options = Mapping[str, Any]


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
    """A table or an analysis of the paper: a cell for each set, setting and column.

    settings    horizons, say, or numbers of variables; "all" where there is one a set
    columns     what each model is given; a name alone is looked up by `run`
    drawn       the columns that draw numbers, and so have seeds; None where all do
    metrics     for each protocol that it has, the figures it shows
    paper       what a column of a set is given besides under `paper`
    seeds_of    the seeds of a setting, where they are not those that were asked for
    simulated   whether it needs no data
    by_series   whether an average counts every series of M4 once, not every row
    peers       models of other libraries, and the package that each needs
    reference   the model that the others are compared with, where there is one
    comparable  whether published figures are of the same data and units, and may be ranked
    fit_of      what a cell is fitted on, where others can be fitted on the same
    """

    name: str
    title: str
    run: Callable[[CellConfig], Outcome]
    datasets: tuple[str, ...]
    columns: Mapping[str, Options]
    metrics: Mapping[str, tuple[Metric, ...]]
    settings: tuple[str, ...] = ("all",)
    drawn: tuple[str, ...] | None = None
    paper: Callable[[str, str], Options] = lambda dataset, model: {}
    seeds_of: Callable[[str, Sequence[int]], Sequence[int]] = lambda setting, seeds: seeds
    simulated: bool = False
    by_series: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    comparable: bool = True
    fit_of: Callable[[CellConfig], Hashable] = lambda cell: cell

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def cells(self, protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
        """Every cell, those of one set and setting together."""
        return [
            self.cell(dataset, setting, model, protocol, seeds)
            for dataset in self.datasets
            for setting in self.settings
            for model in self.columns
        ]

    def cell(
        self,
        dataset: str,
        setting: str,
        model: str,
        protocol: str = FAIR,
        seeds: Sequence[int] = (0,),
    ) -> CellConfig:
        """The complete setting of one cell."""
        options = dict(self.columns[model])
        if protocol != FAIR:
            options |= self.paper(dataset, model)
        drawn = self.drawn is None or model in self.drawn
        seeds = self.seeds_of(setting, seeds) if drawn else DETERMINISTIC_SEEDS
        return CellConfig(
            self.name, dataset, setting, model, protocol, tuple(seeds), frozen(options)
        )

    def heading(self, protocol: str) -> str:
        """Its title under a protocol."""
        return self.title if self.simulated else f"{self.title}, protocol `{protocol}`"
