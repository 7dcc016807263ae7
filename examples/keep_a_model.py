"""Save a model as JSON and safetensors, load it, and get the same forecast to the bit."""

import tempfile

import numpy as np

from orderless import Forecaster, load
from orderless.data.simulate import plant

values, _ = plant(seed=1, sensors=4, steps=300)
model = Forecaster(horizon=6, context=48, members=["naive", "ridge"]).fit(values)

with tempfile.TemporaryDirectory() as folder:
    model.save(folder)
    again = load(folder)

print("the same:", np.array_equal(model.predict(values), again.predict(values)))
