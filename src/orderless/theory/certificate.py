"""`certify`: which stability a model has by construction, and for how many variables.

In:  a layer, or a model that contains layers, with the parts named in `Certifiable`.
Out: a `Certificate`, a record that holds for every input and every sequence of steps.

Theorem 3 splits the dynamics of all variables in two modes: deviations from the mean evolve with
`generator()`, the mean with `mean_generator()`. Neither depends on the number of variables.
"""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

from torch import nn

from orderless.errors import NothingToCertify, ValueRangeError
from orderless.ops import Generator
from orderless.theory.modes import Mode, input_bound, mode

SO_WHAT = (
    "So inputs of bounded size cannot drive the state beyond a bound, however long the series,",
    "and what was read long ago loses its influence.",
)
SO_WHAT_NOT = ("So the state may grow without bound on a long series, and with it the answers.",)


@runtime_checkable
class Certifiable(Protocol):
    """What a layer must have to be certified."""

    coupling: str
    """How the variables meet: `none`, `field` or `feedback`."""

    def generator(self) -> Generator:
        """The rates of every variable on its own, each [head, state]."""
        ...

    def mean_generator(self) -> Generator | None:
        """The rates of the mean of the variables under feedback; None without a loop."""
        ...


@dataclass(frozen=True)
class LayerCertificate:
    """What is certain about one layer."""

    name: str
    coupling: str
    proof: str
    """`no loop`: what is shared does not depend on the state; `two modes`: Theorem 3."""
    difference: Mode
    mean: Mode
    input_bound: float
    """States stay below this times the largest input, both as root mean square over variables."""

    @property
    def largest_n_variables(self) -> float:
        """The largest number of variables for which both modes die out; inf when all do."""
        if self.mean.rate >= 0.0:
            return 0
        # A lone variable is its own mean: it has no deviation that could grow.
        return math.inf if self.difference.rate < 0.0 else 1

    @property
    def transient(self) -> float:
        """The most that a state can grow, without input, before it dies out."""
        return max(self.difference.transient, self.mean.transient)


@dataclass(frozen=True)
class Certificate:
    """What is certain about a model: the worst of its layers.

    Rates are per unit of summed step. Over any span the spectral radius of a mode is exactly
    exp(rate * summed step), because all transitions of a layer commute.
    """

    layers: tuple[LayerCertificate, ...]
    n_variables: int
    smallest_step: float | None

    @property
    def difference_rate(self) -> float:
        """The slowest decay of a deviation from the mean of the variables."""
        return max(layer.difference.rate for layer in self.layers)

    @property
    def mean_rate(self) -> float:
        """The slowest decay of the mean of the variables."""
        return max(layer.mean.rate for layer in self.layers)

    @property
    def largest_n_variables(self) -> float:
        """The largest number of variables for which every layer is stable; inf when any is."""
        return min(layer.largest_n_variables for layer in self.layers)

    @property
    def holds(self) -> bool:
        """Whether every mode that `n_variables` variables have dies out."""
        return self.n_variables <= self.largest_n_variables

    @property
    def margin(self) -> float:
        """Distance of the slowest rate from 0; positive when both modes die out."""
        return -max(self.difference_rate, self.mean_rate)

    @property
    def margin_per_tick(self) -> float | None:
        """1 - spectral radius of one tick, at worst; None without a smallest step."""
        if self.smallest_step is None:
            return None
        return -math.expm1(-self.margin * self.smallest_step)

    @property
    def transient(self) -> float:
        """The most that any state can grow, without input, before it dies out."""
        return max(layer.transient for layer in self.layers)

    @property
    def input_bound(self) -> float:
        """The largest state that inputs of size 1 can build up in any layer."""
        return max(layer.input_bound for layer in self.layers)

    def to_text(self) -> str:
        """The certificate as lines for a terminal."""
        largest = self.largest_n_variables
        reach = "any number of them" if largest == math.inf else f"at most {largest} of them"
        verdict, meaning = ("stable", SO_WHAT) if self.holds else ("NOT stable", SO_WHAT_NOT)
        lines = [
            f"{verdict} for {self.n_variables} variables; this model is stable for {reach}",
            *(f"  {line}" for line in meaning),
            "",
            f"  decay           {self.difference_rate:.4g} (deviations from the mean), "
            f"{self.mean_rate:.4g} (the mean): the slowest, per unit of step",
            f"  spectral radius {math.exp(self.difference_rate):.4g} and "
            f"{math.exp(self.mean_rate):.4g}: what is left of them after one unit",
        ]
        if self.margin_per_tick is None:
            lines.append("  margin per tick unknown; --smallest-step gives it")
        else:
            lines.append(
                f"  margin per tick {self.margin_per_tick:.4g}: what a tick takes away at least, "
                f"for steps of {self.smallest_step:g} and more"
            )
        lines += [
            f"  transient       {self.transient:.4g}: how many times its size a state alone "
            "reaches at most",
            f"  input bound     {self.input_bound:.4g}: the largest state that inputs of size 1 "
            "build up",
            "",
            "  layer by layer:",
        ]
        lines += [
            f"  {layer.name or 'this layer'}: coupling {layer.coupling}, proof: {layer.proof}"
            for layer in self.layers
        ]
        return "\n".join(lines)


def certify(model: nn.Module, n_variables: int, smallest_step: float | None = None) -> Certificate:
    """The stability that `model` has for `n_variables` variables, whatever its input.

    `smallest_step` is the shortest step that will occur; it is needed for the margin of a single
    tick only, since a tick of length 0 changes nothing.
    """
    if not isinstance(n_variables, Integral) or n_variables < 1:
        raise ValueRangeError(
            f"`n_variables` is {n_variables}; a certificate needs a whole number from 1 up."
        )
    if smallest_step is not None and not smallest_step > 0.0:
        raise ValueRangeError(
            f"`smallest_step` is {smallest_step}; it must be positive, "
            "since a tick of length 0 has no margin."
        )
    parts: dict[str, object] = dict(model.named_modules())
    layers = tuple(
        _certify_layer(name, part) for name, part in parts.items() if isinstance(part, Certifiable)
    )
    if not layers:
        raise NothingToCertify(
            f"{type(model).__name__} holds no layer with `coupling`, `generator()` and "
            "`mean_generator()`; pass a VI2DSSM or a model built from it."
        )
    return Certificate(layers, n_variables, smallest_step)


def _certify_layer(name: str, layer: Certifiable) -> LayerCertificate:
    own, mean = layer.generator(), layer.mean_generator()
    difference = mode(own)
    if mean is None:
        # The field is a bounded function of the input, so the mean decays like its parts.
        return LayerCertificate(
            name, layer.coupling, "no loop", difference, difference, difference.input_bound
        )
    of_mean = mode(mean)
    stable = difference.rate < 0.0 and of_mean.rate < 0.0
    bound = input_bound(own, mean) if stable else math.inf
    return LayerCertificate(name, layer.coupling, "two modes", difference, of_mean, bound)
