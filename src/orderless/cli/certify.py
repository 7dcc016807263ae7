"""`orderless certify`: the stability of a layer, for any input and any number of variables."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The settings of the layer and what it is certified for."""
    parser.add_argument("--variables", type=int, default=7, help="how many (default: 7)")
    parser.add_argument(
        "--smallest-step", type=float, help="the shortest step, for the margin of one tick"
    )
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--states", type=int, default=16)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--coupling", choices=("field", "feedback", "none"), default="field")
    parser.add_argument("--pool", choices=("mean", "sum", "attention"), default="mean")


def run(arguments: argparse.Namespace) -> None:
    """Print the certificate of a freshly initialised layer."""
    from orderless.nn import VI2DSSM
    from orderless.theory import certify

    layer = VI2DSSM(
        arguments.channels,
        states=arguments.states,
        heads=arguments.heads,
        pool=arguments.pool,
        coupling=arguments.coupling,
    )
    print(certify(layer, arguments.variables, arguments.smallest_step).to_text())
