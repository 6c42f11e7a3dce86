"""The map of rows and the numbers for intervals in a model file must be those that its certificate is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.mechanisms.inference import Curvature, curvature_told, numbers_told
from dperm.row_map import RowMap
from dperm.strict_json import check_object, is_finite_float

KEYS = ("x_norm", "intercept", "centre", "scale", "linear", "released")
CLOSE = 1e-9
NAME = "inference"  # of the part in a certificate, and of the numbers in a file


def check_row_map(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """Bound and intercept column are those of the problem; centre and scale follow from what was paid for.

    They are computed once more, by formulas of this module, from the released numbers in the file.
    """
    stated = check_object("row_map", document["row_map"], KEYS)
    problem = statement["problem"]
    for name in ("x_norm", "intercept"):
        if not is_finite_float(stated[name]) or stated[name] != problem[name]:
            raise InvalidInput(f"row_map, {name} is not that of the problem.")
    if statement["standardisation"] is None:
        moved = any(stated[name] is not None for name in ("centre", "scale"))
        if moved or stated["linear"] is not False or stated["released"] != []:
            raise InvalidInput(
                "row_map moves or scales rows, and the certificate knows of no standardisation."
            )
        return "rows are bounded as stated, and not moved"
    _check_standardised(stated, statement)
    return "rows are bounded as stated, and moved and scaled by what was released"


def row_map_in(document: Mapping[str, Any], statement: Mapping[str, Any]) -> RowMap:
    """The map of a checked file."""
    check_row_map(document, statement)
    return RowMap.from_dict(document["row_map"])


def _check_standardised(row_map: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Centre and scale by the formulas of docs/proofs/standardising.md."""
    problem, rules = statement["problem"], statement["standardisation"]
    p, x_norm, centred = problem["n_features"], problem["x_norm"], problem["intercept"] > 0
    counts = statement["relation"] == "add-remove"
    if row_map["linear"] is not (rules["variant"] == "linear"):
        raise InvalidInput("row_map, linear is not what the variant of the standardisation says.")
    released = row_map["released"]
    if not (isinstance(released, list) and len(released) == 1 + centred == len(rules["noise_scales"])):
        raise InvalidInput("row_map, released must hold the releases of the standardisation.")
    for k, numbers in enumerate(released):
        if not _numbers(numbers, p + (counts and k == 0)):
            raise InvalidInput(
                "row_map, released must hold one number for each feature, and a count under add-remove."
            )
    filled = 1.0
    if counts:
        column = rules["count_column"] * x_norm
        filled = min(1.0, max(rules["fewest"], released[0][p] / (column if centred else column**2)))
    if centred:
        _agree("centre", row_map["centre"], [value / filled for value in released[0][:p]])
    elif row_map["centre"] is not None:
        raise InvalidInput("row_map, centre is there, and a model without intercept has no place for one.")
    unit = rules["first_bound"] ** 2 / filled
    moments = [unit * value for value in released[-1][:p]]
    positive = math.fsum(max(0.0, value) for value in moments) / p
    least = max(rules["floor_share"] * positive, rules["floor_noise"] * unit * rules["noise_scales"][-1])
    kept = [max(least, value) for value in moments]
    typical = math.fsum(value ** (1 - rules["power"]) for value in kept)
    factor = math.sqrt(typical) / (rules["rho"] * x_norm)
    _agree("scale", row_map["scale"], [factor * value ** (rules["power"] / 2) for value in kept])


def _agree(name: str, stated: object, expected: Sequence[float]) -> None:
    if not isinstance(stated, list) or not _numbers(stated, len(expected)):
        raise InvalidInput(
            f"row_map, {name} must hold one number for each feature: the rows were standardised."
        )
    for value, wanted in zip(stated, expected, strict=True):
        if not math.isclose(value, wanted, rel_tol=CLOSE, abs_tol=0.0):
            raise InvalidInput(f"row_map, {name} does not follow from what was released.")


def _numbers(values: object, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(is_finite_float, values))


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
        and len(told) == numbers_told(part, columns)
        and all(map(is_finite_float, told))
    ):
        raise InvalidInput("inference: a number for every pair of columns was expected.")
    return curvature_told(part, columns, np.array(told))


def n_columns(statement: Mapping[str, Any]) -> int:
    """Features and the intercept column."""
    problem = statement["problem"]
    return int(problem["n_features"]) + int(problem["intercept"] > 0)
