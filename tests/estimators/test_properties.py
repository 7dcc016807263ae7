"""Whatever comes in, estimators work as documented or say in words why they cannot."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import orderless
from orderless import Forecaster, load
from orderless.errors import OrderlessError
from orderless.models.forecasting.fit import CLOSED

SMALL = {"network": {"channels": 4, "states": 2, "stride": 3, "patch": 6}, "verbose": False}
ROWS, HORIZON = 40, 3
few = settings(max_examples=12)

TRAINED = SMALL | {"epochs": 1, "training": {"batch_size": 8, "learning_rate": 0.05}}
RANDOM = np.random.default_rng(0)
WAVES = np.sin(np.arange(ROWS)[:, None] / 3 + np.arange(5)) + 0.1 * RANDOM.standard_normal(
    (ROWS, 5)
)
COLUMNS = ["temp", "Druck", "流量", "né 1", "x-y"]
FRAME = pd.DataFrame(WAVES, columns=COLUMNS)

CASES, CLASSES = RANDOM.standard_normal((12, 2, 16)), np.arange(12) % 2


def closed_forms() -> Forecaster:
    return Forecaster(HORIZON, 12, members=CLOSED, verbose=False)


FITS = {
    "closed forms": lambda: closed_forms().fit(FRAME),
    "network": lambda: Forecaster(HORIZON, 12, members="network", **TRAINED).fit(FRAME),
    "detector": lambda: orderless.Detector(12, **TRAINED).fit(FRAME),
    "classifier": lambda: orderless.Classifier(epochs=1, preset="tiny", verbose=False).fit(
        CASES, CLASSES
    ),
}
FORECASTERS = ("closed forms", "network")
forecasters = pytest.mark.parametrize("kind", FORECASTERS)
of_series = pytest.mark.parametrize("kind", [*FORECASTERS, "detector"])
every_kind = pytest.mark.parametrize("kind", FITS)


@cache
def fitted(kind):
    """One for all tests of this file."""
    return FITS[kind]()


def answer(kind, frame):
    """Rows for time steps, a column for each variable."""
    model = fitted(kind)
    return model.score(frame, per_variable=True) if kind == "detector" else model.predict(frame)


def forecast(frame, **options):
    """Of a network."""
    return fitted("network").predict(frame, **options)


@of_series
@few
@given(order=st.permutations(COLUMNS), keep=st.integers(1, 5))
def test_order_and_choice_of_columns(kind, order, keep):
    chosen = order[:keep]
    one, two = (answer(kind, FRAME[names]) for names in (chosen, sorted(chosen)))
    pd.testing.assert_frame_equal(one, two[one.columns], check_exact=True)


def holes(seed, share):
    return np.random.default_rng(seed).random((ROWS, 5)) < share


@forecasters
@few
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.9))
def test_masked_entries_work_in_a_forecast(kind, seed, share):
    missing = holes(seed, share)
    found = answer(kind, FRAME.mask(missing))
    seen = ~missing[-12:].all(0)
    assert found[np.array(COLUMNS)[seen]].notna().all(axis=None)
    assert found[np.array(COLUMNS)[~seen]].isna().all(axis=None)


@few
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.9))
def test_masked_entries_work_in_fit(seed, share):
    model = closed_forms().fit(FRAME.mask(holes(seed, share)))
    assert np.isfinite(model.predict(FRAME)[COLUMNS]).all(axis=None)


@pytest.mark.filterwarnings("ignore:.*readings are missing")
@few
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.9))
def test_masked_entries_have_no_score(seed, share):
    missing = holes(seed, share)
    score = answer("detector", FRAME.mask(missing))[COLUMNS].to_numpy()
    np.testing.assert_array_equal(np.isfinite(score), ~missing)


@pytest.mark.filterwarnings("ignore:These data are not what was fitted")
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"]
)
@of_series
def test_number_types(kind, dtype):
    frame = (10 * FRAME.abs()).astype(dtype)
    assert np.isfinite(answer(kind, frame)[COLUMNS].to_numpy(float)).all()
    if kind == "closed forms":
        model = closed_forms().fit(frame)
        assert np.isfinite(model.predict(frame)[COLUMNS]).all(axis=None)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "numpy", "dict"])
def test_libraries_agree(library):
    make = {
        "pandas": lambda: FRAME,
        "polars": lambda: pl.from_pandas(FRAME),
        "arrow": lambda: pa.Table.from_pandas(FRAME),
        "numpy": lambda: WAVES,
        "dict": lambda: {name: FRAME[name].to_numpy() for name in COLUMNS},
    }
    found = forecast(make[library]())
    expected = forecast(FRAME)[COLUMNS].to_numpy()
    if library == "numpy":
        # Arrays have no names: variables are unknown ones, scaled by the history they come with.
        np.testing.assert_allclose(found, expected, atol=0.5)
    else:
        columns = np.column_stack([np.asarray(found[name]) for name in COLUMNS])
        np.testing.assert_array_equal(columns, expected)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-03-30", periods=ROWS, freq="h", tz="Europe/Berlin"),
        pd.date_range("2024-03-30", periods=ROWS, freq="h", tz="UTC"),
        pd.date_range("2024-01-31", periods=ROWS, freq="ME"),
        pd.date_range("2024-01-01", periods=ROWS, freq="15min"),
        pd.RangeIndex(100, 100 + 5 * ROWS, 5),
    ],
    ids=["Berlin", "UTC", "months", "quarters of an hour", "numbers"],
)
def test_index_types_and_time_zones(index):
    found = forecast(FRAME.set_axis(index))
    assert len(found) == HORIZON
    assert found.index.dtype == index.dtype or isinstance(index, pd.RangeIndex)
    if not isinstance(index, pd.RangeIndex):
        expected = pd.date_range(index[-1], periods=HORIZON + 1, freq=index.freq)[1:]
        assert (found.index == expected).all()
    np.testing.assert_array_equal(found[COLUMNS], forecast(FRAME)[COLUMNS])


@few
@given(seed=st.integers(0, 10**6))
def test_unsorted_rows_and_harmless_duplicates_change_nothing(seed):
    stamped = FRAME.assign(time=pd.date_range("2024-01-01", periods=ROWS, freq="h"))
    random = np.random.default_rng(seed)
    rows = np.concatenate([random.permutation(ROWS), random.integers(0, ROWS, 3)])
    pd.testing.assert_frame_equal(forecast(stamped.iloc[rows]), forecast(stamped))


def test_gaps_in_time_are_missing_values():
    stamped = FRAME.assign(time=pd.date_range("2024-01-01", periods=ROWS, freq="h"))
    gap = stamped.drop(index=[30, 31])
    filled = stamped.copy()
    filled.loc[[30, 31], COLUMNS] = np.nan
    pd.testing.assert_frame_equal(forecast(gap), forecast(filled))


@pytest.mark.parametrize("value", [0.0, 1.0, -1e-30, 1e12, 1e300])
def test_constant_columns(value):
    frame = FRAME.assign(temp=value)
    for model in (*map(fitted, FORECASTERS), closed_forms().fit(frame)):
        found = model.predict(frame)
        np.testing.assert_allclose(found["temp"], value, rtol=1e-3, atol=1e-3)
        assert found.notna().all(axis=None)


def test_an_all_missing_column_in_fit_and_use():
    frame = FRAME.assign(dead=np.nan)
    for model in (*map(fitted, FORECASTERS), closed_forms().fit(frame)):
        found = model.predict(frame)
        assert found["dead"].isna().all()
        assert found[COLUMNS].notna().all(axis=None)


def test_an_all_missing_column_in_fit_and_detection():
    frame = FRAME.assign(dead=np.nan)
    detector = orderless.Detector(12, members=("ridge", "PCA", "regression"), verbose=False).fit(
        frame
    )
    assert detector.score(frame)["score"].notna().all()


def test_a_single_variable_and_a_single_row():
    one = closed_forms().fit(FRAME[["temp"]])
    assert one.predict(FRAME).notna().all(axis=None)
    for kind in FORECASTERS:
        assert fitted(kind).predict(FRAME[["temp"]].iloc[:1]).shape[0] == HORIZON
    with pytest.raises(OrderlessError, match="at least"):
        closed_forms().fit(FRAME.iloc[:1])


def test_a_single_row_has_a_score():
    with pytest.warns(UserWarning, match="fewer than 12 time steps"):
        assert fitted("detector").score(FRAME.iloc[:1])["score"].notna().all()


@few
@given(names=st.lists(st.text(min_size=1, max_size=8), min_size=5, max_size=5, unique=True))
def test_any_text_is_a_name(names):
    frame = FRAME.set_axis(names, axis=1)
    try:
        found = forecast(frame)
    except OrderlessError:
        # A name such as "time" or "ds" claims a role, which sines cannot play.
        assert any(name.lower() in ("time", "ds", "t", "date", "timestamp") for name in names)
        return
    assert set(names) <= set(found.columns)


CALLS = {
    "forecast": lambda data: fitted("closed forms").predict(data),
    "backtest": lambda data: fitted("closed forms").backtest(data),
    "fit of a forecaster": lambda data: closed_forms().fit(data),
    "score": lambda data: fitted("detector").score(data),
    "alarm": lambda data: fitted("detector").predict(data),
    "fit of a detector": lambda data: orderless.Detector(**SMALL).fit(data),
    "fit of a classifier": lambda data: orderless.Classifier(**SMALL).fit(data, ["a", "b"]),
}


@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"fit of a classifier"}))
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_an_error_that_says_where(value, call):
    frame = FRAME.copy()
    frame.loc[7, "Druck"] = value
    with pytest.raises(OrderlessError, match="Druck"):
        CALLS[call](frame)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "bad",
    [
        None,
        3,
        "a,b,c",
        [],
        np.zeros((0, 3)),
        np.zeros((4, 0)),
        np.zeros((2, 2, 2, 2)),
        pd.DataFrame(),
        pd.DataFrame({"a": ["x", "y"]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        {"a": [1, 2], "b": [1]},
        [np.zeros(3), "x"],
    ],
    ids=repr,
)
def test_what_is_no_series_is_refused_in_words(bad, call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OrderlessError) as caught:
            CALLS[call](bad)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e150])
@pytest.mark.parametrize("shift", [0.0, -1e3])
def test_units_do_not_matter(scale, shift):
    plain = fitted("closed forms").predict(FRAME, level=80)
    other = (FRAME + shift) * scale
    found = closed_forms().fit(other).predict(other, level=80)
    np.testing.assert_allclose(found / scale - shift, plain, atol=2e-3)


def data_for(kind):
    """What `fit` takes, and the verb that answers."""
    return ((CASES, CLASSES), "predict_proba") if kind == "classifier" else ((FRAME,), "predict")


def weights_of(model):
    """All tensors of its members."""
    return model.stack_.state()[1]


@pytest.mark.filterwarnings("ignore:.*held-out time steps are too few")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@every_kind
def test_the_mode_that_torch_is_in_does_not_matter(kind, mode, tmp_path):
    model, (data, verb) = fitted(kind), data_for(kind)
    expected = getattr(model, verb)(data[0])
    model.save(tmp_path)
    with mode():
        again, fresh = load(tmp_path), clone(model).fit(*data)
        answers = [getattr(one, verb)(data[0]) for one in (again, fresh)]
    for one, found in zip((again, fresh), answers, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert weights_of(one).keys() == weights_of(model).keys()
        for name, weights in weights_of(model).items():
            assert torch.equal(weights_of(one)[name], weights)
    # Trained in one mode, trained again in another.
    np.testing.assert_array_equal(getattr(again.fit(*data), verb)(data[0]), expected)


@pytest.fixture
def torch_in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore:.*held-out time steps are too few")
@pytest.mark.usefixtures("torch_in_double")
@every_kind
def test_what_torch_takes_by_default_does_not_matter(kind, tmp_path):
    model, (data, verb) = fitted(kind), data_for(kind)
    model.save(tmp_path)
    expected = getattr(model, verb)(data[0])
    np.testing.assert_array_equal(getattr(load(tmp_path), verb)(data[0]), expected)
    fresh = clone(model).fit(*data)
    dtypes = [
        {name: tensor.dtype for name, tensor in weights_of(one).items()} for one in (fresh, model)
    ]
    assert dtypes[0] == dtypes[1]
    assert fresh.history_.keys() == model.history_.keys()
    assert all(len(one) == model.epochs + 1 for one in fresh.history_.values())
    found = pd.DataFrame(getattr(fresh, verb)(data[0]))
    assert found.shape == np.shape(expected)
    assert found.notna().all(axis=None)
