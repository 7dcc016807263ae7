"""Whatever comes in, estimators work as documented or say in words why they cannot."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from orderless import Classifier, Detector, Forecaster, load
from orderless.errors import OrderlessError

SMALL = {"network": {"channels": 4, "states": 2, "stride": 3, "patch": 6}, "verbose": False}
ROWS, HORIZON = 40, 3
few = settings(max_examples=12)

# The deep part has a say without any training: the network starts from nothing, not from ridge.
DEEP = {**SMALL, "epochs": 1, "training": {"batch_size": 8, "learning_rate": 0.05}}
RANDOM = np.random.default_rng(0)
WAVES = np.sin(np.arange(ROWS)[:, None] / 3 + np.arange(5)) + 0.1 * RANDOM.standard_normal(
    (ROWS, 5)
)
COLUMNS = ["temp", "Druck", "流量", "né 1", "x-y"]
FRAME = pd.DataFrame(WAVES, columns=COLUMNS)

FORECASTER = Forecaster(HORIZON, 12, **DEEP).fit(FRAME)
DETECTOR = Detector(12, **DEEP).fit(FRAME)


def verbs(frame):
    """Every verb on a frame, as arrays [variable, ...] by column."""
    yield FORECASTER.predict(frame)
    yield DETECTOR.score(frame, per_variable=True)


@few
@given(order=st.permutations(COLUMNS), keep=st.integers(1, 5))
def test_order_and_choice_of_columns(order, keep):
    chosen = order[:keep]
    for one, two in zip(verbs(FRAME[chosen]), verbs(FRAME[sorted(chosen)]), strict=True):
        pd.testing.assert_frame_equal(one, two[one.columns], check_exact=True)


@pytest.mark.filterwarnings("ignore:.*readings are missing")
@few
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.9))
def test_masked_entries_work_in_fit_and_use(seed, share):
    holes = np.random.default_rng(seed).random((ROWS, 5)) < share
    frame = FRAME.mask(holes)
    forecast = FORECASTER.predict(frame)
    seen = ~holes[-12:].all(0)
    assert forecast[np.array(COLUMNS)[seen]].notna().all(axis=None)
    assert forecast[np.array(COLUMNS)[~seen]].isna().all(axis=None)
    score = DETECTOR.score(frame, per_variable=True)[COLUMNS].to_numpy()
    np.testing.assert_array_equal(np.isfinite(score), ~holes)
    if (~holes).sum() > 0:
        fitted = Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(frame)
        assert np.isfinite(fitted.predict(FRAME)[COLUMNS]).all(axis=None)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"]
)
def test_number_types(dtype):
    frame = (10 * FRAME.abs()).astype(dtype)
    for result in verbs(frame):
        assert np.isfinite(result[COLUMNS].to_numpy(float)).all()
    model = Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(frame)
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
    forecast = FORECASTER.predict(make[library]())
    expected = FORECASTER.predict(FRAME)[COLUMNS].to_numpy()
    if library == "numpy":
        # Arrays have no names: variables are unknown ones, scaled by the history they come with.
        np.testing.assert_allclose(forecast, expected, atol=0.5)
    else:
        columns = np.column_stack([np.asarray(forecast[name]) for name in COLUMNS])
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
    frame = FRAME.set_axis(index)
    forecast = FORECASTER.predict(frame)
    assert len(forecast) == HORIZON
    assert forecast.index.dtype == index.dtype or isinstance(index, pd.RangeIndex)
    if not isinstance(index, pd.RangeIndex):
        expected = pd.date_range(index[-1], periods=HORIZON + 1, freq=index.freq)[1:]
        assert (forecast.index == expected).all()
    np.testing.assert_array_equal(forecast[COLUMNS], FORECASTER.predict(FRAME)[COLUMNS])


@few
@given(seed=st.integers(0, 10**6))
def test_unsorted_rows_and_harmless_duplicates_change_nothing(seed):
    stamped = FRAME.assign(time=pd.date_range("2024-01-01", periods=ROWS, freq="h"))
    random = np.random.default_rng(seed)
    rows = np.concatenate([random.permutation(ROWS), random.integers(0, ROWS, 3)])
    expected = FORECASTER.predict(stamped)
    pd.testing.assert_frame_equal(FORECASTER.predict(stamped.iloc[rows]), expected)


def test_gaps_in_time_are_missing_values():
    stamped = FRAME.assign(time=pd.date_range("2024-01-01", periods=ROWS, freq="h"))
    gap = stamped.drop(index=[30, 31])
    filled = stamped.copy()
    filled.loc[[30, 31], COLUMNS] = np.nan
    pd.testing.assert_frame_equal(FORECASTER.predict(gap), FORECASTER.predict(filled))


@pytest.mark.parametrize("value", [0.0, 1.0, -1e-30, 1e12, 1e300])
def test_constant_columns(value):
    frame = FRAME.assign(temp=value)
    forecast = FORECASTER.predict(frame)
    np.testing.assert_allclose(forecast["temp"], value, rtol=1e-3, atol=1e-3)
    assert forecast.notna().all(axis=None)
    model = Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(frame)
    np.testing.assert_allclose(model.predict(frame)["temp"], value, rtol=1e-3, atol=1e-3)


def test_an_all_missing_column_in_fit_and_use():
    frame = FRAME.assign(dead=np.nan)
    for model in (FORECASTER, Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(frame)):
        forecast = model.predict(frame)
        assert forecast["dead"].isna().all()
        assert forecast[COLUMNS].notna().all(axis=None)
    detector = Detector(12, members=("ridge", "PCA", "regression"), **SMALL).fit(frame)
    assert detector.score(frame)["score"].notna().all()


def test_a_single_variable_and_a_single_row():
    one = Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(FRAME[["temp"]])
    assert one.predict(FRAME).notna().all(axis=None)
    assert FORECASTER.predict(FRAME[["temp"]].iloc[:1]).shape[0] == HORIZON
    with pytest.warns(UserWarning, match="fewer than 12 time steps"):
        assert DETECTOR.score(FRAME.iloc[:1])["score"].notna().all()
    with pytest.raises(OrderlessError, match="at least"):
        Forecaster(HORIZON, 12, epochs=0, **SMALL).fit(FRAME.iloc[:1])


@few
@given(names=st.lists(st.text(min_size=1, max_size=8), min_size=5, max_size=5, unique=True))
def test_any_text_is_a_name(names):
    frame = FRAME.set_axis(names, axis=1)
    try:
        forecast = FORECASTER.predict(frame)
    except OrderlessError:
        # A name such as "time" or "ds" claims a role, which sines cannot play.
        assert any(name.lower() in ("time", "ds", "t", "date", "timestamp") for name in names)
        return
    assert set(names) <= set(forecast.columns)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_an_error_that_says_where(value):
    frame = FRAME.copy()
    frame.loc[7, "Druck"] = value
    for call in (FORECASTER.predict, DETECTOR.score, Forecaster(HORIZON, **SMALL).fit):
        with pytest.raises(OrderlessError, match="Druck"):
            call(frame)


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
def test_what_is_no_series_is_refused_in_words(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            FORECASTER.predict,
            FORECASTER.backtest,
            DETECTOR.score,
            DETECTOR.predict,
            Forecaster(HORIZON, **SMALL).fit,
            Detector(**SMALL).fit,
            lambda data: Classifier(**SMALL).fit(data, ["a", "b"]),
        ):
            with pytest.raises(OrderlessError) as caught:
                call(bad)
            assert len(str(caught.value)) > 20


@few
@given(scale=st.sampled_from([1e-12, 1e-3, 1e6, 1e150]), shift=st.sampled_from([0.0, 1.0, -1e3]))
def test_units_do_not_matter(scale, shift):
    model = Forecaster(HORIZON, 12, epochs=0, **SMALL)
    plain = model.fit(FRAME).predict(FRAME, level=80)
    other = model.fit((FRAME + shift) * scale).predict((FRAME + shift) * scale, level=80)
    np.testing.assert_allclose(other / scale - shift, plain, atol=2e-3)


CASES, CLASSES = RANDOM.standard_normal((12, 2, 16)), np.arange(12) % 2
CLASSIFIER = Classifier(epochs=1, preset="tiny", verbose=False).fit(CASES, CLASSES)
MODELS = {"Forecaster": FORECASTER, "Detector": DETECTOR, "Classifier": CLASSIFIER}


def data_for(kind):
    """What `fit` takes, and the verb that answers."""
    return ((CASES, CLASSES), "predict_proba") if kind == "Classifier" else ((FRAME,), "predict")


@pytest.mark.filterwarnings("ignore:.*held-out moments cannot tell")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", MODELS)
def test_the_mode_that_torch_is_in_does_not_matter(kind, mode, tmp_path):
    model, (data, verb) = MODELS[kind], data_for(kind)
    expected = getattr(model, verb)(data[0])
    model.save(tmp_path)
    with mode():
        again, fitted = load(tmp_path), clone(model).fit(*data)
        answers = [getattr(one, verb)(data[0]) for one in (again, fitted)]
    for one, answer in zip((again, fitted), answers, strict=True):
        np.testing.assert_array_equal(answer, expected)
        for name, weights in model.network_.state_dict().items():
            assert torch.equal(one.network_.state_dict()[name], weights)
    # Trained in one mode, trained again in another.
    np.testing.assert_array_equal(getattr(again.fit(*data), verb)(data[0]), expected)


@pytest.fixture
def torch_in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore:.*held-out moments cannot tell")
@pytest.mark.usefixtures("torch_in_double")
@pytest.mark.parametrize("kind", MODELS)
def test_what_torch_takes_by_default_does_not_matter(kind, tmp_path):
    model, (data, verb) = MODELS[kind], data_for(kind)
    model.save(tmp_path)
    expected = getattr(model, verb)(data[0])
    np.testing.assert_array_equal(getattr(load(tmp_path), verb)(data[0]), expected)
    fitted = clone(model).fit(*data)
    assert {tensor.dtype for tensor in fitted.network_.parameters()} == {torch.float32}
    assert len(fitted.history_) == len(model.history_) == model.epochs + 1
    answer = pd.DataFrame(getattr(fitted, verb)(data[0]))
    assert answer.shape == np.shape(expected)
    assert answer.notna().all(axis=None)
