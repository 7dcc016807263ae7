"""Places that results go to, looked at before any work is done; and records written to them."""

import argparse
import json
import math
import os
from itertools import combinations
from pathlib import Path
from typing import Any

from orderless.io import check_destination, write_file

OUTPUTS = ("out", "json", "plot", "picture")
INPUTS = {"data": "the data", "config": "--config"}
PARTS = ("config.json", "model-*.safetensors", "README.md")
"""Of a saved model, as `estimators.saving` has them, which takes long to import."""


def check_places(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written, or that would destroy what is read or written besides.

    Asked before there is something to lose.
    """
    from orderless.data.files import TABLES

    if getattr(arguments, "out", None) is not None:
        check_destination(arguments.out, TABLES)
    if getattr(arguments, "json", None) is not None:
        check_destination(arguments.json)
    picture = getattr(arguments, "plot", None) or getattr(arguments, "picture", None)
    if picture is not None:
        from orderless.estimators.pictures import check_picture

        check_picture(picture)
    _check_apart(arguments)


def write_record(record: Any, path: Path) -> None:
    """Write a record as JSON, which has no NaN and no infinity: they become null."""
    write_file(path, json.dumps(_plain(record), indent=2, allow_nan=False).encode())


def _check_apart(arguments: argparse.Namespace) -> None:
    """Every output is a file of its own: no input, no part of the model, no other output."""
    from orderless.errors import SettingError

    given = {name: path for name, path in vars(arguments).items() if path is not None}
    outputs = {f"--{name}": given[name] for name in OUTPUTS if name in given}
    inputs = {what: given[name] for name, what in INPUTS.items() if name in given}
    for flag, path in outputs.items():
        for what, source in inputs.items():
            if _is_same(path, source):
                raise SettingError(
                    f"{flag} {path} is the file that {what} is read from, and would replace it. "
                    "Name another file."
                )
        if "model" in given and any(_is_same(path, part) for part in _parts(given["model"])):
            raise SettingError(
                f"{flag} {path} is a part of the model {given['model']}, and would replace it. "
                "Name another file."
            )
    for (flag, path), (other, place) in combinations(outputs.items(), 2):
        if _is_same(path, place):
            raise SettingError(f"{flag} and {other} both name {path}. Give each its own file.")


def _parts(model: Path) -> list[Path]:
    return [part for name in PARTS for part in (*model.glob(name), model / name)]


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by links of either kind, or would if it were there."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _plain(record: Any) -> Any:
    if isinstance(record, dict):
        return {key: _plain(value) for key, value in record.items()}
    if isinstance(record, list):
        return [_plain(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record
