import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.bench.datasets.readers import Borders, find_borders
from orderless.bench.protocols.long_term_rules import (
    choose_context,
    every_window,
    scale_by_training_rows,
    scored_windows,
    target_span,
)
from orderless.errors import DataError, SettingError

BORDERS = Borders(60, 80, 100)


def test_the_scaler_has_not_seen_the_future():
    values = np.random.default_rng(0).normal(size=(3, 120))
    changed = values.copy()
    changed[:, BORDERS.train :] += 1000.0
    before = scale_by_training_rows(values, BORDERS)
    after = scale_by_training_rows(changed, BORDERS)
    np.testing.assert_array_equal(before[:, :60], after[:, :60])
    np.testing.assert_allclose(before[:, :60].mean(1), 0.0, atol=1e-12)
    np.testing.assert_allclose(before[:, :60].std(1), 1.0)


@pytest.mark.parametrize(
    ("name", "rows", "counts"),
    [
        ("ETTh1", 17_420, (2785, 2689, 2545, 2161)),
        ("ETTm1", 69_680, (11_425, 11_329, 11_185, 10_801)),
        ("Exchange", 7_588, (1422, 1326, 1182, 798)),
    ],
)
def test_the_number_of_test_windows_is_that_of_the_literature(name, rows, counts):
    span = target_span(find_borders(name, rows), "test")
    found = [len(every_window(span, 336, horizon)) for horizon in (96, 192, 336, 720)]
    assert tuple(found) == counts


@settings(max_examples=50)
@given(context=st.integers(1, 70), horizon=st.integers(1, 20))
def test_every_target_row_of_the_test_span_is_scored(context, horizon):
    starts = every_window(target_span(BORDERS, "test"), context, horizon)
    targets = starts[:, None] + context + np.arange(horizon)
    assert sorted(set(targets.ravel().tolist())) == list(range(80, 100))
    assert (np.diff(starts) == 1).all()


def test_no_training_window_has_a_target_outside_of_the_training_rows():
    starts = every_window(target_span(BORDERS, "train"), 10, 5)
    assert starts[0] == 0
    assert starts[-1] + 10 + 5 == BORDERS.train


def test_a_span_too_short_for_a_window_is_an_error():
    with pytest.raises(DataError, match="window"):
        every_window((80, 100), 10, 21)


def test_fair_scores_all_windows_and_paper_drops_the_last_partial_batch():
    assert scored_windows(2545, "fair") == 2545
    assert scored_windows(2545, "paper") == 2048
    assert scored_windows(798, "paper") == 512
    assert scored_windows(1024, "paper") == 1024
    assert scored_windows(100, "paper") == 100


def test_the_context_is_chosen_on_validation_unless_the_paper_is_copied():
    validation, test = {96: 0.5, 336: 0.4}, {96: 0.3, 336: 0.35}
    assert choose_context(validation, test, "fair") == 336
    assert choose_context(validation, test, "paper") == 96


def test_an_unknown_protocol_is_an_error():
    with pytest.raises(SettingError, match="protocol"):
        scored_windows(1, "generous")
