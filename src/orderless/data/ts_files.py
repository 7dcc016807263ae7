"""Cases for classification from .ts files, the format of the UEA/UCR archive."""

from os import PathLike
from pathlib import Path

import numpy as np

from orderless.data.text_files import read_text
from orderless.errors import DataError


def read_ts(path: str | PathLike[str]) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Cases [variable, time] and labels of a .ts file of the UEA/UCR archive.

    Cases may differ in length; the variables of a case may too, and are then padded with NaN at
    the end. `?` and `NaN` are missing values. Labels are None where the header says
    `@classLabel false`. Files with time stamps in their values are refused in words.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    header: dict[str, str] = {}
    cases, labels = [], []
    in_data = False
    for number, line in enumerate(read_text(path).splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if not in_data:
            if not line.startswith("@"):
                raise DataError(
                    f"Line {number} of {path.name} comes before @data and is no header. Is this a "
                    ".ts file?"
                )
            word, _, rest = line[1:].partition(" ")
            header[word.lower()] = rest.strip().lower()
            in_data = word.lower() == "data"
            if in_data:
                _check_ts_header(header, path.name)
            continue
        fields = line.split(":")
        if header["classlabel"].startswith("true"):
            labels.append(fields.pop().strip())
            if not labels[-1]:
                raise DataError(f"Line {number} of {path.name} has no class after its last colon.")
        try:
            rows = [_numbers(field.split(",")) for field in fields]
        except ValueError as error:
            raise DataError(
                f"Line {number} of {path.name} does not hold numbers: {error}."
            ) from error
        if not rows or (cases and len(rows) != len(cases[0])):
            raise DataError(
                f"Line {number} of {path.name} has {len(rows)} variables; the first case has "
                f"{len(cases[0]) if cases else 'none before it'}."
            )
        case = np.full((len(rows), max(map(len, rows))), np.nan)
        for variable, row in enumerate(rows):
            case[variable, : len(row)] = row
        cases.append(case)
    if not cases:
        raise DataError(f"{path.name} holds no case after @data.")
    return cases, np.array(labels) if labels else None


def _numbers(entries: list[str]) -> list[float]:
    return [np.nan if entry.strip() in ("?", "NaN", "") else float(entry) for entry in entries]


def _check_ts_header(header: dict[str, str], name: str) -> None:
    if header.get("timestamps") == "true":
        raise DataError(
            f"{name} gives time stamps inside its values, which is not read here. Convert it to a "
            "long CSV file: case, time, variable, value."
        )
    if "classlabel" not in header:
        raise DataError(f"{name} has no line @classLabel before @data. Add it: true or false.")
