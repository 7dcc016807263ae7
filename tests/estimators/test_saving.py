import copy
import hashlib
import json

import numpy as np
import pytest
import torch

from orderless import Classifier, Detector, Forecaster, load
from orderless.data.simulate import motions, plant
from orderless.errors import DtypeError, ModelFileError, SettingError
from orderless.estimators.saving import CARD, CONFIG

VALUES, _ = plant(0, sensors=3, steps=120)
CASES, LABELS, _ = motions(0, cases=12)
SMALL = {"channels": 8, "states": 2}


def fitted() -> dict:
    common = {"network": SMALL, "epochs": 1, "training": {"steps_per_epoch": 1}, "verbose": False}
    forecaster = Forecaster(4, 12, members="network on ridge", **common)
    closed = Forecaster(4, 12, members=["naive", "seasonal naive", "coupled ridge"], verbose=False)
    classifier = Classifier(members=["network", "convolutions", "flat ridge"], **common)
    named = Classifier(identify="name", members="network", **common)
    return {
        "forecaster": (forecaster.fit(VALUES), "predict", VALUES),
        "closed forms": (closed.fit(VALUES), "predict", VALUES),
        "classifier": (classifier.fit(CASES, LABELS), "predict_proba", CASES),
        "named": (named.fit(CASES, LABELS), "predict_proba", CASES),
        "detector": (Detector(12, **common).fit(VALUES), "score", VALUES),
    }


FITTED = fitted()


def seal(config, folder):
    """Write a config with the checksum it should have."""
    config.pop("sha256")
    text = json.dumps(config, sort_keys=True)
    config["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / CONFIG).write_text(json.dumps(config))


def weights_of(folder):
    """The file of weights, of which there is one."""
    (found,) = folder.glob("model-*.safetensors")
    return found


@pytest.fixture
def folder(tmp_path):
    FITTED["forecaster"][0].save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", FITTED)
def test_what_was_saved_predicts_the_same_to_the_bit(kind, tmp_path):
    model, verb, data = FITTED[kind]
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(getattr(loaded, verb)(data), getattr(model, verb)(data))
    loaded.save(tmp_path / "again")
    assert weights_of(tmp_path / "again").read_bytes() == weights_of(tmp_path).read_bytes()


CHANGES = {
    "forecaster": [{"horizon": 12}, {"context": 6}, {"loss": "quantile"}],
    "classifier": [{"identify": "name"}],
    "named": [{"identify": None}],
    "detector": [{"context": 6}, {"contamination": 0.5}],
}


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, change) for kind in CHANGES for change in CHANGES[kind]]
)
def test_what_was_set_after_the_fit_waits_for_the_next_when_saved_too(kind, change, tmp_path):
    model, verb, data = FITTED[kind]
    changed = copy.copy(model).set_params(**change)
    changed.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.get_params() == changed.get_params()
    np.testing.assert_array_equal(getattr(loaded, verb)(data), getattr(model, verb)(data))


def test_intervals_of_trained_quantiles_are_kept_when_the_loss_is_changed(tmp_path):
    model = Forecaster(4, 12, loss="quantile", network=SMALL, members="ridge", verbose=False).fit(
        VALUES
    )
    expected = model.predict(VALUES, level=80)
    model.set_params(loss="l1", horizon=9).save(tmp_path)
    found = load(tmp_path).predict(VALUES, level=80)
    for ending, values in expected.items():
        np.testing.assert_array_equal(found[ending], values)


def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("device", ["cuda", "abacus"])
def test_a_device_that_is_not_here_does_not_keep_a_model_shut(device, tmp_path, monkeypatch):
    no_gpu(monkeypatch)
    model = FITTED["forecaster"][0]
    copy.copy(model).set_params(device=device).save(tmp_path)
    with pytest.warns(UserWarning, match=f"device='{device}', which this machine does not have"):
        loaded = load(tmp_path)
    assert loaded.device == "auto"
    np.testing.assert_array_equal(loaded.predict(VALUES), model.predict(VALUES))


def test_the_device_that_is_asked_for_wins_over_the_saved_one(folder, tmp_path, monkeypatch):
    no_gpu(monkeypatch)
    copy.copy(FITTED["forecaster"][0]).set_params(device="cuda").save(tmp_path / "gpu")
    assert load(tmp_path / "gpu", device="cpu").device == "cpu"
    with pytest.raises(DtypeError, match="no CUDA device"):
        load(folder, device="cuda")
    with pytest.raises(SettingError, match="abacus"):
        load(folder, device="abacus")


def test_saving_over_a_model_replaces_it(folder):
    FITTED["detector"][0].save(folder)
    assert isinstance(load(folder), Detector)


def test_the_card_tells_how_it_was_fitted(folder):
    card = (folder / CARD).read_text()
    assert "network on ridge" in card
    assert "`horizon`: 4" in card


def test_an_edited_card_is_found_out_and_a_missing_one_is_no_harm(folder):
    card = (folder / CARD).read_text()
    (folder / CARD).write_text(card.replace("horizon", "season"))
    with pytest.raises(ModelFileError, match=CARD):
        load(folder)
    (folder / CARD).unlink()
    assert isinstance(load(folder), Forecaster)


