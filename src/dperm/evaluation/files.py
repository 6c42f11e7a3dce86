"""Evaluations and mean predictions as JSON files, and back: keys, types and the digest are checked before anything."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dperm.certificate.statement import plain
from dperm.counting.estimates import LEVEL, Estimate
from dperm.counting.metrics import registered_metrics
from dperm.errors import InvalidInput
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.groups import Mean, declared_groups
from dperm.evaluation.results import EvaluationResult, MeansResult, Result
from dperm.models.atomic import atomic_path
from dperm.strict_json import check_format, check_object, digest, header, matches

# fmt: off
EVALUATION_FORMAT: str = "dperm evaluation"
EVALUATION_KEYS = (
    "format", "version", "library", "local", "private", "model", "task", "classes", "y_range", "unit", "rows",
    "table_rows", "row_count", "max_rows", "relation", "budget", "ledger_entry", "release", "level", "metrics",
    "confusion", "rates", "roc", "calibration", "notes", "digest",
)
MEANS_FORMAT: str = "dperm mean predictions"
MEANS_KEYS = (
    "format", "version", "library", "private", "model", "label", "range", "by", "values", "other", "unit", "rows",
    "max_rows", "relation", "budget", "ledger_entry", "release", "level", "groups", "overall", "notes", "digest",
)
# fmt: on
MAX_BYTES = 16 << 20
UNITS = ("row", "person")
_ESTIMATE = tuple(part.name for part in fields(Estimate))
_MEAN = tuple(part.name for part in fields(Mean))
_RELEASE = {
    "sensitivity": float,
    "noise_scale": float,
    "grid_exponent": int,
    "numbers": list[float],
    "parts": list[Any],
    "entropy": str,
    "secure": bool,
}
_EVALUATION_RELEASE = {
    **_RELEASE,
    "bins": int | None,
    "default_bins": bool,
    "scales": list[dict[str, str | float | None]],
    "error_bound": float | None,
    "probabilities": bool,
}
_PART = {"name": str, "size": int, "weights": list[float], "step": float}

Document = dict[str, Any]


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a JSON file, whole or not at all."""
    content = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as file:
        file.write_text(content + "\n", encoding="utf-8")


def evaluation_document(result: EvaluationResult) -> Document:
    """Plain values only."""
    own = {
        "local": result.local,
        "task": result.task,
        "classes": plain("classes", list(result.classes)),
        "y_range": None if result.y_range is None else list(result.y_range),
        "table_rows": result.table_rows,
        **evaluation_estimates(result),
    }
    return _document(result, EVALUATION_FORMAT, EVALUATION_KEYS, own)


def evaluation_estimates(result: EvaluationResult) -> Document:
    """What is made of the released numbers and public facts, as a file holds it."""
    return {
        "row_count": None if result.row_count is None else result.row_count.to_dict(),
        "metrics": {name: estimate.to_dict() for name, estimate in result.metrics.items()},
        "confusion": [[cell.to_dict() for cell in line] for line in result.confusion],
        "rates": [{name: rate.to_dict() for name, rate in line.items()} for line in result.rates],
        "roc": [_flat(point) for point in result.roc],
        "calibration": [_flat(group) for group in result.calibration],
        "notes": list(result.notes),
    }


def means_document(result: MeansResult) -> Document:
    """Plain values only."""
    own = {
        "label": result.label,
        "range": list(result.range),
        "by": result.by,
        "values": plain("values", [value for value in result.groups if value != result.other]),
        "other": result.other,
        "groups": [_flat(one) for one in result.groups.values()],
        "overall": _flat(result.overall),
    }
    return _document(result, MEANS_FORMAT, MEANS_KEYS, own)


def means_estimates(means: Sequence[Mean], grouped: bool, notes: Sequence[str]) -> Document:
    """What is made of the released numbers and public facts, as a file holds it; the last mean is that of all rows."""
    groups = means[:-1] if grouped else []
    return {"groups": [_flat(one) for one in groups], "overall": _flat(means[-1]), "notes": list(notes)}


