"""Every setting of a training run, in one frozen record."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from orderless.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of one run. Nothing here depends on the data or on the network."""

    epochs: int = 10
    """Passes over the training windows at most; 0 validates the start and returns it."""
    batch_size: int = 64
    """Windows in one step, over all processes together."""
    steps_per_epoch: int | None = None
    """Ends an epoch early, for data sets with more windows than a pass needs."""
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    """For matrices only; biases and norms are never decayed."""
    warmup: float = 0.1
    """Share of all steps in which the learning rate rises from zero; then a cosine to zero."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    average: float = 0.999
    """Decay of the weight average, reached slowly so that the average of a short run is recent."""
    patience: int = 3
    """Epochs without a better validation score before the run stops."""
    seed: int = 0
    device: str = "auto"
    """`auto` takes the GPU if there is one; `cpu` and `cuda` are obeyed."""
    precision: str = "no"
    """`no` (float32), `bf16` or `fp16`."""
    checkpoint: Path | None = None
    """Folder for the state of the run. A run that finds its own checkpoint there continues it."""
    checkpoint_seconds: float = 60.0
    """How often a checkpoint is written within an epoch; one is always written at its end."""
    time_limit: float | None = None
    """Seconds after which no further epoch begins; how many epochs that gives, the machine decides.
    A checkpoint can be continued, with another limit too."""

    def __post_init__(self) -> None:
        """Take numbers of NumPy and folders as text for what they are; refuse what cannot be."""
        for one in fields(self):
            value = getattr(self, one.name)
            # The JSON of a checkpoint knows no numbers of NumPy.
            if isinstance(value, np.generic):
                object.__setattr__(self, one.name, value.item())
        if isinstance(self.checkpoint, str):
            object.__setattr__(self, "checkpoint", Path(self.checkpoint))
        limits = {
            "epochs": (self.epochs >= 0, "0 or more"),
            "batch_size": (self.batch_size >= 1, "1 or more"),
            "steps_per_epoch": (self.steps_per_epoch is None or self.steps_per_epoch >= 1, ">= 1"),
            "learning_rate": (self.learning_rate > 0, "positive"),
            "weight_decay": (self.weight_decay >= 0, "0 or more"),
            "warmup": (0 <= self.warmup < 1, "in [0, 1)"),
            "time_limit": (self.time_limit is None or self.time_limit > 0, "positive"),
            "clip": (self.clip > 0, "positive"),
            "average": (0 <= self.average < 1, "in [0, 1)"),
            "patience": (self.patience >= 1, "1 or more"),
            "device": (self.device in ("auto", "cpu", "cuda"), "auto, cpu or cuda"),
            "precision": (self.precision in ("no", "bf16", "fp16"), "no, bf16 or fp16"),
        }
        for name, (holds, expected) in limits.items():
            if not holds:
                raise SettingError(f"`{name}` is {getattr(self, name)!r}, and must be {expected}.")

    def resume_key(self) -> dict[str, object]:
        """The settings that change the weights: a checkpoint is continued only if they agree."""
        place = ("device", "checkpoint", "checkpoint_seconds", "time_limit")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in place}
