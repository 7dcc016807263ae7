"""Learn what is usual from ordinary data, then ask what is odd, and which sensor is to blame."""

import numpy as np

from orderless import Detector
from orderless.data.simulate import faulty_plant

train, test, faults, names = faulty_plant(seed=0, sensors=6, train_steps=800, test_steps=400)
model = Detector(context=48, epochs=2).fit(train)

score = model.score(test)
alarm = model.predict(test)
print(f"{alarm.sum()} of {len(alarm)} moments ring; {faults.any(1).sum()} are faulty")

worst = int(np.nanargmax(score))
blame = model.score(test, per_variable=True)[worst]
print(f"the oddest moment is {worst}; the oddest sensor there is {names[int(blame.argmax())]}")
