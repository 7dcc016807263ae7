import pytest
import torch
from scan_cases import TOLERANCE, Case, assert_agrees, build, results

from orderless.ops import Generator, chunked, zero_order_hold
from orderless.ops.recurrence import run_plain


def run(call):
    return run_plain(call, chunked.solve)


@pytest.mark.parametrize("entries", [1, 80, 160, 1000])
@pytest.mark.parametrize("strided", [False, True])
def test_how_many_rows_are_worked_on_together_changes_nothing(monkeypatch, entries, strided):
    """From row by row, over blocks that end unevenly within a batch entry, to several entries."""
    call = build(Case(batch=5, variables=7, time=40, heads=2, strided=strided))
    monkeypatch.setattr(chunked, "ENTRIES", {"cpu": 10**6})
    expected = results(call, run)
    monkeypatch.setattr(chunked, "ENTRIES", {"cpu": entries})
    for name, value in results(call, run).items():
        assert (value - expected[name]).norm() <= 1e-12 * expected[name].norm(), name


@pytest.mark.parametrize("step", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("h", [-0.1, -3.0, -8.0])
@pytest.mark.parametrize("v", [-0.1, -3.5, -12.0])
def test_nothing_cancels_however_far_apart_the_rates_are(h, v, step):
    """Ways split outside of [s, t] would grow as exp(|h - v| span), and lose as many digits."""
    call = build(Case(time=32, states=1, extras=False), torch.float32)
    rates = (torch.full((1, 1), rate) for rate in (h, v, 1.0))
    call = type(call)(
        **{**vars(call), "generator": Generator(*rates), "step": step * (0.5 + call.step)}
    )
    assert_agrees(results(call, run), call, 0.2 * TOLERANCE[torch.float32])


def test_inference_leaves_nothing_behind_that_training_cannot_use():
    call = build(Case(time=24, seed=1))
    chunked._halving.cache_clear()
    zero_order_hold._terms.cache_clear()
    with torch.inference_mode():
        run(call)
    assert_agrees(results(call, run), call, TOLERANCE[torch.float64])
