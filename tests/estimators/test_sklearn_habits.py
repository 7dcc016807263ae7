"""scikit-learn's own checks, those that can apply, and the reason for each that cannot."""

import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import orderless
from orderless.data.simulate import motions
from orderless.errors import SettingError

QUICK = {
    "network": {"channels": 8, "states": 2, "branches": ["long"]},
    "epochs": 1,
    "training": {"steps_per_epoch": 1},
    "verbose": False,
}
SERIES = {
    "Forecaster": {"horizon": 3, "context": 8, "members": ("naive", "coupled ridge", "network")},
    "Detector": {"context": 8},
}
every_kind = pytest.mark.parametrize("kind", ["Forecaster", "Classifier", "Detector"])

# An array [case, time] is a set of series of one variable, not a table of features: a case of
# another length is as good as any. What follows from a fixed number of features cannot hold.
NO_FEATURES = "a row is a series, of any length; there is no fixed number of features"
OWN_WORDS = "it is refused, in the words of orderless.errors instead of scikit-learn's"
CANNOT_APPLY = {
    "check_n_features_in": NO_FEATURES,
    "check_n_features_in_after_fitting": NO_FEATURES,
    "check_fit2d_predict1d": OWN_WORDS,
    "check_estimators_unfitted": "NotFittedError is our own: scikit-learn is not needed to run",
    "check_classifiers_regression_target": "a number is as good a label as a word",
    "check_requires_y_none": OWN_WORDS,
    "check_supervised_y_2d": "a column of labels is an error, not a warning",
    "check_complex_data": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_dtype_object": "numbers inside Python objects are no series",
    "check_classifier_data_not_an_array": "an object that is no array, list or frame is no series",
    "check_classifiers_train": "asks for the accuracy of a trained model; these have one epoch",
}


def checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(orderless.Classifier(**QUICK)):
            name = getattr(check, "func", check).__name__
            reason = CANNOT_APPLY.get(name)
            # Strict: a check that begins to pass has to leave the list.
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            yield pytest.param(estimator, check, id=name, marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@every_kind
def test_the_constructor_stores_and_does_nothing_else(kind):
    kind = getattr(orderless, kind)
    marker = object()
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    estimator = kind(**dict.fromkeys(names, marker))
    assert vars(estimator) == dict.fromkeys(names, marker)
    assert estimator.get_params() == dict.fromkeys(names, marker)


@every_kind
def test_a_clone_has_the_parameters_and_nothing_learned(kind):
    estimator = getattr(orderless, kind)(epochs=3, network={"channels": 8})
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    assert repr(copy) == f"{kind}(network={{'channels': 8}}, epochs=3)"


@every_kind
def test_parameters_can_be_set_and_unknown_ones_are_named(kind):
    estimator = getattr(orderless, kind)()
    assert estimator.set_params(epochs=7) is estimator
    assert estimator.epochs == 7
    with pytest.raises(SettingError, match="epoch"):
        estimator.set_params(epoch=7)


def test_model_selection_of_scikit_learn_works():
    cases, labels, _ = motions(0, cases=18, shortest=20, longest=20)
    cases = np.stack(cases)
    assert len(cross_val_score(orderless.Classifier(**QUICK), cases, labels, cv=2)) == 2
    search = GridSearchCV(orderless.Classifier(**QUICK), {"identify": [None, "name"]}, cv=2)
    assert search.fit(cases, labels).best_params_["identify"] in (None, "name")


@pytest.mark.filterwarnings("ignore:.*held-out time steps are too few")
@pytest.mark.filterwarnings("ignore:These data are not what was fitted")
@pytest.mark.parametrize("kind", SERIES)
def test_what_has_no_labels_works_in_a_pipeline_and_in_cross_validation(kind):
    values = np.random.default_rng(0).standard_normal((60, 2))
    model = getattr(orderless, kind)(**QUICK, **SERIES[kind])
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert kind in pipeline._repr_html_()
    np.testing.assert_array_equal(
        pipeline.fit(values).predict(values), model.fit(values, y=None).predict(values)
    )

    def size(fitted, data, y=None):
        return len(fitted.predict(data))

    splits = TimeSeriesSplit(2)
    assert len(cross_val_score(model, values, scoring=size, cv=splits)) == 2
    with pytest.raises(SettingError, match="when"):
        model.fit({"when": np.arange(60), "x": values[:, 0]}, "when")


@pytest.mark.filterwarnings("ignore:.*held-out time steps are too few")
@pytest.mark.parametrize("kind", SERIES)
def test_a_fitted_model_of_series_survives_pickling(kind):
    values = np.random.default_rng(0).standard_normal((60, 2))
    model = getattr(orderless, kind)(**QUICK, **SERIES[kind]).fit(values)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(values), model.predict(values))


def test_a_fitted_classifier_survives_pickling():
    cases, labels, _ = motions(0, cases=6)
    model = orderless.Classifier(**QUICK).fit(cases, labels)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(cases), model.predict_proba(cases))


@every_kind
def test_random_states_of_numpy_are_accepted(kind):
    cases, labels, _ = motions(0, cases=6)
    data = (cases, labels) if kind == "Classifier" else (np.arange(80.0).reshape(40, 2) % 7,)
    for state in (np.random.RandomState(0), np.random.default_rng(0), np.int64(3), None):
        settings = QUICK | SERIES.get(kind, {})
        model = getattr(orderless, kind)(random_state=state, **settings).fit(*data)
        assert model.seed_ >= 0


def test_importing_the_package_imports_neither_torch_nor_scikit_learn():
    code = "import orderless, sys; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_using_an_estimator_does_not_import_scikit_learn_or_pandas():
    code = "from orderless import load, Forecaster; import sys; "
    code += "print([m for m in ('sklearn', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
