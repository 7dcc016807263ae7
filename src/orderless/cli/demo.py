"""`orderless demo`: the main job on a simulated wind farm: fit some turbines, forecast others.

Turbines that training never saw, in another order; one of them dead, one new.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from orderless.estimators import Forecaster

EXAMPLES = """\
  orderless demo
  orderless demo --seed 1 --picture farm.png --model model/"""

FITTED, OTHERS = 12, 12
TRAINED, STEPS, CONTEXT, HORIZON = 6000, 7200, 48, 12
YOUNG = 36
"""Hours of history of the turbine that is new at the end."""
ORIGINS, STRIDE = 150, 7
DAYS = 6
"""Of forecasts in the picture."""
TRAINING = {"batch_size": 32, "steps_per_epoch": 100, "learning_rate": 3e-3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where things go, and which random numbers are drawn."""
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="default: demo.png")
    parser.add_argument("--model", type=Path, metavar="MODEL", help="save the model here")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--epochs", type=int, default=3, help="default: 3")


def run(arguments: argparse.Namespace) -> None:
    """Simulate, fit, forecast, compare, check; print the numbers and draw the picture."""
    import torch

    # Tensors this small gain nothing from a second thread, and lose much on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _run(arguments)
    finally:
        torch.set_num_threads(threads)


def _run(arguments: argparse.Namespace) -> None:
    from orderless.cli.places import check_places
    from orderless.estimators.saving import check_folder

    check_places(arguments)
    if arguments.model is not None:
        check_folder(arguments.model)
    train, later = _simulate(arguments.seed)
    print(
        f"A simulated wind farm, hourly power in percent. Fit on {FITTED} turbines; forecast the\n"
        f"{OTHERS} others {HORIZON} hours ahead, in another order, one of them dead.\n",
        flush=True,
    )
    model = _fit(train, arguments, verbose=True)
    print(flush=True)
    alone = _fit(train, arguments, members="ridge")
    errors = _compare(model, alone, later)
    _print_promises(model, later, arguments.seed)
    _draw(model, later, errors, arguments.picture)
    if arguments.model is not None:
        model.save(arguments.model)
    print(f"\nPicture: {arguments.picture}")


def _simulate(seed: int) -> "tuple[dict[str, np.ndarray], dict[str, np.ndarray]]":
    """Turbines to fit on; and others, shuffled, later, of which one is dead."""
    import numpy as np

    from orderless.data.simulate import wind_farm

    values, names = wind_farm(seed, turbines=FITTED + OTHERS, steps=STEPS)
    train = {name: values[:TRAINED, i] for i, name in enumerate(names[:FITTED])}
    others = np.random.default_rng(seed).permutation(np.arange(FITTED, len(names)))
    later = {names[i]: values[TRAINED - CONTEXT :, i] for i in others}
    later[names[others[-1]]] = np.full(STEPS - TRAINED + CONTEXT, np.nan)
    return train, later


def _fit(
    train: "dict[str, np.ndarray]", arguments: argparse.Namespace, **settings: Any
) -> "Forecaster":
    from orderless import Forecaster

    model = Forecaster(
        HORIZON,
        CONTEXT,
        preset="tiny",
        epochs=arguments.epochs,
        training=TRAINING,
        random_state=arguments.seed,
        **{"verbose": False} | settings,
    )
    return model.fit(train)


def _compare(
    model: "Forecaster", alone: "Forecaster", later: "dict[str, np.ndarray]"
) -> dict[str, float]:
    """Errors on the turbines that training never saw, in the weeks that it never saw."""
    ours = model.backtest(later, ORIGINS, stride=STRIDE, level=80).scores
    ridge = alone.backtest(later, ORIGINS, stride=STRIDE).scores
    errors = {name: ours[name]["mae"] for name in ("naive", "seasonal naive")}
    errors |= {"ridge, each alone": ridge["this model"]["mae"]}
    errors |= {"this model": ours["this model"]["mae"]}
    print(f"Mean absolute error on {OTHERS - 1} turbines that training never saw, in later weeks:")
    for name, error in errors.items():
        print(f"  {name:18}{error:8.4f}")
    gain = 100 * (1 - errors["this model"] / errors["ridge, each alone"])
    inside = 100 * ours["this model"]["coverage-80"]
    print(f"The model is {gain:.0f} % better than a ridge on each turbine's own history.")
    print(f"{inside:.0f} % of the values lie within the 80 % intervals.\n")
    return errors


