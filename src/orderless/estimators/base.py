"""What the three estimators share: scikit-learn's habits without needing scikit-learn.

The constructor stores its arguments and does nothing else; `fit` checks them, and everything it
learns ends in an underscore.
"""

import inspect
import math
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from orderless.data import Panel
from orderless.errors import (
    DtypeError,
    ModelFileError,
    NotFittedError,
    SettingError,
    VariableMismatch,
)
from orderless.estimators.settings import build_training_config
from orderless.estimators.threads import threads_for
from orderless.nn import NetworkConfig
from orderless.schema import assign
from orderless.training import Epoch, Outcome, Task, train
from orderless.training.checkpoints import load_checkpoint
from orderless.training.recording import own_stream

COLUMNS = ("time", "variable", "value", "group")
NETWORK = "network/"
"""What the names of a network's weights begin with in a saved model, beside other tensors."""
GENERATOR = threading.RLock()
"""Held by whoever draws from torch's generator, of which all threads have one: fits in several
threads would draw each other's numbers."""
if hasattr(os, "register_at_fork"):
    # A child has the lock as it was, but not the thread that would let go of it.
    os.register_at_fork(after_in_child=GENERATOR._at_fork_reinit)  # pyrefly: ignore
Given = ParamSpec("Given")
Model = TypeVar("Model", bound="Estimator")


def all_or_nothing(
    fit: Callable[Concatenate[Model, Given], Model],
) -> Callable[Concatenate[Model, Given], Model]:
    """A `fit` that leaves the estimator as it was when it fails or is stopped.

    Half of it would be worse than nothing: the network of one fit with the scales of another. It is
    never in torch's inference mode, whose tensors cannot be trained.
    """

    @wraps(fit)
    def whole(self: Model, /, *args: Given.args, **kwargs: Given.kwargs) -> Model:
        before = dict(vars(self))
        try:
            with torch.inference_mode(False), own_stream(choose_device(self.device)):
                return fit(self, *args, **kwargs)
        except BaseException:
            # One assignment, so that a second Ctrl-C cannot stop it halfway.
            self.__dict__ = before
            raise

    return whole


class Estimator(ABC):
    """A model with `fit`, parameters that can be read and set, and a folder it can live in."""

    epochs: int
    training: Mapping[str, Any] | None
    strict_variables: bool
    device: str
    precision: str
    verbose: bool
    variables_in_: tuple[str, ...]
    columns_: dict[str, Hashable]
    scales_: dict[str, tuple[float, float]]
    network_: Any
    errors_: dict[str, Any]
    history_: list[Epoch]
    report_: list[str]
    seed_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor; takes effect at the next `fit`."""
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                raise SettingError(
                    f"{type(self).__name__} has no parameter {name!r}. It has: {', '.join(known)}."
                )
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def __repr__(self) -> str:
        """The parameters that differ from their defaults."""
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Asked by scikit-learn."""
        return hasattr(self, "variables_in_")

    def __sklearn_tags__(self) -> Any:
        """Asked by scikit-learn: an estimator of series."""
        from orderless.estimators.sklearn_tags import series_tags

        return series_tags()

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call `fit` first, or `load` a "
                "saved model."
            )

    def _read(
        self, reader: Callable[..., Panel], data: Any, columns: Mapping[str, Hashable]
    ) -> Panel:
        """Data for a fitted model; the columns of a frame are those of `fit` unless named."""
        check_columns(columns)
        if not isinstance(data, (np.ndarray, list, tuple, Tensor)):
            columns = {**self.columns_, **columns}
        panel = reader(data, **columns)
        self._check_variables(panel.variables)
        return panel

    def _check_variables(self, variables: tuple[str, ...]) -> None:
        """With `strict_variables`, the set of variables must be that of `fit`."""
        if not self.strict_variables:
            return
        new = sorted(set(variables) - set(self.variables_in_))
        lost = sorted(set(self.variables_in_) - set(variables))
        if new or lost:
            raise VariableMismatch(
                f"The variables differ from those of `fit`: {_some(new) or 'none'} new, "
                f"{_some(lost) or 'none'} missing. Use strict_variables=False to allow that."
            )

    def save(self, folder: str | Path) -> None:
        """Write config.json, model.safetensors and a model card; `orderless.load` reads them."""
        from orderless.estimators.saving import save_estimator

        self._check_fitted()
        save_estimator(self, Path(folder))

    @abstractmethod
    def _build_network(self, config: NetworkConfig) -> Any:
        """A network for the task, with weights drawn at random.

        Parameters may have changed since `fit`: what is asked here is what `fit` has kept of them.
        """

    def _draw_network(self, config: NetworkConfig) -> Any:
        """A network in float32 whose random weights follow from the seed alone."""
        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed_)
            return self._build_network(config).float()

    def _train(
        self, task: Task, defaults: Mapping[str, Any], checkpoint: str | Path | None
    ) -> Outcome:
        """Train the network of the task, and keep it."""
        settings = build_training_config(
            defaults,
            self.training,
            epochs=int(self.epochs),
            seed=self.seed_,
            device=self.device,
            precision=self.precision,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )
        threads = threads_for(settings.batch_size * len(self.variables_in_))
        # Also where the caller has switched gradients off.
        with GENERATOR, threads, torch.enable_grad():
            outcome = train(task, settings, show_progress=int(self.verbose))
        if outcome.interrupted:
            raise KeyboardInterrupt
        self.network_ = task.module.eval().requires_grad_(False)
        self.history_ = outcome.history
        return outcome

    def _tell(self) -> None:
        """Print the report."""
        if self.verbose:
            # `fit | head` must not lose the model because nobody reads on.
            with suppress(OSError):
                print("\n".join(self.report_), flush=True)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What `fit` has learned: facts that are JSON, and tensors."""
        facts = {
            "variables_in": list(self.variables_in_),
            "columns": self.columns_,
            "seed": self.seed_,
            "scales": {name: list(pair) for name, pair in self.scales_.items()},
            "errors": self.errors_,
            "history": _finite(self.history_),
            "network": asdict(self.network_.config),
            "report": self.report_,
        }
        weights = self.network_.state_dict()
        return facts, {NETWORK + name: tensor for name, tensor in weights.items()}

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take back what `_fitted_state` gave; the network lies on the CPU."""
        check_columns(facts["columns"])
        self.variables_in_, self.columns_ = tuple(facts["variables_in"]), facts["columns"]
        self.scales_ = {
            name: (float(mean), float(scale)) for name, (mean, scale) in facts["scales"].items()
        }
        self.seed_, self.errors_, self.report_ = facts["seed"], facts["errors"], facts["report"]
        self.history_ = [Epoch(**epoch) for epoch in facts["history"]]
        # Without numbers, none of which has to be drawn: another thread may be at it.
        config = NetworkConfig(**facts["network"])
        if config.layers > len(tensors):
            raise ModelFileError(f"{config.layers} layers do not have {len(tensors)} tensors.")
        with torch.device("meta"):
            network = self._build_network(config)
        weights = {k.removeprefix(NETWORK): v for k, v in tensors.items() if k.startswith(NETWORK)}
        assign(network, weights, NETWORK)
        self.network_ = network.eval().requires_grad_(False)


