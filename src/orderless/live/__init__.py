"""Fitted models on data that arrives one time step at a time."""

from orderless.live.streams import Forecast, ForecastStream, Score, ScoreStream, Stream

__all__ = ["Forecast", "ForecastStream", "Score", "ScoreStream", "Stream"]
