import numpy as np
import torch

from orderless.data import read_panel
from orderless.estimators.conformal import CALM
from orderless.estimators.look_backs import (
    learn_usual_spreads,
    look_back,
    stack_usual,
    usual_spreads,
)
from orderless.estimators.preparation import Prepared


def test_a_usual_spread_is_without_the_farthest_readings():
    values = np.random.default_rng(0).standard_normal((3, 1000))
    values[1, [3, 500]] = -9999.0, 1e12
    values[2] = 7.0
    observed = np.ones(values.shape, bool)
    observed[0, 900:], values[0, 900:] = False, np.nan
    usual = usual_spreads(values, observed)
    # Of a normal draw without a hundredth at either end, to three standard errors.
    np.testing.assert_allclose(usual, [0.935, 0.935, 0.0], atol=0.07)
    np.testing.assert_allclose(usual_spreads(1e200 * values, observed), 1e200 * usual)
    # Of fewer than a hundred none can be spared.
    few = values[:1, :50]
    np.testing.assert_allclose(usual_spreads(few, observed[:1, :50]), few.std())
    assert usual_spreads(values[:, :0], observed[:, :0]).tolist() == [0.0, 0.0, 0.0]


def test_the_usual_spread_of_a_name_is_that_of_its_calmest_system():
    wave = np.sin(np.arange(200.0))[:, None]
    panel = read_panel([100 * wave, wave, np.full((200, 1), 3.0)])
    (name,) = panel.variables
    usual = learn_usual_spreads(panel, [200, 200, 200])
    np.testing.assert_allclose(usual[name], wave.std(), rtol=0.02)  # less the ends of the wave
    assert learn_usual_spreads(panel, [0, 0, 200]) == {}


def looked_back(spreads, **columns) -> Prepared:
    (system,) = read_panel(columns).systems
    return look_back(system, {"known": (0.0, 2.0), "still": (5.0, 0.0)}, spreads, last=20)


def test_usual_spreads_are_in_units_of_the_look_back():
    wave = np.sin(np.arange(200.0))
    past = looked_back({"known": 1.0}, known=wave, new=100 * wave, still=np.full(200, 5.0))
    assert past.usual is not None
    # That of `fit` in its unit; that of a new one from the history at hand, which gives the unit
    # too, less the ends of the wave; and so much that the share of `CALM` makes it 1.
    np.testing.assert_allclose(past.usual, [0.5, 1.0, CALM**-0.5], rtol=0.02)
    assert looked_back(None, known=wave).usual is None  # the first models know none


def test_a_single_reading_of_what_fit_did_not_see_has_no_unit():
    once = np.full(200, np.nan)
    once[190] = 3.0
    wave = np.sin(np.arange(200.0))
    past = looked_back({}, known=once, new=once, other=wave)
    assert np.isnan(past.scaler.scale[:, 0]).tolist() == [False, True, False]


def test_usual_spreads_of_systems_are_stacked_where_any_are_known():
    wave = np.sin(np.arange(200.0))
    one, two = (looked_back({"known": 1.0}, **dict.fromkeys(names, wave)) for names in ("a", "bc"))
    stacked = stack_usual([one, two], torch.device("cpu"))
    assert stacked is not None
    assert stacked.shape == (2, 2)
    assert stacked[0, 1] == 0.0
    assert stack_usual([looked_back(None, known=wave)], torch.device("cpu")) is None
