"""Calls of `vi_scan` drawn by hypothesis, and how two results are compared."""

from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from orderless.ops import Generator
from orderless.ops.call import ScanCall
from orderless.ops.recurrence import run_plain
from orderless.ops.reference import solve as solve_by_reference

# Relative by norm. float64: sums of a few thousand terms in another order. float32: coefficients
# are good to 1e-6, and rounding adds up over a few hundred steps.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

OUTPUTS = ("output", "last state")

SIZES = (1, 2, 3, 5, 7, 13, 16, 31, 32, 33, 64, 97, 128, 211, 300)
TIMES = (*SIZES, 401, 512, 700)


@dataclass(frozen=True)
class Case:
    """What is drawn; small enough for hypothesis to shrink and print."""

    batch: int = 2
    variables: int = 3
    time: int = 37
    heads: int = 1
    head_size: int = 2
    states: int = 3
    steps: str = "ordinary"
    rates: str = "apart"
    field: bool = True
    feedback: bool = False
    extras: bool = True
    """Skip, gate and an initial state."""
    members: bool = False
    observed: bool = False
    reverse: bool = False
    constant: bool = False
    strided: bool = False
    """Arguments whose memory is not in the order of their axes."""
    seed: int = 0


@st.composite
def cases(draw, **fixed):
    """Sizes from 1 to 300 variables and 700 times, not both large at once: the reference loops."""
    variables = draw(st.sampled_from(SIZES))
    time = draw(st.sampled_from([t for t in TIMES if t * variables <= 2000]))
    drawn = Case(
        batch=draw(st.integers(1, 2)),
        variables=variables,
        time=time,
        heads=draw(st.integers(1, 3)),
        head_size=draw(st.sampled_from([1, 2, 5])),
        states=draw(st.sampled_from([1, 2, 5])),
        steps=draw(st.sampled_from(["ordinary", "tiny", "huge", "mixed"])),
        rates=draw(st.sampled_from(["apart", "close", "equal"])),
        field=draw(st.booleans()),
        feedback=draw(st.booleans()),
        extras=draw(st.booleans()),
        members=draw(st.booleans()),
        observed=draw(st.booleans()),
        reverse=draw(st.booleans()),
        constant=draw(st.booleans()),
        strided=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )
    return replace(drawn, **fixed)


def build(case: Case, dtype: torch.dtype = torch.float64) -> ScanCall:
    """The call a case stands for. Masked entries hold NaN or 1e30."""
    random = torch.Generator().manual_seed(case.seed)
    b, v, t = case.batch, case.variables, case.time
    h, n, d = case.heads, case.states, case.heads * case.head_size
    ticks = 1 if case.constant else t

    def normal(*shape: int) -> Tensor:
        value = torch.randn(*shape, generator=random, dtype=torch.float64).to(dtype)
        if case.strided and value.dim() > 1:
            value = value.transpose(0, -1).contiguous().transpose(0, -1)
        return value

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=random, dtype=torch.float64).to(dtype)

    observed = uniform(b, v, t) < 0.7 if case.observed else None
    members = uniform(b, v) < 0.7 if case.members else None
    x, gate = normal(b, v, t, d), normal(b, v, t, d) if case.extras else None
    if observed is not None:
        x = torch.where(observed.unsqueeze(-1), x, torch.nan)
    if members is not None:
        x = torch.where(members[..., None, None], x, 1e30)
    return ScanCall(
        x=x,
        step=_steps(case.steps, uniform(b, ticks, h)),
        generator=_generator(case.rates, uniform(3, h, n), normal(h, n)),
        write=normal(b, v, ticks, 2, n),
        read=normal(b, v, ticks, 2, n),
        field=normal(b, t, d) if case.field else None,
        field_write=normal(b, ticks, 2, n) if case.field else None,
        mean_generator=_generator(case.rates, uniform(3, h, n), normal(h, n))
        if case.feedback
        else None,
        skip=normal(d) if case.extras else None,
        gate=gate,
        state=normal(b, v, 2, n, d) if case.extras else None,
        members=members,
        observed=observed,
        reverse=case.reverse,
    )


def _steps(kind: str, uniform: Tensor) -> Tensor:
    if kind == "tiny":
        return 1e-6 * (1 + uniform)
    if kind == "huge":
        return 1 + 9 * uniform
    if kind == "mixed":
        return 10 ** (7 * uniform - 6)
    return 0.01 + 0.3 * uniform


