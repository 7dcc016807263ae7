"""Saved models, opened for one verb."""

from pathlib import Path
from typing import Any

from orderless.errors import SettingError

VERB_OF = {"Forecaster": "predict", "Classifier": "classify", "Detector": "detect"}


def open_model(folder: Path, kind: str | None = None) -> Any:
    """The model in the folder, which must be of this kind where one is named."""
    from orderless.estimators import load

    model = load(folder)
    found = type(model).__name__
    if kind is not None and found != kind:
        raise SettingError(
            f"{folder} holds a {found}, and this needs a {kind}. "
            f"Use `orderless {VERB_OF[found]}` with it."
        )
    return model
