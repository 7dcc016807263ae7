"""One cell of a table, completely described."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from orderless.bench.protocols import check_protocol
from orderless.errors import SettingError

DETERMINISTIC_SEEDS = (0,)
"""For models without randomness: a second seed would print the same figure twice."""


@dataclass(frozen=True)
class CellConfig:
    """What is run to get the figures of one cell. Nothing outside of it changes them but the data.

    table, dataset, setting     where the cell stands; a setting is a horizon, or "all"
    model                       a name that the table knows
    protocol                    fair or paper
    seeds                       each is one run
    options                     everything else the model is told, as name and value
    """

    table: str
    dataset: str
    setting: str
    model: str
    protocol: str
    seeds: tuple[int, ...] = DETERMINISTIC_SEEDS
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_protocol(self.protocol)
        if not self.seeds:
            raise SettingError(f"The cell {self.name} has no seed; give at least one.")

    @property
    def name(self) -> str:
        """`dataset/setting/model/protocol`, the name of the cell within its table."""
        return "/".join((self.dataset, self.setting, self.model, self.protocol))

    @property
    def file_name(self) -> str:
        """The name of its result within the folder of the table."""
        return self.name.replace("/", "-").replace(" ", "_") + ".json"

    def option(self, name: str) -> Any:
        """The value of an option; an error names one that is missing."""
        for known, value in self.options:
            if known == name:
                return value
        raise SettingError(f"The cell {self.name} lacks the option {name!r}.")

    def to_json(self) -> dict[str, Any]:
        """The same as plain values, which read back as themselves."""
        return json.loads(json.dumps(asdict(self) | {"options": dict(self.options)}))
