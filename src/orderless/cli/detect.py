"""`orderless detect`: how anomalous each time step of a file is, and who is to blame."""

import argparse
import sys
from typing import TYPE_CHECKING

from orderless.cli.arguments import add_data, add_model, add_out, add_plot, given_columns

if TYPE_CHECKING:
    from orderless.data import Panel

EXAMPLES = """\
  orderless detect watch/ today.csv > scores.csv
  orderless detect watch/ today.csv --per-variable --out blame.parquet
  orderless detect watch/ today.csv --plot today.png"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the series."""
    add_model(parser)
    add_data(parser)
    parser.add_argument(
        "--per-variable", action="store_true", help="a score for every variable at every time step"
    )
    add_out(parser, "the scores")
    add_plot(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the scores, and say how many alarms there are."""
    from orderless.cli.models import open_model
    from orderless.cli.places import check_places
    from orderless.cli.tables import add_column, open_series, put_table
    from orderless.cli.variables import check_drawn, name_unseen, name_unseen_groups
    from orderless.data import read_panel, write_scores
    from orderless.estimators.pictures import draw_anomalies, systems_having

    check_places(arguments)
    model = open_model(arguments.model, "Detector")
    columns = {**model.columns_, **given_columns(arguments)}
    table, columns = open_series(arguments.data, columns)
    panel = read_panel(table, **columns, **model.known_frequencies)
    check_drawn(arguments, panel)
    if arguments.plot is not None:
        systems_having(panel, arguments.plot_variables or ())
    _check_names(panel, ["score"] if arguments.per_variable else ["score", "anomaly"])
    scores = model.score_panel(panel)
    model.warn_of_drift(panel, scores)
    name_unseen(arguments, panel, model)
    name_unseen_groups(arguments, panel, model)
    steps = write_scores(panel, scores.steps, name="score")
    alarms = steps["score"].to_numpy() > model.threshold_
    try:
        if arguments.plot is not None:
            chosen = arguments.plot_variables
            draw_anomalies(panel, scores, model.threshold_, arguments.plot, variables=chosen)
    finally:  # scores are not lost with a picture, nor a picture where nobody reads on
        if arguments.per_variable:
            put_table(write_scores(panel, scores.each, name="score"), arguments.out)
        else:
            put_table(add_column(steps, "anomaly", alarms), arguments.out)
    print(
        f"{alarms.sum()} of {len(alarms)} time steps raise an alarm: their score is above "
        f"{model.threshold_:.3g}",
        file=sys.stderr,
    )


def _check_names(panel: "Panel", added: list[str]) -> None:
    """Refuse a table in which a column of the result has its name already, before it is scored."""
    from orderless.errors import DataError

    for name in added:
        if name in (panel.form.group, panel.form.time.name):
            raise DataError(
                f"The result would have two columns called {name!r}. Rename the column of the "
                "input that has this name."
            )
