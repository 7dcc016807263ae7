"""`orderless fit`: learn from a file and save the model."""

import argparse
import inspect
from pathlib import Path
from typing import Any

from orderless.cli.arguments import add_data, given_columns, names, setting

EXAMPLES = """\
  orderless fit plant.csv --horizon 24 --out model/
  orderless fit plant.parquet --horizon 24 --context 336 --preset tiny --epochs 4 --out model/
  orderless fit healthy.csv --task detect --contamination 0.005 --out watch/
  orderless fit gestures.ts --task classify --out names/
  orderless fit cases.csv --task classify --group case --label class --out names/
  orderless fit plant.csv --network coupling=none --training batch_size=32 --out alone/
  orderless fit --config run.toml --seed 1

run.toml:
  data = "plant.csv"
  out = "model/"
  horizon = 24
  [network]
  pool = "attention\""""

TASKS = {"forecast": "Forecaster", "classify": "Classifier", "detect": "Detector"}
CHECKPOINT = "checkpoint.safetensors"
"""`FILE_NAME` of `training.checkpoints`, which takes PyTorch to import."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The data, the task, the model and how to train it."""
    add_data(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL", help="folder to save the model in"
    )
    parser.add_argument(
        "--task", choices=tuple(TASKS), default="forecast", help="default: forecast"
    )
    parser.add_argument(
        "--horizon", type=int, metavar="STEPS", help="forecast: how far ahead (default: 24)"
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="STEPS",
        help="time steps of history that an answer is made from (default: by the data)",
    )
    parser.add_argument(
        "--season", type=int, metavar="STEPS", help="forecast: in a season (default: found)"
    )
    parser.add_argument(
        "--loss",
        choices=("l1", "mse", "huber", "smape", "quantile"),
        help="forecast: what networks are trained by (default: l1)",
    )
    parser.add_argument("--label", metavar="COLUMN", help="classify: the column of classes")
    parser.add_argument(
        "--identify",
        choices=("auto", "name", "none"),
        help="classify: whether variables are known by name (default: auto, if that helps)",
    )
    parser.add_argument(
        "--contamination",
        type=float,
        metavar="SHARE",
        help="detect: share of normal time steps that may raise an alarm (default: 0.01)",
    )
    parser.add_argument(
        "--adapt",
        type=_adapt,
        metavar="STEPS",
        help="detect: the level of a variable is the median of so many latest time steps; none: "
        "that of fit (default: auto)",
    )
    _add_training(parser.add_argument_group("network and training"))


def _add_training(model: "argparse._ArgumentGroup") -> None:
    model.add_argument(
        "--preset",
        choices=("default", "tiny", "paper"),
        help="the network (default: default; detect: tiny)",
    )
    model.add_argument(
        "--members",
        type=names,
        metavar="NAME,NAME",
        help='kinds of members, such as "ridge,network" (default: all of the task)',
    )
    model.add_argument(
        "--refit",
        action=argparse.BooleanOptionalAction,
        help="forecast: fit closed forms again with the latest rows once they are weighed "
        "(default: yes)",
    )
    model.add_argument("--epochs", type=int, metavar="N", help="epochs of each network, at most")
    model.add_argument(
        "--validation-share",
        type=float,
        metavar="SHARE",
        help="held out of the data to choose and to calibrate (default: 0.2)",
    )
    model.add_argument(
        "--seed",
        type=int,
        dest="random_state",
        metavar="N",
        help="seed of random numbers (default: 0)",
    )
    model.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), help="default: auto, the GPU if there is one"
    )
    model.add_argument(
        "--precision", choices=("no", "bf16", "fp16"), help="in training (default: no, float32)"
    )
    model.add_argument(
        "--strict-variables", action="store_true", help="other variables at predict are an error"
    )
    model.add_argument(
        "--network",
        type=setting,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the network, such as coupling=none",
    )
    model.add_argument(
        "--training",
        type=setting,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the training, such as batch_size=32",
    )
    model.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FOLDER",
        help="keep the state of the run here, to continue after a stop, until the model is saved "
        "(default: MODEL/checkpoint)",
    )
    model.add_argument("--quiet", action="store_true", help="say nothing")


