import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orderless.data import read_panel
from orderless.data.scaling import (
    baseline_scales,
    fit_scaler,
    learn_baselines,
    learn_scales,
    mean_and_scale,
    scales_of_training,
)

FINITE = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=100)
@given(values=arrays(np.float64, (3, 17), elements=FINITE), observed=arrays(bool, (3, 17)))
def test_scaling_can_be_undone_and_sees_observed_entries_only(values, observed):
    scaler = fit_scaler(values, observed)
    assert np.allclose(scaler.undo(scaler.apply(values)), values, rtol=1e-9, atol=1e-6)
    other = np.where(observed, values, np.nan)
    again = fit_scaler(other, observed)
    assert np.array_equal(scaler.mean, again.mean)
    assert np.array_equal(scaler.scale, again.scale)


def test_scaled_data_has_mean_zero_and_standard_deviation_one():
    random = np.random.default_rng(0)
    values = random.normal(5, 3, (4, 500)) * np.array([[1e-6], [1], [1e6], [1e150]])
    observed = random.random((4, 500)) < 0.8
    scaler = fit_scaler(values, observed)
    scaled = np.where(observed, scaler.apply(values), np.nan)
    assert np.allclose(np.nanmean(scaled, 1), 0, atol=1e-9)
    assert np.allclose(np.nanstd(scaled, 1), 1)


@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1, 1e12, -1e300])
def test_a_constant_variable_has_scale_one(constant):
    values = np.full((1, 50), constant)
    scaler = fit_scaler(values, np.ones((1, 50), bool))
    assert scaler.scale[0, 0] == 1.0
    assert np.allclose(scaler.mean, constant)
    assert mean_and_scale(values, np.ones((1, 50), bool))[1] == 0.0


def test_a_variable_never_or_once_seen_has_scale_one():
    observed = np.zeros((2, 5), bool)
    observed[1, 2] = True
    scaler = fit_scaler(np.where(observed, 7.0, np.nan), observed)
    assert scaler.mean[:, 0].tolist() == [0.0, 7.0]
    assert scaler.scale[:, 0].tolist() == [1.0, 1.0]


VALUES = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 10.0, 100.0] + 5.0


def test_levels_of_different_systems_do_not_widen_the_scale():
    panel = read_panel([VALUES, VALUES + 1e6])
    scales = learn_scales(panel, [50, 50])
    np.testing.assert_allclose([scale for _, scale in scales.values()], VALUES.std(0))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_scale_is_in_units_of_the_data_also_where_a_system_is_constant(unit):
    constant = np.full_like(VALUES, 3.0)
    scales = learn_scales(read_panel([unit * VALUES, unit * constant]), [50, 50])
    found = [scale for _, scale in scales.values()]
    np.testing.assert_allclose(found, unit * VALUES.std(0) / np.sqrt(2))


def test_what_is_constant_in_every_system_may_be_scaled_across_them():
    panel = read_panel([np.full((50, 1), level) for level in (1.0, 3.0)])
    assert [scale for _, scale in learn_scales(panel, [50, 50]).values()] == [0.0]
    ((mean, scale),) = learn_scales(panel, [50, 50], across=True).values()
    assert (mean, scale) == pytest.approx((2.0, 1.0))


def test_what_is_constant_until_training_ends_has_the_scale_of_all_there_is():
    late = np.where(np.arange(50) < 40, 7.0, VALUES[:, 1])
    panel = read_panel({"a": VALUES[:, 0], "late": late})
    scales = scales_of_training(panel, [40])
    assert scales["a"] == pytest.approx((VALUES[:40, 0].mean(), VALUES[:40, 0].std()))
    assert scales["late"] == learn_scales(panel, [50])["late"]
    assert scales["late"][1] > 0


def test_a_baseline_scale_is_without_the_farthest_readings():
    values = np.random.default_rng(0).standard_normal((3, 1000))
    values[1, [3, 500]] = -9999.0, 1e12
    values[2] = 7.0
    observed = np.ones(values.shape, bool)
    observed[0, 900:], values[0, 900:] = False, np.nan
    baseline = baseline_scales(values, observed)
    # Of a normal draw without a hundredth at either end, to three standard errors.
    np.testing.assert_allclose(baseline, [0.935, 0.935, 0.0], atol=0.07)
    np.testing.assert_allclose(baseline_scales(1e200 * values, observed), 1e200 * baseline)
    # Of fewer than a hundred none can be spared.
    few = values[:1, :50]
    np.testing.assert_allclose(baseline_scales(few, observed[:1, :50]), few.std())
    assert baseline_scales(values[:, :0], observed[:, :0]).tolist() == [0.0, 0.0, 0.0]


def test_the_baseline_scale_of_a_name_is_that_of_its_calmest_system():
    wave = np.sin(np.arange(200.0))[:, None]
    panel = read_panel([100 * wave, wave, np.full((200, 1), 3.0)])
    (name,) = panel.variables
    baseline = learn_baselines(panel, [200, 200, 200])
    np.testing.assert_allclose(baseline[name], wave.std(), rtol=0.02)  # less the ends of the wave
    assert learn_baselines(panel, [0, 0, 200]) == {}
