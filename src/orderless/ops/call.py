"""One checked call of `vi_scan`: the arguments as a record, and the facts a form is chosen by.

Checks exist here and nowhere else; a form may rely on them.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orderless.errors import DtypeError, ShapeError, ValueRangeError
from orderless.ops.zero_order_hold import FullGenerator, Generator


@dataclass(frozen=True)
class ScanCall:
    """The arguments of `vi_scan`, under the same names."""

    x: Tensor
    step: Tensor
    generator: Generator
    write: Tensor
    read: Tensor
    field: Tensor | None = None
    field_write: Tensor | None = None
    mean_generator: Generator | FullGenerator | None = None
    skip: Tensor | None = None
    gate: Tensor | None = None
    state: Tensor | None = None
    members: Tensor | None = None
    observed: Tensor | None = None
    reverse: bool = False

    @property
    def state_dtype(self) -> torch.dtype:
        """Sums and states are float32 at least, whatever the inputs are."""
        return torch.float64 if self.x.dtype == torch.float64 else torch.float32

    def facts(self) -> "CallFacts":
        """What the choice of a form may depend on."""
        batch, _, time, channels = self.x.shape
        return CallFacts(
            device=self.x.device,
            dtype=self.x.dtype,
            empty=batch == 0,
            time=time,
            head_size=channels // self.step.shape[-1],
            variable_stride=max(self.x.stride(1), time * channels),
            constant_in_time=all(
                value is None or value.shape[axis] == 1
                for value, axis in (
                    (self.step, 1),
                    (self.write, 2),
                    (self.read, 2),
                    (self.field_write, 1),
                )
            ),
            full_mean=isinstance(self.mean_generator, FullGenerator),
        )


@dataclass(frozen=True)
class CallFacts:
    """Metadata of a call: no values, so choosing never waits for a device."""

    device: torch.device
    dtype: torch.dtype
    empty: bool
    """Whether the batch is."""
    time: int
    head_size: int
    variable_stride: int
    """How far variables lie apart, in x or in a contiguous copy."""
    constant_in_time: bool
    full_mean: bool
    """Whether the mean of h_v drives h_h: then the pair has no closed form."""


FULL_MEAN = "the mean of h_v drives h_h, which has no closed form; `reference` steps through it"


def check(call: ScanCall) -> None:
    """Raise an error in words when the arguments do not describe one system."""
    if isinstance(call.generator, FullGenerator):
        raise DtypeError(
            "`generator` is a FullGenerator; only the mean may have one. Give it as "
            "`mean_generator`, or a Generator of its h, v and vh."
        )
    _check_shapes(call)
    _check_dtypes_and_devices(call)
    # Reading values makes a GPU wait and breaks graph capture. There the layer guarantees the
    # signs by construction, so values are checked where looking is free.
    if call.x.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_values(call)


def _check_shapes(call: ScanCall) -> None:
    x = call.x
    if x.dim() != 4:
        raise ShapeError(
            f"`x` has {x.dim()} axes {tuple(x.shape)}; "
            "it needs four: [batch, variable, time, channel]."
        )
    batch, variables, time, channels = x.shape
    for size, axis in ((variables, "variables"), (time, "time steps"), (channels, "channels")):
        if size == 0:
            raise ShapeError(f"`x` has 0 {axis} {tuple(x.shape)}; a scan needs at least one.")
    if call.step.dim() != 3:
        raise ShapeError(
            f"`step` has {call.step.dim()} axes {tuple(call.step.shape)}; "
            "it needs three: [batch, time, head]."
        )
    heads = call.step.shape[-1]
    if heads == 0 or channels % heads:
        raise ShapeError(
            f"`step` has {heads} heads and `x` has {channels} channels; "
            "each head steps the same number of channels, so heads must divide channels."
        )
    if call.write.dim() != 5:
        raise ShapeError(
            f"`write` has {call.write.dim()} axes {tuple(call.write.shape)}; "
            "it needs five: [batch, variable, time, 2, state]."
        )
    states = call.write.shape[-1]
    if states == 0:
        raise ShapeError("`write` has 0 states; the recurrence needs at least one.")
    sizes = {
        "batch": batch,
        "variable": variables,
        "time": time,
        "channel": channels,
        "head": heads,
        "state": states,
        "pair (h, v)": 2,
    }
    where = {"head": "`step`", "state": "`write`"}

    def expect(name: str, value: Tensor | None, *axes: str, constant: bool = False) -> None:
        if value is None:
            return
        if value.dim() != len(axes):
            raise ShapeError(
                f"`{name}` has {value.dim()} axes {tuple(value.shape)}; "
                f"it needs {len(axes)}: [{', '.join(axes)}]."
            )
        for size, axis in zip(value.shape, axes, strict=True):
            if size == sizes[axis] or (constant and axis == "time" and size == 1):
                continue
            if axis == "pair (h, v)":
                raise ShapeError(
                    f"`{name}` has size {size} on its pair axis {tuple(value.shape)}; "
                    "it needs 2: the part for h_h, then the part for h_v."
                )
            raise ShapeError(
                f"`{name}` has {axis} size {size} {tuple(value.shape)} and "
                f"{where.get(axis, '`x`')} has {sizes[axis]}; both describe the same system."
            )

    expect("step", call.step, "batch", "time", "head", constant=True)
    io = ("batch", "variable", "time", "pair (h, v)", "state")
    expect("write", call.write, *io, constant=True)
    expect("read", call.read, *io, constant=True)
    for name, generator in _generators(call):
        for part, rates in zip(generator._fields, generator, strict=True):
            expect(f"{name}.{part}", rates, "head", "state")
    if (call.field is None) != (call.field_write is None):
        given, missing = ("field", "field_write")[:: 1 if call.field is not None else -1]
        raise ShapeError(f"`{given}` was given without `{missing}`; one is written by the other.")
    expect("field", call.field, "batch", "time", "channel")
    expect("field_write", call.field_write, "batch", "time", "pair (h, v)", "state", constant=True)
    expect("skip", call.skip, "channel")
    expect("gate", call.gate, "batch", "variable", "time", "channel")
    expect("state", call.state, "batch", "variable", "pair (h, v)", "state", "channel")
    expect("members", call.members, "batch", "variable")
    expect("observed", call.observed, "batch", "variable", "time")


def _check_dtypes_and_devices(call: ScanCall) -> None:
    x = call.x
    if not x.dtype.is_floating_point:
        raise DtypeError(f"`x` is {x.dtype}; convert it to a floating dtype first.")
    allowed = {x.dtype, call.state_dtype}
    for name, value in _named_tensors(call):
        if value.device != x.device:
            raise DtypeError(
                f"`{name}` lies on {value.device} and `x` on {x.device}; move one of them."
            )
        if name in ("members", "observed"):
            if value.dtype != torch.bool:
                raise DtypeError(
                    f"`{name}` is {value.dtype}; a mask is bool, True where there is something."
                )
        elif value.dtype not in allowed:
            raise DtypeError(
                f"`{name}` is {value.dtype} and `x` is {x.dtype}; "
                f"it must be {' or '.join(str(d) for d in sorted(allowed, key=str))}."
            )


def _check_values(call: ScanCall) -> None:
    for name, generator in _generators(call):
        for part in ("h", "v"):
            rate = getattr(generator, part)
            if not _lies_within(rate, -math.inf, 0.0):
                _check_finite(f"{name}.{part}", rate)
                raise ValueRangeError(
                    f"`{name}.{part}` holds {_worst(rate, rate < 0)}; every rate must be "
                    "negative, or the state grows without bound."
                )
        _check_finite(f"{name}.vh", generator.vh)
        if isinstance(generator, FullGenerator):
            _check_finite(f"{name}.hv", generator.hv)
            room = generator.h * generator.v - generator.vh * generator.hv
            if not bool((room > 0).all()):
                raise ValueRangeError(
                    f"`{name}` has h v - vh hv = {_worst(room, room > 0)}; it must be positive, or "
                    "what h and v tell each other grows without bound."
                )
    _check_finite("step", call.step)
    if bool((call.step < 0).any()):
        raise ValueRangeError(
            f"`step` holds {_worst(call.step, call.step >= 0)}; "
            "a step is a length of time and cannot be negative."
        )
    if call.skip is not None:
        _check_finite("skip", call.skip)


def _lies_within(value: Tensor, low: float, high: float) -> bool:
    """Whether every entry lies strictly between the bounds, found in one pass; NaN does not."""
    if value.numel() == 0:
        return True
    least, most = torch.aminmax(value.detach())
    return low < least.item() and most.item() < high


def _check_finite(name: str, value: Tensor) -> None:
    if not _lies_within(value, -math.inf, math.inf):
        raise ValueRangeError(
            f"`{name}` holds {_worst(value, value.isfinite())}; it must be finite."
        )


def _worst(value: Tensor, good: Tensor) -> str:
    """The first offending value with its index, for an error message."""
    index = tuple(int(i) for i in (~good).nonzero()[0])
    return f"{value[index].item():g} at {index}"


def _generators(call: ScanCall) -> list[tuple[str, Generator | FullGenerator]]:
    named = [("generator", call.generator), ("mean_generator", call.mean_generator)]
    return [(name, generator) for name, generator in named if generator is not None]


def _named_tensors(call: ScanCall) -> list[tuple[str, Tensor]]:
    names = [
        "step",
        "write",
        "read",
        "field",
        "field_write",
        "skip",
        "gate",
        "state",
        "members",
        "observed",
    ]
    found: list[tuple[str, Any]] = [(name, getattr(call, name)) for name in names]
    for name, generator in _generators(call):
        found += [(f"{name}.{part}", getattr(generator, part)) for part in generator._fields]
    return [(name, value) for name, value in found if value is not None]
