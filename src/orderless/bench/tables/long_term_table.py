"""The table of long-term forecasting: eight sets, four horizons, MSE and MAE in scaled units."""

from collections.abc import Hashable, Mapping

from orderless.bench.config import CellConfig
from orderless.bench.datasets.catalogue import LONG_TERM_SETS
from orderless.bench.datasets.readers import long_term
from orderless.bench.models.columns import column
from orderless.bench.models.forecasts import Fitted, Problem, errors_of_windows, fit, pose
from orderless.bench.models.peers import PEERS
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.long_term_rules import choose_context, scored_windows
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

NAME = "long-term"
HORIZONS = ("96", "192", "336", "720")
CONTEXT = {"contexts": (336,)}
CONTEXTS = {"contexts": (96, 336, 512, 720)}
"""Those that a closed form can afford to choose from; a network gets one."""
BUDGET = {"budget": {"epochs": 8, "steps": 100}}
"""That of our networks and of others; the steps of DLinear cost next to nothing."""
OURS = {
    name: {**CONTEXT, "forecaster": {"preset": "default", "network": network}, **BUDGET}
    for name, network in (("orderless", None), ("orderless uncoupled", {"coupling": "none"}))
}
CLOSED = {
    "naive": CONTEXT,
    "seasonal naive": CONTEXT,
    "ridge": CONTEXTS,
    "coupled ridge": CONTEXTS,
}
TRAINED = {
    "DLinear": CONTEXT | {"budget": {"epochs": 20, "steps": 100}},
    **dict.fromkeys(PEERS, CONTEXT | BUDGET),
}
METRICS = (Metric("mse", "MSE", 3), Metric("mae", "MAE", 3))


def fit_of(config: CellConfig) -> Hashable:
    """Both protocols need the same fit, and so may other tables with the same options."""
    # How our networks differ stands in the options.
    model = "orderless" if config.model in OURS else config.model
    return config.dataset, config.setting, model, config.seeds, config.options


def run(config: CellConfig) -> Outcome:
    """Fit at every context, choose one by the protocol, and score its test windows."""
    data = long_term(config.dataset, keep_missing_readings=True)
    results = []
    for seed in config.seeds:
        fitted, validation, test = {}, {}, {}
        for context in config.option("contexts"):
            problem = pose(data, context, int(config.setting))
            fitter = column(NAME, config.model)
            one = fitted[context] = fit(fitter, problem, seed, config.settings)
            validation[context] = _score(problem, one, "validation", FAIR)
            test[context] = _score(problem, one, "test", config.protocol)
        best = choose_context(_mse(validation), _mse(test), config.protocol)
        results.append(_result(seed, best, fitted, validation[best], test[best]))
    return Outcome(tuple(results), data.checksum, data.note)


def _result(
    seed: int,
    best: int,
    fitted: Mapping[int, Fitted],
    validation: Mapping[str, float],
    test: Mapping[str, float],
) -> SeedResult:
    peaks = [one.peak_memory_bytes for one in fitted.values() if one.peak_memory_bytes]
    return SeedResult(
        seed,
        test,
        validation,
        chosen={"context": best, **fitted[best].chosen},
        epochs=fitted[best].epochs,
        seconds=round(sum(one.seconds for one in fitted.values()), 3),
        peak_memory_bytes=max(peaks, default=None),
    )


def _score(problem: Problem, fitted: Fitted, part: str, protocol: str) -> dict[str, float]:
    if part not in fitted.errors:
        fitted.errors[part] = errors_of_windows(problem, part, fitted.forecast)
    squared, absolute = fitted.errors[part]
    count = scored_windows(len(squared), protocol)
    return {
        "mse": float(squared[:count].mean()),
        "mae": float(absolute[:count].mean()),
        "windows": count,
    }


def _mse(scores: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    return {context: one["mse"] for context, one in scores.items()}


TABLE = Table(
    NAME,
    "Long-term forecasting",
    run,
    LONG_TERM_SETS,
    {**OURS, **CLOSED, **TRAINED},
    dict.fromkeys((FAIR, PAPER), METRICS),
    HORIZONS,
    drawn=(*OURS, *TRAINED),
    peers=dict.fromkeys(PEERS, "neuralforecast"),
    fit_of=fit_of,
)
