"""A fitted estimator as a folder: config.json, model-….safetensors, README.md.

`config.json` names the format, its version, and size and checksum of the weights and of itself.
Reading parses JSON and safetensors, checks every fact against a schema, and builds one of three
known classes: whatever lies in the folder, nothing in it is executed. The checksums find damage and
edits; they are not a signature.
"""

import json
import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

import orderless
from orderless import io, schema
from orderless.errors import DtypeError, ModelFileError, SettingError
from orderless.estimators.base import Estimator
from orderless.estimators.facts import FACTS
from orderless.models import choose_device

FORMAT = "orderless-model"
VERSION = 2
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
MOST_BYTES = {CONFIG: 2**25, WEIGHTS: 2**29, CARD: 2**25}
"""Beyond these a file is not even read."""
ADVICE = "Name another folder, or make room."
SHAPE = schema.record(
    {
        "format": schema.text(),
        "version": schema.whole(VERSION, VERSION),
        "orderless": schema.text(),
        "torch": schema.text(),
        "estimator": schema.text("|".join(FACTS)),
        "parameters": schema.mapping(schema.plain),
        "fitted": schema.mapping(schema.plain),
        "weights": schema.record(
            {
                "file": schema.text(f"model-{io.RANDOM}.safetensors"),
                "bytes": schema.whole(0, MOST_BYTES[WEIGHTS]),
                "sha256": schema.text("[0-9a-f]{64}"),
            }
        ),
    }
)


def save_estimator(estimator: Estimator, folder: Path) -> None:
    """Write the three files with one switch: who reads sees the old model or the new one."""
    facts, tensors = estimator._fitted_state()
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    weights = save_tensors(whole)
    name = io.fresh_name(WEIGHTS)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "orderless": orderless.__version__,
        "torch": torch.__version__,
        "estimator": type(estimator).__name__,
        "parameters": _plain(estimator.get_params()),
        "fitted": _plain(facts),
        "weights": {"file": name, "bytes": len(weights), "sha256": io.sha256(weights)},
    }
    config["sha256"] = _digest(config)
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False).encode()
    card = _card(config)
    for part, content in ((CONFIG, text), (WEIGHTS, weights), (CARD, card)):
        if len(content) > MOST_BYTES[part]:
            raise ModelFileError(
                f"The model takes {len(content)} bytes of {part}, and {MOST_BYTES[part]} are the "
                "most that `load` reads. Fit fewer variables or a smaller network."
            )
    check_folder(folder)
    io.write_folder(
        folder,
        parts={name: weights},
        manifest=(CONFIG, text),
        beside={CARD: card},
        error=ModelFileError,
        advice=ADVICE,
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
    there = [name for name in (CONFIG, CARD) if (folder / name).exists()]
    if there:
        try:
            _parse(folder, io.read_file(folder / CONFIG, most=MOST_BYTES[CONFIG]))
        except (ModelFileError, OSError) as error:
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
    if not folder.is_dir():
        raise ModelFileError(f"There is no folder {folder}. Give the folder that `save` wrote.")
    try:
        config, weights = io.read_folder(
            folder / CONFIG, partial(_read, folder), most=MOST_BYTES[CONFIG]
        )
    except OSError as error:
        raise ModelFileError(
            f"{error.filename or folder} cannot be read: {error.strerror}. {folder} is not a saved "
            "model, it was not copied whole, or its permissions forbid it."
        ) from error
    from orderless import estimators

    try:
        FACTS[config["estimator"]](config["fitted"], "fitted")
        tensors = _check_finite(load_tensors(weights))
        estimator = getattr(estimators, config["estimator"])(**config["parameters"])
        estimator._restore(config["fitted"], tensors)
    except Exception as error:
        why = error if isinstance(error, ModelFileError) else repr(error)
        raise ModelFileError(
            f"{folder} passes its checksums but cannot be understood by orderless "
            f"{orderless.__version__} (it was saved by {config['orderless'][:60]}): {why}"
        ) from error
    estimator.device = _find_device(folder, estimator.device) if device is None else device
    estimator.stack_.to(choose_device(estimator.device))
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


def _read(folder: Path, text: bytes) -> tuple[dict[str, Any], bytes]:
    """The config in a text and the weights that it names, neither damaged nor edited."""
    config = _parse(folder, text)
    if config.get("version") != VERSION:
        raise ModelFileError(
            f"{folder} has format version {config.get('version')!r}, and this is orderless "
            f"{orderless.__version__}, which reads {VERSION}. Upgrade orderless, or fit again."
        )
    claimed = config.pop("sha256", None)
    if claimed != _digest(config):
        raise ModelFileError(
            f"{folder / CONFIG} was changed after it was saved: its checksum differs. To change a "
            "parameter, load the model, use set_params, fit and save again."
        )
    SHAPE(config, str(folder / CONFIG))
    expected = config["weights"]
    weights = io.read_file(folder / expected["file"], most=expected["bytes"])
    if (len(weights), io.sha256(weights)) != (expected["bytes"], expected["sha256"]):
        raise ModelFileError(
            f"{folder / expected['file']} is not the file that was saved: its {len(weights)} bytes "
            "do not have the length and the checksum that config.json names. Copy the folder again."
        )
    _check_card(folder)
    return config, weights


def _parse(folder: Path, text: bytes) -> dict[str, Any]:
    """The config of a saved model, of whichever version and perhaps changed since."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{folder / CONFIG} is not JSON ({error}): damaged, or no model."
        ) from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelFileError(f"{folder / CONFIG} is not the config of an orderless model.")
    return config


def _check_card(folder: Path) -> None:
    """Refuse a card that was edited, for people believe what it says; it may be missing."""
    try:
        card = io.read_file(folder / CARD, most=MOST_BYTES[CARD])
    except FileNotFoundError:
        return
    above, _, _ = card.rpartition(b"<!--")
    if card != _sealed(above):
        raise ModelFileError(
            f"{folder / CARD} was changed after it was saved: its checksum differs. Keep notes of "
            "your own in another file; the model opens without this one too."
        )


def _check_finite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ModelFileError(f"{name} holds a value that is not finite.")
    return tensors


def _digest(config: dict[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True, ensure_ascii=True)
    return io.sha256(text.encode())


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


def _sealed(card: bytes) -> bytes:
    """A card with the checksum of all its lines as the last."""
    return card + f"<!-- sha256 of all above: {io.sha256(card)} -->\n".encode()


def _card(config: dict[str, Any]) -> bytes:
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
    return _sealed(("\n".join(lines) + "\n\n").encode())
