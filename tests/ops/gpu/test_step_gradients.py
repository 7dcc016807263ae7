"""Gradients of steps and rates, from what the programs of a backward pass have left."""

import pytest
import torch


def _gradients(device, step, rates, sums, borders):
    from orderless.ops.gpu.tables import sums_gradient_kernel

    batch, time, _ = step.shape
    chunks = sums.shape[3]
    d_step = torch.empty_like(step)
    d_rates = torch.empty(batch * chunks, 3, 1, 16, device=device)
    sums_gradient_kernel[(batch * chunks,)](
        step, *rates, sums, borders, d_step, d_rates, time, 1, chunks, 1, *step.stride()[:2],
        len(sums), sums[0].numel(), len(borders), borders[0].numel(),
        HAS_END=False, STATES=16, PADDED=16, num_warps=4,
    )  # fmt: skip
    return d_step, d_rates


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_many_parts_have_the_gradients_of_their_sum(device, dtype):
    # More parts than are loaded at once, of sums (4) and of borders (16), and a rest of each.
    draw = torch.Generator().manual_seed(0)
    step = torch.rand(2, 30, 1, generator=draw).to(device)
    rates = [-torch.rand(1, 16, generator=draw).to(device) for _ in range(3)]
    sums = torch.randn(21, 2, 1, 2, 6, 16, 16, generator=draw).to(device, dtype)
    borders = torch.randn(70, 2, 1, 3, 3, 16, generator=draw).to(device)
    many = _gradients(device, step, rates, sums, borders)
    few = _gradients(device, step, rates, sums.float().sum(0, True), borders.sum(0, True))
    for one, other in zip(many, few, strict=True):
        assert (one - other).norm() < 1e-5 * other.norm()  # float32, added in another order
