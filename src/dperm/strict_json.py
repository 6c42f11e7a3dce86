"""JSON from strangers: the one reader of every file that may be hostile, and the one form in which digests are taken.

A model, an evaluation, mean predictions, the events of a ledger and the manifest of shards are all read by ``parse``,
with a limit on their size, and given a shape by ``check_object``, ``typed`` and ``matches``. What a file *claims* is
the business of whoever reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from dperm.errors import InvalidInput

FORMATS = {
    "dperm model": 1,
    "dperm certificate": 1,
    "dperm evaluation": 1,
    "dperm mean predictions": 1,
    "dperm ledger": 1,
    "dperm shards": 1,
}
"""Every format of a file, and the version of it that this library writes and reads."""

DEEPEST = 20
_HALF = re.compile("[\ud800-\udfff]")  # half a character
CITATION = re.compile(
    r"ledger ([0-9a-f]{32}), charge ([1-9][0-9]{0,17}), head ([0-9a-f]{64})"
)  # of a ledger's charge
LONGEST_NUMBER = 400  # digits of a whole number: more than the largest float has
Result = TypeVar("Result")


def read_file(path: str | os.PathLike[str], made: Callable[[Any], Result], what: str, most: int) -> Result:
    """What ``made`` makes of the JSON in a file of at most ``most`` bytes; ``what`` says what was expected of it."""
    path = Path(path)
    with path.open("rb") as file:
        raw = file.read(most + 1)
    try:
        if len(raw) > most:
            raise InvalidInput(f"the file is larger than {most >> 20} MiB.")
        return made(parse(raw))
    except InvalidInput as error:
        raise InvalidInput(f"{path.name} is not a usable {what}: {error}") from None


def parse(raw: bytes) -> Any:
    """The value of a JSON text: UTF-8, no key twice, every number finite, not nested beyond 20 levels."""
    try:
        document = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
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


def header(form: str) -> dict[str, Any]:
    """The keys with which a file says what it is."""
    return {"format": form, "version": FORMATS[form]}


def check_format(document: object, form: str) -> dict[str, Any]:
    """An object of this format, in the version that this library reads."""
    if not isinstance(document, dict) or document.get("format") != form:
        raise InvalidInput(f'a JSON object with "format": "{form}" was expected.')
    if type(document.get("version")) is not int or document["version"] != FORMATS[form]:
        raise InvalidInput(
            f"this library reads version {FORMATS[form]} of the format; the file has another. Read it with the version "
            "of dperm that wrote it, or write it anew."
        )
    return document


def check_object(where: str, value: object, keys: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise InvalidInput(f"{where} must be an object with exactly the keys {', '.join(keys)}.")
    return value


def typed(where: str, value: object, form: type | Mapping[str, Any]) -> dict[str, Any]:
    """An object with exactly the keys of a form, or those that a class is annotated with, each of its type."""
    hints = form if isinstance(form, Mapping) else get_type_hints(form)
    fields = check_object(where, value, hints)
    for key, hint in hints.items():
        if not _fits(fields[key], hint):
            raise InvalidInput(f"{where}, {key}: the value is of a wrong type.")
    return fields


def is_finite_float(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def is_label(value: object) -> bool:
    if isinstance(value, str):
        return _HALF.search(value) is None
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


def _fits(value: object, hint: Any) -> bool:
    """As ``matches``; what is typed further elsewhere need only be an object, or a list of objects."""
    if hint in (dict[str, Any], dict[str, Any] | None):
        return isinstance(value, dict) or (value is None and hint != dict[str, Any])
    if hint == list[dict[str, Any]]:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return matches(value, hint)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise InvalidInput("a key occurs twice in one object.")
    return table


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidInput("a number in it is too large.")
    return value


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise InvalidInput("a number in it is too large.")
    return int(text)


def _check_depth(value: object, left: int) -> None:
    if isinstance(value, dict | list):
        if left == 0:
            raise InvalidInput(f"its objects and lists are nested more than {DEEPEST} deep.")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, left - 1)
