"""JSON from strangers: parsed strictly, checked against type annotations, and written in one canonical form."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from dperm.errors import DpermError, InvalidInput
from dperm.losses import Loss
from dperm.mechanisms import Mechanism, resolve

DEEPEST = 20
_CITATION = re.compile(r"ledger [0-9a-f]{32}, charge [1-9][0-9]{0,17}, head [0-9a-f]{64}")


def parse(raw: bytes) -> Any:
    """The value of a JSON text: UTF-8, no key twice, no NaN or infinity, not nested beyond 20 levels."""

    def constant(text: str) -> None:
        raise ValueError(text)

    try:
        document = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=constant
        )
        json.dumps(document, ensure_ascii=False).encode()  # half a character could not be written again
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        raise InvalidInput("it is not valid JSON.") from None
    _check_depth(document, DEEPEST)
    return document


def canonical(value: Any) -> bytes:
    """Sorted keys, no spaces, ASCII only, floats in the shortest notation that gives them back."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def check_object(where: str, value: object, keys: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise InvalidInput(f"{where} must be an object with exactly the keys {', '.join(keys)}.")
    return value


def is_finite_float(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def check_citation(where: str, value: object) -> None:
    """Refuse what is not the way in which a release cites the charge that paid for it."""
    if not (isinstance(value, str) and _CITATION.fullmatch(value)):
        raise InvalidInput(f"{where} must be null or have the form 'ledger ..., charge ..., head ...'.")


def is_label(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)  # half a character
    return isinstance(value, bool | int) or is_finite_float(value)


def matches(value: object, hint: Any) -> bool:
    """Whether a JSON value fits a type annotation; a list fits any kind of sequence."""
    origin = get_origin(hint)
    if origin in (UnionType, Union):
        return any(matches(value, option) for option in get_args(hint))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(matches(v, get_args(hint)[1]) for v in value.values())
    if origin is tuple and Ellipsis not in get_args(hint):
        options = get_args(hint)
        return isinstance(value, list) and len(value) == len(options) and all(map(matches, value, options))
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list) and all(matches(v, get_args(hint)[0]) for v in value)
    if hint is Any:
        return any(matches(value, scalar) for scalar in (NoneType, bool, str, float))
    if hint in (int, float):
        small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        return small or (hint is float and is_finite_float(value))
    return isinstance(value, hint) and (not isinstance(value, str) or is_label(value))


def plain(name: str, value: Any, strict: bool = True) -> Any:
    """The value as JSON writes it, or a clear refusal; if not ``strict``, what does not fit is written as text."""
    if isinstance(value, Mechanism):
        return describe(value)
    if isinstance(value, Loss):
        return describe_loss(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(name, v, strict) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, v, strict) for v in value]
    if value is None or is_label(value):
        return value
    if not strict:
        return ascii(value)
    raise InvalidInput(f"{name} holds a {type(value).__name__}, which a model file cannot keep.")


def describe(mechanism: Mechanism) -> dict[str, Any]:
    return {"name": mechanism.name, "settings": plain("a setting", mechanism.settings, strict=False)}


def describe_loss(loss: Loss) -> dict[str, Any]:
    return {
        "name": loss.name,
        "parameters": [float(value) for value in loss.parameters],
        "outputs": loss.outputs,
    }


def mechanism_of(stored: object) -> Mechanism:
    """The mechanism that ``describe`` wrote down; no code is run but the checks of its settings."""
    described = check_object("mechanism", stored, ("name", "settings"))
    if not isinstance(described["name"], str) or ":" in described["name"]:
        raise InvalidInput("the mechanism's name must be text.")
    default = resolve(described["name"])
    settings = check_object("the mechanism's settings", described["settings"], default.settings)
    hints = get_type_hints(type(default))
    for key, value in settings.items():
        if not matches(value, hints[key]):
            raise InvalidInput(f"setting {key} of the mechanism has a value of a wrong type.")
    try:
        return replace(default, **settings)
    except DpermError as error:
        raise InvalidInput(str(error)) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise InvalidInput("a key occurs twice in one object.")
    return table


def _check_depth(value: object, left: int) -> None:
    if isinstance(value, dict | list):
        if left == 0:
            raise InvalidInput(f"its objects and lists are nested more than {DEEPEST} deep.")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, left - 1)
