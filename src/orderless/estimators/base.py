"""What the three estimators share: scikit-learn's habits without needing scikit-learn.

The constructor stores its arguments and does nothing else; `fit` checks them, and everything it
learns ends in an underscore.
"""

import inspect
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel, System
from orderless.data.transform import Transform
from orderless.errors import NotFittedError, SettingError, VariableMismatch
from orderless.models import Member, Run, Stack, choose_device
from orderless.training import Epoch, Outcome
from orderless.training.checkpoints import load_checkpoint
from orderless.training.recording import own_stream

COLUMNS = ("time", "variable", "value", "group")
Answers = list[np.ndarray]
"""Of each system: [variable, ...], variables in the order of the input; or [class] of a case."""
Given = ParamSpec("Given")
Model = TypeVar("Model", bound="Estimator")


class KeptInterrupt(KeyboardInterrupt):
    """Ctrl-C stopped a training; the model is fitted with what there was by then."""


def all_or_nothing(
    fit: Callable[Concatenate[Model, Given], Model],
) -> Callable[Concatenate[Model, Given], Model]:
    """A `fit` that leaves the estimator as it was when it fails, or is stopped before training.

    Half of it would be worse than nothing: the network of one fit with the scales of another. It is
    never in torch's inference mode, whose tensors cannot be trained.
    """

    @wraps(fit)
    def whole(self: Model, /, *args: Given.args, **kwargs: Given.kwargs) -> Model:
        before = dict(vars(self))
        try:
            with torch.inference_mode(False), own_stream(choose_device(self.device)):
                return fit(self, *args, **kwargs)
        except KeptInterrupt:
            raise
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
    transform_: Transform
    stack_: Stack
    errors_: dict[str, Any]
    weights_: dict[str, float]
    history_: dict[str, list[Epoch]]
    report_: list[str]
    seed_: int
    kinds: ClassVar[Mapping[str, type[Member]]]
    """The members that the task knows, by kind."""

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
                f"The variables differ from those of `fit`: {name_some(new) or 'none'} new, "
                f"{name_some(lost) or 'none'} missing. Use strict_variables=False to allow that."
            )

    def save(self, folder: str | Path) -> None:
        """Write config.json, model.safetensors and a model card; `orderless.load` reads them."""
        from orderless.estimators.saving import save_estimator

        self._check_fitted()
        save_estimator(self, Path(folder))

    per_variable: ClassVar[bool] = True
    """Whether the rows of an answer are variables."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """Time steps of history that an answer rests on; 0 for all there are."""

    @abstractmethod
    def read(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        """Data as `predict` reads it, for `answers`."""

    @abstractmethod
    def answers(self, panel: Panel) -> Answers:
        """What the model answers about every system of a panel, without a word or a frame."""

    @abstractmethod
    def batch(self, system: System) -> Batch:
        """One system as the members see it."""

    def answer_unit(self, system: System, answer: np.ndarray) -> np.ndarray | float:
        """The unit in which two answers about a system are compared."""
        return 1.0

    def asked(self, system: System, answer: np.ndarray) -> np.ndarray:
        """For which entries of an answer there must be a number."""
        return np.ones(answer.shape, bool)

    def _run(self, checkpoint: str | Path | None) -> Run:
        """How the networks of this `fit` are trained."""
        return Run(
            seed=self.seed_,
            epochs=int(self.epochs),
            device=self.device,
            precision=self.precision,
            training=self.training,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            show_progress=int(self.verbose),
        )

    def _finish(self, outcomes: Iterable[Outcome]) -> Self:
        """Print the report; after a Ctrl-C in a training, raise it now that the model is usable."""
        self._print_report()
        if any(outcome.interrupted for outcome in outcomes):
            raise KeptInterrupt
        return self

    def _print_report(self) -> None:
        """Print the report."""
        if self.verbose:
            # `fit | head` must not lose the model because nobody reads on.
            with suppress(OSError):
                print("\n".join(self.report_), flush=True)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What `fit` has learned: facts that are JSON, and tensors."""
        members, tensors = self.stack_.state()
        facts = {
            "variables_in": list(self.variables_in_),
            "columns": self.columns_,
            "seed": self.seed_,
            "transform": self.transform_.facts(),
            "errors": self.errors_,
            "weights": self.weights_,
            "history": {name: _finite(epochs) for name, epochs in self.history_.items()},
            "members": members,
            "report": self.report_,
        }
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take back what `_fitted_state` gave; everything lies on the CPU."""
        check_columns(facts["columns"])
        self.variables_in_, self.columns_ = tuple(facts["variables_in"]), facts["columns"]
        self.transform_ = Transform.from_facts(facts["transform"])
        self.seed_, self.errors_, self.report_ = facts["seed"], facts["errors"], facts["report"]
        self.weights_ = facts["weights"]
        self.history_ = {
            name: [Epoch(**epoch) for epoch in epochs] for name, epochs in facts["history"].items()
        }
        self.stack_ = Stack.restore(facts["members"], tensors, self.kinds)


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
    folders = [] if checkpoint is None else sorted(Path(checkpoint).glob("*/"))
    for stopped in filter(None, map(load_checkpoint, folders)):
        return int(stopped[1]["identity"]["settings"]["seed"])
    return seed


def _check_seed(random_state: Any) -> int:
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)):
        raise SettingError(
            f"`random_state` is {random_state!r}; give a whole number, None or a NumPy generator."
        )
    if not 0 <= random_state < 2**63:
        raise SettingError(f"`random_state` is {random_state}; give a number from 0 to 2^63 - 1.")
    return int(random_state)


def check_ignored(y: Any) -> None:
    """Refuse a column where scikit-learn gives what is ignored."""
    if isinstance(y, str):
        raise SettingError(
            f"`fit` takes no labels, and {y!r} looks like a column. Say which: time={y!r}, perhaps."
        )


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


def _finite(history: Sequence[Epoch]) -> list[dict[str, Any]]:
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


def name_some(names: list[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
