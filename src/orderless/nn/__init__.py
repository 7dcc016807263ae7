"""Layers and the network: parameters around `ops`, every weight shared by the variables."""

from orderless.nn.classification import ClassificationNetwork
from orderless.nn.config import PRESETS, NetworkConfig, default, paper, tiny
from orderless.nn.factor_fit import fit_dynamics, fit_factor_forecasts
from orderless.nn.factor_ridge import FactorForecast
from orderless.nn.factor_statistics import FactorStatistics, ScoreStatistics
from orderless.nn.forecasting import Forecast, ForecastingNetwork
from orderless.nn.network import Features, VI2DMamba
from orderless.nn.reconstruction import ReconstructionNetwork
from orderless.nn.ridge import LinearForecast, RidgeStatistics
from orderless.nn.ssm import VI2DSSM

__all__ = [
    "PRESETS",
    "VI2DSSM",
    "ClassificationNetwork",
    "FactorForecast",
    "FactorStatistics",
    "Features",
    "Forecast",
    "ForecastingNetwork",
    "LinearForecast",
    "NetworkConfig",
    "ReconstructionNetwork",
    "RidgeStatistics",
    "ScoreStatistics",
    "VI2DMamba",
    "default",
    "fit_dynamics",
    "fit_factor_forecasts",
    "paper",
    "tiny",
]
