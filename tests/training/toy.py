"""A small task that learns y = 2 x with dropout in the way, and a script that runs it."""

import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from orderless.training import TrainingConfig, train
from orderless.training.losses import mse


class Toy:
    """Sixty-four points of a line, gathered by index."""

    fingerprint = "toy"

    def __init__(self, pause: float = 0.0, dropout: float = 0.2) -> None:
        torch.manual_seed(0)
        self.module = nn.Sequential(nn.Linear(3, 16), nn.Linear(16, 16), nn.Dropout(dropout))
        self.module.append(nn.Linear(16, 1))
        self.x = torch.randn(64, 3)
        self.y = 2 * self.x.sum(-1, keepdim=True)
        self.train_size = 64
        self.pause = pause

    def to(self, device: torch.device) -> None:
        self.x, self.y = self.x.to(device), self.y.to(device)

    def draw(self, index: Tensor) -> tuple[Tensor, None]:
        return index, None

    def loss(self, module: nn.Module, index: Tensor, variables: None) -> Tensor:
        time.sleep(self.pause)
        return mse(module(self.x[index]), self.y[index])

    def score(self, module: nn.Module) -> float:
        return mse(module(self.x), self.y).item()


def settings(**changes) -> TrainingConfig:
    base = {"epochs": 6, "batch_size": 8, "learning_rate": 0.01, "device": "cpu", "seed": 3}
    return TrainingConfig(**(base | changes))


def main(folder: Path, pause: float) -> None:
    if train(Toy(pause), settings(checkpoint=folder, checkpoint_seconds=0.0)).interrupted:
        raise KeyboardInterrupt


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