def _generator(kind: str, uniform: Tensor, vh: Tensor) -> Generator:
    h = -(0.1 + 4 * uniform[0])
    gap = {"apart": 4 * uniform[1], "close": 1e-7 * uniform[1], "equal": 0 * uniform[1]}[kind]
    return Generator(h, h - gap, vh)


def tensors(call: ScanCall) -> dict[str, Tensor]:
    """Every differentiable argument by name."""
    named = {}
    for name in ("x", "step", "write", "read", "field", "field_write", "skip", "gate", "state"):
        named[name] = getattr(call, name)
    for name in ("generator", "mean_generator"):
        parts = getattr(call, name) or (None, None, None)
        named |= {
            f"{name}.{part}": value for part, value in zip(("h", "v", "vh"), parts, strict=True)
        }
    return {name: value for name, value in named.items() if value is not None}


def with_tensors(call: ScanCall, named: dict[str, Tensor]) -> ScanCall:
    """The same call with other tensors."""
    plain = {name: value for name, value in named.items() if "." not in name}
    for name in ("generator", "mean_generator"):
        if f"{name}.h" in named:
            plain[name] = Generator(*(named[f"{name}.{part}"] for part in ("h", "v", "vh")))
    return replace(call, **plain)


def results(call: ScanCall, run) -> dict[str, Tensor]:
    """Output, last state, and the gradient of a random sum of both by every argument."""
    leaves, outputs = _run_on_leaves(call, run)
    gradients = torch.autograd.grad(outputs, list(leaves.values()), _weights(outputs))
    values = (value.detach() for value in outputs)
    return dict(zip(OUTPUTS, values, strict=True)) | dict(zip(leaves, gradients, strict=True))


def exact_results(call: ScanCall) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The reference in float64, and for every result the norm that errors are measured by.

    That is its own norm. A parameter's gradient alone is a handful of numbers, each a sum over all
    outputs that may cancel. Its error is measured by the norm of the terms: the root of the mean
    square of the gradient over random signs of the outputs, less than their sum in absolute value.
    A step that holds for all times is such a parameter: one number for each head.
    """
    call = with_tensors(call, {name: value.double() for name, value in tensors(call).items()})
    leaves, outputs = _run_on_leaves(call, lambda c: run_plain(c, solve_by_reference))
    weights = _weights(outputs)
    gradients = torch.autograd.grad(outputs, list(leaves.values()), weights, retain_graph=True)
    found = dict(zip(leaves, gradients, strict=True))
    scales = {name: value.norm().item() for name, value in found.items()}

    once = ("step",) if call.step.shape[1] == 1 else ()
    parameters = [name for name in leaves if "." in name or name in ("skip", *once)]
    squares = dict.fromkeys(parameters, 0.0)
    random, probes = torch.Generator().manual_seed(1), 4
    for _ in range(probes):
        signed = [w * (2 * torch.randint(2, w.shape, generator=random) - 1) for w in weights]
        terms = torch.autograd.grad(
            outputs, [leaves[name] for name in parameters], signed, retain_graph=True
        )
        for name, term in zip(parameters, terms, strict=True):
            squares[name] += term.square().sum().item() / probes
    scales |= {name: max(scales[name], square**0.5) for name, square in squares.items()}

    for name, value in zip(OUTPUTS, outputs, strict=True):
        found[name], scales[name] = value.detach(), value.norm().item()
    return found, scales


def _run_on_leaves(call: ScanCall, run) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
    leaves = {name: value.detach().requires_grad_() for name, value in tensors(call).items()}
    return leaves, run(with_tensors(call, leaves))


def _weights(outputs: tuple[Tensor, Tensor]) -> list[Tensor]:
    """The same random weights for outputs of any dtype."""
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(value.shape, generator=random, dtype=torch.float64).to(value)
        for value in outputs
    ]


def assert_agrees(found: dict[str, Tensor], call: ScanCall, tolerance: float) -> None:
    """Every value and gradient is that of the float64 reference."""
    expected, scales = exact_results(call)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].isfinite().all(), f"{name} is not finite"
        error = (found[name].double() - value).norm().item()
        limit = tolerance * max(scales[name], 1e-30)
        assert error <= limit, f"{name}: error {error:.2e}, allowed {limit:.2e}"
