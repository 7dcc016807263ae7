"""Tables and analyses by name."""

from collections.abc import Hashable

from orderless.bench.analyses import ablation, costs, flops, simulated, transfer
from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import files_there, find_entry
from orderless.bench.records import Outcome
from orderless.bench.table import Table
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table
from orderless.errors import SettingError

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        long_term_table.TABLE,
        m4_table.TABLE,
        classification_table.TABLE,
        anomaly_table.TABLE,
    )
}
ANALYSES: dict[str, Table] = {
    table.name: table
    for table in (
        simulated.ORDERING,
        simulated.SCALING,
        ablation.TABLE,
        costs.EFFICIENCY,
        flops.TABLE,
        costs.POOLS_TABLE,
        transfer.TABLE,
    )
}
ALL = TABLES | ANALYSES


def find_table(name: str) -> Table:
    """The table or analysis of that name."""
    if name not in ALL:
        raise SettingError(f"There is no table {name!r}; choose one of {', '.join(ALL)}.")
    return ALL[name]


def run_cell(config: CellConfig) -> Outcome:
    """Run a cell as its table does."""
    return find_table(config.table).run(config)


def has_data(config: CellConfig) -> bool:
    """Whether the data of a cell is here, or needs no file."""
    return find_table(config.table).simulated or bool(files_there(find_entry(config.dataset)))


def fit_of(config: CellConfig) -> Hashable:
    """What a cell is fitted on; the same for cells of several tables that share a fit."""
    return find_table(config.table).fit_of(config)
