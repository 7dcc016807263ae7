"""`Forecaster`, `Classifier`, `Detector` and `load`: fit, predict, save.

Each is imported when it is first asked for: who forecasts does not load what classifies.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderless.estimators.backtest import Backtest
    from orderless.estimators.classifier import Classifier
    from orderless.estimators.detector import Detector
    from orderless.estimators.forecaster import Forecaster
    from orderless.estimators.saving import load

MODULES = {
    "Backtest": "backtest",
    "Classifier": "classifier",
    "Detector": "detector",
    "Forecaster": "forecaster",
    "load": "saving",
}

__all__ = ["Backtest", "Classifier", "Detector", "Forecaster", "load"]


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
