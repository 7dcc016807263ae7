"""The table of long-term forecasting: eight sets, four horizons, MSE and MAE in scaled units."""

from collections.abc import Hashable, Sequence

from orderless.bench.config import DETERMINISTIC_SEEDS, CellConfig, frozen
from orderless.bench.datasets.catalogue import LONG_TERM_SETS
from orderless.bench.datasets.readers import long_term
from orderless.bench.models.forecasts import Fitted, Problem, errors_of_windows, fit, pose
from orderless.bench.models.peers import PEERS
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.protocols.long_term_rules import choose_look_back, scored_windows
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table

NAME = "long-term"
HORIZONS = (96, 192, 336, 720)
LOOK_BACK = 336
LOOK_BACKS = (96, 336, 512, 720)
"""Those that a closed form can afford to choose from; a network gets one."""
OURS = ("orderless", "orderless uncoupled")
MODELS = (*OURS, "naive", "seasonal naive", "ridge", "coupled ridge", "DLinear", *PEERS)
BUDGET = {"epochs": 8, "steps": 100}
"""That of our networks and of others."""
DLINEAR_BUDGET = {"epochs": 20, "steps": 100}
"""Its steps cost next to nothing."""
METRICS = (Metric("mse", "MSE", 3), Metric("mae", "MAE", 3))


def cells(protocol: str, seeds: Sequence[int]) -> list[CellConfig]:
    """Every cell, those of one set and horizon together."""
    return [
        cell(dataset, horizon, model, protocol, seeds)
        for dataset in LONG_TERM_SETS
        for horizon in HORIZONS
        for model in MODELS
    ]


def cell(dataset: str, horizon: int, model: str, protocol: str, seeds: Sequence[int]) -> CellConfig:
    """The complete setting of one cell."""
    options: dict[str, object] = {"look_backs": (LOOK_BACK,)}
    if model in OURS:
        network = {"coupling": "none"} if model == "orderless uncoupled" else None
        options |= {"forecaster": {"preset": "default", "network": network}, "budget": BUDGET}
    elif model in PEERS:
        options["budget"] = BUDGET
    elif model == "DLinear":
        options["budget"] = DLINEAR_BUDGET
    elif "ridge" in model:
        options["look_backs"] = LOOK_BACKS
    return CellConfig(
        table=NAME,
        dataset=dataset,
        setting=str(horizon),
        model=model,
        protocol=protocol,
        seeds=tuple(seeds) if "budget" in options else DETERMINISTIC_SEEDS,
        options=frozen(options),
    )


def fit_of(config: CellConfig) -> Hashable:
    """Both protocols need the same fit, and so may other tables with the same options."""
    # How our networks differ stands in the options.
    model = OURS[0] if config.model in OURS else config.model
    return config.dataset, config.setting, model, config.seeds, config.options


def run(config: CellConfig) -> Outcome:
    """Fit at every look-back, choose one by the protocol, and score its test windows."""
    data = long_term(config.dataset, keep_missing_readings=True)
    results = []
    for seed in config.seeds:
        fitted, validation, test = {}, {}, {}
        for look_back in config.option("look_backs"):
            problem = pose(data, look_back, int(config.setting))
            one = fitted[look_back] = fit(config.model, problem, seed, config.settings)
            validation[look_back] = _score(problem, one, "validation", "fair")
            test[look_back] = _score(problem, one, "test", config.protocol)
        best = choose_look_back(_mse(validation), _mse(test), config.protocol)
        results.append(
            SeedResult(
                seed=seed,
                test=test[best],
                validation=validation[best],
                chosen={"look_back": best, **fitted[best].chosen},
                epochs=fitted[best].epochs,
                seconds=round(sum(one.seconds for one in fitted.values()), 3),
                peak_memory_bytes=max(
                    (one.peak_memory_bytes or 0 for one in fitted.values()), default=0
                )
                or None,
            )
        )
    return Outcome(tuple(results), data.checksum, data.note)


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


def _mse(scores: dict[int, dict[str, float]]) -> dict[int, float]:
    return {look_back: one["mse"] for look_back, one in scores.items()}


TABLE = Table(
    NAME,
    "Long-term forecasting",
    cells,
    run,
    MODELS,
    dict.fromkeys((FAIR, PAPER), METRICS),
    setting="horizon",
    peers=dict.fromkeys(PEERS, "neuralforecast"),
    fit_of=fit_of,
)
