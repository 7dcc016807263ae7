"""How wrong the textbook formulas of the zero-order hold are in float32, and ours beside them.

    python -m benchmarks.coefficients

200,000 draws: rates from -10 to -0.01, gaps from 1e-8 to 1 of the rate, steps from 1e-6 to 10, all
even on a logarithmic scale; errors relative to float64, where the result exceeds 1e-30.
"""

import torch
from torch import Tensor

from benchmarks.records import write_record
from orderless.ops.zero_order_hold import Block, Generator, hold, transition

DRAWS, SMALLEST = 200_000, 1e-30


def main() -> None:
    random = torch.Generator().manual_seed(0)

    def between(low: float, high: float) -> Tensor:
        return 10 ** (low + (high - low) * torch.rand(DRAWS, generator=random))

    h = -between(-2, 1)
    v, span = h * (1 + between(-8, 0)), between(-6, 1)
    exact = ours(h.double(), v.double(), span.double())
    results = {
        name: {entry: summary(part, truth) for entry, part, truth in lower_left(found, exact)}
        for name, found in (("textbook", textbook(h, v, span)), ("ours", ours(h, v, span)))
    }
    for name, entries in results.items():
        for entry, row in entries.items():
            print(name, entry, {key: f"{value:.1e}" for key, value in row.items()})
    print("wrote", write_record("coefficients", results))


def ours(h: Tensor, v: Tensor, span: Tensor) -> tuple[Block, Block]:
    generator = Generator(h[:, None], v[:, None], torch.ones_like(h)[:, None])
    return transition(generator, span), hold(generator, span)


def textbook(h: Tensor, v: Tensor, span: Tensor) -> tuple[Block, Block]:
    e_h, e_v = torch.exp(h * span), torch.exp(v * span)
    phi_h, phi_v = (e_h - 1) / h, (e_v - 1) / v
    carried, held = (e_h - e_v) / (h - v), (phi_h - phi_v) / (h - v)
    return tuple(
        Block(*(part[:, None] for part in parts))
        for parts in ((e_h, e_v, carried), (phi_h, phi_v, held))
    )


def lower_left(found: tuple[Block, Block], exact: tuple[Block, Block]):
    for entry, part, truth in zip(("transition", "hold"), found, exact, strict=True):
        yield entry, part.vh.double(), truth.vh


def summary(part: Tensor, truth: Tensor) -> dict[str, float]:
    matters = truth.abs() > SMALLEST
    error = ((part - truth).abs() / truth.abs())[matters]
    wrong = (error > 1e-2) | error.isnan()  # where both rates round to one, it is 0 / 0
    return {
        "median": error.nanmedian().item(),
        "share_above_1_percent": wrong.double().mean().item(),
        "largest_finite": error[error.isfinite()].max().item(),
    }


if __name__ == "__main__":
    main()
