"""Learn what is normal, then ask what is not, and which sensor is to blame."""

import numpy as np

from orderless import Detector
from orderless.data.simulate import faulty_plant

train, test, faults, names = faulty_plant(seed=0, sensors=6, train_steps=800, test_steps=400)
model = Detector().fit(train)

score = model.score(test)
alarm = model.predict(test)
print(f"{alarm.sum()} of {len(alarm)} time steps raise an alarm; {faults.any(1).sum()} are faulty")

worst = int(np.nanargmax(score))
blame = model.score(test, per_variable=True)[worst]
print(f"the highest score is at {worst}; the sensor to blame is {names[int(blame.argmax())]}")
