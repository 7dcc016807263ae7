"""`Classifier`: one class for a set of series, whatever their order and number."""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from orderless.data import Batch, Panel, System, read_cases, read_labels
from orderless.data.scaling import learn_scales, share_scale
from orderless.data.transform import Transform
from orderless.errors import DataError, SettingError
from orderless.estimators.base import (
    Answers,
    Estimator,
    all_or_nothing,
    check_columns,
    check_count,
    draw_seed,
)
from orderless.estimators.report import MODEL, describe_data, describe_trainings, member_table
from orderless.models import choose_device
from orderless.models.classification import (
    CLOSED,
    KINDS,
    NETWORK,
    Cases,
    CrossFitted,
    FittedStack,
    NetworkPlan,
    Target,
    affordable_epochs,
    answer,
    check_members,
    fit_closed_forms,
    fit_stack,
    numbers_of,
)
from orderless.models.settings import build_network_config
from orderless.models.threads import threads_for

IDENTIFY = ("auto", "name", None)
NAMED = ("wide", "long")
"""Forms of data in which variables have names."""
FEWEST_EPOCHS = 10
"""Of fewer nothing is to be expected."""
PLAUSIBLE, RARE = 10.0, 0.01
"""Standard deviations within which values count as they are, and the share of cases that may have
larger ones for nothing."""