def draw_seed(random_state: Any, checkpoint: str | Path | None = None) -> int:
    """The seed of a run: the number itself, one drawn from a generator, or a fresh one.

    Where no number is given and a run was stopped in the folder `checkpoint`, it is the seed of
    that run: with another it could not go on.
    """
    if random_state is None:
        seed = secrets.randbits(31)
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31 - 1))
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31 - 1))
    else:
        return _check_seed(random_state)
    stopped = None if checkpoint is None else load_checkpoint(Path(checkpoint))
    return seed if stopped is None else int(stopped[1]["identity"]["settings"]["seed"])


def _check_seed(random_state: Any) -> int:
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)):
        raise SettingError(
            f"`random_state` is {random_state!r}; give a whole number, None or a NumPy generator."
        )
    if not 0 <= random_state < 2**63:
        raise SettingError(f"`random_state` is {random_state}; give a number from 0 to 2^63 - 1.")
    return int(random_state)


def choose_device(device: str) -> torch.device:
    """Where a model lives: the GPU for `auto` if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise SettingError(f"`device` is {device!r}; choose auto, cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise DtypeError("`device` is 'cuda', and PyTorch sees no CUDA device. Use device='auto'.")
    return torch.device(device)


def check_ignored(y: Any) -> None:
    """Refuse a column where scikit-learn gives what is ignored."""
    if isinstance(y, str):
        raise SettingError(f"`fit` has no use for {y!r}. Name what the column is: time={y!r}, say.")


def check_count(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SettingError(f"`{name}` is {value!r}; it must be a whole number >= {least}.")
    return int(value)


def check_share(name: str, value: Any) -> None:
    """A share of something, neither none of it nor all."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or not 0 < value < 1:
        raise SettingError(f"`{name}` is {value!r}; give a share between 0 and 1.")


def check_columns(columns: Mapping[str, Hashable]) -> None:
    """What is left of the arguments of a method can only name columns."""
    for name in columns:
        if name not in COLUMNS:
            raise SettingError(
                f"There is no argument {name!r}. Columns of a frame are named by "
                f"{', '.join(COLUMNS)}."
            )


def _finite(history: list[Epoch]) -> list[dict[str, Any]]:
    """Epochs as JSON, which has no infinity: a number that is not finite is saved as none."""
    return [
        {k: v if v is None or math.isfinite(v) else None for k, v in asdict(epoch).items()}
        for epoch in history
    ]


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except ValueError:
        return False


def _some(names: list[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
