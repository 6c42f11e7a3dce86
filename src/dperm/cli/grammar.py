"""One grammar for mechanisms on the command line: NAME[:paper] SETTING=VALUE ..., in one word of the shell."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from dperm.cli.output import did_you_mean
from dperm.errors import InvalidInput
from dperm.mechanisms import Mechanism, mechanism_names, resolve

SYNTAX = "'NAME SETTING=VALUE ...'"
_WORDS: dict[Any, dict[str, Any]] = {
    bool: {"true": True, "false": False},
    NoneType: {"none": None, "null": None},
}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "none"}


def read_mechanism(text: str) -> Mechanism:
    """The mechanism with the settings that were given."""
    name, grid = read_grid(text)
    for setting, values in grid.items():
        if len(values) > 1:
            raise InvalidInput(
                f"{text!r} has several values for {setting}; one is needed. A grid of settings is for --search and "
                "--oracle of dperm compare."
            )
    return replace(resolve(name), **{setting: value for setting, (value,) in grid.items()})


def read_method(text: str) -> str | Mechanism:
    """As :func:`read_mechanism`; a name without settings stays the name, as files and tables show it."""
    mechanism = read_mechanism(text)
    words = text.split()
    return words[0] if len(words) == 1 else mechanism


def read_grid(text: str) -> tuple[str, dict[str, list[Any]]]:
    """The name, with the accounting, and the values of every setting, all of a kind that the setting takes."""
    name, *settings = text.split() or [""]
    mechanism = _known(name)
    grid: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        if not (key and equals and values):
            raise InvalidInput(f"{setting!r} is not SETTING=VALUE; write {SYNTAX}.")
        _check_setting(mechanism, key)
        if key in grid:
            raise InvalidInput(f"{text!r} sets {key} twice.")
        kinds = _kinds(mechanism, key)
        grid[key] = [_value(mechanism, key, value, kinds) for value in values.split(",")]
    return name, grid


def settings_of(mechanism: Mechanism) -> dict[str, object]:
    """The settings that the grammar takes, with their values; the accounting belongs to the name."""
    return {name: value for name, value in mechanism.settings.items() if name != "accounting"}


def _known(text: str) -> Mechanism:
    """The mechanism of this name and accounting; a refusal names those that are close, and all that there are."""
    name, _, _ = text.partition(":")
    known = mechanism_names()
    if name not in known:
        close = did_you_mean(name, known)
        rest = f".{close} If not, choose from" if close else "; choose from"
        raise InvalidInput(f"no mechanism is named {name!r}{rest} {', '.join(known)}.")
    return resolve(text)


def _check_setting(mechanism: Mechanism, key: str) -> None:
    if key == "accounting":
        raise InvalidInput(f"the accounting is a part of the name: write {mechanism.name}:paper.")
    known = settings_of(mechanism)
    if key not in known:
        close = did_you_mean(key, known)
        raise InvalidInput(
            f"mechanism {mechanism.name!r} has no setting {key!r}; it has {', '.join(known)}.{close}"
        )


def _kinds(mechanism: Mechanism, key: str) -> tuple[Any, ...]:
    """The kinds of value that a setting is declared to take; empty where they are not all plain ones."""
    hint: Any = Any
    with suppress(NameError):  # of a declaration that its module cannot resolve any more
        hint = get_type_hints(type(mechanism)).get(key, Any)
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return kinds if all(kind in _KINDS for kind in kinds) else ()


def _value(mechanism: Mechanism, key: str, text: str, kinds: tuple[Any, ...]) -> Any:
    """The value that the text stands for; of an unknown kind, what JSON says or the text itself."""
    if not kinds:
        with suppress(json.JSONDecodeError):
            return json.loads(text)
        return text
    for kind in (NoneType, bool):
        if kind in kinds and text.lower() in _WORDS[kind]:
            return _WORDS[kind][text.lower()]
    for number in (int, float):
        with suppress(ValueError, OverflowError):
            if number in kinds and math.isfinite(number(text)):
                return number(text)
    if str in kinds:
        return text
    wanted = " or ".join(_KINDS[kind] for kind in kinds)
    raise InvalidInput(f"{key} of mechanism {mechanism.name!r} takes {wanted}; got {text!r}.")
