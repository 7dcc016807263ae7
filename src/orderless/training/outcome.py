"""What a run came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """One line of the story: number 0 is the start, before any step."""

    number: int
    loss: float | None
    score: float


@dataclass
class Outcome:
    """What a run came to. The module of the task holds the weights of `best_epoch`.

    stopped         why it ended: all epochs done, no better score, a loss that is not finite, the
                    time limit, or Ctrl-C
    interrupted     Ctrl-C was pressed: whoever called `train` keeps what it wants to keep, and then
                    raises KeyboardInterrupt
    """

    best_epoch: int
    best_score: float
    stopped: str
    history: list[Epoch]
    seconds: float
    device: str
    interrupted: bool = False
