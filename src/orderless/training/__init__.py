"""The only training loop: losses, optimiser, schedule, averaging, checkpoints, progress."""

from orderless.training.config import TrainingConfig
from orderless.training.loop import Task, train
from orderless.training.losses import LOSSES
from orderless.training.outcome import Epoch, Outcome

__all__ = ["LOSSES", "Epoch", "Outcome", "Task", "TrainingConfig", "train"]
