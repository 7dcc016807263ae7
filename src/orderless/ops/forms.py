"""The forms of one operator, and the choice between them.

A form is chosen by facts about the call, never by trial: asking is free, works under a compiler,
and gives the same answer every time. A form asked for by name runs, or says why it cannot.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from orderless.errors import FormUnavailable
from orderless.ops.call import CallFacts, ScanCall


@dataclass(frozen=True)
class Form:
    """One way to compute an operator."""

    name: str
    run: Callable[[ScanCall], tuple[Tensor, Tensor]]
    refusal: Callable[[CallFacts], str | None]
    """Why it cannot run a call, or None when it can."""


@dataclass(frozen=True)
class Verdict:
    """What the choice says of one form: a row of `orderless doctor`."""

    op: str
    form: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Operator:
    """An operator and its forms, the preferred one first and the specification last."""

    name: str
    forms: tuple[Form, ...]

    def choose(self, facts: CallFacts, requested: str | None = None) -> Form:
        """The first form that can run the call; the requested one, or an error with the reason."""
        for form in self.forms:
            if requested not in (None, form.name):
                continue
            reason = form.refusal(facts)
            if reason is None:
                return form
            if requested is not None:
                raise FormUnavailable(f"{self.name}: the form {requested!r} cannot run: {reason}.")
        known = ", ".join(form.name for form in self.forms)
        raise FormUnavailable(f"{self.name}: there is no form {requested!r}; known are {known}.")

    def explain(self, facts: CallFacts) -> list[Verdict]:
        """Every form with its verdict on such a call."""
        chosen = self.choose(facts)
        rows = []
        for form in self.forms:
            reason = form.refusal(facts)
            if reason is not None:
                rows.append(Verdict(self.name, form.name, "refuses", reason))
            elif form is chosen:
                rows.append(Verdict(self.name, form.name, "chosen", "the first that can run it"))
            else:
                rows.append(Verdict(self.name, form.name, "can run", f"{chosen.name} comes first"))
        return rows
