"""Tables and analyses by name: their cells, how to run one, and how to read its figures."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orderless.bench.analyses import (
    ablation,
    efficiency,
    flops,
    ordering,
    pools,
    scaling,
    transfer,
)
from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import files_there, find_entry
from orderless.bench.models.layer_forecaster import LAYERS
from orderless.bench.models.peers import PEERS
from orderless.bench.models.rocket import CLASSES
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.records import Outcome
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table
from orderless.errors import SettingError


@dataclass(frozen=True)
class Metric:
    """A column of figures: its name in the results, and how it is printed and compared."""

    name: str
    label: str
    digits: int
    higher_is_better: bool = False
    scientific: bool = False
    """Printed as 1.2e-06."""
    rounding: bool = False
    """Whether the least is rounding, so that none of those is better than another."""

    @property
    def form(self) -> str:
        """How a figure is printed, as a format."""
        return f".{self.digits}{'e' if self.scientific else 'f'}"


@dataclass(frozen=True)
class Table:
    """A table or an analysis of the paper.

    metrics     for each protocol that it has, the figures it shows
    setting     what a setting is called; empty where there is one a set
    simulated   whether it needs no data
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
    metrics: dict[str, tuple[Metric, ...]]
    setting: str = ""
    simulated: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    comparable: bool = True
    fit_of: Callable[[CellConfig], Hashable] = lambda cell: cell


MSE, MAE = Metric("mse", "MSE", 3), Metric("mae", "MAE", 3)
SMAPE, MASE, OWA = Metric("smape", "SMAPE %", 3), Metric("mase", "MASE", 3), Metric("owa", "OWA", 3)
ACCURACY = Metric("accuracy", "accuracy %", 1, higher_is_better=True)
POINT_ADJUSTED = (
    Metric("point_adjusted_f1", "point-adjusted F1 %", 2, higher_is_better=True),
    Metric("point_adjusted_precision", "point-adjusted precision %", 2, higher_is_better=True),
    Metric("point_adjusted_recall", "point-adjusted recall %", 2, higher_is_better=True),
)
DETECTION = (
    Metric("vus_pr", "VUS-PR %", 1, higher_is_better=True),
    Metric("auc_pr", "AUC-PR %", 1, higher_is_better=True),
    Metric("affiliation_f1", "affiliation F1 %", 1, higher_is_better=True),
    Metric("range_f1", "range F1 %", 1, higher_is_better=True),
    Metric("point_f1", "point F1 %", 1, higher_is_better=True),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            long_term_table.NAME,
            "Long-term forecasting",
            long_term_table.cells,
            long_term_table.run,
            long_term_table.MODELS,
            {FAIR: (MSE, MAE), PAPER: (MSE, MAE)},
            "horizon",
            peers=dict.fromkeys(PEERS, "neuralforecast"),
            fit_of=long_term_table.fit_of,
        ),
        Table(
            m4_table.NAME,
            "Short-term forecasting on M4",
            m4_table.cells,
            m4_table.run,
            m4_table.MODELS,
            {FAIR: (SMAPE, MASE, OWA), PAPER: (SMAPE, MASE, OWA)},
        ),
        Table(
            classification_table.NAME,
            "Classification on UEA",
            classification_table.cells,
            classification_table.run,
            classification_table.MODELS,
            {FAIR: (ACCURACY,), PAPER: (ACCURACY,)},
            peers=dict.fromkeys(CLASSES, "aeon"),
        ),
        Table(
            anomaly_table.NAME,
            "Anomaly detection",
            anomaly_table.cells,
            anomaly_table.run,
            anomaly_table.MODELS,
            {FAIR: DETECTION, PAPER: POINT_ADJUSTED},
        ),
    )
}

ERRORS = (
    Metric("mae", "MAE", 4),
    Metric("mape", "MAPE, as a share", 3),
    Metric("seconds_an_epoch", "seconds an epoch", 3),
)
DRIFT = Metric("drift", "largest change of a forecast", 1, scientific=True, rounding=True)
COSTS = (
    Metric("milliseconds_a_step", "ms a training step", 1),
    Metric("megabytes", "peak MB of a training step", 1),
)
OPERATIONS = (
    Metric("gigaflops", "GFLOPs of a forward pass", 2),
    Metric("forward_megabytes", "peak MB of a forward pass", 1),
    Metric("step_megabytes", "peak MB of a training step", 1),
)
HALVES = (
    Metric("mse_seen", f"MSE of the half that `{transfer.HALF}` has seen", 3),
    Metric("mse_unseen", "MSE of the half that it has not seen", 3),
    Metric("mse_all", "MSE of all variables together", 3),
)
SPEED = (
    Metric("seconds_an_epoch", "seconds an epoch", 2),
    Metric("windows_a_second", "windows a second", 0, higher_is_better=True),
)


def _simulated(module: Any, title: str, models: Sequence[str], *metrics: Metric) -> Table:
    return Table(
        module.NAME,
        title,
        module.cells,
        module.run,
        tuple(models),
        {FAIR: metrics},
        "variables",
        simulated=True,
        comparable=False,
    )


ANALYSES: dict[str, Table] = {
    table.name: table
    for table in (
        _simulated(ordering, "Order of the variables", LAYERS, *ERRORS, DRIFT),
        _simulated(scaling, "Number of variables", LAYERS, *ERRORS),
        Table(
            ablation.NAME,
            "Ablation",
            ablation.cells,
            ablation.run,
            tuple(ablation.VARIANTS),
            {FAIR: (MSE, MAE), PAPER: (MSE, MAE)},
            "horizon",
            reference=ablation.WHOLE,
            comparable=False,
            fit_of=ablation.fit_of,
        ),
        _simulated(efficiency, "Efficiency", LAYERS, *SPEED),
        replace(
            _simulated(flops, "Operations and memory", flops.MODELS, *OPERATIONS),
            peers=dict.fromkeys(flops.PEERS, "neuralforecast"),
        ),
        _simulated(pools, "Cost of a pool", pools.POOLS, *COSTS),
        Table(
            transfer.NAME,
            "Transfer over variables",
            transfer.cells,
            transfer.run,
            (transfer.HALF, transfer.ALL),
            {FAIR: HALVES},
            "horizon",
            reference=transfer.ALL,
            fit_of=transfer.fit_of,
        ),
    )
}


def run_cell(config: CellConfig) -> Outcome:
    """Run a cell as its table does."""
    return find_table(config.table).run(config)


def has_data(config: CellConfig) -> bool:
    """Whether the data of a cell is here, or needs no file."""
    return find_table(config.table).simulated or bool(files_there(find_entry(config.dataset)))


def fit_of(config: CellConfig) -> Hashable:
    """What a cell is fitted on; the same for cells of several tables that share a fit."""
    return find_table(config.table).fit_of(config)


def find_table(name: str) -> Table:
    """The table or analysis of that name."""
    known = TABLES | ANALYSES
    if name not in known:
        raise SettingError(f"There is no table {name!r}; choose one of {', '.join(known)}.")
    return known[name]
