"""`verify`: measure the promises of a fitted model on data, each against its tolerance.

In:  a fitted estimator, and a panel (or anything `fit` takes; simulated series if none is given).
Out: a `Verification`, one `Check` for each promise.

Errors of answers are in units of each variable's spread (forecasts), of the usual score
(anomalies), or probabilities. What runs the same numbers in the same order must agree to the bit,
tolerance 0; what may add them in another order, to the rounding of float32. Inside the network the
same promises are measured in float64, where rounding hides nothing.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orderless.data import Form, Panel, System, fit_scaler, read_cases, read_panel
from orderless.errors import DataError
from orderless.estimators.base import Estimator
from orderless.estimators.classifier import Classifier
from orderless.estimators.detector import Detector
from orderless.estimators.forecaster import Forecaster
from orderless.estimators.preparation import prepare, stack
from orderless.estimators.saving import load
from orderless.nn import VI2DSSM
from orderless.theory import causality_error

EXACT = 0.0
ROUNDING_32 = 1e-4
ROUNDING_64 = 1e-10
MOST_SYSTEMS = 4
MOST_STEPS = 512
Answers = Sequence[np.ndarray]
"""One for each system, see `_answers`."""


@dataclass(frozen=True)
class Check:
    """One promise, how far the model is from keeping it, and how far it may be."""

    name: str
    promise: str
    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the error lies within the tolerance; a NaN does not."""
        return self.error <= self.tolerance


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
    estimator: Any,
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
    panel = _trim(_read(estimator, data, columns or {}, seed), estimator)
    expected = _answers(estimator, panel)
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
    checks += _inside(estimator, panel.systems[0], random)
    return Verification(type(estimator).__name__, len(panel.variables), tuple(checks))


def _answers(estimator: Estimator, panel: Panel) -> list[np.ndarray]:
    """What the model says of each system: [variable, ...], or [class] of a case."""
    if isinstance(estimator, Forecaster):
        return [one.T for one in estimator.predict(panel)]
    if isinstance(estimator, Detector):
        return [one.T for one in estimator.score(panel, per_variable=True)]
    assert isinstance(estimator, Classifier)
    return list(estimator.predict_proba(panel))