def _print_promises(model: "Forecaster", later: "dict[str, np.ndarray]", seed: int) -> None:
    """What reordering and a dead sensor change, and what is certain about stability."""
    import numpy as np

    from orderless.models.stack import certify_members

    order = np.random.default_rng(seed + 1).permutation(list(later))
    forecast = model.predict(later)
    shuffled = model.predict({str(name): later[str(name)] for name in order})
    alive = model.predict({name: x for name, x in later.items() if np.isfinite(x).any()})
    moved = max(np.abs(forecast[name] - shuffled[name]).max() for name in alive)
    kept = max(np.abs(forecast[name] - alive[name]).max() for name in alive)
    print("Promises, measured on this forecast:")
    print(f"  reordering the turbines changes it by   {_shown(moved)}")
    print(f"  without the dead turbine it changes by  {_shown(kept)}")
    for name, certificate in certify_members(model.stack_, len(later)).items():
        print(f"  {name}: {certificate.to_text().splitlines()[0]}")


def _shown(change: float) -> str:
    return f"{change:.0e} (rounding)" if change else "0 (to the bit)"


def _draw(
    model: "Forecaster", later: "dict[str, np.ndarray]", errors: dict[str, float], path: Path
) -> None:
    """All turbines together, over some days; the last hours of one, and of one that is new."""
    import numpy as np

    from orderless.estimators.pictures import Ahead, Outlook, draw_outlooks

    past = {name: values[:-HORIZON].copy() for name, values in later.items()}
    one, new, *_ = past
    past[new][:-YOUNG] = np.nan
    forecast = model.predict(past, level=[80])
    times = np.datetime64("2026-01-01", "ns") + np.arange(STEPS) * np.timedelta64(1, "h")
    shown = slice(-5 * HORIZON, -HORIZON)
    titles = {
        one: f"{one} alone",
        new: f"{new}, {YOUNG} hours after it was added",
    }
    outlooks = [
        Outlook(
            title,
            times[shown],
            past[name][-4 * HORIZON :],
            [
                Ahead(
                    times[-HORIZON:],
                    forecast[name],
                    {80: (forecast[f"{name}-lo-80"], forecast[f"{name}-hi-80"])},
                )
            ],
            actual=later[name][-HORIZON:],
            unit="power, %",
        )
        for name, title in titles.items()
    ]
    title = f"A model fitted on {FITTED} turbines forecasts {OTHERS} others, {HORIZON} hours ahead"
    farm = _farm(model, later, times)
    draw_outlooks([farm, *outlooks], path, title=title, errors=errors, wide=True)


def _farm(model: "Forecaster", later: "dict[str, np.ndarray]", times: "np.ndarray") -> Any:
    """The mean power of the turbines, and the mean of their forecasts from several origins."""
    import numpy as np

    from orderless.estimators.pictures import Ahead, Outlook

    alive = {name: values for name, values in later.items() if np.isfinite(values).any()}
    ahead = model.backtest(alive, DAYS * 24 // HORIZON).forecast
    mean = np.mean([ahead[name] for name in alive], axis=0).reshape(-1, HORIZON)
    length = DAYS * 24
    outlooks = [
        Ahead(span, point)
        for span, point in zip(times[-length:].reshape(-1, HORIZON), mean, strict=True)
    ]
    shown = slice(-length - 2 * HORIZON, None)
    history = np.mean(list(alive.values()), axis=0)[shown]
    name = f"mean of the {len(alive)} that work, forecast every {HORIZON} hours"
    return Outlook(name, times[shown], history, outlooks, unit="power, %")
