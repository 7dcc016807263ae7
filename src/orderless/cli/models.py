"""Saved models, opened for one verb."""

import sys
import warnings
from pathlib import Path
from typing import Any

from orderless.errors import SettingError

VERB_OF = {"Forecaster": "predict", "Classifier": "classify", "Detector": "detect"}


def open_model(folder: Path, kind: str | None = None) -> Any:
    """The model in the folder, which must be of this kind where one is named."""
    from orderless.estimators import load

    # A warning is a line on stderr, without the place in the source that a programmer would want.
    with warnings.catch_warnings(record=True) as said:
        model = load(folder)
    for warning in said:
        print(warning.message, file=sys.stderr)
    found = type(model).__name__
    if kind is not None and found != kind:
        raise SettingError(
            f"{folder} holds a {found}, and this needs a {kind}. "
            f"Use `orderless {VERB_OF[found]}` with it."
        )
    return model
