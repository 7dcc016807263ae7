"""`Forecaster`, `Classifier`, `Detector` and `load`: fit, predict, save."""

from orderless.estimators.backtest import Backtest
from orderless.estimators.classifier import Classifier
from orderless.estimators.detector import Detector
from orderless.estimators.forecaster import Forecaster
from orderless.estimators.saving import load

__all__ = ["Backtest", "Classifier", "Detector", "Forecaster", "load"]
