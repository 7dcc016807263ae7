"""From what a user asks for to complete settings of the network and of the training."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_origin

import numpy as np

from orderless.errors import SettingError
from orderless.nn import PRESETS, NetworkConfig
from orderless.training import TrainingConfig

PLACES = {"seed": "`random_state` (--seed)", "checkpoint": "`checkpoint` to `fit` (--checkpoint)"}
"""Where settings of the training belong that the estimator does not call by the same name."""
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def build_network_config(
    preset: str, context: int, changes: Mapping[str, Any] | None, **defaults: Any
) -> NetworkConfig:
    """The preset for this context; `defaults` are the task's, `changes` the user's."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise SettingError(f"`preset` is {preset!r}; choose one of {', '.join(PRESETS)}.")
    changes = _checked("network", changes, NetworkConfig)
    return PRESETS[preset](context, **(defaults | changes))


def build_training_config(
    defaults: Mapping[str, Any], changes: Mapping[str, Any] | None, **given: Any
) -> TrainingConfig:
    """The task's settings with the user's own, and those that the estimator was given."""
    for key in given:
        if isinstance(changes, Mapping) and key in changes:
            raise SettingError(
                f"`training` has {key} = {changes[key]!r}, for which there is another place. Give "
                f"{PLACES.get(key, f'`{key}`')} and leave it out of `training`."
            )
    changes = _checked("training", changes, TrainingConfig)
    return TrainingConfig(**{**defaults, **given, **changes})


def _checked(name: str, changes: Mapping[str, Any] | None, config: type) -> dict[str, Any]:
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping):
        raise SettingError(f"`{name}` is {changes!r}; give a mapping from settings to values.")
    known = {f.name: f.type for f in fields(config)}
    for key, value in changes.items():
        if key not in known:
            raise SettingError(
                f"`{name}` has no setting {key!r}. {config.__name__} has: {', '.join(known)}."
            )
        if not _fits(value, known[key]):
            raise SettingError(f"`{name}` has {key} = {value!r}; give {_describe(known[key])}.")
    # A number of NumPy would train, and then not go into the JSON of a saved model.
    return {key: one.item() if isinstance(one, np.generic) else one for key, one in changes.items()}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has the type that a field of a config is annotated with."""
    if get_origin(kind) is tuple:
        first, *rest = get_args(kind)
        right = isinstance(value, list | tuple) and (rest == [...] or len(value) == 1 + len(rest))
        return right and all(_fits(one, first) for one in value)
    if get_args(kind):
        return any(_fits(value, one) for one in get_args(kind))
    if isinstance(value, bool | np.bool_):
        return kind is bool
    wider = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}
    return isinstance(value, wider.get(kind, kind))


def _describe(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "a list of names" if get_args(kind)[0] is str else "a list of two numbers"
    if get_args(kind):
        return " or ".join(_describe(one) for one in get_args(kind))
    return WORDS.get(kind, "nothing" if kind is type(None) else f"a {kind.__name__}")
