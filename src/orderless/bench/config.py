"""One cell of a table, completely described."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
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
    options                     everything else the model is given, as `frozen` makes it; `budget`
                                is how long a network is trained at most; where `epochs` stands
                                instead, they are whole passes unless a budget is added
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
    def full_name(self) -> str:
        """`table/dataset/setting/model/protocol`, the name of the cell among all."""
        return f"{self.table}/{self.name}"

    @property
    def file_name(self) -> str:
        """The name of its result within the folder of the table."""
        return re.sub(r"[^\w.-]", "_", self.name.replace("/", "-")) + ".json"

    @property
    def settings(self) -> dict[str, Any]:
        """The options as a dict."""
        return _thawed(self.options) if self.options else {}

    def option(self, name: str) -> Any:
        """The value of an option; an error names one that is missing."""
        if name not in self.settings:
            raise SettingError(f"The cell {self.name} lacks the option {name!r}.")
        return self.settings[name]

    def with_budget(self, epochs: int, steps: int | None) -> "CellConfig":
        """The same cell with another budget of training; a cell without training is as it was.

        steps   steps an epoch at most, None for a whole pass over the data
        """
        if not {"budget", "epochs"} & self.settings.keys():
            return self
        budget = {"epochs": epochs, "steps": steps}
        return replace(self, options=frozen(self.settings | {"budget": budget}))

    def to_json(self) -> dict[str, Any]:
        """The same as plain values, which read back as themselves."""
        return json.loads(json.dumps(asdict(self) | {"options": self.settings}))


def training_of(budget: Mapping[str, Any]) -> dict[str, Any]:
    """A budget as arguments of one of our estimators."""
    return {"epochs": budget["epochs"], "training": {"steps_per_epoch": budget["steps"]}}


def frozen(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Names and values that nobody can change, at any depth."""
    return tuple(
        (name, frozen(value) if isinstance(value, Mapping) else value)
        for name, value in options.items()
    )


def _thawed(value: Any) -> Any:
    """The inverse of `frozen`."""
    pairs = (
        isinstance(value, tuple)
        and value
        and all(
            isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in value
        )
    )
    return {name: _thawed(one) for name, one in value} if pairs else value
