"""What may stand in a file that somebody else wrote: small checks, put together to large ones.

A check takes a value as JSON gives it and says where in the file it stands; what does not fit is
refused in words. `record({"seed": whole(0), "scales": mapping(number(0))})` is a schema.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from orderless.errors import ModelFileError

Check = Callable[[Any, str], None]
LARGEST = 1e300
"""Beyond it a number is taken for infinite, as JSON may write it: 1e999."""


def _refuse(where: str, value: Any, expected: str) -> None:
    shown = repr(value) if isinstance(value, str | float | bool | None) else type(value).__name__
    raise ModelFileError(f"{where} is {shown[:60]}; it must be {expected}.")


def number(least: float = -LARGEST, most: float = LARGEST) -> Check:
    """A finite number in these limits."""

    def check(value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(where, value, "a number")
        if not least <= value <= most:
            raise ModelFileError(f"{where} must lie from {least:g} to {most:g}.")

    return check


def whole(least: int, most: int = 2**63) -> Check:
    """A whole number in these limits."""
    within = number(least, most)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, int):
            _refuse(where, value, "a whole number")
        within(value, where)

    return check


def flag(value: Any, where: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        _refuse(where, value, "true or false")


def text(pattern: str = r"[\s\S]*") -> Check:
    """Text, the whole of which has the pattern."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _refuse(where, value, "text" if pattern == r"[\s\S]*" else f"text like {pattern}")

    return check


def either(*checks: Check) -> Check:
    """What one of the checks lets pass."""

    def check(value: Any, where: str) -> None:
        for one in checks[:-1]:
            try:
                return one(value, where)
            except ModelFileError:
                continue
        return checks[-1](value, where)

    return check


def nothing(value: Any, where: str) -> None:
    """Null."""
    if value is not None:
        _refuse(where, value, "null")


def optional(check: Check) -> Check:
    """Null or what the check lets pass."""
    return either(nothing, check)


def listing(check: Check, length: int | None = None, *, distinct: bool = False) -> Check:
    """A list of what the check lets pass."""

    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, list) or length not in (None, len(value)):
            _refuse(where, value, "a list" if length is None else f"a list of {length}")
        for place, one in enumerate(value):
            check(one, f"{where}[{place}]")
        if distinct and len(set(value)) < len(value):
            raise ModelFileError(f"{where} must not hold an entry twice.")

    return check_all


def mapping(check: Check) -> Check:
    """An object with any names, each entry of which the check lets pass."""

    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "an object")
        for name, one in value.items():
            check(one, f"{where}.{name[:60]}")

    return check_all


def record(checks: Mapping[str, Check]) -> Check:
    """An object with these names and no others."""

    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "an object")
        for name in [*checks, *value]:
            if (name in checks) != (name in value):
                state = "is missing" if name in checks else "is not known"
                raise ModelFileError(f"{where}.{name[:60]} {state}.")
        for name, check in checks.items():
            check(value[name], f"{where}.{name}")

    return check_all


def plain(value: Any, where: str) -> None:
    """Anything that only people read."""


def assign(module: Any, tensors: Mapping[str, Any], where: str) -> None:
    """Give a module on the meta device its weights: the same names, shapes and dtypes."""
    expected = module.state_dict()
    for name in [*expected, *tensors]:
        if (name in expected) != (name in tensors):
            state = "is missing" if name in expected else "is not known"
            raise ModelFileError(f"{where}{name} {state}.")
    for name, own in expected.items():
        given = tensors[name]
        if (own.shape, own.dtype) != (given.shape, given.dtype):
            raise ModelFileError(
                f"{where}{name} is {given.dtype} {list(given.shape)}; it must be {own.dtype} "
                f"{list(own.shape)}."
            )
    module.load_state_dict(tensors, assign=True)
