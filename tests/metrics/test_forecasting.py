import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as reference

from orderless.errors import DataError, OrderlessError, ShapeError, ValueRangeError
from orderless.metrics import (
    interval_coverage,
    mae,
    mape,
    mase,
    mse,
    owa,
    quantile_loss,
    smape,
)

NUMBERS = st.floats(-1e3, 1e3).map(lambda one: round(one, 3))
PAIRS = arrays(np.float64, (2, 3, 7), elements=NUMBERS)
SIMPLE = [mse, mae, smape]


@settings(max_examples=60)
@given(pair=PAIRS)
def test_errors_agree_with_scikit_learn(pair):
    actual, forecast = pair
    flat = actual.ravel(), forecast.ravel()
    assert np.isclose(mse(actual, forecast), reference.mean_squared_error(*flat))
    assert np.isclose(mae(actual, forecast), reference.mean_absolute_error(*flat))
    for quantile in (0.1, 0.5, 0.9):
        expected = reference.mean_pinball_loss(*flat, alpha=quantile)
        assert np.isclose(quantile_loss(actual, forecast, quantile), expected)
    actual = np.where(actual == 0, 1.0, actual)
    expected = 100 * reference.mean_absolute_percentage_error(actual.ravel(), flat[1])
    assert np.isclose(mape(actual, forecast), expected)


@settings(max_examples=60)
@given(pair=PAIRS)
def test_smape_is_the_mean_of_its_terms(pair):
    terms = [
        0.0 if a == f == 0 else 200 * abs(a - f) / (abs(a) + abs(f))
        for a, f in zip(pair[0].ravel(), pair[1].ravel(), strict=True)
    ]
    assert np.isclose(smape(*pair), np.mean(terms))


@pytest.mark.parametrize("metric", SIMPLE)
@settings(max_examples=30)
@given(pair=PAIRS, mask=arrays(bool, (3, 7)).filter(np.any))
def test_what_the_mask_leaves_out_does_not_count(metric, pair, mask):
    actual, forecast = pair
    expected = metric(actual[mask], forecast[mask])
    hidden = np.where(mask, actual, np.nan)
    assert metric(hidden, forecast, mask=mask) == expected


def test_mase_divides_series_by_series():
    history = [np.array([1.0, 2.0, 4.0]), np.array([0.0, 10.0, 0.0, 10.0])]
    actual, forecast = np.array([[5.0, 6.0], [3.0, 3.0]]), np.array([[4.0, 4.0], [1.0, 3.0]])
    # Scales 1.5 and 10; errors 1.5 and 1.
    assert mase(actual, forecast, history) == pytest.approx((1.5 / 1.5 + 1.0 / 10) / 2)
    # Within a season of two, the second history repeats itself.
    with pytest.raises(DataError, match="series 1 repeats itself"):
        mase(actual, forecast, history, period=2)


@pytest.mark.parametrize("period", [0, -1, 2.0, "day"])
def test_a_season_that_is_no_number_of_steps_is_refused(period):
    with pytest.raises(ValueRangeError, match="`period` is"):
        mase([1.0], [2.0], [[1.0, 2.0, 4.0]], period=period)


def test_mase_passes_over_gaps_and_masked_steps():
    history = np.array([[1.0, np.nan, 3.0, 4.0, 6.0]])
    actual, forecast = np.array([[1.0, np.nan]]), np.array([[4.0, 0.0]])
    mask = np.array([[True, False]])
    assert mase(actual, forecast, history, mask=mask) == pytest.approx(3.0 / 1.5)


def test_the_seasonal_naive_forecast_of_a_steady_season_has_mase_one():
    random = np.random.default_rng(0)
    steps = random.choice([-1.0, 1.0], 40)
    series = np.concatenate([np.zeros(4), steps]).reshape(-1, 4).cumsum(0).ravel()
    history, actual = series[:-4], series[-4:]
    assert mase(actual, history[-4:], history, period=4) == pytest.approx(1.0)


def test_owa_of_naive2_itself_is_one():
    assert owa(13.564, 1.912, 13.564, 1.912) == 1.0
    assert owa(12.0, 1.912, 6.0, 1.912) == 1.5


def test_coverage_counts_the_closed_interval():
    assert interval_coverage([1.0, 2.0, 3.0, 4.0], [1.0] * 4, [3.0] * 4) == 0.75


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("metric", SIMPLE)
def test_nan_and_infinity_are_refused_in_words(metric, bad):
    with pytest.raises(DataError, match="`forecast` holds NaN or an infinity"):
        metric([1.0, 2.0], [1.0, bad])


