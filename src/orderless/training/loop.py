"""The loop: a task and a config in, the best weights and the story of the run out.

Randomness is a pure function of the seed and the step number: the order of the windows of an
epoch, the variables drawn and the dropout of a step need no saved state. So a run that was killed
and continued walks through exactly the same numbers as one that was not.
"""

import hashlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from orderless.errors import ModelFileError, SettingError
from orderless.io import in_words, make_folder
from orderless.training.averaging import WeightAverage
from orderless.training.checkpoints import ADVICE, load_checkpoint, save_checkpoint
from orderless.training.config import TrainingConfig
from orderless.training.optimizers import build_optimizer, learning_rate_factor, set_learning_rate
from orderless.training.outcome import Epoch, Outcome
from orderless.training.processes import Processes, find_processes
from orderless.training.progress import Progress
from orderless.training.recording import Recorder, own_stream

INTERRUPTED = "interrupted"


class Task(Protocol):
    """What is learned: a module, the data it sees by index, and how well it does.

    A step is `loss(module, *draw(index))`. What decides about shapes belongs into `draw`; `loss`
    then launches the same kernels whenever the drawn shapes are the same, and reads nothing back,
    so that a GPU can replay it from a recording.
    """

    @property
    def module(self) -> nn.Module:
        """What is trained."""
        ...

    @property
    def train_size(self) -> int:
        """How many training samples there are; `draw` receives numbers below it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies this data and network: a checkpoint of others is not continued.

        Only read where there is a checkpoint: digesting the data takes time.
        """
        ...

    def to(self, device: torch.device) -> None:
        """Put the data on the device; the loop moves the module."""

    def draw(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """These samples, and the variables of each that the step sees; None for all of them."""
        ...

    def loss(self, module: nn.Module, samples: Tensor, variables: Tensor | None) -> Tensor:
        """The training loss of what was drawn; draws from torch's generator as it likes."""
        ...

    def score(self, module: nn.Module) -> float:
        """The validation score, lower is better."""
        ...


@dataclass
class _State:
    """The numbers of a run that a checkpoint keeps beside the tensors."""

    step: int = 0
    epoch_steps: int = 0
    best_epoch: int = 0
    best_score: float = math.inf
    stopped: str = ""
    history: list[Epoch] = field(default_factory=list)


def train(task: Task, config: TrainingConfig, *, show_progress: int = 1) -> Outcome:
    """Train the module of a task and leave the best weights in it.

    Best means the lowest validation score among the averaged weights at the end of each epoch and
    the start itself. With `config.checkpoint`, a run that finds its own checkpoint continues it.
    Ctrl-C ends a run as its last epoch would, with a checkpoint if there is a place for it, and
    `Outcome.interrupted` says so; a second one is a KeyboardInterrupt at once.

    show_progress: 0 for nothing, 1 for a bar on a terminal, 2 for a line an epoch elsewhere.
    """
    started = time.monotonic()
    processes = find_processes(config.device)
    if config.precision == "fp16" and processes.device.type != "cuda":
        raise SettingError("`precision` is 'fp16', which needs a CUDA device. Use 'bf16' or 'no'.")
    devices = [processes.device] if processes.device.type == "cuda" else []
    with own_stream(processes.device), torch.random.fork_rng(devices=devices):
        task.to(processes.device)
        run = _Run(task, config, processes, started)
        run.restore()
        run.make_place()
        show = show_progress if processes.rank == 0 else 0
        with (
            _interrupts() as run.interrupted,
            Progress(config.epochs, run.steps_per_epoch, done=run.at.step, show=show) as bar,
        ):
            run.go(bar)
    return Outcome(
        best_epoch=run.at.best_epoch,
        best_score=run.at.best_score,
        stopped=run.cut_short or run.at.stopped,
        history=run.at.history,
        seconds=time.monotonic() - started,
        device=str(processes.device),
        interrupted=run.cut_short == INTERRUPTED,
    )


class _Run:
    """The moving parts of one call of `train`."""

    def __init__(
        self, task: Task, config: TrainingConfig, processes: Processes, started: float
    ) -> None:
        self.task, self.config, self.processes, self.started = task, config, processes, started
        device = processes.device
        self.module = task.module.to(device).train()
        processes.copy_first(self.module.state_dict().values())
        self.trained = [one for one in self.module.parameters() if one.requires_grad]
        self.average = WeightAverage(self.module, config.average)
        self.average.module.eval()
        self.best = _copy(self.average.module)
        self.optimizer = build_optimizer(self.module, config)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        # Several processes and a loss scale speak to the host within a step.
        recordable = processes.count == 1 and not self.scaler.is_enabled()
        self.recorder = Recorder() if device.type == "cuda" and recordable else None
        self.at = _State()
        self.interrupted: Callable[[], bool] = lambda: False
        self.asked_to_stop = False
        self.cut_short = ""
        """Why this call ends before the run does; no part of the state, so that another goes on."""
        # Summed where the loss lies: reading it at every step would make a GPU wait.
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        batches = math.ceil(task.train_size / config.batch_size)
        self.steps_per_epoch = min(batches, config.steps_per_epoch or batches)
        self.total_steps = config.epochs * self.steps_per_epoch
        self.saved_at = time.monotonic()
        # One process writes the state, and all of them read it.
        self.folder = config.checkpoint if processes.rank == 0 else None

    def go(self, bar: Progress) -> None:
        """Validate the start, then run epochs until there is a reason to stop."""
        if not self.at.history:
            self.validate(bar)
        if self.total_steps == 0:
            self.at.stopped = "nothing to train"
        while not (self.at.stopped or self.cut_short or self.asked_to_stop):
            self.one_step()
            if bar.due():
                bar.show_step(self.at.step, self.loss_sum.item() / self.at.epoch_steps)
            if self.at.step % self.steps_per_epoch == 0:
                self.validate(bar)
                self.checkpoint()
            elif self.asked_to_stop or self.checkpoint_is_due():
                self.checkpoint()
        if self.asked_to_stop or self.interrupted():
            self.cut_short = INTERRUPTED
        # No process goes on, or ends, while another still listens or writes the checkpoint.
        self.processes.wait()
        self.module.load_state_dict(self.best)
        self.module.zero_grad(set_to_none=True)
        self.module.eval()

    def one_step(self) -> None:
        """Draw the samples of a step and learn from them."""
        at, config = self.at, self.config
        rank, world = self.processes.rank, self.processes.count
        epoch, within = divmod(at.step, self.steps_per_epoch)
        batch = self.order(epoch)[within * config.batch_size :][: config.batch_size]
        # A short last batch is shared out too; a process without a window of its own repeats one.
        mine = batch[rank::world] if len(batch) > rank else batch[:1]
        torch.manual_seed(_seed(config.seed, "step", at.step, rank))
        set_learning_rate(
            self.optimizer, learning_rate_factor(at.step, self.total_steps, config.warmup)
        )
        at.step += 1
        at.epoch_steps += 1
        self.average.prepare(at.step)
        drawn = self.task.draw(mine)
        if self.recorder is None:
            self.update(*drawn)
        else:
            self.recorder.run(self.update, *drawn)
        if world == 1:
            self.asked_to_stop = self.interrupted()

    def update(self, samples: Tensor, variables: Tensor | None) -> None:
        """Forward, backward, clip, step, average."""
        with torch.autocast(
            self.processes.device.type,
            torch.float16 if self.config.precision == "fp16" else torch.bfloat16,
            enabled=self.config.precision != "no",
        ):
            loss = self.task.loss(self.module, samples, variables)
        self.scaler.scale(loss).backward()
        if self.processes.count > 1:
            asked = self.interrupted()
            self.asked_to_stop = self.processes.average_gradients(self.trained, asked)
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.trained, self.config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.module)
        self.loss_sum += loss.detach()

    def order(self, epoch: int) -> Tensor:
        """The windows of an epoch, shuffled alike in every process; kept until the epoch ends."""
        if getattr(self, "_order", (None, None))[0] != epoch:
            generator = torch.Generator().manual_seed(_seed(self.config.seed, "order", epoch))
            shuffled = torch.randperm(self.task.train_size, generator=generator)
            self._order = (epoch, shuffled.to(self.processes.device))
        return self._order[1]

    @torch.no_grad()
    def validate(self, bar: Progress) -> None:
        """Score the averaged weights, keep them if they are the best, decide whether to go on."""
        at, config = self.at, self.config
        torch.manual_seed(_seed(config.seed, "validation"))
        score, loss_sum, gone = self.processes.agree(
            self.task.score(self.average.module),
            self.loss_sum.item(),
            time.monotonic() - self.started,
        )
        score = score if math.isfinite(score) else math.inf
        number = len(at.history)
        loss = loss_sum / at.epoch_steps if at.epoch_steps else None
        at.history.append(Epoch(number, loss, score))
        at.epoch_steps = 0
        self.loss_sum.zero_()
        if score < at.best_score or number == 0:
            at.best_score, at.best_epoch = score, number
            self.best = _copy(self.average.module)
        if loss is not None and not math.isfinite(loss):
            at.stopped = "the loss is no longer finite"
        elif number - at.best_epoch >= config.patience:
            at.stopped = f"no better score in {config.patience} epochs"
        elif number >= config.epochs:
            at.stopped = "all epochs done"
        elif config.time_limit is not None and gone > config.time_limit:
            self.cut_short = f"the time limit of {config.time_limit:g} s is over"
        bar.show_epoch(at.history[-1], at.best_score)

    @cached_property
    def identity(self) -> dict[str, object]:
        """What must agree before a checkpoint is continued; the data are digested for it alone."""
        return {
            "task": self.task.fingerprint,
            "settings": self.config.resume_key(),
            "processes": self.processes.count,
        }

    def make_place(self) -> None:
        """See that the state can be written, if there is going to be one, before the work."""
        if self.folder is not None and self.total_steps and not self.at.stopped:
            with in_words(self.folder, ModelFileError, ADVICE):
                make_folder(self.folder)

    def checkpoint_is_due(self) -> bool:
        """Whether the last one was long ago."""
        return time.monotonic() - self.saved_at > self.config.checkpoint_seconds

    def checkpoint(self) -> None:
        """Write the whole state, if a folder was given."""
        self.saved_at = time.monotonic()
        if self.folder is None:
            return
        tensors = {"loss_sum": self.loss_sum}
        for part, state in (
            ("module", self.module.state_dict()),
            ("average", self.average.module.state_dict()),
            ("best", self.best),
        ):
            tensors |= {f"{part}/{name}": tensor for name, tensor in state.items()}
        moments = self.optimizer.state_dict()["state"]
        for number, state in moments.items():
            tensors |= {f"optimizer/{number}/{name}": value for name, value in state.items()}
        facts = {
            "identity": self.identity,
            "progress": asdict(self.at),
            "scaler": self.scaler.state_dict(),
        }
        save_checkpoint(self.folder, tensors, facts)

    def restore(self) -> None:
        """Continue from the checkpoint in the folder, if it is one of this very run."""
        found = load_checkpoint(self.config.checkpoint) if self.config.checkpoint else None
        if found is None:
            return
        tensors, facts = found
        if facts["identity"] != self.identity:
            raise ModelFileError(
                f"The checkpoint in {self.config.checkpoint} belongs to another run: its data, "
                "settings or seed differ. Give another folder, or delete it to start anew."
            )

        def part(name: str) -> dict[str, Tensor]:
            return {k.removeprefix(name): v for k, v in tensors.items() if k.startswith(name)}

        self.loss_sum.copy_(tensors["loss_sum"])
        self.module.load_state_dict(part("module/"))
        self.average.module.load_state_dict(part("average/"))
        self.best = {k: v.to(self.processes.device) for k, v in part("best/").items()}
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in part("optimizer/").items():
            number, name = key.split("/")
            moments.setdefault(int(number), {})[name] = value
        whole = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**whole, "state": moments})
        self.scaler.load_state_dict(facts["scaler"])
        history = [Epoch(**epoch) for epoch in facts["progress"].pop("history")]
        self.at = _State(**facts["progress"], history=history)


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _seed(seed: int, purpose: str, *numbers: int) -> int:
    """A seed for one purpose at one place of the run, unrelated to its neighbours."""
    text = "/".join(map(str, (seed, purpose, *numbers)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7])


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a question asked between two steps; a second one stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = threading.Event()

    def remember(number: int, frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
