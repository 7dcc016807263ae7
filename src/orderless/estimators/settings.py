"""From what a user asks for to complete settings of the network and of the training."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from orderless.errors import SettingError
from orderless.nn import PRESETS, NetworkConfig
from orderless.training import TrainingConfig


def build_network_config(
    preset: str, context: int, changes: Mapping[str, Any] | None, **defaults: Any
) -> NetworkConfig:
    """The preset for this look-back; `defaults` are the task's, `changes` the user's."""
    if preset not in PRESETS:
        raise SettingError(f"`preset` is {preset!r}; choose one of {', '.join(PRESETS)}.")
    changes = _checked("network", changes, NetworkConfig)
    return PRESETS[preset](context, **(defaults | changes))


def build_training_config(
    defaults: Mapping[str, Any], changes: Mapping[str, Any] | None, **given: Any
) -> TrainingConfig:
    """The task's settings, then those the estimator was given, then the user's own."""
    changes = _checked("training", changes, TrainingConfig)
    return TrainingConfig(**{**defaults, **given, **changes})


def _checked(name: str, changes: Mapping[str, Any] | None, config: type) -> dict[str, Any]:
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping):
        raise SettingError(f"`{name}` is {changes!r}; give a mapping from settings to values.")
    known = [f.name for f in fields(config)]
    for key in changes:
        if key not in known:
            raise SettingError(
                f"`{name}` has no setting {key!r}. {config.__name__} has: {', '.join(known)}."
            )
    return dict(changes)