def _adapt(text: str) -> int | str:
    if text in ("auto", "none"):
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number of time steps nor auto or none"
        ) from None


def run(arguments: argparse.Namespace) -> None:
    """Fit, save, and say where."""
    from orderless import estimators
    from orderless.errors import ModelFileError
    from orderless.estimators.saving import check_folder

    check_folder(arguments.out)
    kind = getattr(estimators, TASKS[arguments.task])
    model = kind(**_parameters(arguments, kind))
    checkpoint = _checkpoint(arguments)
    inputs, columns = _read(arguments)
    model.fit(*inputs, checkpoint=checkpoint, **columns)
    try:
        model.save(arguments.out)
    except ModelFileError as error:
        if not _kept(checkpoint):
            raise
        raise ModelFileError(
            f"{error} The run is kept in {checkpoint}: the same command with another --out and "
            f"--checkpoint {checkpoint} does not train again."
        ) from error
    _remove(checkpoint)  # what it was kept for is done, and it would be in the way of the next run
    if not arguments.quiet:
        print(f"saved     {arguments.out}")


def interrupted(arguments: argparse.Namespace) -> str:
    """What a stopped run leaves behind."""
    # Nothing is imported here: whoever stops a program while it loads must not load it again.
    checkpoint = _checkpoint(arguments)
    if not _kept(checkpoint):
        return "nothing was kept, since training had not begun"
    return f"the run so far is kept in {checkpoint}, and the same command continues it"


def _checkpoint(arguments: argparse.Namespace) -> Path:
    return arguments.checkpoint or arguments.out / "checkpoint"


def _kept(checkpoint: Path) -> list[Path]:
    """The states of trainings in a folder, one for each network."""
    return sorted(checkpoint.glob(f"*/{CHECKPOINT}"))


def _remove(checkpoint: Path) -> None:
    for state in _kept(checkpoint):
        state.unlink(missing_ok=True)
    for folder in (*checkpoint.glob("*/"), checkpoint):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _parameters(arguments: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The arguments of the constructor that were given."""
    from orderless.errors import SettingError

    known = inspect.signature(kind).parameters
    asked = ("horizon", "context", "season", "loss", "identify", "contamination", "adapt", "refit")
    general = (
        "members",
        "preset",
        "epochs",
        "validation_share",
        "random_state",
        "device",
        "precision",
    )
    given = {
        name: getattr(arguments, name)
        for name in (*asked, *general)
        if getattr(arguments, name) is not None
    }
    for name in given:
        if name not in known:
            raise SettingError(f"--{name} does not apply to --task {arguments.task}. Leave it out.")
    for name in ("identify", "adapt"):
        if given.get(name) == "none":
            given[name] = None
    for name in ("network", "training"):
        if getattr(arguments, name):
            given[name] = dict(getattr(arguments, name))
    return {
        **given,
        "strict_variables": arguments.strict_variables,
        "verbose": not arguments.quiet,
    }


def _read(arguments: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `fit` takes, (data,) or (cases, classes), and the columns."""
    from orderless.cli.tables import check_label, open_cases, open_series, take_labels
    from orderless.errors import DataError, SettingError

    columns = given_columns(arguments)
    if arguments.task != "classify":
        if arguments.label is not None:
            raise SettingError("--label is for --task classify. Leave it out.")
        data, columns = open_series(arguments.data, columns)
        return (data,), columns
    check_label(arguments.data, arguments.label)
    if arguments.data.suffix.lower() == ".ts":
        cases, classes = open_cases(arguments.data)
        if classes is None:
            raise DataError(f"{arguments.data.name} holds no classes to learn from.")
        return (cases, classes), {}
    if arguments.label is None or not arguments.group:
        raise SettingError(
            "A table of cases needs --group, the column that names the case, and --label, the "
            "column that holds its class."
        )
    table, columns = open_series(arguments.data, columns)
    return take_labels(table, arguments.label, arguments.group), columns
