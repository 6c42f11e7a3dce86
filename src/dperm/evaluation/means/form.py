"""Mean predictions as JSON, and back: the figures of a file must follow from the numbers that were released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
)
from dperm.evaluation.intervals import LEVEL, Figure
from dperm.evaluation.means.counting import means_design
from dperm.evaluation.means.declared import declared_groups
from dperm.evaluation.means.figures import Mean, means
from dperm.evaluation.means.found import FoundMeans
from dperm.neighbours import Neighbours
from dperm.strict_json import check_object, digest

FORMAT, VERSION = "dperm mean predictions", 1
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
_CLOSE = 1e-6


def to_dict(found: FoundMeans) -> dict[str, Any]:
    """Plain values only."""
    values = [value for value in found.groups if value != found.other]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": found.library,
        "private": found.private,
        "model": {"sha256": found.model},
        "label": found.label,
        "range": list(found.range),
        "by": found.by,
        "values": plain("values", values),
        "other": found.other,
        "rows": found.rows,
        "max_rows": found.max_rows,
        "relation": found.neighbours,
        "budget": dict(found.budget),
        "ledger_entry": found.ledger_entry,
        "release": dict(found.release),
        "level": LEVEL,
        "groups": [_written(one) for one in found.groups.values()],
        "overall": _written(found.overall),
        "notes": list(found.notes),
    }
    return {**document, "digest": digest(document)}


def checked(document: object) -> dict[str, Any]:
    """The fields of what was found, from what JSON held."""
    held = checked_document(document, FORMAT, VERSION, KEYS)
    values, other = typed(held, "values", list[Any]), typed(held, "other", str | None)
    declared = declared_groups("by" if values else None, values or None, other)
    low, high = typed(held, "range", tuple[float, float])
    relation = Neighbours.parse(typed(held, "relation", str))
    rows, budget = typed(held, "rows", int | None), budget_from(held["budget"])
    release = release_from(held["release"], RELEASE)
    if release is None or budget is None or not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput("mean predictions state their range, their budget and their release.")
    if (rows is None) is not (relation is Neighbours.ADD_REMOVE):
        raise InvalidInput("rows are public under replace-one, and only there.")
    numbers = np.array(release["numbers"], np.float64)
    if len(numbers) != means_design(declared.n_cells).size or release["noise_scale"] <= 0:
        raise InvalidInput("the release does not fit the groups.")
    groups = [_read(one) for one in listed(held, "groups")]
    overall = _read(held["overall"])
    if len(groups) != len(declared.labels):
        raise InvalidInput("groups must have a line for every declared value.")
    follows = means(numbers, release["noise_scale"], rows, (low, high))
    stated = [*groups, overall]
    if not all(_alike(*pair) for pair in zip(stated, follows[len(follows) - len(stated) :], strict=True)):
        raise InvalidInput("the means do not follow from the numbers that were released.")
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
        "rows": rows,
        "max_rows": typed(held, "max_rows", int | None),
        "budget": budget,
        "neighbours": relation.value,
        "ledger_entry": typed(held, "ledger_entry", str | None),
        "release": release,
        "notes": tuple(typed(held, "notes", list[str])),
        "library": typed(held, "library", str),
    }


def _written(one: Mean) -> dict[str, Any]:
    return {name: getattr(one, name).to_dict() for name in _MEAN}


def _read(held: object) -> Mean:
    values = check_object("a mean", held, _MEAN)
    return Mean(**{name: figure_from(values[name]) for name in _MEAN})


def _alike(stated: Mean, follows: Mean) -> bool:
    """But for rounding, which may differ between machines."""
    return all(_close(getattr(stated, name), getattr(follows, name)) for name in _MEAN)


def _close(one: Figure, other: Figure) -> bool:
    if one.known is not other.known:
        return False
    pairs = zip(one.to_dict().values(), other.to_dict().values(), strict=True)
    return all(a == b or math.isclose(a or 0.0, b or 0.0, rel_tol=_CLOSE, abs_tol=_CLOSE) for a, b in pairs)
