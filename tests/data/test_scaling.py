import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orderless.data import fit_scaler, mean_and_spread

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
    assert mean_and_spread(values, np.ones((1, 50), bool))[1] == 0.0


def test_a_variable_never_or_once_seen_has_scale_one():
    observed = np.zeros((2, 5), bool)
    observed[1, 2] = True
    scaler = fit_scaler(np.where(observed, 7.0, np.nan), observed)
    assert scaler.mean[:, 0].tolist() == [0.0, 7.0]
    assert scaler.scale[:, 0].tolist() == [1.0, 1.0]
