import pytest
import torch

from orderless.ops import Generator, vi_scan


@pytest.mark.parametrize("form", ["chunked", "reference"])
@pytest.mark.parametrize("feedback", [False, True])
def test_autocast_does_not_lower_the_precision_of_a_scan(form, feedback):
    draw = torch.Generator().manual_seed(0)
    rates = -torch.rand(2, 4, generator=draw) - 0.5
    weights = torch.randn(2, 3, 40, 2, 4, generator=draw)
    arguments = {
        "x": torch.randn(2, 3, 40, 8, generator=draw),
        "step": torch.rand(2, 40, 2, generator=draw),
        "generator": Generator(rates, rates - 0.1, rates),
        "write": weights,
        "read": weights.flip(2),
        "mean_generator": Generator(rates - 0.2, rates - 0.1, rates) if feedback else None,
    }
    y, state = vi_scan(**arguments, form=form)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y_cast, state_cast = vi_scan(**arguments, form=form)
    assert torch.equal(y, y_cast)
    assert torch.equal(state, state_cast)
