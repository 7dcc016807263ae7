import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.errors import SettingError
from orderless.estimators.conformal import column_endings, fit_error_table


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), level=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_an_interval_holds_its_share_of_new_errors(seed, level):
    random = np.random.default_rng(seed)
    errors = random.standard_normal((400, 1, 2)) * [1.0, 3.0]
    table = fit_error_table(errors, np.ones(errors.shape, bool))
    new = random.standard_normal((20000, 2)) * [1.0, 3.0]
    inside = (new >= table.at((1 - level) / 2)) & (new <= table.at((1 + level) / 2))
    np.testing.assert_allclose(inside.mean(0), level, atol=0.09)


def test_quantiles_rise_with_the_level():
    errors = np.random.default_rng(0).standard_normal((30, 2, 3))
    table = fit_error_table(errors, np.ones(errors.shape, bool))
    at = np.stack([table.at(q) for q in np.linspace(0.01, 0.99, 50)])
    assert (np.diff(at, axis=0) >= 0).all()


def test_errors_that_were_not_observed_do_not_count():
    errors = np.array([[[1.0], [1e9]], [[2.0], [1e9]]])
    observed = np.array([[[True], [False]], [[True], [False]]])
    assert fit_error_table(errors, observed).at(0.99) == 2.0


def test_without_any_error_intervals_have_no_width():
    table = fit_error_table(np.zeros((0, 1, 2)), np.zeros((0, 1, 2), bool))
    assert (table.at(0.9) == 0).all()


def test_levels_and_quantiles_name_their_columns():
    assert column_endings([80], None) == pytest.approx({"lo-80": 0.1, "hi-80": 0.9})
    assert column_endings(None, 0.25) == {"q0.25": 0.25}
    assert column_endings(None, None) == {}


@pytest.mark.parametrize(
    ("level", "quantiles"),
    [([0], None), ([120], None), (None, [1.0]), ("80", None), ([[80]], None), (None, [None])],
)
def test_levels_outside_their_range_are_refused(level, quantiles):
    with pytest.raises(SettingError):
        column_endings(level, quantiles)
