"""Mean predictions as JSON, and back: keys, types and the digest are checked before anything is believed."""

from __future__ import annotations

from typing import Any

from dperm.certificate.document import plain
from dperm.errors import InvalidInput
from dperm.evaluation.form import (
    RELEASE,
    budget_from,
    checked_document,
    figure_from,
    listed,
    release_from,
    typed,
    unit_from,
)
from dperm.evaluation.intervals import LEVEL
from dperm.evaluation.means.declared import declared_groups
from dperm.evaluation.means.figures import Mean
from dperm.evaluation.means.found import FoundMeans
from dperm.strict_json import check_object, digest, header

FORMAT: str = "dperm mean predictions"
KEYS = (
    "format",
    "version",
    "library",
    "private",
    "model",
    "label",
    "range",
    "by",
    "values",
    "other",
    "unit",
    "rows",
    "max_rows",
    "relation",
    "budget",
    "ledger_entry",
    "release",
    "level",
    "groups",
    "overall",
    "notes",
    "digest",
)
_MEAN = ("mean", "here", "rows")


def to_dict(found: FoundMeans) -> dict[str, Any]:
    """Plain values only."""
    values = [value for value in found.groups if value != found.other]
    document = {
        **header(FORMAT),
        "library": found.library,
        "private": found.private,
        "model": {"sha256": found.model},
        "label": found.label,
        "range": list(found.range),
        "by": found.by,
        "values": plain("values", values),
        "other": found.other,
        "unit": found.unit,
        "rows": found.rows,
        "max_rows": found.max_rows,
        "relation": found.neighbours,
        "budget": dict(found.budget),
        "ledger_entry": found.ledger_entry,
        "release": dict(found.release),
        "level": LEVEL,
        "groups": [written(one) for one in found.groups.values()],
        "overall": written(found.overall),
        "notes": list(found.notes),
    }
    return {**document, "digest": digest(document)}


def checked(document: object) -> dict[str, Any]:
    """The fields of what was found, from what JSON held. Keys, types and digest are checked, not what they claim."""
    held = checked_document(document, FORMAT, KEYS)
    values, other = typed(held, "values", list[Any]), typed(held, "other", str | None)
    declared = declared_groups("by" if values else None, values or None, other)
    low, high = typed(held, "range", tuple[float, float])
    budget, release = budget_from(held["budget"]), release_from(held["release"], RELEASE)
    if release is None or budget is None or not low < high:
        raise InvalidInput("mean predictions state their range, their budget and their release.")
    groups = [_read(one) for one in listed(held, "groups")]
    overall = _read(held["overall"])
    if len(groups) != len(declared.labels):
        raise InvalidInput("groups must have a line for every declared value.")
    if release["secure"] is not held["private"] or held["level"] != LEVEL:
        raise InvalidInput("private or level do not follow from the rest.")
    return {
        "model": typed(check_object("model", held["model"], ("sha256",)), "sha256", str),
        "label": typed(held, "label", str | int | float | bool | None),
        "range": (float(low), float(high)),
        "by": typed(held, "by", str),
        "groups": dict(zip(declared.labels, groups, strict=True)),
        "overall": overall,
        "other": other,
        "unit": unit_from(held),
        "rows": typed(held, "rows", int | None),
        "max_rows": typed(held, "max_rows", int | None),
        "budget": budget,
        "neighbours": typed(held, "relation", str),
        "ledger_entry": typed(held, "ledger_entry", str | None),
        "release": release,
        "notes": tuple(typed(held, "notes", list[str])),
        "library": typed(held, "library", str),
    }


def written(one: Mean) -> dict[str, Any]:
    """As a file holds it."""
    return {name: getattr(one, name).to_dict() for name in _MEAN}


def _read(held: object) -> Mean:
    values = check_object("a mean", held, _MEAN)
    return Mean(**{name: figure_from(values[name]) for name in _MEAN})
