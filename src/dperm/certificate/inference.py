"""What a certificate states of a release for intervals, and the numbers in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.mechanisms.inference import Curvature, curvature_told, numbers_told

RELEASED = "released"  # the only field of the part that follows the rows


def planned(part: Mapping[str, Any]) -> dict[str, Any]:
    """The part without the numbers that were released: what a plan decides."""
    return {name: value for name, value in part.items() if name != RELEASED}


def curvature_in(statement: Mapping[str, Any]) -> Curvature | None:
    """What intervals are made of, or None for a statement without such a release."""
    part = statement.get("inference")
    if part is None:
        return None
    columns, weight, moments = n_columns(statement), part["weight"], part["moments"]
    if (weight is not None and not weight > 0) or (moments is not None and len(moments) != 2):
        raise InvalidInput(
            "certificate, inference: a positive weight and two noise scales of moments were expected."
        )
    if len(part[RELEASED]) != numbers_told(part, columns):
        raise InvalidInput(
            "certificate, inference: a released number for every pair of columns was expected."
        )
    return curvature_told(part, columns, np.array(part[RELEASED], np.float64))


def n_columns(statement: Mapping[str, Any]) -> int:
    """Features and the intercept column."""
    problem = statement["problem"]
    return int(problem["n_features"]) + int(problem["intercept"] > 0)
