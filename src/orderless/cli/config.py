"""Arguments of a verb from one TOML file.

Keys are the names of the arguments, with hyphens or underscores. What the command line says wins.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orderless.cli.arguments import Several
from orderless.errors import SettingError

WORDS: dict[Any, str] = {int: "a whole number", float: "a number"}


def find_config(words: Sequence[str]) -> Path | None:
    """The file that `--config` names among the words of a command."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--config", type=Path)
    try:
        return finder.parse_known_args(words)[0].config
    except argparse.ArgumentError:
        return None  # `--config` without a file: the parser of the verb says so


def apply_config(parser: argparse.ArgumentParser, path: Path) -> None:
    """Make the values of the file the defaults of the parser."""
    known = {_name(action): action for action in parser._actions}
    known = {name: action for name, action in known.items() if name not in ("help", "config")}
    settings = {key.replace("-", "_"): value for key, value in _read(path).items()}
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise SettingError(
            f"{path} has unknown {'keys' if len(unknown) > 1 else 'key'} {', '.join(unknown)}. "
            f"`{parser.prog}` knows: {', '.join(sorted(known))}."
        )
    for name, value in settings.items():
        action = known[name]
        action.default = _as_default(action, value, f"{path}: {name}")
        action.required = False
        if not action.option_strings and action.nargs is None:
            action.nargs = "?"


def _name(action: argparse.Action) -> str:
    """The word a user types: that of the long flag, or of the argument."""
    words = [*action.option_strings, action.dest]
    return max(words, key=lambda word: word.startswith("--")).lstrip("-").replace("-", "_")


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not TOML: {error}.") from error


def _as_default(action: argparse.Action, value: Any, where: str) -> Any:
    """What argparse would have made of the value as that of a flag."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise SettingError(f"{where} is {value!r}; it is a switch, true or false.")
        return value
    if isinstance(action, argparse._AppendAction):
        if not isinstance(value, dict):
            raise SettingError(f"{where} is {value!r}; it is a table of settings and values.")
        return list(value.items())
    if isinstance(action, Several) or action.nargs == "*":
        entries = value if isinstance(value, list) else [value]
        return [_read_entry(action, entry, where) for entry in entries]
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return _read_entry(action, value, where)


def _read_entry(action: argparse.Action, value: Any, where: str) -> Any:
    if isinstance(value, dict | list | bool):
        raise SettingError(f"{where} is {value!r}; give a number or text.")
    text = str(value)
    if action.choices is not None and text not in action.choices:
        raise SettingError(f"{where} is {text!r}; choose one of {', '.join(action.choices)}.")
    try:
        return action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise SettingError(f"{where}: {error}.") from error
    except ValueError as error:
        wanted = WORDS.get(action.type, "numbers with commas between them")
        raise SettingError(f"{where} is {text!r}; give {wanted}.") from error
