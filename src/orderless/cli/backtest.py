"""`orderless backtest`: forecast the past from several origins, and score it."""

import argparse
from pathlib import Path

from orderless.cli.arguments import add_data, add_model, add_out, add_plot, given_columns, numbers

EXAMPLES = """\
  orderless backtest model/ later.csv --windows 10
  orderless backtest model/ later.csv --level 80 --json scores.json --out forecasts.csv
  orderless backtest model/ later.csv --windows 4 --plot backtest.png"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, data that it has not seen, and the origins."""
    add_model(parser)
    add_data(parser)
    parser.add_argument("--windows", type=int, default=5, help="how many origins (default: 5)")
    parser.add_argument("--stride", type=int, help="time steps between them (default: the horizon)")
    parser.add_argument(
        "--level",
        type=numbers,
        metavar="PERCENT,PERCENT",
        help="intervals whose coverage is measured, such as 80,95",
    )
    add_out(parser, "the forecasts", default="not written")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores as JSON")
    add_plot(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the scores; write and draw the forecasts where asked."""
    from orderless.cli.models import open_model
    from orderless.cli.places import check_places, write_record
    from orderless.cli.tables import open_series
    from orderless.cli.variables import check_drawn, name_unseen
    from orderless.data import read_panel, write_table
    from orderless.estimators.drift import describe_drift
    from orderless.estimators.intervals import column_endings

    check_places(arguments)
    # What it refuses is refused before anything is read.
    column_endings(arguments.level, None)
    model = open_model(arguments.model, "Forecaster")
    columns = {**model.columns_, **given_columns(arguments)}
    table, columns = open_series(arguments.data, columns)
    panel = read_panel(table, **columns, **model.known_frequencies)
    check_drawn(arguments, panel)
    result = model.backtest(
        panel, arguments.windows, stride=arguments.stride, level=arguments.level
    )
    name_unseen(arguments, panel, model)
    if arguments.out is not None:
        write_table(result.forecast, arguments.out)
    if arguments.json is not None:
        write_record(result.scores | {"drift": describe_drift(model.drift(panel))}, arguments.json)
    try:
        if arguments.plot is not None:
            from orderless.estimators.pictures import draw_backtest

            draw_backtest(
                model,
                panel,
                arguments.plot,
                windows=arguments.windows,
                stride=arguments.stride,
                level=arguments.level or (80,),
                variables=arguments.plot_variables,
            )
    finally:  # the scores are not lost with a picture, nor a picture where nobody reads on
        _print(result.scores)


def _print(scores: dict[str, dict[str, float]]) -> None:
    from rich.table import Table

    from orderless.cli.console import open_console

    measures = list(dict.fromkeys(name for row in scores.values() for name in row))
    table = Table("forecast", *(name.replace("-", " ") for name in measures))
    for name, row in scores.items():
        cells = (f"{row[one]:.4f}" if one in row else "" for one in measures)
        table.add_row(name, *cells)
    open_console().print(table)
