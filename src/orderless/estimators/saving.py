"""A fitted estimator as a folder: config.json, model.safetensors, README.md.

`config.json` names the format, its version and a checksum of each part, itself included. Reading
parses JSON and safetensors and builds one of three known classes: whatever lies in the folder,
nothing in it is executed. The checksums find damage and edits; they are not a signature.
"""

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

import orderless
from orderless.errors import DtypeError, ModelFileError, SettingError
from orderless.estimators.base import Estimator, choose_device
from orderless.io import write_file

FORMAT = "orderless-model"
VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


def save_estimator(estimator: Estimator, folder: Path) -> None:
    """Write the three files; config.json last, since it vouches for the others."""
    facts, tensors = estimator._fitted_state()
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    weights = save_tensors(whole)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "orderless": orderless.__version__,
        "torch": torch.__version__,
        "estimator": type(estimator).__name__,
        "parameters": _plain(estimator.get_params()),
        "fitted": _plain(facts),
        "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    config["sha256"] = _digest(config)
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False)
    check_folder(folder)
    for name, content in (
        (WEIGHTS, weights),
        (CARD, _card(config).encode()),
        (CONFIG, text.encode()),
    ):
        write_file(
            folder / name,
            content,
            error=ModelFileError,
            advice="Name another folder, or make room.",
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or whose own files would be replaced.

    Best asked before a model is fitted.
    """
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file; a model is saved as a folder. Name another.")
    parent = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ModelFileError(
            f"Nothing can be written to {parent}, where {folder} would be. Name another folder, or "
            "change its permissions."
        )
    there = [name for name in (CONFIG, WEIGHTS, CARD) if (folder / name).exists()]
    if there:
        try:
            _open_config(folder)
        except ModelFileError as error:
            raise ModelFileError(
                f"{folder} holds {' and '.join(there)} and no saved model; saving would replace "
                "what is there. Name another folder, or move it away."
            ) from error


def load(folder: str | Path, device: str | None = None) -> Any:
    """The estimator saved in a folder, ready to predict: the same predictions bit for bit.

    It lives on `device` (auto, cpu or cuda); if None on the one it was saved with or, with a
    warning, on `auto` where this machine does not have that. Another kind of device rounds
    otherwise.

    Raises ModelFileError if the folder holds no model, or one that was cut short, changed, or
    written by a newer version.
    """
    if device is not None:
        choose_device(device)
    folder = Path(folder)
    config = _read_config(folder)
    weights = _read_bytes(folder, WEIGHTS)
    expected = {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    if config.get("weights") != expected:
        raise ModelFileError(
            f"{folder / WEIGHTS} is not the file that was saved: its {len(weights)} bytes do not "
            "have the length and the checksum that config.json names. Copy the folder again."
        )
    from orderless.estimators import Classifier, Detector, Forecaster

    known = {kind.__name__: kind for kind in (Forecaster, Classifier, Detector)}
    try:
        estimator = known[config["estimator"]](**config["parameters"])
        estimator._restore(config["fitted"], load_tensors(weights))
    except Exception as error:
        raise ModelFileError(
            f"{folder} passes its checksums but cannot be understood by orderless "
            f"{orderless.__version__} (it was saved by {config.get('orderless')}): {error!r}"
        ) from error
    estimator.device = _find_device(folder, estimator.device) if device is None else device
    estimator.network_.to(choose_device(estimator.device))
    return estimator


def _find_device(folder: Path, device: str) -> str:
    """The device a model was saved with, if there is one here."""
    try:
        choose_device(device)
    except (DtypeError, SettingError):
        warnings.warn(
            f"{folder} was saved with device={device!r}, which this machine does not have. The "
            "model is opened with device='auto'; `load` takes another as its argument `device`.",
            stacklevel=3,
        )
        return "auto"
    return device


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelFileError(f"There is no folder {folder}. Give the folder that `save` wrote.")
    config = _open_config(folder)
    version = config.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(
            f"{folder} has format version {version}, and this is orderless "
            f"{orderless.__version__}, which reads up to {VERSION}. Upgrade orderless."
        )
    claimed = config.pop("sha256", None)
    if claimed != _digest(config):
        raise ModelFileError(
            f"{folder / CONFIG} was changed after it was saved: its checksum differs. To change a "
            "parameter, load the model, use set_params, fit and save again."
        )
    return config


def _open_config(folder: Path) -> dict[str, Any]:
    """The config of a saved model, of whichever version and perhaps changed since."""
    path = folder / CONFIG
    text = _read_bytes(folder, CONFIG)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not JSON ({error}): damaged, or no model.") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not the config of an orderless model.")
    return config


def _read_bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        found = f"{folder} holds no readable {name} ({error.strerror})"
        if isinstance(error, PermissionError):
            raise ModelFileError(f"{found}. Change its permissions.") from error
        raise ModelFileError(
            f"{found}: it is not a saved model, or it was not copied whole."
        ) from error


def _digest(config: dict[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON gives them back, or an error that names the one that cannot be saved."""
    plain = {}
    for name, value in values.items():
        if name == "random_state" and not isinstance(value, int | np.integer | None):
            value = None
        try:
            plain[name] = json.loads(json.dumps(value, allow_nan=False, default=_number))
        except (TypeError, ValueError) as error:
            raise SettingError(f"`{name}` = {value!r} cannot be saved.") from error
    return plain


def _number(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON")


def _card(config: dict[str, Any]) -> str:
    fitted = config["fitted"]
    lines = [f"# {config['estimator']}", ""]
    lines += [f"A model for multivariate time series, made by orderless {config['orderless']}.", ""]
    lines += ["```python", "from orderless import load", "", 'model = load("this folder")', "```"]
    lines += ["", "It takes any set of variables in any order; results do not depend on the order."]
    report = fitted.get("report")
    if report:
        lines += ["", "## How it was fitted", "", "```text", *report, "```"]
    lines += ["", "## Parameters", ""]
    lines += [
        "As they were when it was saved; what was changed after `fit` waits for the next.",
        "",
    ]
    lines += [f"- `{name}`: {value!r}" for name, value in config["parameters"].items()]
    return "\n".join(lines) + "\n"
