"""Events in JSON: written as they are, and read back with nothing taken on trust."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_args

from dperm.errors import InvalidInput
from dperm.privacy.events import MOST_NUMBERS, PrivacyEvent

_KINDS: dict[str, type[PrivacyEvent]] = {event.kind: event for event in get_args(PrivacyEvent)}


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    return {"kind": event.kind, **{field.name: getattr(event, field.name) for field in fields(event)}}


def event_from_json(stored: object) -> PrivacyEvent:
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"every part of a cost needs a kind, one of {', '.join(_KINDS)}.")
    assert isinstance(stored, dict)
    known = fields(_KINDS[kind])
    if set(stored) != {"kind", *(field.name for field in known)}:
        raise InvalidInput(f"a cost of kind {kind!r} has other keys than it should.")
    values = {field.name: _value(stored[field.name], str(field.type)) for field in known}
    return _KINDS[kind](**values)


def _value(value: object, wanted: str) -> Any:
    """A JSON value as the annotation ``wanted`` says, or a refusal."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    if wanted.startswith("tuple[") and isinstance(value, list | tuple) and len(value) <= MOST_NUMBERS:
        inner = wanted.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_value(item, inner) for item in value)
    if wanted == "str" and isinstance(value, str) and len(value) <= 1000:
        return value
    if wanted == "int" and whole:
        return value
    if wanted == "float" and (whole or (isinstance(value, float) and math.isfinite(value))):
        return float(value)  # type: ignore[arg-type]
    raise InvalidInput("a number or text in a cost is of the wrong type or out of range.")
