"""Places that results go to, looked at before any work is done; and records written to them."""

import argparse
import json
import math
from pathlib import Path
from typing import Any


def check_places(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written, rather than find out when there is something to lose."""
    from orderless.data.files import TABLES, check_destination

    if getattr(arguments, "out", None) is not None:
        check_destination(arguments.out, TABLES)
    if getattr(arguments, "json", None) is not None:
        check_destination(arguments.json)
    picture = getattr(arguments, "plot", None) or getattr(arguments, "picture", None)
    if picture is not None:
        from orderless.estimators.pictures import check_picture

        check_picture(picture)


def write_record(record: Any, path: Path) -> None:
    """Write a record as JSON, which has no NaN and no infinity: they become null."""
    from orderless.training.checkpoints import write_atomically

    write_atomically(path, json.dumps(_plain(record), indent=2, allow_nan=False).encode())


def _plain(record: Any) -> Any:
    if isinstance(record, dict):
        return {key: _plain(value) for key, value in record.items()}
    if isinstance(record, list):
        return [_plain(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record