def _distance(estimator: Estimator, system: System, answer: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two answers about a system; infinite where one of them has none."""
    if answer.shape != other.shape or not np.array_equal(np.isfinite(answer), np.isfinite(other)):
        return float("inf")
    unit: Any = 1.0
    if isinstance(estimator, Forecaster):
        unit = fit_scaler(system.values, system.observed).scale
    elif isinstance(estimator, Detector):
        unit = np.maximum(1.0, np.abs(answer))
    difference = np.abs(answer - other) / unit
    known = difference[np.isfinite(difference)]
    return float(known.max(initial=0.0))


def _order(
    estimator: Estimator, panel: Panel, expected: Answers, random: np.random.Generator
) -> Check:
    orders = [random.permutation(len(system.variables)) for system in panel.systems]
    mixed = tuple(map(_pick, panel.systems, orders))
    moved = _answers(estimator, replace(panel, systems=mixed))
    if isinstance(estimator, Classifier):
        restored = moved
    else:
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
    answers = _answers(estimator, replace(panel, systems=tuple(systems)))
    if not isinstance(estimator, Classifier):
        answers = [one[:-1] for one in answers]
    return Check(
        "dead variable",
        "a variable without a single value changes nothing for the others",
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
    answers = _answers(estimator, replace(panel, systems=tuple(poisoned)))
    return Check(
        "masked entries",
        "what a missing entry holds does not matter, to the bit",
        _worst(estimator, gaps, _answers(estimator, gaps), answers),
        EXACT,
    )


def _company(estimator: Estimator, panel: Panel) -> Check:
    """Systems of other lengths and sets of variables in one batch, and each alone."""
    panel = replace(panel, systems=(*panel.systems, _smaller(panel.systems[0])))
    together = _answers(estimator, panel)
    alone = [_answers(estimator, replace(panel, systems=(system,)))[0] for system in panel.systems]
    return Check(
        "batch and padding",
        "a system gets the same answer alone and beside larger ones",
        _worst(estimator, panel, alone, together),
        ROUNDING_32,
    )


def _other_numbers(estimator: Estimator, panel: Panel) -> Check:
    """One variable alone, and twice as many: the share of answers that are missing."""
    system = panel.systems[0]
    living = np.flatnonzero(system.observed[:, -_context(estimator) :].any(1))
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
        (answer,) = _answers(estimator, replace(panel, systems=(one,)))
        # A detector has no score where nothing was observed.
        wanted = one.observed if isinstance(estimator, Detector) else np.ones(answer.shape, bool)
        missing = max(missing, float((~np.isfinite(answer) & wanted).mean()))
    return Check(
        "number of variables",
        "one variable, and twice as many, get an answer (share without one)",
        missing,
        EXACT,
    )


def _saving(estimator: Estimator, panel: Panel, expected: Answers) -> Check:
    with tempfile.TemporaryDirectory() as folder:
        estimator.save(folder)
        loaded = load(folder)
    answers = _answers(loaded, panel)
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


def _inside(estimator: Any, system: System, random: np.random.Generator) -> list[Check]:
    """Order, masks, padding and batch inside the network, in float64."""
    network = copy.deepcopy(estimator.network_).cpu().double().eval()
    whole = isinstance(estimator, Classifier)
    last = None if whole else estimator.context_
    prepared = prepare(system, estimator.scales_, last=last, shared=whole and not network.names)
    steps = prepared.values.shape[1] if whole else estimator.context_
    values, observed, _ = stack([prepared], steps)
    observed = observed & torch.as_tensor(random.random(observed.shape) > 0.1)
    values = values.double()
    identities = None
    if isinstance(estimator, Classifier) and network.names:
        identities = network.identify(prepared.names).unsqueeze(0)
    run = _Inside(network, identities)
    members = observed.any(-1)
    expected = run(values, observed, members)
    scale = float(expected.square().mean().sqrt()) or 1.0

    def check(name: str, promise: str, other: Tensor, tolerance: float) -> Check:
        error = float((other - expected).abs().max()) / scale
        return Check(f"{name} (inside)", promise, error, tolerance)

    count = values.shape[1]
    order = torch.as_tensor(random.permutation(count))
    moved = run(values[:, order], observed[:, order], members[:, order], order)
    if not isinstance(estimator, Classifier):
        moved = moved[:, order.argsort()]
    poisoned = torch.where(observed, values, torch.nan)
    extra = torch.full((1, 3, values.shape[2]), torch.nan, dtype=values.dtype)
    wider = torch.cat((values, extra), 1)
    nothing = torch.zeros_like(extra, dtype=torch.bool)
    padded = run(
        wider, torch.cat((observed, nothing), 1), torch.cat((members, nothing[..., 0]), 1), None, 3
    )
    pair = run(
        torch.cat((values, values.flip(2))),
        torch.cat((observed, observed.flip(2))),
        members.expand(2, -1),
    )
    checks = [
        check("order", "without sorting by name, order changes nothing", moved, ROUNDING_64),
        check(
            "masked entries",
            "NaN in a masked entry changes nothing",
            run(poisoned, observed, members),
            EXACT,
        ),
        check(
            "padding",
            "three variables of padding, full of NaN, change nothing",
            padded if isinstance(estimator, Classifier) else padded[:, :count],
            ROUNDING_64,
        ),
        check("batch", "a second series in the batch changes nothing", pair[:1], ROUNDING_64),
    ]
    causal = _causal_scans(network)
    if causal is not None:
        checks.append(causal)
    return checks


class _Inside:
    """The network as a function of values, masks and the order of its variables."""

    def __init__(self, network: Any, identities: Tensor | None) -> None:
        self.network, self.identities = network, identities

    @torch.no_grad()
    def __call__(
        self,
        values: Tensor,
        observed: Tensor,
        members: Tensor,
        order: Tensor | None = None,
        padding: int = 0,
    ) -> Tensor:
        if self.identities is None:
            result = self.network(values, observed, members)
        else:
            identities = self.identities if order is None else self.identities[:, order]
            identities = torch.nn.functional.pad(identities, (0, padding))
            identities = identities.expand(len(values), -1)
            result = self.network(values, observed, members, identities)
        if isinstance(result, Tensor):
            return result
        # A forecast may rest on its linear part alone; the features are measured in any case.
        features, _ = self.network.body(values, observed, members)
        return torch.cat((result.point, features.flatten(2)), dim=2)


def _causal_scans(network: torch.nn.Module) -> Check | None:
    """The scans along time; that of the spectral branch runs along frequency, both ways."""
    worst, found = 0.0, False
    for name, layer in network.named_modules():
        if not isinstance(layer, VI2DSSM) or "spectral" in name:
            continue
        found = True
        random = torch.Generator().manual_seed(0)
        x = torch.randn(1, 3, 24, layer.channels, generator=random, dtype=torch.float64)
        worst = max(worst, causality_error(layer, x))
    if not found:
        return None
    promise = "in the scans along time, the future does not change the past"
    return Check("causality (inside)", promise, worst, ROUNDING_64)


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
    horizon = estimator.horizon_ if isinstance(estimator, Forecaster) else 0
    steps = max(MOST_STEPS, _context(estimator) + 3 * horizon)
    systems = tuple(_last(system, steps) for system in panel.systems[:MOST_SYSTEMS])
    return Panel(systems, Form("arrays"))


def _context(estimator: Any) -> int:
    return 0 if isinstance(estimator, Classifier) else estimator.context_


def _read(estimator: Any, data: Any, columns: Mapping[str, Hashable], seed: int) -> Panel:
    if data is None:
        return _simulate(estimator, seed)
    read: Callable[..., Panel] = read_cases
    if not isinstance(estimator, Classifier):
        read = partial(read_panel, **estimator.known_steps)
    return estimator._read(read, data, columns)


def _simulate(estimator: Any, seed: int) -> Panel:
    """A random walk for each variable of `fit`, on its own scale."""
    random = np.random.default_rng(seed)
    steps = max(64, _context(estimator) + 3 * getattr(estimator, "horizon_", 0))
    walks = 0.3 * random.standard_normal((steps, len(estimator.variables_in_))).cumsum(0)
    for column, name in enumerate(estimator.variables_in_):
        mean, spread = estimator.scales_.get(name, estimator.scales_.get("", (0.0, 1.0)))
        walks[:, column] = mean + (spread or 1.0) * walks[:, column]
    panel = read_panel(walks)
    system = replace(panel.systems[0], variables=estimator.variables_in_)
    return Panel((system,), Form("arrays"))
