"""How a network becomes a member: weights drawn by the seed, trained by the one loop, kept."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from orderless.errors import DtypeError, SettingError
from orderless.models.settings import build_training_config
from orderless.models.threads import threads_for
from orderless.training import Outcome, Task, TrainingConfig, train

Network = TypeVar("Network", bound=nn.Module)
GENERATOR = threading.RLock()
"""Held by whoever draws from torch's generator, of which all threads have one: fits in several
threads would draw each other's numbers."""
if hasattr(os, "register_at_fork"):
    # A child has the lock as it was, but not the thread that would let go of it.
    os.register_at_fork(after_in_child=GENERATOR._at_fork_reinit)  # pyrefly: ignore


@dataclass(frozen=True)
class Run:
    """What the networks of one `fit` have in common.

    training    the user's own settings of `TrainingConfig`
    checkpoint  the folder that holds a checkpoint for each network; None for none
    """

    seed: int
    epochs: int
    device: str = "auto"
    precision: str = "no"
    training: Mapping[str, Any] | None = None
    checkpoint: Path | None = None
    show_progress: int = 0

    def __post_init__(self) -> None:
        """Refuse settings before any work, also where nothing will be trained."""
        self._config({}, None)

    def draw(self, build: Callable[[], Network]) -> Network:
        """A network in float32 whose random weights follow from the seed alone."""
        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return build().float()

    def train(self, task: Task, name: str, rows: int, defaults: Mapping[str, Any]) -> Outcome:
        """Train the network of a task; it is left with its best weights, ready to answer.

        name        of the member: each has a checkpoint of its own
        rows        contexts of one variable in a step: how many threads it is worth
        defaults    the settings of this kind of member, which the user's own replace
        """
        own = None if self.checkpoint is None else self.checkpoint / name.replace(" ", "-")
        settings = self._config(defaults, own)
        # Also where the caller has switched gradients off.
        with GENERATOR, threads_for(rows), torch.enable_grad():
            outcome = train(task, settings, show_progress=self.show_progress)
        task.module.eval().requires_grad_(False)
        return outcome

    def _config(self, defaults: Mapping[str, Any], checkpoint: Path | None) -> TrainingConfig:
        return build_training_config(
            defaults,
            self.training,
            epochs=self.epochs,
            seed=self.seed,
            device=self.device,
            precision=self.precision,
            checkpoint=checkpoint,
        )


def choose_device(device: str) -> torch.device:
    """Where a model lives: the GPU for `auto` if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise SettingError(f"`device` is {device!r}; choose auto, cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise DtypeError("`device` is 'cuda', and PyTorch sees no CUDA device. Use device='auto'.")
    return torch.device(device)