class Classifier(Estimator):
    """Names the class of a case: a set of variables along time, of any length.

    A stack of members: the commonest class, a ridge on all values, a ridge on convolutions, and the
    network. Each has the weight that it earned on cases that it was not fitted on.

    Variables are exchangeable, so that neither their order nor their names matter, or known by
    name, where each has a meaning of its own (the x and the y axis of a sensor): then renaming a
    variable matters, and reordering still does not.

    **Main parameters**
    - identify: None for exchangeable variables, "name" to tell them apart, or "auto": where they
      have names (the columns of a frame), what does better on held-out cases; else None.
    - members: which members there may be, of "commonest class", "flat ridge", "convolutions" and
      "network"; None for all, of which the network only as long as it takes about a minute on two
      cores: for some `epochs` on small sets, and not at all on large ones.
    - preset, network, epochs, random_state: as for `Forecaster`.

    **Other parameters**
    - strict_variables, training, device, precision, verbose: as for `Forecaster`.

    **Fitted**: `classes_`, `variables_in_`, `identify_` (None or "name"), `stack_`, `weights_`,
    `errors_` (the share of held-out cases that each member names wrongly), `history_`, `report_`,
    `seed_`.
    """

    kinds = KINDS
    per_variable = False
    reach = 0

    def __init__(
        self,
        *,
        identify: str | None = "auto",
        members: Any = None,
        preset: str = "default",
        network: Mapping[str, Any] | None = None,
        epochs: int = 60,
        strict_variables: bool = False,
        training: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "auto",
        precision: str = "no",
        verbose: bool = True,
    ) -> None:
        self.identify = identify
        self.members = members
        self.preset = preset
        self.network = network
        self.epochs = epochs
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
        groups: Any = None,
        checkpoint: str | Path | None = None,
        **columns: Hashable,
    ) -> Self:
        """Learn from cases and their classes.

        X is an array [case, variable, time] or [case, time], a list of arrays [variable, time] of
        different length, or a frame whose `group` column names the case (`orderless.data.
        read_cases`); y holds one label for each case, in order, and so do `groups`: cases of one
        group (a person, a machine) are held out together.
        """
        check_count("epochs", self.epochs, 1)
        if self.identify not in IDENTIFY:
            raise SettingError(f"`identify` is {self.identify!r}; choose 'auto', 'name' or None.")
        members = check_members(self.members)
        check_columns(columns)
        panel = read_cases(X, **columns)
        self.columns_ = dict(columns)
        self.seed_ = draw_seed(self.random_state, checkpoint)
        target = self._learn_classes(panel, y, groups)
        views = self._look(panel, target, members)
        view = self._choose(panel, views)
        self.identify_ = "name" if view.by_name else None
        self.transform_ = view.transform
        epochs = self._epochs(members, view.cases)
        plan = self._plan() if epochs else None
        run = replace(self._run(checkpoint), epochs=epochs)
        fitted = fit_stack(view.cases, target, view.closed, members, plan, run)
        self.stack_, self.weights_ = fitted.stack, fitted.weights
        self.history_ = {name: one.history for name, one in fitted.outcomes.items()}
        self._write_report(panel, target, views, fitted)
        return self._finish(fitted.outcomes.values())

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

    def read(self, data: Any, columns: Mapping[str, Hashable]) -> Panel:
        """Cases as `predict` reads them."""
        return self._read(read_cases, data, columns)

    def batch(self, system: System) -> Batch:
        """One case as the members see it."""
        ((_, batch),) = self._gather((system,), self.transform_).batches()
        return batch

    def answers(self, panel: Panel) -> Answers:
        """The probability of each class, [class], for every case."""
        cases = self._gather(panel.systems, self.transform_).to(choose_device(self.device))
        with torch.inference_mode(), threads_for(cases.names.numel()):
            probabilities = answer(self.stack_, cases).double()
        return list((probabilities / probabilities.sum(-1, keepdim=True)).cpu().numpy())

    def _gather(self, systems: Sequence[System], transform: Transform) -> Cases:
        return Cases.gather(systems, transform, numbers_of(self.variables_in_), self.length_)

    def _probabilities(self, X: Any, columns: Mapping[str, Hashable]) -> np.ndarray:
        self._check_fitted()
        panel = self.read(X, columns)
        known = set(self.variables_in_)
        empty = foreign = 0
        for system in panel.systems:
            seen = {system.variables[row] for row in np.flatnonzero(system.observed.any(1))}
            empty += not seen
            foreign += bool(seen) and self.identify_ == "name" and not seen & known
        what = {"a single reading": empty, "a single variable that `fit` knows by name": foreign}
        for lacking, count in what.items():
            if count:
                warnings.warn(
                    f"{count} of {len(panel.systems)} cases have not {lacking}: the class that is "
                    "named for them is a guess from nothing. Leave such cases out.",
                    stacklevel=3,  # whoever called `predict` or `predict_proba`
                )
        return np.stack(self.answers(panel))

    def _learn_classes(self, panel: Panel, y: Any, groups: Any = None) -> Target:
        """The classes, the variables and the length that `fit` sees; the class of each case."""
        labels = _unwrap(read_labels(y, len(panel.systems)))
        if not any(system.observed.any() for system in panel.systems):
            raise DataError("Not a single value is observed: there is nothing to learn from.")
        self.classes_, codes = _find_classes(labels)
        self.variables_in_ = panel.variables
        self.length_ = max(len(system.times) for system in panel.systems)
        device = choose_device(self.device)
        numbers = None if groups is None else _find_groups(groups, len(codes), device)
        return Target(torch.as_tensor(codes, device=device), len(self.classes_), numbers)

    def _look(self, panel: Panel, target: Target, members: tuple[str, ...]) -> list["_View"]:
        """The cases order-free or by name or both, and what closed forms make of them."""
        both = self.identify == "auto" and len(panel.variables) > 1
        kinds = [one for one in members if one in CLOSED[1:]]
        if both and not kinds:
            kinds = CLOSED[1:]  # something has to choose
        views = []
        for by_name in (False, True) if both else (self.identify == "name",):
            transform = learn_units(panel, by_name=by_name)
            cases = self._gather(panel.systems, transform).to(target.codes.device)
            names = len(panel.variables) if by_name else 0
            with torch.no_grad():
                closed = fit_closed_forms(cases, target, names, kinds)
            best = max(closed, key=lambda one: float(_right(one, target).mean()))
            views.append(_View(by_name, transform, cases, closed, _right(best, target)))
        return views

    def _choose(self, panel: Panel, views: list["_View"]) -> "_View":
        """By name only where that is better by more than chance may make it.

        Nothing tells the variables of an array apart but their place, which may change.
        """
        if len(views) == 1 or panel.form.kind not in NAMED:
            return views[0]
        gain = views[1].right - views[0].right
        chance = float(gain.std()) / len(gain) ** 0.5
        return views[float(gain.mean()) > chance]

    def _epochs(self, members: tuple[str, ...], cases: Cases) -> int:
        """How many epochs a network may be trained for: 0 where there is none.

        One that nobody asked for by name must not take long.
        """
        if NETWORK not in members:
            return 0
        if self.members is not None:
            return int(self.epochs)
        affordable = affordable_epochs(cases)
        return min(int(self.epochs), affordable) if affordable >= FEWEST_EPOCHS else 0

    def _plan(self) -> NetworkPlan:
        config = build_network_config(
            self.preset, self.length_, self.network, center="none", scale=False, skip=False
        )
        return NetworkPlan(config, tuple(sorted(self.variables_in_)) if self.identify_ else ())

    def _write_report(
        self, panel: Panel, target: Target, views: list["_View"], fitted: FittedStack
    ) -> None:
        held = fitted.held | {MODEL: fitted.together}
        self.errors_ = {name: one.wrong for name, one in held.items()}
        errors = {name: (one.wrong, one.cross_entropy) for name, one in held.items()}
        self.report_ = [
            f"data      {describe_data(panel, 'case')}; {target.classes} classes",
            f"variables {self._describe_identity(panel, views)}",
            *describe_trainings(fitted.outcomes),
            "errors    on cases held out: the share named wrongly, and the cross-entropy",
            *member_table(errors, fitted.weights, ("wrong", "entropy")),
        ]

    def _describe_identity(self, panel: Panel, views: list["_View"]) -> str:
        chosen = "known by name" if self.identify_ else "exchangeable"
        if len(views) == 1:
            return chosen
        order_free, named = (f"{100 * float(one.right.mean()):.1f} %" for one in views)
        said = f"{chosen}: of cases held out closed forms name {order_free} rightly order-free, "
        said += f"{named} by name"
        if panel.form.kind in NAMED or views[1].right.mean() <= views[0].right.mean():
            return said
        return said + " (identify='name' takes the place in an array as the name)"

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._fitted_state()
        kind = self.classes_.dtype
        facts |= {
            "classes": self.classes_.tolist(),
            "classes_dtype": "object" if kind.kind == "O" else kind.str,
            "length": self.length_,
            "identify": self.identify_,
        }
        return facts, tensors

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.classes_ = np.array(facts["classes"], dtype=facts["classes_dtype"])
        self.length_, self.identify_ = facts["length"], facts["identify"]
        super()._restore(facts, tensors)

    def __sklearn_tags__(self):
        """Asked by scikit-learn: a classifier of series."""
        from orderless.estimators.sklearn_tags import classifier_tags

        return classifier_tags()


