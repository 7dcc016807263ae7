"""`orderless predict`: forecast the variables of a file, whatever their number and order."""

import argparse
import sys
from typing import TYPE_CHECKING

from orderless.cli.arguments import add_data, add_model, add_out, add_plot, given_columns, numbers

if TYPE_CHECKING:
    from orderless.data import Panel

EXAMPLES = """\
  orderless predict model/ plant.csv > forecast.csv
  orderless predict model/ other_plant.csv --level 80,95 --out forecast.parquet
  orderless predict model/ plant.csv --plot forecast.png --plot-variables inlet,outlet"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the history, and what is wanted."""
    add_model(parser)
    add_data(parser)
    parser.add_argument(
        "--level", type=numbers, metavar="PERCENT,PERCENT", help="central intervals, such as 80,95"
    )
    parser.add_argument(
        "--quantiles", type=numbers, metavar="Q,Q", help="quantiles, such as 0.1,0.9"
    )
    add_out(parser, "the forecast")
    add_plot(parser)


def run(arguments: argparse.Namespace) -> None:
    """Forecast, and draw it where asked."""
    from orderless.cli.models import open_model
    from orderless.cli.places import check_places
    from orderless.cli.tables import open_series, put_table
    from orderless.cli.variables import check_drawn, name_unseen
    from orderless.data import read_panel, write_forecast
    from orderless.estimators.intervals import column_endings

    check_places(arguments)
    # What it refuses is refused before anything is read.
    asked = column_endings(arguments.level, arguments.quantiles)
    drawn = arguments.level or (80,)
    model = open_model(arguments.model, "Forecaster")
    columns = {**model.columns_, **given_columns(arguments)}
    table, columns = open_series(arguments.data, columns)
    panel = read_panel(table, **columns, **model.known_frequencies)
    check_drawn(arguments, panel)
    blocks = model.forecast_panel(
        panel, asked if arguments.plot is None else column_endings(drawn, None) | asked
    )
    model.warn_of_drift(panel)
    name_unseen(arguments, panel, model)
    try:
        if arguments.plot is not None:
            from orderless.estimators.pictures import draw_forecast

            draw_forecast(
                model,
                panel,
                blocks,
                arguments.plot,
                level=drawn,
                variables=arguments.plot_variables,
            )
    finally:  # the forecast is not lost with a picture, nor a picture where nobody reads on
        forecast = {ending: blocks[ending] for ending in ("", *asked)}
        put_table(write_forecast(panel, forecast), arguments.out)
    _name_silent(panel, model.context_)


def _name_silent(panel: "Panel", context: int) -> None:
    """Say which variables have no forecast, since the table only holds NaN for them."""
    silent = {
        name
        for system in panel.systems
        for name, seen in zip(system.variables, system.observed[:, -context:], strict=True)
        if not seen.any()
    }
    if silent:
        shown = ", ".join(sorted(silent)[:5]) + (" and others" if len(silent) > 5 else "")
        print(
            f"no forecast for {shown}: no reading in the last {context} time steps", file=sys.stderr
        )
