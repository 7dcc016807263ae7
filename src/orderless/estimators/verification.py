"""`verify`: measure the promises of a fitted model on data, each against its tolerance.

In:  a fitted estimator, and a panel (or anything `fit` takes; simulated series if none is given).
Out: a `Verification`, one `Check` for each promise.

Errors of answers are in units of each variable's standard deviation (forecasts), of the score
(anomalies), or probabilities. What runs the same numbers in the same order must agree to the bit,
tolerance 0; what may add them in another order, to the rounding of float32. Of each member with
weights the same promises are measured in float64, where rounding hides nothing.
"""

import copy
import tempfile
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from orderless.data import Form, Panel, System, read_panel
from orderless.errors import DataError
from orderless.estimators.base import Answers, Estimator
from orderless.estimators.forecaster import Forecaster
from orderless.estimators.member_checks import EXACT, Check, check_member
from orderless.estimators.saving import load

ROUNDING_32 = 1e-4
MOST_SYSTEMS = 4
MOST_STEPS = 512


@dataclass(frozen=True)
class Verification:
    """What was measured, on which kind of model."""

    estimator: str
    variables: int
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every promise is kept."""
        return all(check.holds for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an error that is not a number becomes None."""
        rows = [
            asdict(check)
            | {"error": check.error if np.isfinite(check.error) else None, "holds": check.holds}
            for check in self.checks
        ]
        return {
            "estimator": self.estimator,
            "variables": self.variables,
            "holds": self.holds,
            "checks": rows,
        }


def verify(
    estimator: Estimator,
    data: Any = None,
    *,
    columns: Mapping[str, Hashable] | None = None,
    seed: int = 0,
) -> Verification:
    """Measure every promise that the estimator makes, on the data given.

    `columns` names columns of a frame by role, as the keywords of `fit` do.
    """
    estimator._check_fitted()
    # Promises about other variables are made by the model, whatever its user forbids.
    estimator = copy.copy(estimator)
    estimator.strict_variables = False
    panel = estimator.read(data, columns or {}) if data is not None else _simulate(estimator, seed)
    panel = _trim(panel, estimator)
    expected = estimator.answers(panel)
    random = np.random.default_rng(seed)
    checks = [
        _order(estimator, panel, expected, random),
        _dead_variable(estimator, panel, expected),
        _poisoned_gaps(estimator, panel, random),
        _company(estimator, panel),
        _other_numbers(estimator, panel),
        _saving(estimator, panel, expected),
    ]
    if isinstance(estimator, Forecaster):
        checks += _hidden_future(estimator, panel, random)
    for member in estimator.stack_.members:
        if member.module is not None:
            checks += check_member(estimator, member, panel.systems[0], random)
    return Verification(type(estimator).__name__, len(panel.variables), tuple(checks))


