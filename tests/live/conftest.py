"""Models that stream in the tests, as small as they can be."""

import pandas as pd
import pytest

from orderless import Detector, Forecaster
from orderless.data.simulate import faulty_plant, plant

NETWORK = {"channels": 8, "states": 2, "stride": 4, "patch": 8}
CLOSED = ("naive", "seasonal naive", "ridge", "coupled ridge", "factor ridge")


@pytest.fixture(scope="session")
def forecaster():
    values, names = plant(0, sensors=5, steps=300, period=12)
    times = pd.date_range("2026-01-01", periods=len(values), freq="h")
    frame = pd.DataFrame(values, columns=names).assign(time=times)
    return Forecaster(6, 24, members=CLOSED, verbose=False).fit(frame)


@pytest.fixture(scope="session")
def healthy():
    train, _, _, names = faulty_plant(0, sensors=5, train_steps=400, test_steps=200, faults=3)
    return pd.DataFrame(train, columns=names).assign(time=range(400))


@pytest.fixture(scope="session")
def closed_detector(healthy):
    members = ("ridge", "PCA", "regression")
    return Detector(32, members=members, adapt=48, verbose=False).fit(healthy)


@pytest.fixture(scope="session")
def detector(healthy):
    training = {"steps_per_epoch": 2}
    model = Detector(16, network=NETWORK, adapt=16, epochs=1, training=training, verbose=False)
    return model.fit(healthy)


@pytest.fixture(scope="session")
def detector_of_groups(healthy):
    groups = [healthy.assign(plant=name) for name in ("one", "two")]
    groups[1][["sensor_0", "sensor_1"]] += 7.0
    members = ("ridge", "PCA", "regression")
    model = Detector(32, members=members, adapt=48, verbose=False)
    return model.fit(pd.concat(groups), group="plant")
