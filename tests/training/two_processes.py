"""What each of two processes runs: a whole run, and one that only the second is asked to stop."""

import os
import signal
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from toy import Toy, settings

from orderless.training import train


class Unused(Toy):
    """A matrix without a gradient, which must not decay; no dropout, so that one process agrees."""

    def __init__(self) -> None:
        super().__init__(dropout=0.0)
        self.module.register_parameter("unused", torch.nn.Parameter(torch.ones(2, 2)))


class Stopped(Toy):
    """Ctrl-C in step 11, in the second process alone."""

    steps = 0

    def loss(self, *drawn):
        self.steps += 1
        if self.steps == 11 and os.environ["RANK"] == "1":
            signal.raise_signal(signal.SIGINT)
        return super().loss(*drawn)


def main(folder: Path) -> None:
    whole = Unused()
    train(whole, settings(checkpoint=folder / "whole"))
    stopped = Stopped()
    outcome = train(stopped, settings())
    weights = {"whole." + name: one for name, one in whole.module.state_dict().items()}
    weights |= {"stopped." + name: one for name, one in stopped.module.state_dict().items()}
    weights["steps"] = torch.tensor([stopped.steps, outcome.interrupted])
    save_file(weights, folder / f"weights{os.environ['RANK']}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
