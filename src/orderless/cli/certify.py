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
    from orderless.models.stack import certify_members
    from orderless.theory import certify

    named = {name: getattr(arguments, name) for name in (*LAYER, "heads")}
    asked = {name: value for name, value in named.items() if value is not None}
    if arguments.model is None:
        from orderless.nn import VI2DSSM

        variables = 7 if arguments.variables is None else arguments.variables
        print(certify(VI2DSSM(**LAYER | asked), variables, arguments.smallest_step).to_text())
        return
    from orderless.cli.models import open_model

    if asked:
        raise SettingError(
            f"--{next(iter(asked))} is for a fresh layer, and {arguments.model} has its own. "
            "Leave it out, or the model."
        )
    model = open_model(arguments.model)
    variables = arguments.variables
    variables = len(model.variables_in_) if variables is None else variables
    certificates = certify_members(model.stack_, variables, arguments.smallest_step)
    if not certificates:
        names = ", ".join(member.name for member in model.stack_.members)
        print(
            f"Nothing to certify: {names} carry no state from one time step to the next, so "
            "nothing can build up."
        )
    for name, certificate in certificates.items():
        print(f"{name}\n{certificate.to_text()}")
