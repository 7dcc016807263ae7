"""Fit on some sensors, forecast others: more of them, in another order, one of them dead."""

import pandas as pd

from orderless import Forecaster
from orderless.data.simulate import plant

values, names = plant(seed=0, sensors=12, steps=600)
frame = pd.DataFrame(values, columns=names)
frame.insert(0, "time", pd.date_range("2026-01-01", periods=len(frame), freq="30min"))

model = Forecaster(horizon=12, context=96, preset="tiny", epochs=1).fit(frame[["time", *names[:6]]])

# Other sensors than those of `fit`, in another order, and one of them silent.
others = frame[["time", *names[:2:-1]]].assign(sensor_08=float("nan"))
forecast = model.predict(others, level=[80])
print(forecast.filter(regex="time|sensor_11").head())

result = model.backtest(frame[-200:], windows=5, level=[80])
print(result.scores)