def _document(result: Result, form: str, keys: Sequence[str], own: Document) -> Document:
    """In the order of ``keys``, with what both kinds of file state, and the digest of all."""
    values = own | {
        **header(form),
        "library": result.library,
        "private": result.private,
        "model": {"sha256": result.model},
        "unit": result.unit,
        "rows": result.rows,
        "max_rows": result.max_rows,
        "relation": result.neighbours,
        "budget": None if result.budget is None else dict(result.budget),
        "ledger_entry": result.ledger_entry,
        "release": None if result.release is None else dict(result.release),
        "level": LEVEL,
        "notes": list(result.notes),
    }
    document = {key: values[key] for key in keys if key != "digest"}
    return {**document, "digest": digest(document)}


def checked_evaluation(document: object) -> Document:
    """The fields of an evaluation, from what JSON held. Keys, types and digest are checked, not what they claim."""
    held = _checked(document, EVALUATION_FORMAT, EVALUATION_KEYS)
    task = typed(held, "task", str)
    if task not in ("binary", "classes", "regression"):
        raise InvalidInput("task must be binary, classes or regression.")
    classes = typed(held, "classes", list[Any])
    n = len(classes)
    metrics = typed(held, "metrics", dict[str, dict[str, float | None]])
    known = set(registered_metrics())
    if not set(metrics) <= known or not n == {"binary": 2, "regression": 0}.get(task, max(3, n)):
        raise InvalidInput("metrics or classes do not fit the task.")
    if (held["y_range"] is not None) is not (task == "regression"):
        raise InvalidInput("y_range is that of a regression, which must state it.")
    confusion = typed(held, "confusion", list[list[dict[str, float | None]]])
    rates = typed(held, "rates", list[dict[str, dict[str, float | None]]])
    if [len(line) for line in confusion] != [n] * n or len(rates) != n:
        raise InvalidInput("confusion and rates must have a line for every class.")
    count = held["row_count"]
    ends = typed(held, "y_range", tuple[float, float] | None)
    if ends is not None and not ends[0] < ends[1]:
        raise InvalidInput("y_range must rise.")
    values = _common(held, _EVALUATION_RELEASE) | {
        "task": task,
        "metrics": {name: _estimate(metric) for name, metric in metrics.items()},
        "confusion": [[_estimate(cell) for cell in line] for line in confusion],
        "rates": [{name: _estimate(rate) for name, rate in line.items()} for line in rates],
        "roc": [_point(point) for point in listed(held, "roc")],
        "calibration": [_group(group) for group in listed(held, "calibration")],
        "classes": classes,
        "y_range": None if ends is None else (float(ends[0]), float(ends[1])),
        "table_rows": typed(held, "table_rows", int | None),
        "row_count": None if count is None else _estimate(count),
        "local": typed(held, "local", bool),
    }
    if EvaluationResult(**values).private is not held["private"] or held["level"] != LEVEL:
        raise InvalidInput("private or level do not follow from the rest.")
    return values


def checked_means(document: object) -> Document:
    """The fields of mean predictions, from what JSON held, checked as far as those of an evaluation."""
    held = _checked(document, MEANS_FORMAT, MEANS_KEYS)
    values, other = typed(held, "values", list[Any]), typed(held, "other", str | None)
    declared = declared_groups("by" if values else None, values or None, other)
    low, high = typed(held, "range", tuple[float, float])
    typed(held, "relation", str)
    common = _common(held, _RELEASE)
    if common["release"] is None or common["budget"] is None or not low < high:
        raise InvalidInput("mean predictions state their range, their budget and their release.")
    groups = [_mean(one) for one in listed(held, "groups")]
    overall = _mean(held["overall"])
    if len(groups) != len(declared.labels):
        raise InvalidInput("groups must have a line for every declared value.")
    if common["release"]["secure"] is not held["private"] or held["level"] != LEVEL:
        raise InvalidInput("private or level do not follow from the rest.")
    return common | {
        "label": typed(held, "label", str | int | float | bool | None),
        "range": (float(low), float(high)),
        "by": typed(held, "by", str),
        "groups": dict(zip(declared.labels, groups, strict=True)),
        "overall": overall,
        "other": other,
    }


