"""`orderless demo`: the main job on a simulated plant: fit some sensors, forecast others.

Sensors that training never saw, in another order, two of them added, one of them dead.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from orderless.estimators import Forecaster

EXAMPLES = """\
  orderless demo
  orderless demo --seed 1 --picture plant.png --model model/"""

FITTED, OTHERS, ADDED = 12, 12, 2
TRAINED, STEPS, CONTEXT, HORIZON = 2400, 3000, 96, 24
ORIGINS = 145
TRAINING = {"batch_size": 16, "steps_per_epoch": 60, "learning_rate": 3e-3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where things go, and which random numbers are drawn."""
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="default: demo.png")
    parser.add_argument("--model", type=Path, metavar="MODEL", help="save the model here")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--epochs", type=int, default=2, help="default: 2")


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
    living = len(later) - 1
    print(
        f"A simulated plant: noisy sensors of one drifting daily profile and one slow drive.\n"
        f"Fit on {FITTED} sensors. Forecast {OTHERS} others, shuffled, {ADDED} added, one dead, "
        f"{HORIZON} steps ahead.\n",
        flush=True,
    )
    models = {name: _fit(train, arguments, **one) for name, one in _rivals(arguments).items()}
    model = models["this model"]
    results = {name: one.backtest(later, ORIGINS, step=4, level=80) for name, one in models.items()}
    errors = {
        name: results["this model"].scores[name]["mae"] for name in ("naive", "seasonal naive")
    }
    errors |= {name: result.scores["this model"]["mae"] for name, result in results.items()}

    print(f"Mean absolute error over the last {STEPS - TRAINED} steps, {living} sensors:")
    _print_errors(errors)
    print(f"The model keeps {100 * model.blend_:.0f} % of what its network adds to coupled ridge.")
    inside = results["this model"].scores["this model"]["coverage-80"]
    print(f"{100 * inside:.0f} % of the values lie within the 80 % intervals.\n")
    _print_promises(model, later, arguments.seed)
    _draw(model, later, errors, arguments.picture)
    if arguments.model is not None:
        model.save(arguments.model)
    print(f"\nPicture: {arguments.picture}")


def _simulate(seed: int) -> "tuple[dict[str, np.ndarray], dict[str, np.ndarray]]":
    """Series to fit on, and other sensors, shuffled, with all that comes later."""
    import numpy as np

    from orderless.data.simulate import plant

    values, names = plant(seed, sensors=FITTED + OTHERS + ADDED, steps=STEPS)
    train = {name: values[:TRAINED, i] for i, name in enumerate(names[:FITTED])}
    others = np.random.default_rng(seed).permutation(np.arange(FITTED, len(names)))
    later = {names[i]: values[TRAINED - CONTEXT :, i] for i in others}
    later["dead sensor"] = np.full(STEPS - TRAINED + CONTEXT, np.nan)
    return train, later


def _rivals(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Without an epoch of training, the forecast is the ridge that it starts from."""
    alone = {"coupling": "none"}
    return {
        "ridge": {"network": alone, "epochs": 0},
        "coupled ridge": {"epochs": 0},
        "uncoupled network": {"network": alone, "epochs": arguments.epochs},
        "this model": {"epochs": arguments.epochs},
    }


def _fit(train: "dict[str, np.ndarray]", arguments: argparse.Namespace, **settings: Any) -> Any:
    from orderless import Forecaster

    model = Forecaster(
        HORIZON,
        CONTEXT,
        preset="tiny",
        validation_share=0.1,
        training=TRAINING,
        random_state=arguments.seed,
        verbose=False,
        **settings,
    )
    return model.fit(train)


def _print_errors(errors: dict[str, float]) -> None:
    from orderless.estimators.pictures import TIE

    best = min(errors.values())
    for name, error in errors.items():
        print(f"  {name:18}{error:8.4f}" + ("  best" if error <= best * TIE else ""))
    if errors["coupled ridge"] <= best * TIE:
        print("Coupled ridge, which the network starts from, is as good: coupling earns the gain.")


def _print_promises(model: "Forecaster", later: "dict[str, np.ndarray]", seed: int) -> None:
    """What reordering and a dead sensor change, and what is certain about stability."""
    import numpy as np

    from orderless.theory import certify

    order = np.random.default_rng(seed + 1).permutation(list(later))
    forecast = model.predict(later)
    shuffled = model.predict({str(name): later[str(name)] for name in order})
    alive = model.predict({name: later[name] for name in later if name != "dead sensor"})
    moved = max(np.abs(forecast[n] - shuffled[n]).max() for n in alive)
    kept = max(np.abs(forecast[n] - alive[n]).max() for n in alive)
    print("Promises, measured on this forecast:")
    print(f"  reordering the sensors changes it by   {_shown(moved)}")
    print(f"  without the dead sensor it changes by  {_shown(kept)}")
    print("\nCertificate: " + certify(model.network_, len(later)).to_text())


def _shown(change: float) -> str:
    return f"{change:.0e} (rounding)" if change else "0 (to the bit)"


def _draw(
    model: "Forecaster", later: "dict[str, np.ndarray]", errors: dict[str, float], path: Path
) -> None:
    """The last day of seven sensors, the dead one, and the errors as bars."""
    import numpy as np

    from orderless.estimators.pictures import Ahead, Outlook, draw_outlooks

    past = {name: values[:-HORIZON] for name, values in later.items()}
    forecast = model.predict(past, level=[80, 95])
    times = np.arange(TRAINED - CONTEXT, STEPS)
    names = [*list(later)[:7], "dead sensor"]
    outlooks = [
        Outlook(
            name,
            times[-5 * HORIZON : -HORIZON],
            later[name][-5 * HORIZON : -HORIZON],
            [
                Ahead(
                    times[-HORIZON:],
                    forecast[name],
                    {
                        level: (forecast[f"{name}-lo-{level}"], forecast[f"{name}-hi-{level}"])
                        for level in (80, 95)
                    },
                )
            ],
            actual=later[name][-HORIZON:],
        )
        for name in names
    ]
    title = f"Sensors that training never saw, {HORIZON} steps ahead ({len(names)} of {len(later)})"
    draw_outlooks(outlooks, path, title=title, errors=errors)
