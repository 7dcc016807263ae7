"""Forecasting: windows, members, and the stack of them."""

from orderless.models.forecasting.factor_ridge import FactorRidge
from orderless.models.forecasting.fit import Choices, FittedStack, check_members, fit_stack
from orderless.models.forecasting.naive import Naive
from orderless.models.forecasting.network import NetworkForecast
from orderless.models.forecasting.ridge import Ridge
from orderless.models.forecasting.windows import (
    Errors,
    ForecastingWindows,
    WindowEvaluator,
    cut_forecasting_windows,
)
from orderless.models.member import Member

KINDS: dict[str, type[Member]] = {
    one.kind: one for one in (Naive, Ridge, FactorRidge, NetworkForecast)
}
"""The members of a saved forecaster."""

__all__ = [
    "KINDS",
    "Choices",
    "Errors",
    "FactorRidge",
    "FittedStack",
    "ForecastingWindows",
    "Naive",
    "NetworkForecast",
    "Ridge",
    "WindowEvaluator",
    "check_members",
    "cut_forecasting_windows",
    "fit_stack",
]
