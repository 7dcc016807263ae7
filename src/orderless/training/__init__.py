"""The only training loop: losses, optimiser, schedule, averaging, checkpoints, progress."""

from orderless.training.config import TrainingConfig
from orderless.training.loop import Epoch, Outcome, Task, train
from orderless.training.losses import LOSSES

__all__ = ["LOSSES", "Epoch", "Outcome", "Task", "TrainingConfig", "train"]
