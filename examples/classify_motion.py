"""Name the class of recordings of different length; the order of the sensors does not matter."""

from orderless import Classifier
from orderless.data.simulate import motions

recordings, labels, _ = motions(seed=0, cases=60)
model = Classifier(members=["flat ridge", "convolutions"]).fit(recordings[:40], labels[:40])
print(f"accuracy {model.score(recordings[40:], labels[40:]):.2f}")
for name, share in zip(model.classes_, model.predict_proba(recordings[40:41])[0], strict=True):
    print(f"{name}: {share:.3f}")
