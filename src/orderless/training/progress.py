"""How far a run is: a bar on a terminal, or a line an epoch where there is none and it is asked."""

import sys
import time
from types import TracebackType
from typing import Self

from orderless.training.outcome import Epoch

REFRESH_SECONDS = 0.2


class Progress:
    """Epoch k of n, loss, validation score, time gone and time left.

    show: 0 for nothing, 1 for a bar on a terminal, 2 for a line an epoch where there is no terminal
    It reads the loss only when it draws, so it never stalls a GPU.
    """

    def __init__(self, epochs: int, steps: int, *, done: int = 0, show: int = 1) -> None:
        self._epochs, self._steps, self._before = epochs, steps, done
        self._bar = None
        self._lines = False
        self._last_draw = 0.0
        self._started = time.monotonic()
        if not show or epochs == 0:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            self._lines = show > 1
            return
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("epoch {task.fields[epoch]} of " + str(epochs)),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[loss]}"),
            progress.TextColumn("{task.fields[score]}"),
            progress.TimeElapsedColumn(),
            progress.TextColumn("gone,"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("left"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(
            "training",
            total=epochs * steps,
            completed=done,
            epoch=min(done // steps + 1, epochs),
            loss="",
            score="",
        )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def due(self) -> bool:
        """Whether a step is worth drawing now."""
        return self._bar is not None and time.monotonic() - self._last_draw > REFRESH_SECONDS

    def show_step(self, step: int, loss: float) -> None:
        """Show the number of steps done and the mean loss of this epoch so far."""
        if self._bar is not None:
            self._last_draw = time.monotonic()
            epoch = min(step // self._steps + 1, self._epochs)
            self._bar.update(self._task, completed=step, epoch=epoch, loss=f"loss {loss:.4f}")

    def show_epoch(self, epoch: Epoch, best: float) -> None:
        """Show an epoch that ended, and the best validation score so far."""
        score = f"validation {epoch.score:.4f} (best {best:.4f})"
        if self._bar is not None:
            self._bar.update(self._task, score=score)
        elif self._lines and epoch.loss is not None:
            gone = time.monotonic() - self._started
            done = epoch.number * self._steps
            left = gone * (self._epochs * self._steps - done) / max(1, done - self._before)
            print(
                f"epoch {epoch.number} of {self._epochs}: loss {epoch.loss:.4f}, {score}, "
                f"{gone:.0f} s gone, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
