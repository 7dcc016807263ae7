"""What `fit` prints: what it inferred, how training went, and what each member earned."""

from collections.abc import Mapping, Sequence

from orderless.data import Panel
from orderless.training import Outcome

MODEL = "this model"
"""Its name among those that it is compared with."""


def describe_data(panel: Panel, kind: str = "system") -> str:
    """One line: variables, time steps, frequency, missing share."""
    lengths = [len(system.times) for system in panel.systems]
    longest, shortest = max(lengths), min(lengths)
    steps = f"{longest}" if longest == shortest else f"{shortest} to {longest}"
    frequency = panel.frequency
    every = "" if frequency is None or frequency.unit == "step" else f" of {frequency}"
    count = _plural(len(panel.systems), kind)
    return (
        f"{_plural(len(panel.variables), 'variable')}, {count}, {steps} time steps{every}, "
        f"{100 * panel.missing_share:.1f} % missing"
    )


def describe_trainings(outcomes: Mapping[str, Outcome]) -> list[str]:
    """One line for each network: epochs, the best of them, time and place."""
    lines = []
    for name, outcome in outcomes.items():
        epochs = len(outcome.history) - 1
        best = f"the best was epoch {outcome.best_epoch}"
        lines.append(
            f"training  {name}: {_plural(epochs, 'epoch')} on {outcome.device} in "
            f"{outcome.seconds:.0f} s ({outcome.stopped}); "
            f"{best if outcome.best_epoch else 'none was better than its start'}"
        )
    return lines


def member_table(
    errors: Mapping[str, Sequence[float]],
    weights: Mapping[str, float],
    headings: Sequence[str],
) -> list[str]:
    """Every member, its errors and its weight; the model that they make together comes last."""
    width = max(map(len, errors))
    lines = [" " * width + "".join(f"{heading:>10}" for heading in (*headings, "weight"))]
    for name, numbers in errors.items():
        cells = "".join(f"{number:>10.4f}" for number in numbers)
        weight = f"{weights[name]:>10.2f}" if name in weights else ""
        lines.append(f"{name:<{width}}{cells}{weight}")
    return lines


def table(rows: Mapping[str, Sequence[float]], headings: Sequence[str]) -> list[str]:
    """Names and numbers in columns."""
    width = max(map(len, rows))
    lines = [" " * width + "".join(f"{heading:>10}" for heading in headings)]
    lines += [
        f"{name:<{width}}" + "".join(f"{number:>10.4f}" for number in numbers)
        for name, numbers in rows.items()
    ]
    return [line.rstrip() for line in lines]


def verdict(errors: Mapping[str, float], model: str) -> str:
    """Who has the least error; said plainly when it is not the model."""
    rivals = {name: error for name, error in errors.items() if name != model}
    best = min(rivals, key=lambda name: rivals[name])
    if errors[model] < rivals[best]:
        gain = 100 * (1 - errors[model] / rivals[best])
        return f"The model is {gain:.1f} % better than the best baseline ({best})."
    if errors[model] == rivals[best]:
        return f"The model is no better than a baseline ({best}), which it equals."
    if rivals[best] == 0:
        return f"A baseline wins: {best} makes no error here, and the model does."
    loss = 100 * (errors[model] / rivals[best] - 1)
    return f"A baseline wins: {best} is better than the model by {loss:.1f} % here."


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
