"""Class labels in a model file: values, and the type that they had."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.strict_json import is_label

_TYPES = ["str", "object", "bool", "float32", "float64"]
_TYPES += [f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)]


def type_of(labels: NDArray[Any] | None) -> str | None:
    """The name under which the type of the labels is stored; None for a model without classes."""
    if labels is None:
        return None
    name = "str" if labels.dtype.kind == "U" else str(labels.dtype.name)
    if name not in _TYPES:
        raise InvalidInput(f"classes_ of type {name} cannot be saved; use text, numbers or truth values.")
    return name


def labels_of(values: object, label_type: object) -> NDArray[Any]:
    """The labels as the model had them."""
    if not isinstance(label_type, str) or label_type not in _TYPES:
        raise InvalidInput(f"label_type must be one of {', '.join(_TYPES)}.")
    if not (isinstance(values, list) and len(values) >= 2 and all(map(is_label, values))):
        raise InvalidInput("classes must be a list of at least two labels: text, numbers or truth values.")
    try:
        labels = np.array(values, dtype=label_type)
    except (ValueError, OverflowError):
        labels = np.array([])
    if labels.tolist() != values or [type(v) for v in labels.tolist()] != [type(v) for v in values]:
        raise InvalidInput("classes do not have the label_type that the file states.")
    if len(set(values)) < len(values):
        raise InvalidInput("classes must be different labels.")
    return labels
