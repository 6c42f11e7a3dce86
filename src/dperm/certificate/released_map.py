"""The map of rows in a model file must be the one that its certificate is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.certificate.document import check_object, is_finite_float
from dperm.certificate.statement import OLDER
from dperm.errors import InvalidInput
from dperm.row_map import RowMap


def check_row_map(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """Bound and intercept column are those of the problem; rows are moved if, and only if, a centre was paid for."""
    if statement["version"] in OLDER:
        return "the file is of an older version, which has none"
    stated = check_object("row_map", document["row_map"], ("x_norm", "intercept", "centre", "scale"))
    problem, centring = statement["problem"], statement["centring"]
    for name in ("x_norm", "intercept"):
        if not is_finite_float(stated[name]) or stated[name] != problem[name]:
            raise InvalidInput(f"row_map, {name} is not that of the problem.")
    centre, scale = stated["centre"], stated["scale"]
    if centring is None:
        if centre is not None or scale is not None:
            raise InvalidInput("row_map moves or scales rows, and the certificate knows of no centring.")
        return "rows are bounded as stated, and not moved"
    if not _numbers(centre, problem["n_features"]):
        raise InvalidInput("row_map, centre must hold one number for each feature: the rows were centred.")
    if not _numbers(scale, problem["n_features"]) or any(value != centring["radius"] for value in scale):
        raise InvalidInput("row_map, scale must be the radius of the centring for each feature.")
    return "rows are bounded as stated, and moved by the centre that was released"


def row_map_in(document: Mapping[str, Any], statement: Mapping[str, Any]) -> RowMap:
    """The map of a checked file; of an older one the bound alone, which is all that it tells of the rows."""
    check_row_map(document, statement)
    if statement["version"] in OLDER:
        problem = statement["problem"]
        return RowMap(x_norm=float(problem["x_norm"]), intercept=float(problem["intercept"]))
    return RowMap.from_dict(document["row_map"])


def _numbers(values: object, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(is_finite_float, values))
