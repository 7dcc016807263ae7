"""Norms and the short convolution as kernels, against plain PyTorch in float64."""

import pytest
import torch

from orderless.ops import causal_silu, rms_norm

# By norm: sums of float32, and what bfloat16 loses of results, which the interpreter cuts off.
BOUND = {torch.float32: 1e-6, torch.bfloat16: 6e-3}


def _against_plain(fused, plain, device, dtype, inputs, of_weights):
    """Errors by norm of the output and of every gradient."""
    wide = [value.to(dtype if i not in of_weights else torch.float32).double()
            for i, value in enumerate(inputs)]  # fmt: skip
    low = [value.to(device, torch.float32 if i in of_weights else dtype)
           for i, value in enumerate(wide)]  # fmt: skip
    results = []
    for run, values in ((fused, low), (plain, wide)):
        values = [value.requires_grad_() for value in values]
        y = run(*values)
        d_y = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(y)
        results.append([y, *torch.autograd.grad(y, values, d_y)])
    assert [value.dtype for value in results[0]] == [low[0].dtype, *(value.dtype for value in low)]
    return [
        float((got.detach().double().cpu() - want.detach()).norm() / want.detach().norm())
        for got, want in zip(*results, strict=True)
    ]


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 2, 5, 32), 1), ((2, 3, 7, 2, 2, 8), 3), ((5, 1, 2, 8), 3), ((2, 3, 20), 1), ((1, 3), 1)],
)
def test_norms(device, shape, axes, dtype):
    from orderless.ops.triton import row_operators

    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(size, generator=random).double() for size in (shape, shape[-axes:])]
    errors = _against_plain(
        lambda x, weight: row_operators.rms_norm(x, weight, dtype, 1e-6),
        lambda x, weight: rms_norm(x, weight, torch.float64),
        device, dtype, inputs, (1,),
    )  # fmt: skip
    assert max(errors) <= BOUND[dtype], errors


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((2, 3, 7, 32), 4), ((1, 2, 2, 5), 4), ((2, 1, 9, 70), 3), ((1, 1, 1, 1), 1)],
)
def test_the_short_convolution(device, shape, kernel, dtype):
    from orderless.ops.triton import row_operators

    random = torch.Generator().manual_seed(0)
    sizes = (shape, (kernel, shape[-1]), shape[-1:])
    inputs = [torch.randn(size, generator=random).double() for size in sizes]
    errors = _against_plain(row_operators.causal_silu, causal_silu, device, dtype, inputs, (1, 2))
    assert max(errors) <= BOUND[dtype], errors
