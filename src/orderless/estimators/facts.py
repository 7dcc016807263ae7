"""What may stand in the config of a saved estimator, fact by fact."""

from typing import Any

from orderless.data.frequency import UNITS
from orderless.errors import ModelFileError
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

STEPS = whole(1, 10**6)
"""A length in time."""
NAMES = listing(text(), distinct=True)
LABEL = either(text(), number(), flag, listing(either(text(), number(), flag)))
"""Of a column."""
SIZE = whole(1, 2**20)
MOST_CHARACTERS = 2**24
"""In the names of all classes, each as wide as the widest."""
RANGE = listing(number(0, 1e6), 2)
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
NETWORK = record(
    dict.fromkeys(
        ("patch", "stride", "channels", "layers", "expansion", "states", "kernel", "head_rank"),
        SIZE,
    )
    | dict.fromkeys(("long_steps", "short_steps", "spectral_steps"), RANGE)
    | dict.fromkeys(("spectral_layout", "gate", "pool", "coupling", "center"), text())
    | {"branches": NAMES, "scale": flag, "skip": flag, "dropout": number(0, 1)}
)
SHARED = {
    "variables_in": NAMES,
    "columns": mapping(LABEL),
    "seed": whole(0),
    "scales": mapping(listing(number(), 2)),
    "errors": plain,
    "history": listing(
        record(
            {"number": whole(0), "loss": optional(number()), "score": optional(number())},
        )
    ),
    "network": NETWORK,
    "report": listing(text()),
}


def _classifier(facts: dict[str, Check]) -> Check:
    """Variables that are not told apart by name have one scale, under no name."""
    each = record(facts)

    def check(value: Any, where: str) -> None:
        each(value, where)
        if not value["names"] and "" not in value["scales"]:
            raise ModelFileError(f"{where}.scales lacks the scale of all variables.")
        width = int(value["classes_dtype"][2:]) if value["classes_dtype"][1] in "US" else 0
        if width * len(value["classes"]) > MOST_CHARACTERS:
            raise ModelFileError(f"{where}.classes_dtype is too wide for so many classes.")

    return check


FACTS: dict[str, Check] = {
    "Forecaster": record(
        SHARED
        | {
            "context": STEPS,
            "horizon": STEPS,
            "season": STEPS,
            "blend": number(0, 1),
            "quantiles": listing(number(0, 1)),
            "calibration_errors": optional(whole(0)),
            "frequencies": FREQUENCIES,
            "usual_spreads": optional(mapping(number(0))),
        }
    ),
    "Classifier": _classifier(
        SHARED
        | {
            "classes": listing(either(text(), number(), flag)),
            "classes_dtype": text(r"object|[<>|=][biuf][1248]|[<>|=][US]\d{1,4}"),
            "length": STEPS,
            "names": NAMES,
        }
    ),
    "Detector": record(
        SHARED
        | {
            "context": STEPS,
            "shortest": STEPS,
            "threshold": number(),
            "usual": mapping(number()),
            "overall": number(),
            "levels": optional(mapping(mapping(number()))),
            "factors": listing(listing(number(), 2)),
            "marked": flag,
            "missing": optional(number(0, 1)),
            "frequencies": FREQUENCIES,
            "too_few": optional(whole(0)),
        }
    ),
}
