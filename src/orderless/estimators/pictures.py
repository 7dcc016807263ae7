"""Pictures of forecasts and anomalies, as files.

In:  a fitted estimator and a panel, or plain arrays.
Out: a picture in the format that the ending of the path names.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from orderless.data import Form, Frequency, Panel, System
from orderless.errors import DataError
from orderless.io import check_destination, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from orderless.estimators.alarms import Scores
    from orderless.estimators.forecaster import Forecaster

MOST_PANELS = 9
MOST_ROWS = 12
MOST_TRACES = 3
LONGEST_LABEL = 80
TIE = 1.005
"""Errors within half a percent of the least are not worth a distinction."""
PAST, AHEAD, ACTUAL, ALARM = "#5f6b7a", "#0b6bcb", "#111111", "#d1372c"


@dataclass(frozen=True)
class Ahead:
    """A forecast of one variable: its times, its values, and intervals by percentage."""

    times: np.ndarray
    point: np.ndarray
    intervals: Mapping[float, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outlook:
    """One small picture: a history, forecasts that begin in it or after it, and what came."""

    name: str
    times: np.ndarray
    history: np.ndarray
    ahead: Sequence[Ahead]
    actual: np.ndarray | None = None
    """What came at the times of the only forecast, where it is known."""
    unit: str = ""


def draw_forecast(
    model: "Forecaster",
    panel: Panel,
    blocks: Mapping[str, Sequence[np.ndarray]],
    path: str | Path,
    *,
    level: Sequence[float] = (80,),
    variables: Sequence[str] | None = None,
) -> None:
    """A forecast with its intervals over the history, a small picture a variable.

    blocks: what `Forecaster.forecast_panel` gave for the panel, with the ends of these intervals.
    """
    outlooks = []
    for number, system, row in _choose(panel, variables):
        future = _future(system.times, system.frequency, model.horizon_)
        values = {ending: systems[number][row] for ending, systems in blocks.items()}
        outlooks.append(_outlook(panel, system, row, [_ahead(future, values, level)], model))
    draw_outlooks(outlooks, path, title=_title(model, panel, outlooks))


def draw_backtest(
    model: "Forecaster",
    panel: Panel,
    path: str | Path,
    *,
    windows: int = 5,
    stride: int | None = None,
    level: Sequence[float] = (80,),
    variables: Sequence[str] | None = None,
) -> None:
    """Forecasts from origins in the past over what came, and their errors beside naive ones."""
    stride = model.horizon_ if stride is None else stride
    result = model.backtest(_as_arrays(panel), windows, stride=stride, level=list(level))
    outlooks = []
    for number, system, row in _choose(panel, variables, MOST_PANELS - 1):
        length = len(system.times)
        first = length - model.horizon_ - (windows - 1) * stride
        ahead = []
        for window in range(windows):
            begin = first + window * stride
            values = {
                ending: blocks[number][window, :, row] for ending, blocks in result.forecast.items()
            }
            ahead.append(_ahead(system.times[begin : begin + model.horizon_], values, level))
        span = windows * stride
        outlooks.append(_outlook(panel, system, row, ahead, model, span=span))
    errors = {name: scores["mae"] for name, scores in result.scores.items()}
    draw_outlooks(outlooks, path, title=_title(model, panel, outlooks), errors=errors)


def draw_anomalies(
    panel: Panel,
    scores: "Scores",
    threshold: float,
    path: str | Path,
    *,
    variables: Sequence[str] | None = None,
) -> None:
    """Score and threshold over time, the variables to blame, and what those did.

    Of several systems that have all variables asked for, the one with the highest score.
    """
    highest = [np.nanmax(one, initial=0.0) for one in scores.steps]
    number = max(systems_having(panel, variables or ()), key=highest.__getitem__)
    system, score, blame = panel.systems[number], scores.steps[number], scores.each[number]
    names = list(system.variables)
    if variables is not None:
        rows = [names.index(name) for name in variables]
    else:
        rows = _most_blamed(score, blame, threshold)
    draw_blame(
        system.times,
        score,
        threshold,
        {names[row]: blame[row] for row in rows},
        {names[row]: system.values[row] for row in rows[:MOST_TRACES]},
        path,
        f" of {_short(str(system.name))}" if len(panel.systems) > 1 else "",
    )


def systems_having(panel: Panel, variables: Sequence[str]) -> list[int]:
    """The numbers of the systems that have all of these variables; an error where none has.

    Best asked before the work whose result is to be drawn.
    """
    _check_names(panel, variables)
    numbers = [
        number
        for number, system in enumerate(panel.systems)
        if set(variables) <= set(system.variables)
    ]
    if not numbers:
        raise DataError(
            f"No system has all of the variables {', '.join(variables)}, and a picture shows one "
            "system. Name variables of one system with --plot-variables."
        )
    return numbers


def draw_outlooks(
    outlooks: Sequence[Outlook],
    path: str | Path,
    *,
    title: str = "",
    errors: Mapping[str, float] | None = None,
    wide: bool = False,
) -> None:
    """Small pictures beside each other; with `errors`, one more that compares them as bars.

    wide: whether the first has a row of its own.
    """
    from matplotlib.figure import Figure

    count = len(outlooks) + (errors is not None)
    small = count - wide
    columns = 2 if small == 4 else min(3, max(1, small))
    rows = wide - (-small // columns)
    figure = Figure(figsize=(4.2 * columns + 0.4, 2.5 * rows + 0.7), layout="constrained")
    cells = figure.add_gridspec(rows, columns)
    places = [cells[i // columns, i % columns] for i in range(wide * columns, rows * columns)]
    grid = [figure.add_subplot(one) for one in ([cells[0, :]] if wide else []) + places]
    for number, (axes, outlook) in enumerate(zip(grid, outlooks, strict=False)):
        _draw_outlook(axes, outlook, 45 * (columns if wide and number == 0 else 1))
    for axes in grid[count:]:
        axes.set_axis_off()
    if errors is not None:
        _draw_bars(grid[count - 1], errors)
    handles, labels = _legend(grid)
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False)
    _save(figure, path)


def draw_blame(
    times: np.ndarray,
    score: np.ndarray,
    threshold: float,
    blame: Mapping[str, np.ndarray],
    traces: Mapping[str, np.ndarray],
    path: str | Path,
    whose: str = "",
) -> None:
    """The score over time with its threshold; a map of blame; and the traces of the most blamed."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    heights = [1.6, 0.3 + 0.16 * len(blame), *([0.9] * len(traces))]
    labels = [_short(name) for name in blame]
    width = 11 + 0.07 * max(0, *(len(label) - 20 for label in labels))
    figure = Figure(figsize=(width, 1.0 + 1.15 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    places = _on_axis(times)
    alarm = score > threshold
    top, heat, *below = panels
    top.plot(places, score, color=PAST, lw=1.0, label="score (1 is normal)")
    top.axhline(threshold, color=ALARM, lw=1.0, ls="--", label=f"threshold {threshold:.3g}")
    _shade(top, places, alarm, label="alarm")
    if (score > 0).any():  # all are 0 where nothing changed, in `fit` nor since
        top.set_yscale("log")
    top.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, frameon=False, fontsize=9)
    top.set_title(
        f"Anomaly score{whose}: {int(alarm.sum())} of {len(score)} time steps above the threshold",
        loc="left",
        fontsize=11,
        parse_math=False,
    )
    rows = np.stack(list(blame.values()))
    highest = max(float(np.nanmax(rows, initial=0.0)), 10.0)
    image = heat.pcolormesh(
        places,
        np.arange(len(rows)),
        np.where(np.isfinite(rows), np.maximum(rows, 1.0), np.nan),
        cmap="OrRd",
        norm=LogNorm(1.0, highest),
        shading="nearest",
        rasterized=True,
    )
    heat.set_yticks(np.arange(len(rows)), labels, fontsize=8, parse_math=False)
    heat.invert_yaxis()
    heat.set_title("To blame", loc="left", fontsize=11)
    figure.colorbar(image, ax=heat, label="times normal", pad=0.01)
    for axes, (name, values) in zip(below, traces.items(), strict=True):
        axes.plot(places, values, color=PAST, lw=0.9)
        _shade(axes, places, alarm)
        axes.set_title(fill(name, 120), loc="left", fontsize=9, parse_math=False)
    for axes in (top, *below):
        _tidy(axes, times)
    _save(figure, path)


def _shade(axes: "Axes", places: np.ndarray, alarm: np.ndarray, **style: Any) -> None:
    """Time steps with an alarm as bands: they hide no line, however many there are."""
    edges = np.flatnonzero(np.diff(alarm, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2):
        last = min(end, len(places) - 1)
        axes.axvspan(places[begin], places[last], color=ALARM, alpha=0.18, lw=0.5, **style)
        style = {}  # one entry in the legend


def _short(name: str) -> str:
    """Both ends of a name that is too long to stand beside a picture."""
    half = LONGEST_LABEL // 2
    return name if len(name) <= LONGEST_LABEL else f"{name[:half]}…{name[-half:]}"


def _draw_outlook(axes: "Axes", outlook: Outlook, letters: int) -> None:
    """letters: how many of them a line of the title takes."""
    past = _on_axis(outlook.times)
    axes.plot(past, outlook.history, color=PAST, lw=1.0, label="history")
    for ahead in outlook.ahead:
        ahead = _joined(outlook, ahead)
        future = _on_axis(ahead.times)
        for order, (percent, (low, high)) in enumerate(sorted(ahead.intervals.items())[::-1]):
            shade = 0.16 + 0.12 * order
            label = f"{percent:g} % interval"
            axes.fill_between(future, low, high, color=AHEAD, alpha=shade, lw=0, label=label)
        axes.plot(future, ahead.point, color=AHEAD, lw=1.6, label="forecast")
    if outlook.actual is not None:
        future = _on_axis(outlook.ahead[0].times)
        axes.plot(future, outlook.actual, color=ACTUAL, lw=1.0, label="what came")
    axes.set_title(fill(outlook.name, letters), loc="left", fontsize=10, parse_math=False)
    axes.set_ylabel(outlook.unit, fontsize=8, parse_math=False)
    last = outlook.ahead[-1].times if outlook.ahead else outlook.times
    axes.set_xlim(past[0], _on_axis(last)[-1])
    if not np.isfinite(outlook.history).any():
        axes.text(0.5, 0.5, "nothing observed: no forecast", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
    _tidy(axes, outlook.times)


def _joined(outlook: Outlook, ahead: Ahead) -> Ahead:
    """A forecast that begins at the last reading before it, so that no gap is seen."""
    before = np.flatnonzero((outlook.times < ahead.times[0]) & np.isfinite(outlook.history))
    if not len(before) or not np.isfinite(ahead.point).any():
        return ahead
    time, reading = outlook.times[before[-1]], outlook.history[before[-1]]

    def join(values: np.ndarray) -> np.ndarray:
        return np.concatenate(([reading], values))

    return Ahead(
        np.concatenate(([time], ahead.times)),
        join(ahead.point),
        {level: (join(low), join(high)) for level, (low, high) in ahead.intervals.items()},
    )


def _draw_bars(axes: "Axes", errors: Mapping[str, float]) -> None:
    best = min(errors.values())
    colors = [AHEAD if error <= best * TIE else "#b8c4d2" for error in errors.values()]
    bars = axes.barh(list(errors), list(errors.values()), color=colors)
    axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
    axes.margins(x=0.18)
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.set_title("mean absolute error (lower is better)", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(grid: Sequence["Axes"]) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    found = {label: handle for label, handle in found.items() if not label.startswith("_")}
    return list(found.values()), list(found)


def _outlook(
    panel: Panel,
    system: System,
    row: int,
    ahead: Sequence[Ahead],
    model: "Forecaster",
    *,
    span: int = 0,
) -> Outlook:
    """A variable with as much history as the eye needs: four horizons, and at least 48 steps."""
    shown = slice(-(max(4 * model.horizon_, 48) + span), None)
    name = system.variables[row]
    if len(panel.systems) > 1:
        name = f"{system.name}: {name}"
    return Outlook(name, system.times[shown], system.values[row, shown], ahead)


def _ahead(times: np.ndarray, values: Mapping[str, np.ndarray], level: Sequence[float]) -> Ahead:
    intervals = {one: (values[f"lo-{one:g}"], values[f"hi-{one:g}"]) for one in level}
    return Ahead(times, values[""], intervals)


def _choose(
    panel: Panel, variables: Sequence[str] | None, most: int = MOST_PANELS
) -> list[tuple[int, System, int]]:
    """The variables to draw: those asked for, else as many as fit, evenly over all."""
    _check_names(panel, variables or ())
    all_of_them = [
        (number, system, row)
        for number, system in enumerate(panel.systems)
        for row, name in enumerate(system.variables)
        if variables is None or name in variables
    ]
    places = np.linspace(0, len(all_of_them) - 1, min(most, len(all_of_them)))
    return [all_of_them[int(place)] for place in places]


def _check_names(panel: Panel, variables: Sequence[str]) -> None:
    for name in variables:
        if name not in panel.variables:
            raise DataError(f"There is no variable {name!r} to draw. Check --plot-variables.")


def _most_blamed(score: np.ndarray, blame: np.ndarray, threshold: float) -> list[int]:
    """Rows by how long each had most of the blame during alarms, then by how much it had in all.

    At any time, where there is no alarm.
    """
    alarm = score > threshold
    seen = np.where(np.isfinite(blame), blame, 0.0)[:, alarm if alarm.any() else slice(None)]
    longest = np.bincount(seen.argmax(0), minlength=len(seen))
    return np.lexsort((-seen.sum(1), -longest))[:MOST_ROWS].tolist()


def _future(times: np.ndarray, frequency: Frequency | None, horizon: int) -> np.ndarray:
    return (frequency or Frequency(1, "step")).future(times[-1], horizon)


def _as_arrays(panel: Panel) -> Panel:
    """The same panel, so that results come as one array a system."""
    return replace(panel, form=Form("arrays"))


def _title(model: "Forecaster", panel: Panel, outlooks: Sequence[Outlook]) -> str:
    total = sum(len(system.variables) for system in panel.systems)
    shown = f"{len(outlooks)} of {total} variables" if len(outlooks) < total else ""
    return f"{model.horizon_} steps ahead" + (f", {shown}" if shown else "")


def _on_axis(times: np.ndarray) -> np.ndarray:
    """Durations as hours, since matplotlib has no axis for them; all else as it is."""
    return times / np.timedelta64(1, "h") if times.dtype.kind == "m" else times


def _tidy(axes: "Axes", times: np.ndarray) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.01)
    if times.dtype.kind == "M":
        locator = AutoDateLocator(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def check_picture(path: str | Path) -> None:
    """Refuse a path that no picture can be written to; best asked before there is one."""
    from matplotlib.figure import Figure

    formats = sorted(Figure().canvas.get_supported_filetypes())
    check_destination(path, [f".{one}" for one in formats])


def _save(figure: Any, path: str | Path) -> None:
    check_picture(path)
    with whole_file(path) as draft, warnings.catch_warnings():
        # Names in a script that the font lacks become boxes; the picture is good all the same.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(draft, dpi=110)
