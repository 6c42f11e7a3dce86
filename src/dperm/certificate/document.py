"""Parts of a statement as plain values: mechanisms, losses, and whatever a model file keeps."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np

from dperm.errors import DpermError, InvalidInput
from dperm.losses import Loss
from dperm.mechanisms import Mechanism, resolve
from dperm.strict_json import check_object, is_label, matches

_CITATION = re.compile(r"ledger [0-9a-f]{32}, charge [1-9][0-9]{0,17}, head [0-9a-f]{64}")


def check_citation(where: str, value: object) -> None:
    """Refuse what is not the way in which a release cites the charge that paid for it."""
    if not (isinstance(value, str) and _CITATION.fullmatch(value)):
        raise InvalidInput(f"{where} must be null or have the form 'ledger ..., charge ..., head ...'.")


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
