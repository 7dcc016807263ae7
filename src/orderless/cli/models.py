"""Saved models, opened for one verb."""

from pathlib import Path
from typing import Any

from orderless.errors import SettingError

VERB_OF = {"Forecaster": "predict", "Classifier": "classify", "Detector": "detect"}


def open_model(folder: Path, kind: str) -> Any:
    """The model in the folder, which must be of this kind."""
    from orderless.estimators import load

    model = load(folder)
    found = type(model).__name__
    if found != kind:
        raise SettingError(
            f"{folder} holds a {found}, and this needs a {kind}. "
            f"Use `orderless {VERB_OF[found]}` with it."
        )
    return model
