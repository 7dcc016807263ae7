"""`orderless certify`: how stable a model is, for any input and any number of variables."""

import argparse
from pathlib import Path
from typing import Any

from orderless.errors import SettingError

EXAMPLES = """\
  orderless certify model/
  orderless certify model/ --variables 5000
  orderless certify --coupling feedback --variables 321 --smallest-step 0.01"""
LAYER: dict[str, Any] = {"channels": 64, "states": 16, "coupling": "field", "pool": "mean"}
"""Settings of a fresh layer, where no others are asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A saved model, or the settings of a layer; and what it is certified for."""
    parser.add_argument(
        "model", type=Path, nargs="?", metavar="MODEL", help="folder that `fit` wrote"
    )
    parser.add_argument(
        "--variables", type=int, help="how many (default: those of `fit`, or 7 for a layer)"
    )
    parser.add_argument(
        "--smallest-step", type=float, help="the shortest step, for the margin of one tick"
    )
    layer = parser.add_argument_group("a fresh layer, where no model is given")
    layer.add_argument("--channels", type=int)
    layer.add_argument("--states", type=int)
    layer.add_argument("--heads", type=int)
    layer.add_argument("--coupling", choices=("field", "feedback", "none"))
    layer.add_argument("--pool", choices=("mean", "sum", "attention"))
    layer.description = "default: " + ", ".join(f"{name} {one}" for name, one in LAYER.items())


def run(arguments: argparse.Namespace) -> None:
    """Print the certificate."""
    from orderless.theory import certify

    named = {name: getattr(arguments, name) for name in (*LAYER, "heads")}
    asked = {name: value for name, value in named.items() if value is not None}
    if arguments.model is not None:
        from orderless.cli.models import open_model

        if asked:
            raise SettingError(
                f"--{next(iter(asked))} is for a fresh layer, and {arguments.model} has its own. "
                "Leave it out, or the model."
            )
        estimator = open_model(arguments.model)
        network, variables = estimator.network_, len(estimator.variables_in_)
    else:
        from orderless.nn import VI2DSSM

        variables = 7
        network = VI2DSSM(**LAYER | asked)
    if arguments.variables is not None:
        variables = arguments.variables
    print(certify(network, variables, arguments.smallest_step).to_text())