def test_a_missing_folder_or_file_is_named(folder, tmp_path):
    with pytest.raises(ModelFileError, match="no folder"):
        load(tmp_path / "nowhere")
    weights_of(folder).unlink()
    with pytest.raises(ModelFileError, match="safetensors"):
        load(folder)
    with pytest.raises(ModelFileError, match=CONFIG):
        load(tmp_path)


@pytest.mark.parametrize("part", [CONFIG, "model-*.safetensors", CARD])
@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_file_is_found_out(folder, part, keep):
    (path,) = folder.glob(part)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFileError):
        load(folder)


def test_a_changed_byte_of_the_weights_is_found_out(folder):
    content = bytearray(weights_of(folder).read_bytes())
    content[-3] ^= 1
    weights_of(folder).write_bytes(bytes(content))
    with pytest.raises(ModelFileError, match="checksum"):
        load(folder)


@pytest.mark.parametrize("change", [{"estimator": "os.system"}, {"fitted": {}}, {"extra": 1}])
def test_an_edited_config_is_found_out(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | change))
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "Pickle"},
        {"fitted": {}},
        {"parameters": {"horizon": 4, "nonsense": 1}},
        {"parameters": []},
        {"weights": {}},
    ],
)
def test_a_forged_config_with_a_good_checksum_is_refused_too(folder, change):
    seal(json.loads((folder / CONFIG).read_text()) | change, folder)
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"transform": {"scales": {"v0": [0, "x"]}}},
        {"transform": {"baselines": {"v0": "x"}}},
        {"transform": {"baselines": [1.0]}},
        {"columns": {"nonsense": "x"}},
        {"frequencies": [{"count": 0, "unit": "step"}]},
        {"frequencies": [{"count": 1, "unit": "moons"}]},
    ],
)
def test_forged_facts_with_a_good_checksum_are_refused_when_loading(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    facts = config["fitted"]
    for name, value in change.items():
        both = isinstance(value, dict) and name == "transform"
        facts[name] = facts[name] | value if both else value
    seal(config, folder)
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"format": "orderless-model", "version": NaN}']
)
def test_a_config_that_json_can_hardly_read_is_refused(folder, content):
    (folder / CONFIG).write_text(content)
    with pytest.raises(ModelFileError, match=r"config\.json|version"):
        load(folder)


def test_a_number_that_json_does_not_know_is_no_saved_config(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"orderless": float("nan")}))
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load(folder)


def test_a_folder_without_a_config_is_said_to_hold_no_model_once(folder):
    (folder / CONFIG).unlink()
    with pytest.raises(ModelFileError) as caught:
        load(folder)
    assert "is not JSON" not in str(caught.value)


def test_parameters_given_as_numbers_of_numpy_are_saved(tmp_path):
    settings = {"network": {"channels": np.int64(8), "states": 2}, "epochs": np.int64(1)}
    settings |= {"random_state": np.int64(3), "members": "ridge"}
    model = Forecaster(np.int64(4), np.int32(12), verbose=False, **settings).fit(VALUES)
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict(VALUES), model.predict(VALUES))
    assert load(tmp_path).random_state == 3


def test_a_place_that_cannot_be_written_to_is_an_error_in_words(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelFileError, match="Name another folder"):
        FITTED["forecaster"][0].save(tmp_path / "file" / "model")


@pytest.mark.parametrize("content", ["[]", "{}", '{"model_type": "bert"}', "null"])
def test_a_foreign_config_is_refused(folder, content):
    (folder / CONFIG).write_text(content)
    with pytest.raises(ModelFileError, match="not the config"):
        load(folder)


def test_a_newer_format_asks_for_an_upgrade(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"version": 99}))
    with pytest.raises(ModelFileError, match="Upgrade"):
        load(folder)


def test_saving_onto_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelFileError, match="is a file"):
        FITTED["forecaster"][0].save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_what_json_cannot_hold_is_named_before_anything_is_written(tmp_path):
    model = Forecaster(4, 12, network=SMALL, members="ridge", verbose=False).fit(VALUES)
    model.columns_ = {"group": object()}
    with pytest.raises(SettingError, match="`columns`"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("part", [CONFIG, CARD])
@pytest.mark.parametrize("content", ["notes", "[]", '{"mine": 1}'])
def test_files_of_somebody_else_are_not_replaced(part, content, tmp_path):
    (tmp_path / part).write_text(content)
    with pytest.raises(ModelFileError, match=rf"holds {part} and no saved model.*another folder"):
        FITTED["forecaster"][0].save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [part]
    assert (tmp_path / part).read_text() == content


def test_a_folder_with_files_of_other_names_is_saved_to(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    FITTED["forecaster"][0].save(tmp_path)
    assert isinstance(load(tmp_path), Forecaster)
    assert (tmp_path / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("change", [{"version": 99}, {"fitted": {}}])
def test_saving_over_a_model_that_cannot_be_loaded_replaces_it_too(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | change))
    weights_of(folder).unlink()
    FITTED["detector"][0].save(folder)
    assert isinstance(load(folder), Detector)