def _distance(estimator: Estimator, system: System, answer: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two answers about a system; infinite where one of them has none."""
    if answer.shape != other.shape or not np.array_equal(np.isfinite(answer), np.isfinite(other)):
        return float("inf")
    difference = np.abs(answer - other) / estimator.answer_unit(system, answer)
    known = difference[np.isfinite(difference)]
    return float(known.max(initial=0.0))


def _order(
    estimator: Estimator, panel: Panel, expected: Answers, random: np.random.Generator
) -> Check:
    orders = [random.permutation(len(system.variables)) for system in panel.systems]
    mixed = tuple(map(_pick, panel.systems, orders))
    moved = estimator.answers(replace(panel, systems=mixed))
    restored = moved
    if estimator.per_variable:
        restored = [one[np.argsort(o)] for one, o in zip(moved, orders, strict=True)]
    return Check(
        "order",
        "reordering the variables changes nothing, to the bit",
        _worst(estimator, panel, expected, restored),
        EXACT,
    )


def _dead_variable(estimator: Estimator, panel: Panel, expected: Answers) -> Check:
    """A column of NaN, named so that it falls among the others."""
    systems = []
    for system in panel.systems:
        middle = sorted(system.variables)[len(system.variables) // 2]
        dead = np.full((1, len(system.times)), np.nan)
        systems.append(
            replace(
                system,
                values=np.concatenate((system.values, dead)),
                observed=np.concatenate((system.observed, np.zeros(dead.shape, bool))),
                variables=(*system.variables, middle + " (dead)"),
            )
        )
    answers = estimator.answers(replace(panel, systems=tuple(systems)))
    if estimator.per_variable:
        answers = [one[:-1] for one in answers]
    return Check(
        "dead variable",
        "a variable without any reading changes nothing for the others",
        _worst(estimator, panel, expected, answers),
        ROUNDING_32,
    )


def _poisoned_gaps(estimator: Estimator, panel: Panel, random: np.random.Generator) -> Check:
    """The same gaps, once with NaN in them and once with huge numbers."""
    hollow, poisoned = [], []
    for system in panel.systems:
        observed = system.observed & (random.random(system.observed.shape) > 0.1)
        empty = np.where(observed, system.values, np.nan)
        full = np.where(observed, system.values, 1e30)
        hollow.append(replace(system, values=empty, observed=observed))
        poisoned.append(replace(system, values=full, observed=observed))
    gaps = replace(panel, systems=tuple(hollow))
    answers = estimator.answers(replace(panel, systems=tuple(poisoned)))
    return Check(
        "masked entries",
        "a missing entry may hold anything, to the bit",
        _worst(estimator, gaps, estimator.answers(gaps), answers),
        EXACT,
    )


def _company(estimator: Estimator, panel: Panel) -> Check:
    """Systems of other lengths and sets of variables in one batch, and each alone."""
    panel = replace(panel, systems=(*panel.systems, _smaller(panel.systems[0])))
    together = estimator.answers(panel)
    alone = [estimator.answers(replace(panel, systems=(system,)))[0] for system in panel.systems]
    return Check(
        "batch and padding",
        "a system gets the same answer alone and beside larger ones",
        _worst(estimator, panel, alone, together),
        ROUNDING_32,
    )


def _other_numbers(estimator: Estimator, panel: Panel) -> Check:
    """One variable alone, and twice as many: the share of answers that are missing."""
    system = panel.systems[0]
    living = np.flatnonzero(system.observed[:, -estimator.reach :].any(1))
    if not len(living):
        raise DataError("No variable has a value within the context: give other data.")
    twins = _pick(system, living)
    names = tuple(f"{name} (twin)" for name in twins.variables)
    more = replace(
        twins,
        values=np.concatenate((twins.values, twins.values)),
        observed=np.concatenate((twins.observed, twins.observed)),
        variables=(*twins.variables, *names),
    )
    missing = 0.0
    for one in (_pick(system, living[:1]), more):
        (answer,) = estimator.answers(replace(panel, systems=(one,)))
        missing = max(missing, float((~np.isfinite(answer) & estimator.asked(one, answer)).mean()))
    return Check(
        "number of variables",
        "one variable alone gets an answer, and so do twice as many (error: the missing share)",
        missing,
        EXACT,
    )


def _saving(estimator: Estimator, panel: Panel, expected: Answers) -> Check:
    with tempfile.TemporaryDirectory() as folder:
        estimator.save(folder)
        loaded = load(folder)
    answers = loaded.answers(panel)
    return Check(
        "save and load",
        "a saved model answers the same, to the bit",
        _worst(estimator, panel, expected, answers),
        EXACT,
    )


def _hidden_future(estimator: Forecaster, panel: Panel, random: np.random.Generator) -> list[Check]:
    """Other numbers from the first origin of a backtest on must not change its forecast."""
    system = panel.systems[0]
    origin = len(system.times) - 2 * estimator.horizon_
    if origin < 1:
        return []
    changed = system.values.copy()
    changed[:, origin:] += 100.0 * random.standard_normal(changed[:, origin:].shape)
    one = replace(panel, systems=(system,))
    other = replace(panel, systems=(replace(system, values=changed),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sparse rows, that there is little to score
        first, second = (estimator.backtest(each, 2).forecast[0][0].T for each in (one, other))
    return [
        Check(
            "causality",
            "what comes after the origin of a forecast does not change it, to the bit",
            _distance(estimator, system, first, second),
            EXACT,
        )
    ]


def _worst(estimator: Estimator, panel: Panel, expected: Answers, answers: Answers) -> float:
    triples = zip(panel.systems, expected, answers, strict=True)
    return max(_distance(estimator, *triple) for triple in triples)


def _pick(system: System, rows: np.ndarray) -> System:
    return replace(
        system,
        values=system.values[rows],
        observed=system.observed[rows],
        variables=tuple(system.variables[row] for row in rows),
    )


def _smaller(system: System) -> System:
    """Fewer variables, and fewer steps."""
    kept = _pick(system, np.arange(-(-len(system.variables) // 2)))
    return _last(kept, -(-3 * len(system.times) // 4))


def _last(system: System, steps: int) -> System:
    times = system.times[-steps:]
    rows = np.arange(len(times))
    return replace(
        system,
        values=system.values[:, -steps:],
        observed=system.observed[:, -steps:],
        times=times,
        rows=rows,
        input_rows=rows,
        row_variables=None,
    )


def _trim(panel: Panel, estimator: Estimator) -> Panel:
    """Few and short systems, given back as arrays: promises do not need more."""
    steps = max(MOST_STEPS, _enough(estimator))
    systems = tuple(_last(system, steps) for system in panel.systems[:MOST_SYSTEMS])
    return Panel(systems, Form("arrays"))


def _enough(estimator: Estimator) -> int:
    """Time steps for a forecast from several origins."""
    return estimator.reach + 3 * getattr(estimator, "horizon_", 0)


def _simulate(estimator: Estimator, seed: int) -> Panel:
    """A random walk for each variable of `fit`, on its own scale."""
    random = np.random.default_rng(seed)
    steps = max(64, _enough(estimator))
    walks = 0.3 * random.standard_normal((steps, len(estimator.variables_in_))).cumsum(0)
    for column, name in enumerate(estimator.variables_in_):
        scales = estimator.transform_.scales
        center, scale = scales.get(name, scales.get("", (0.0, 1.0)))
        walks[:, column] = center + (scale or 1.0) * walks[:, column]
    panel = read_panel(walks)
    system = replace(panel.systems[0], variables=estimator.variables_in_)
    return Panel((system,), Form("arrays"))
