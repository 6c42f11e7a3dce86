"""An evaluation as JSON, and back: keys, types and the digest are checked before anything is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dperm.certificate.document import plain
from dperm.errors import InvalidInput
from dperm.evaluation.curves import Group, RocPoint
from dperm.evaluation.found import TITLES, Found
from dperm.evaluation.intervals import LEVEL, Figure
from dperm.strict_json import check_format, check_object, digest, header, matches

FORMAT: str = "dperm evaluation"
KEYS = (
    "format",
    "version",
    "library",
    "local",
    "private",
    "model",
    "task",
    "classes",
    "y_range",
    "unit",
    "rows",
    "table_rows",
    "row_count",
    "max_rows",
    "relation",
    "budget",
    "ledger_entry",
    "release",
    "level",
    "metrics",
    "confusion",
    "rates",
    "roc",
    "calibration",
    "notes",
    "digest",
)
UNITS = ("row", "person")
_FIGURE = tuple(part.name for part in fields(Figure))
RELEASE = {
    "sensitivity": float,
    "noise_scale": float,
    "grid_exponent": int,
    "numbers": list[float],
    "parts": list[Any],
    "entropy": str,
    "secure": bool,
}
_RELEASE = {
    **RELEASE,
    "bins": int | None,
    "default_bins": bool,
    "scales": list[dict[str, str | float | None]],
    "error_bound": float | None,
    "probabilities": bool,
}
_PART = {"name": str, "size": int, "weights": list[float], "step": float}


def to_dict(found: Found) -> dict[str, Any]:
    """Plain values only."""
    document = {
        **header(FORMAT),
        "library": found.library,
        "local": found.local,
        "private": found.private,
        "model": {"sha256": found.model},
        "task": found.task,
        "classes": plain("classes", list(found.classes)),
        "y_range": None if found.y_range is None else list(found.y_range),
        "unit": found.unit,
        "rows": found.rows,
        "table_rows": found.table_rows,
        "max_rows": found.max_rows,
        "relation": found.neighbours,
        "budget": None if found.budget is None else dict(found.budget),
        "ledger_entry": found.ledger_entry,
        "release": None if found.release is None else dict(found.release),
        "level": LEVEL,
        **made_of(found),
    }
    return {**document, "digest": digest(document)}


def made_of(found: Found) -> dict[str, Any]:
    """What is made of the released numbers and public facts, as a file holds it."""
    return {
        "row_count": None if found.row_count is None else found.row_count.to_dict(),
        "metrics": {name: figure.to_dict() for name, figure in found.metrics.items()},
        "confusion": [[cell.to_dict() for cell in line] for line in found.confusion],
        "rates": [{name: rate.to_dict() for name, rate in line.items()} for line in found.rates],
        "roc": [_flat(point) for point in found.roc],
        "calibration": [_flat(group) for group in found.calibration],
        "notes": list(found.notes),
    }


def checked(document: object) -> dict[str, Any]:
    """The fields of what was found, from what JSON held. Keys, types and digest are checked, not what they claim."""
    held = checked_document(document, FORMAT, KEYS)
    task = typed(held, "task", str)
    if task not in ("binary", "classes", "regression"):
        raise InvalidInput("task must be binary, classes or regression.")
    classes = typed(held, "classes", list[Any])
    n = len(classes)
    metrics = typed(held, "metrics", dict[str, dict[str, float | None]])
    if not set(metrics) <= set(TITLES) or not n == {"binary": 2, "regression": 0}.get(task, max(3, n)):
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
    values = {
        "task": task,
        "model": typed(check_object("model", held["model"], ("sha256",)), "sha256", str),
        "metrics": {name: figure_from(figure) for name, figure in metrics.items()},
        "confusion": [[figure_from(cell) for cell in line] for line in confusion],
        "rates": [{name: figure_from(rate) for name, rate in line.items()} for line in rates],
        "roc": [_point(point) for point in listed(held, "roc")],
        "calibration": [_group(group) for group in listed(held, "calibration")],
        "classes": classes,
        "y_range": None if ends is None else (float(ends[0]), float(ends[1])),
        "unit": unit_from(held),
        "rows": typed(held, "rows", int | None),
        "table_rows": typed(held, "table_rows", int | None),
        "row_count": None if count is None else figure_from(count),
        "max_rows": typed(held, "max_rows", int | None),
        "local": typed(held, "local", bool),
        "budget": budget_from(held["budget"]),
        "neighbours": typed(held, "relation", str | None),
        "ledger_entry": typed(held, "ledger_entry", str | None),
        "release": release_from(held["release"], _RELEASE),
        "notes": tuple(typed(held, "notes", list[str])),
        "library": typed(held, "library", str),
    }
    found = Found(**values)
    if found.private is not held["private"] or held["level"] != LEVEL:
        raise InvalidInput("private or level do not follow from the rest.")
    return values


def checked_document(document: object, form: str, keys: Sequence[str]) -> dict[str, Any]:
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


def figure_from(held: object) -> Figure:
    values = check_object("a figure", held, _FIGURE)
    if not matches(values, dict[str, float | None]):
        raise InvalidInput("a figure must hold numbers or null.")
    known = [value is not None for value in values.values()]
    if any(known) and not (all(known) and values["low"] <= values["estimate"] <= values["high"]):
        raise InvalidInput("the estimate of a figure must lie in its interval.")
    return Figure(**values)


def _flat(item: RocPoint | Group) -> dict[str, Any]:
    """The numbers of a point, its figures as objects."""
    values = {part.name: getattr(item, part.name) for part in fields(item)}
    return {name: value.to_dict() if isinstance(value, Figure) else value for name, value in values.items()}


def _point(held: object) -> RocPoint:
    values = check_object("a point of roc", held, [part.name for part in fields(RocPoint)])
    return RocPoint(
        threshold=float(typed(values, "threshold", float)),
        false_positive_rate=figure_from(values["false_positive_rate"]),
        true_positive_rate=figure_from(values["true_positive_rate"]),
    )


def _group(held: object) -> Group:
    values = check_object("a group of calibration", held, [part.name for part in fields(Group)])
    return Group(
        low=float(typed(values, "low", float)),
        high=float(typed(values, "high", float)),
        predicted=float(typed(values, "predicted", float)),
        share_of_rows=figure_from(values["share_of_rows"]),
        observed=figure_from(values["observed"]),
    )


def unit_from(held: Mapping[str, Any]) -> str:
    if held["unit"] not in UNITS:
        raise InvalidInput("unit must be row or person.")
    return str(held["unit"])


def budget_from(held: object) -> dict[str, float] | None:
    if held is None:
        return None
    values = check_object("budget", held, ("epsilon", "delta"))
    return {name: float(typed(values, name, float)) for name in ("epsilon", "delta")}


def release_from(held: object, hints: Mapping[str, Any]) -> dict[str, Any] | None:
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
