"""The grids of one table under one protocol belong together: what is true of all is said once."""

from collections.abc import Sequence
from itertools import groupby

from orderless.bench.grid import Grid


def sections(grids: Sequence[Grid]) -> list[list[Grid]]:
    """The grids in their order, those of a table and a protocol as one list."""
    return [list(each) for _, each in groupby(grids, _belonging)]


def _belonging(grid: Grid) -> tuple[str, str]:
    return grid.table.name, grid.protocol