REFUSED = [
    (lambda: mse([1.0], [1.0, 2.0]), ShapeError, "one shape"),
    (lambda: mse([], []), DataError, "Not a single entry"),
    (lambda: mse([1.0], [1.0], mask=[False]), DataError, "Not a single entry"),
    (lambda: mse([1.0], [1.0], mask=[1]), ShapeError, "must be boolean"),
    (lambda: mae(["a"], [1.0]), DataError, "cannot be read as numbers"),
    (lambda: mape([0.0], [1.0]), DataError, "which is 0"),
    (lambda: quantile_loss([1.0], [1.0], 1.0), ValueRangeError, "between 0 and 1"),
    (lambda: interval_coverage([1.0], [2.0], [1.0]), DataError, "Swap"),
    (lambda: mase([1.0], [1.0], [[1.0, 2.0], [1.0, 2.0]]), ShapeError, "2 histories"),
    (lambda: mase([1.0], [1.0], [[1.0]], period=1), DataError, "at least one more"),
    (lambda: mase([1.0], [1.0], [1.0]), DataError, "has 1 steps"),
    (lambda: mase([1.0], [1.0], 1.0), DataError, "has 1 steps"),
    (lambda: mase([1.0], [1.0], []), ShapeError, "0 histories"),
    (lambda: mase([1.0], [1.0], [[]]), DataError, "has 0 steps"),
    (lambda: mase([1.0], [1.0], np.zeros(0)), DataError, "has 0 steps"),
    (lambda: mase([[1.0]] * 2, [[1.0]] * 2, np.zeros((2, 0))), DataError, "has 0 steps"),
    (lambda: mase([[1.0]] * 2, [[1.0]] * 2, [1.0, 2.0, 3.0]), ShapeError, "1 histories"),
    (lambda: mase([[1.0]] * 2, [[1.0]] * 2, [[1.0, 2.0], 3.0]), ShapeError, "has 0 axes"),
    (lambda: owa(1.0, 1.0, 0.0, 1.0), ValueRangeError, "above 0"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_has_no_score_is_refused_in_words(number):
    call, kind, words = REFUSED[number]
    assert issubclass(kind, OrderlessError)
    with pytest.raises(kind, match=words):
        call()


MASKED = np.ma.masked_array([1.0, 99.0], mask=[False, True])


@pytest.mark.parametrize(
    "call",
    [
        *(lambda metric=metric: metric([1.0, 2.0], MASKED) for metric in SIMPLE),
        *(lambda metric=metric: metric([[1.0, 2.0]], [MASKED]) for metric in SIMPLE),
        lambda: mape(MASKED, [1.0, 2.0]),
        lambda: quantile_loss(MASKED, [1.0, 2.0], 0.5),
        lambda: interval_coverage(MASKED, [1.0, 2.0], [1.0, 2.0]),
        lambda: mase(MASKED, [1.0, 2.0], [1.0, 2.0]),
        lambda: mase([1.0, 2.0], [1.0, 2.0], [MASKED]),
        # What is compared with a masked array is one.
        lambda: mse([1.0, 2.0], [1.0, 2.0], mask=MASKED > 0),
    ],
)
def test_masked_entries_are_refused_in_words_that_say_how_to_leave_them_out(call):
    with pytest.raises(DataError, match=r"has masked entries, which would count.*`mask=`"):
        call()


def test_a_masked_array_that_masks_nothing_is_an_array():
    assert mse(np.ma.masked_array([1.0, 2.0]), [1.0, 4.0]) == 2.0


def test_a_history_of_one_series_may_be_a_list_of_numbers():
    history = [1.0, 2, np.float32(4.0)]
    assert mase([5.0, 6.0], [4.0, 4.0], history) == mase([5.0, 6.0], [4.0, 4.0], np.array(history))


def test_a_series_that_does_not_count_needs_no_scale():
    actual, forecast = np.array([[5.0, 6.0], [3.0, 3.0]]), np.array([[4.0, 4.0], [1.0, 3.0]])
    mask = np.array([[True, True], [False, False]])
    one = mase(actual[:1], forecast[:1], [[1.0, 2.0, 4.0]])
    for constant in ([7.0, 7.0, 7.0], []):
        assert mase(actual, forecast, [[1.0, 2.0, 4.0], constant], mask=mask) == one
