"""The numbers for intervals in a model file must be those that its certificate is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.mechanisms.inference import Curvature, curvature_from_release, curvature_size
from dperm.strict_json import is_finite_float

NAME = "inference"  # of the part in a certificate, and of the numbers in a file


def check_told(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """As many numbers as the certificate has a release for, and none without one."""
    curvature_in(document, statement)
    return "none were released" if NAME not in statement else "as many as were paid for"


def curvature_in(document: Mapping[str, Any], statement: Mapping[str, Any]) -> Curvature | None:
    """What intervals are made of, or None for a file without it."""
    part, told = statement.get(NAME), document.get(NAME)
    if (part is None) != (told is None):
        raise InvalidInput(
            "inference: the numbers for intervals, or the certificate's part about them, are missing."
        )
    if part is None:
        return None
    columns, weight, moments = n_columns(statement), part["weight"], part["moments"]
    positive = part["constant"] > 0 and (weight is None or weight > 0)
    if not positive or (moments is not None and len(moments) != 2):
        raise InvalidInput(
            "certificate, inference: positive factors and two noise scales of moments were expected."
        )
    if not (
        isinstance(told, list)
        and len(told) == curvature_size(part, columns)
        and all(map(is_finite_float, told))
    ):
        raise InvalidInput("inference: a number for every pair of columns was expected.")
    return curvature_from_release(part, columns, np.array(told))


def n_columns(statement: Mapping[str, Any]) -> int:
    """Features and the intercept column."""
    problem = statement["problem"]
    return int(problem["n_features"]) + int(problem["intercept"] > 0)
