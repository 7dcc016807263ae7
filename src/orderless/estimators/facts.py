"""What may stand in the config of a saved estimator, fact by fact."""

from typing import Any

from orderless.data.frequency import UNITS
from orderless.errors import ModelFileError
from orderless.models.facts import NAMES, STEPS
from orderless.models.stack import MEMBERS
from orderless.schema import (
    Check,
    either,
    flag,
    listing,
    mapping,
    number,
    optional,
    plain,
    record,
    text,
    whole,
)

LABEL = either(text(), number(), flag, listing(either(text(), number(), flag)))
"""Of a column."""
MOST_CHARACTERS = 2**24
"""In the names of all classes, each as wide as the widest."""
FREQUENCIES = listing(
    record(
        {
            "count": number(1e-300),
            "unit": text("|".join(UNITS)),
            "anchor": whole(0, 31),
            "time_zone": optional(text(r"[\w+\-/:]*")),
        }
    )
)
HISTORY = listing(
    record({"number": whole(0), "loss": optional(number()), "score": optional(number())})
)
"""The epochs of a training."""
_TRANSFORM = record(
    {
        "scales": mapping(listing(number(), 2)),
        "baselines": optional(mapping(number(0))),
        "centers": optional(mapping(mapping(number()))),
        "shared": flag,
        "watch_constants": flag,
        "limit": number(1, 1e8),
    }
)


def _transform(value: Any, where: str) -> None:
    """Where all variables have one scale, it is under no name."""
    _TRANSFORM(value, where)
    if value["shared"] and "" not in value["scales"]:
        raise ModelFileError(f"{where} lacks the scale of all variables.")


SHARED = {
    "variables_in": NAMES,
    "columns": mapping(LABEL),
    "seed": whole(0),
    "transform": _transform,
    "errors": plain,
    "weights": mapping(number(0, 1)),
    "history": mapping(HISTORY),
    "members": MEMBERS,
    "report": listing(text()),
}


def _classifier(facts: dict[str, Check]) -> Check:
    """Every member knows the same classes."""
    each = record(facts)

    def check(value: Any, where: str) -> None:
        each(value, where)
        for member in value["members"]:
            if member["facts"].get("classes") != len(value["classes"]):
                raise ModelFileError(f"{where}: {member['name'][:60]} knows other classes.")
        width = int(value["classes_dtype"][2:]) if value["classes_dtype"][1] in "US" else 0
        if width * len(value["classes"]) > MOST_CHARACTERS:
            raise ModelFileError(f"{where}.classes_dtype is too wide for so many classes.")

    return check


def _detector(facts: dict[str, Check]) -> Check:
    """Every member has units."""
    each = record(facts)

    def check(value: Any, where: str) -> None:
        each(value, where)
        units = value["calibration"]["units"]
        if {len(units["variables"]), len(units["overall"])} != {len(value["members"])}:
            raise ModelFileError(f"{where}.calibration.units are not those of as many members.")

    return check


FACTS: dict[str, Check] = {
    "Forecaster": record(
        SHARED
        | {
            "context": STEPS,
            "horizon": STEPS,
            "season": STEPS,
            "factors": mapping(NAMES),
            "quantiles": listing(number(0, 1)),
            "calibration_errors": whole(0),
            "ranges": mapping(listing(number(), 2)),
            "histories": listing(STEPS, distinct=True),
            "frequencies": FREQUENCIES,
        }
    ),
    "Classifier": _classifier(
        SHARED
        | {
            "classes": listing(either(text(), number(), flag)),
            "classes_dtype": text(r"object|[<>|=][biuf][1248]|[<>|=][US]\d{1,4}"),
            "length": STEPS,
            "identify": optional(text("name")),
        }
    ),
    "Detector": _detector(
        SHARED
        | {
            "context": STEPS,
            "contamination": number(0, 1),
            "adapt": optional(STEPS),
            "origin": record(
                {
                    "frequencies": FREQUENCIES,
                    "context": STEPS,
                    "shortest": STEPS,
                    "missing": number(0, 1),
                    "ranges": mapping(listing(number(), 2)),
                }
            ),
            "calibration": record(
                {
                    "factors": listing(listing(number(), 2)),
                    "threshold": number(),
                    "thresholds": mapping(number(0)),
                    "too_few": optional(whole(0)),
                    "units": record(
                        {
                            "variables": listing(mapping(number(1e-12))),
                            "overall": listing(number(1e-12)),
                        }
                    ),
                }
            ),
        }
    ),
}
