import numpy as np
import pytest

from orderless.data import read_panel
from orderless.models.forecasting import cut_forecasting_windows


@pytest.mark.parametrize(
    ("steps", "variables", "held_out"), [(9000, 3, 1024), (2500, 512, 512), (900, 4096, 256)]
)
def test_of_many_variables_fewer_windows_are_held_out(steps, variables, held_out):
    panel = read_panel(np.ones((steps, variables), np.float32))
    windows = cut_forecasting_windows(panel, 1, 8, share=0.8)
    for some in (windows.selection, windows.calibration):
        # Every k-th window is taken: two thirds of the most there may be, or more.
        assert 2 / 3 * held_out <= len(some) <= held_out


def test_few_variables_are_few_whatever_others_are_called():
    """Five hundred systems of one variable each, every one with a name of its own."""
    names = np.repeat([f"sensor {k}" for k in range(500)], 20)
    long = {"time": np.tile(np.arange(20), 500), "sensor": names, "value": np.ones(10_000)}
    panel = read_panel({**long, "plant": names}, group="plant")
    assert len(panel.variables) == 500
    assert len(cut_forecasting_windows(panel, 1, 4, share=0.5).selection) > 2**18 // 500


def test_a_context_is_not_longer_than_the_longest_system():
    panel = read_panel([np.ones(30), np.ones(50)])
    windows = cut_forecasting_windows(panel, 3, 5000, share=0.2)
    assert windows.context == 50
    assert len(windows.train) > 0