def _common(held: Document, release: Mapping[str, Any]) -> Document:
    """The fields of ``Result``."""
    if held["unit"] not in UNITS:
        raise InvalidInput("unit must be row or person.")
    return {
        "model": typed(check_object("model", held["model"], ("sha256",)), "sha256", str),
        "unit": str(held["unit"]),
        "rows": typed(held, "rows", int | None),
        "max_rows": typed(held, "max_rows", int | None),
        "budget": _budget(held["budget"]),
        "neighbours": typed(held, "relation", str | None),
        "ledger_entry": typed(held, "ledger_entry", str | None),
        "release": _released(held["release"], release),
        "notes": tuple(typed(held, "notes", list[str])),
        "library": typed(held, "library", str),
    }


def _checked(document: object, form: str, keys: Sequence[str]) -> dict[str, Any]:
    """An object of this format with exactly these keys, whose digest is its own."""
    held = check_object("the file", check_format(document, form), keys)
    if held["digest"] != digest({key: value for key, value in held.items() if key != "digest"}):
        raise InvalidInput("its content does not match its digest: it was changed after it was written.")
    return held


def typed(held: Mapping[str, Any], key: str, hint: Any) -> Any:
    if not matches(held[key], hint):
        raise InvalidInput(f"{key} is not of the type that it should have.")
    return held[key]


def listed(held: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(held[key], list):
        raise InvalidInput(f"{key} must be a list.")
    return list(held[key])


def _estimate(held: object) -> Estimate:
    values = check_object("a figure", held, _ESTIMATE)
    if not matches(values, dict[str, float | None]):
        raise InvalidInput("a figure must hold numbers or null.")
    known = [value is not None for value in values.values()]
    if any(known) and not (all(known) and values["low"] <= values["estimate"] <= values["high"]):
        raise InvalidInput("the estimate of a figure must lie in its interval.")
    return Estimate(**values)


def _flat(item: RocPoint | CalibrationGroup | Mean) -> dict[str, Any]:
    """The numbers of a point, its estimates as objects."""
    values = {part.name: getattr(item, part.name) for part in fields(item)}
    return {name: value.to_dict() if isinstance(value, Estimate) else value for name, value in values.items()}


def _point(held: object) -> RocPoint:
    values = check_object("a point of roc", held, [part.name for part in fields(RocPoint)])
    return RocPoint(
        threshold=float(typed(values, "threshold", float)),
        false_positive_rate=_estimate(values["false_positive_rate"]),
        true_positive_rate=_estimate(values["true_positive_rate"]),
    )


def _mean(held: object) -> Mean:
    values = check_object("a mean", held, _MEAN)
    return Mean(**{name: _estimate(values[name]) for name in _MEAN})


def _group(held: object) -> CalibrationGroup:
    values = check_object("a group of calibration", held, [part.name for part in fields(CalibrationGroup)])
    return CalibrationGroup(
        low=float(typed(values, "low", float)),
        high=float(typed(values, "high", float)),
        predicted=float(typed(values, "predicted", float)),
        share_of_rows=_estimate(values["share_of_rows"]),
        observed=_estimate(values["observed"]),
    )


def _budget(held: object) -> dict[str, float] | None:
    if held is None:
        return None
    values = check_object("budget", held, ("epsilon", "delta"))
    return {name: float(typed(values, name, float)) for name in ("epsilon", "delta")}


def _released(held: object, hints: Mapping[str, Any]) -> dict[str, Any] | None:
    if held is None:
        return None
    values = check_object("release", held, hints)
    for part in listed(values, "parts"):
        fields = check_object("a part of the release", part, _PART)
        for name, hint in _PART.items():
            typed(fields, name, hint)
    return {
        name: values[name] if name == "parts" else typed(values, name, hint) for name, hint in hints.items()
    }
