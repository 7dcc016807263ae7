"""Groups by name: the same group, however its name is written."""

import re
from collections.abc import Collection, Iterable

from orderless.data.panel import System

WHOLE = re.compile(r"(-?)0*([0-9]+?)(?:\.0*)?")
"""A whole number; what it is without zeros that say nothing."""


def key_of(system: System) -> str:
    """The name of a system as text; 1.0 is 1, for a gap in a column of groups makes it floating."""
    name = system.name
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def match_groups(systems: Iterable[System], known: Collection[str]) -> list[str | None]:
    """Which of the known names each system has; None where it has none of them.

    A name that is not known stands for the one known name that is the same whole number: a file
    says 001 where a frame that was read from it says 1. Where several are that number, of those
    known or of those here, nothing is guessed.
    """
    keys = [key_of(system) for system in systems]
    theirs, ours = _by_number(known), _by_number(keys)
    matches: list[str | None] = []
    for key in keys:
        number = _without_zeros(key)
        alike = theirs.get(number, set())
        only = len(alike) == 1 and len(ours[number]) == 1
        matches.append(key if key in known else next(iter(alike)) if only else None)
    return matches


def _by_number(names: Iterable[str]) -> dict[str, set[str]]:
    """Names that are one number, however written."""
    alike: dict[str, set[str]] = {}
    for name in names:
        alike.setdefault(_without_zeros(name), set()).add(name)
    return alike


def _without_zeros(name: str) -> str:
    """1 for 001 and 1.0; anything but whole numbers as it is."""
    number = WHOLE.fullmatch(name)
    return name if number is None else number[1] + number[2]
