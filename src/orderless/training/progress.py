"""A bar with loss, validation score and time left on a terminal; nothing anywhere else."""

import time
from types import TracebackType
from typing import Self

REFRESH_SECONDS = 0.2


class Progress:
    """The bar of one run. It reads the loss only when it draws, so it never stalls a GPU."""

    def __init__(self, total_steps: int, *, done: int = 0, show: bool = True) -> None:
        self._bar = None
        self._last_draw = 0.0
        if not show or total_steps == 0:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("training"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[loss]}"),
            progress.TextColumn("{task.fields[score]}"),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(
            "training", total=total_steps, completed=done, loss="", score=""
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
        """Draw the number of steps done and the mean loss of this epoch so far."""
        if self._bar is not None:
            self._last_draw = time.monotonic()
            self._bar.update(self._task, completed=step, loss=f"loss {loss:.4f}")

    def show_score(self, score: float, best: float) -> None:
        """Draw the validation score of the epoch that ended, and the best one."""
        if self._bar is not None:
            self._bar.update(self._task, score=f"validation {score:.4f} (best {best:.4f})")