class _View(NamedTuple):
    """The cases order-free or by name, and the closed forms on them.

    right   [case] 1 where the best of them names a case rightly that is held out
    """

    by_name: bool
    transform: Transform
    cases: Cases
    closed: list[CrossFitted]
    right: Tensor


def _right(member: CrossFitted, target: Target) -> Tensor:
    return (member.held_out.argmax(-1) == target.codes).double()


def learn_units(panel: Panel, *, by_name: bool) -> Transform:
    """Each variable in its own unit, or all in one where nothing tells them apart.

    Values beyond `PLAUSIBLE` units, and beyond what one case in a hundred reaches, are drawn in: a
    broken reading decides nothing.
    """
    lengths = [len(system.times) for system in panel.systems]
    # The level of a case may tell its class.
    scales = learn_scales(panel, lengths, across=True)
    units = Transform(scales if by_name else share_scale(scales), shared=not by_name)
    largest = [
        float(np.abs(one.values[one.observed]).max(initial=0.0))
        for one in map(units.apply, panel.systems)
    ]
    reached = float(np.quantile(largest, 1 - RARE, method="lower"))
    return replace(units, limit=max(PLAUSIBLE, reached))


def _find_groups(groups: Any, cases: int, device: torch.device) -> Tensor:
    """The number of the group of each case."""
    names, numbers = np.unique(_unwrap(read_labels(groups, cases)), return_inverse=True)
    if len(names) < 2:
        raise DataError(
            f"All {cases} cases belong to one group, {names.tolist()[0]!r}, so that nothing can be "
            "held out. Give at least two groups, or none."
        )
    return torch.as_tensor(numbers, device=device)


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
