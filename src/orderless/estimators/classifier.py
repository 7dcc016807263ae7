"""`Classifier`: one class for a set of series, whatever their order and number."""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import Panel, Series, read_cases, read_labels
from orderless.errors import DataError, SettingError
from orderless.estimators.base import (
    Estimator,
    all_or_nothing,
    check_columns,
    check_count,
    check_share,
    draw_seed,
)
from orderless.estimators.classification_task import ClassificationTask
from orderless.estimators.preparation import check_observed, learn_scales, prepare, share_scale
from orderless.estimators.report import MODEL, describe_data, describe_training, table, verdict
from orderless.estimators.settings import build_network_config
from orderless.estimators.threads import threads_for
from orderless.nn import ClassificationNetwork, NetworkConfig

TRAINING = {"learning_rate": 2e-3, "patience": 12}
ENTRIES_PER_STEP = 2**22
"""Values in a training step: of large cases there are fewer than 16."""


class Classifier(Estimator):
    """Names the class of a case: a set of variables along time, of any length.

    By default variables are exchangeable: neither their order nor their names matter. Where each
    has a meaning of its own (the x and the y axis of a sensor), identify="name" learns an embedding
    for each name; then renaming a variable matters, and reordering still does not.

    **Main parameters**
    - identify: None, or "name".
    - preset, network, epochs, random_state: as for `Forecaster`.

    **Other parameters**
    - validation_share: the share of the cases of each class that chooses the epoch.
    - strict_variables, training, device, precision, verbose: as for `Forecaster`.

    **Fitted**: `classes_`, `variables_in_`, `network_`, `errors_`, `history_`, `report_`, `seed_`.
    """

    def __init__(
        self,
        *,
        identify: str | None = None,
        preset: str = "default",
        network: Mapping[str, Any] | None = None,
        epochs: int = 60,
        validation_share: float = 0.2,
        strict_variables: bool = False,
        training: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "auto",
        precision: str = "no",
        verbose: bool = True,
    ) -> None:
        self.identify = identify
        self.preset = preset
        self.network = network
        self.epochs = epochs
        self.validation_share = validation_share
        self.strict_variables = strict_variables
        self.training = training
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        checkpoint: str | Path | None = None,
        **columns: Hashable,
    ) -> Self:
        """Learn from cases and their classes.

        X is an array [case, variable, time] or [case, time], a list of arrays [variable, time] of
        different length, or a frame whose `group` column names the case (`orderless.data.
        read_cases`); y holds one label for each case, in order.
        """
        check_count("epochs", self.epochs, 0)
        if self.identify not in (None, "name"):
            raise SettingError(f"`identify` is {self.identify!r}; choose None or 'name'.")
        check_share("validation_share", self.validation_share)
        check_columns(columns)
        panel = read_cases(X, **columns)
        labels = _unwrap(read_labels(y, len(panel.systems)))
        check_observed(panel)
        self.classes_, codes = _find_classes(labels)
        self.columns_ = dict(columns)
        self.seed_ = draw_seed(self.random_state, checkpoint)
        self.variables_in_ = panel.variables
        self.names_ = self._find_names(panel.variables)
        lengths = [len(system.times) for system in panel.systems]
        # The level of a case may tell its class.
        self.scales_ = learn_scales(panel, lengths, across=True)
        if self.identify is None:
            self.scales_ = share_scale(self.scales_)
        self.length_ = max(lengths)
        task = self._build_task(panel, codes)
        cases_at_once = min(16, max(2, ENTRIES_PER_STEP // (len(panel.variables) * self.length_)))
        outcome = self._train(task, TRAINING | {"batch_size": cases_at_once}, checkpoint)
        self._write_report(panel, task, codes, describe_training(outcome, _count(self.network_)))
        return self

    def predict_proba(self, X: Any, **columns: Hashable) -> np.ndarray:
        """The probability of each class, [case, class], in the order of `classes_`."""
        return self._probabilities(X, columns)

    def predict(self, X: Any, **columns: Hashable) -> np.ndarray:
        """The most probable class of each case; a warning counts those without a reading."""
        probabilities = self._probabilities(X, columns)
        return self.classes_[probabilities.argmax(1)]

    def score(self, X: Any, y: Any, **columns: Hashable) -> float:
        """The share of cases whose class is predicted rightly.

        Classes that `fit` did not see are never predicted. Text where it had numbers is an error.
        """
        predicted = self.predict(X, **columns)
        labels = _unwrap(read_labels(y, len(predicted)))
        given, known = _kind(labels), _kind(self.classes_)
        if given != known:
            raise DataError(
                f"The labels are {given}, such as {labels.tolist()[0]!r}, and the classes of the "
                f"model {known}, such as {self.classes_.tolist()[0]!r}: give them as `fit` had "
                "them."
            )
        return float((predicted == labels).mean())

    def _probabilities(self, X: Any, columns: Mapping[str, Hashable]) -> np.ndarray:
        self._check_fitted()
        panel = self._read(read_cases, X, columns)
        empty = sum(not system.observed.any() for system in panel.systems)
        if empty:
            warnings.warn(
                f"{empty} of {len(panel.systems)} cases have not a single reading: the class that "
                "is named for them is a guess from nothing. Leave such cases out.",
                stacklevel=3,  # whoever called `predict` or `predict_proba`
            )
        codes = np.zeros(len(panel.systems), np.int64)
        task = self._task(self.network_, panel, codes, np.arange(len(codes)), np.arange(0))
        task.to(next(self.network_.parameters()).device)
        with torch.inference_mode(), threads_for(len(codes) * len(panel.variables)):
            scores = task.scores(self.network_, task.train)
        return scores.double().softmax(-1).cpu().numpy()

    def _build_task(self, panel: Panel, codes: np.ndarray) -> ClassificationTask:
        config = build_network_config(
            self.preset, self.length_, self.network, center="none", scale=False, skip=False
        )
        network = self._draw_network(config)
        train_cases, validation = self._split(codes)
        return self._task(network, panel, codes, train_cases, validation)

    def _build_network(self, config: NetworkConfig) -> ClassificationNetwork:
        return ClassificationNetwork(config, len(self.classes_), names=self.names_)

    def _find_names(self, variables: Sequence[str]) -> tuple[str, ...]:
        """The variables that the network tells apart."""
        return tuple(sorted(variables)) if self.identify == "name" else ()

    def _split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _split(codes, self.validation_share, self.seed_)

    def _task(
        self,
        network: ClassificationNetwork,
        panel: Panel,
        codes: np.ndarray,
        train_cases: np.ndarray,
        validation: np.ndarray,
    ) -> ClassificationTask:
        shared = not network.names
        systems = [prepare(system, self.scales_, shared=shared) for system in panel.systems]
        series = Series.from_arrays(
            [one.values for one in systems], [one.observed for one in systems]
        )
        identities = None
        if network.names:
            identities = torch.zeros(series.members.shape, dtype=torch.int64)
            for row, one in enumerate(systems):
                identities[row, : len(one.names)] = network.identify(one.names).cpu()
        return ClassificationTask(
            network,
            series,
            self.length_,
            torch.as_tensor(codes),
            identities,
            torch.as_tensor(train_cases),
            torch.as_tensor(validation),
        )

    def _write_report(
        self, panel: Panel, task: ClassificationTask, codes: np.ndarray, training: str
    ) -> None:
        with torch.inference_mode():
            scores = task.scores(self.network_, task.validation)
        actual = task.labels[task.validation]
        wrong = float((scores.argmax(-1) != actual).double().mean())
        commonest = np.bincount(codes[task.train.cpu().numpy()]).argmax()
        naive = float((actual != int(commonest)).double().mean())
        self.errors_ = {"most common class": naive, MODEL: wrong}
        self.report_ = [
            f"data      {describe_data(panel, 'case')}; {len(self.classes_)} classes",
            f"split     {len(task.train)} cases to train, {len(task.validation)} to validate",
            f"network   {self.preset}, {training}",
            "errors    share of the validation cases named wrongly",
            *table({name: (error,) for name, error in self.errors_.items()}, ("wrong",)),
            verdict(self.errors_, MODEL),
        ]
        self._tell()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        kind = self.classes_.dtype
        facts |= {
            "classes": self.classes_.tolist(),
            "classes_dtype": "object" if kind.kind == "O" else kind.str,
            "length": self.length_,
            "names": list(self.names_),
        }
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.classes_ = np.array(facts["classes"], dtype=facts["classes_dtype"])
        self.length_ = facts["length"]
        # The first models were saved without names; their parameters are those of `fit`.
        self.names_ = tuple(facts.get("names", self._find_names(facts["variables_in"])))
        super()._restore(facts, tensors)

    def __sklearn_tags__(self):
        """Asked by scikit-learn: a classifier of series."""
        from orderless.estimators.sklearn_tags import classifier_tags

        return classifier_tags()


def _find_classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the number of the class of each case."""
    _kind(labels)  # refuses a mix
    infinite = [isinstance(one, float) and math.isinf(one) for one in labels.tolist()]
    if any(infinite):
        raise DataError(
            f"The label of case {infinite.index(True)} is infinite, which no saved model could "
            "hold. Give text, or numbers that are finite."
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"All {len(labels)} cases belong to one class, {classes.tolist()[0]!r}; give cases of "
            "at least two classes."
        )
    return classes, codes


def _unwrap(labels: np.ndarray) -> np.ndarray:
    """Labels of which none is a NumPy scalar in an array of objects: those are numbers, or text."""
    if labels.dtype != object:
        return labels
    plain = np.empty(len(labels), object)
    plain[:] = [one.item() if isinstance(one, np.generic) else one for one in labels]
    return plain


def _kind(labels: np.ndarray) -> str:
    """Whether labels are text or numbers; they must not be both, nor anything else."""
    types = {type(label) for label in labels.tolist()}
    if types == {str}:
        return "text"
    if types <= {int, float, bool}:
        return "numbers"
    names = ", ".join(sorted(one.__name__ for one in types))
    raise DataError(f"The labels are of type {names}. Give text, or numbers, for all of them.")


def _split(codes: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cases to train and to validate; classes of one case train only.

    Where no class can spare a case, all cases do both.
    """
    random = np.random.default_rng(seed)
    held_out = []
    for code in np.unique(codes):
        cases = random.permutation(np.flatnonzero(codes == code))
        spare = min(len(cases) - 1, max(1, round(share * len(cases))))
        held_out.append(cases[: max(0, spare)])
    validation = np.sort(np.concatenate(held_out))
    everything = np.arange(len(codes))
    if len(validation) == 0:
        return everything, everything
    return np.setdiff1d(everything, validation), validation


def _count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
