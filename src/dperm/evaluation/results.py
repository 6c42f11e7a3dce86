"""What a release about rows to be predicted gives, and its JSON file: keys, types and digest are checked on reading."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar, get_type_hints

from dperm.certificate.statement import plain
from dperm.counting.estimates import LEVEL, Estimate
from dperm.counting.metrics import registered_metrics
from dperm.errors import InvalidInput
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.groups import Mean, declared_groups
from dperm.models.atomic import atomic_path
from dperm.strict_json import check_format, check_object, digest, header, matches
from dperm.unit import PERSON, ROW

LOCAL_NOTE = "Exact figures, for the owner of the data alone: they are not private and must not be published."
SEEDED_NOTE = "NOT PRIVATE: random_state makes the noise predictable."
ONCE = "Every person counts once, each of k rows as 1/k."
BY_PERSON = "Every person counts once, each of k rows as 1/k: the guarantee is for a person with all rows."

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
_ESTIMATE = tuple(part.name for part in fields(Estimate))
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
Item = TypeVar("Item", RocPoint, CalibrationGroup, Mean)


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """What every such release states."""

    _form: ClassVar[str]
    _keys: ClassVar[tuple[str, ...]]

    model: str
    unit: str = "row"
    rows: int | None = None
    max_rows: int | None = None
    budget: Mapping[str, float] | None = None
    neighbours: str | None = None
    ledger_entry: str | None = None
    release: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    library: str = ""

    @property
    def private(self) -> bool:
        return self.release is not None and bool(self.release["secure"])

    def to_dict(self) -> Document:
        """Everything, ready for JSON; ``from_dict`` reads it back."""
        values = {
            part.name: _written(getattr(self, part.name)) for part in fields(self)
        } | self._written_apart()
        values |= {
            **header(self._form),
            "private": self.private,
            "model": {"sha256": self.model},
            "relation": self.neighbours,
            "level": LEVEL,
        }
        document = {key: values[key] for key in self._keys if key != "digest"}
        return {**document, "digest": digest(document)}

    def _written_apart(self) -> Document:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file, whole or not at all; an existing file is replaced."""
        content = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        with atomic_path(path) as file:
            file.write_text(content + "\n", encoding="utf-8")


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationResult(Result):
    """The content of an :class:`dperm.Evaluation`, whose attributes are described there."""

    _form = EVALUATION_FORMAT
    _keys = EVALUATION_KEYS

    task: str
    metrics: Mapping[str, Estimate]
    confusion: list[list[Estimate]] = field(default_factory=list)
    rates: list[dict[str, Estimate]] = field(default_factory=list)
    roc: list[RocPoint] = field(default_factory=list)
    calibration: list[CalibrationGroup] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    y_range: tuple[float, float] | None = None
    table_rows: int | None = None
    row_count: Estimate | None = None
    local: bool = False

    @property
    def protected(self) -> str:
        """Whom the guarantee is for."""
        return "the persons in the test rows" if self.unit == "person" else "the test rows"

    @property
    def private(self) -> bool:
        return not self.local and super().private

    def title(self, name: str) -> str:
        """How a metric is called, with the class that it is about."""
        return registered_metrics()[name].titled(self.classes)

    def _written_apart(self) -> Document:
        return {"classes": plain("classes", list(self.classes))}


@dataclass(frozen=True, eq=False, kw_only=True)
class MeansResult(Result):
    """The content of a :class:`dperm.MeanPredictions`, whose attributes are described there."""

    _form = MEANS_FORMAT
    _keys = MEANS_KEYS

    label: Any
    range: tuple[float, float]
    by: str
    groups: Mapping[Any, Mean]
    overall: Mean
    other: str | None = None

    @property
    def protected(self) -> str:
        """Whom the guarantee is for."""
        return f"these {self.unit}s"

    @property
    def title(self) -> str:
        """What was averaged."""
        return "mean prediction" if self.label is None else f"mean probability of {self.label}"

    def _written_apart(self) -> Document:
        named = [value for value in self.groups if value != self.other]
        return {"values": plain("values", named), "groups": _written(list(self.groups.values()))}


def _written(value: Any) -> Any:
    """As JSON holds it: estimates, points and means are objects."""
    if isinstance(value, Mapping):
        return {key: _written(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_written(part) for part in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def evaluation_estimates(result: EvaluationResult) -> Document:
    """What is made of the released numbers and public facts, as a file holds it."""
    made = ("row_count", "metrics", "confusion", "rates", "roc", "calibration", "notes")
    return {name: _written(getattr(result, name)) for name in made}


def means_estimates(means: Sequence[Mean], grouped: bool, notes: Sequence[str]) -> Document:
    """What is made of the released numbers and public facts, as a file holds it; the last mean is that of all rows."""
    groups = means[:-1] if grouped else []
    return {"groups": _written(groups), "overall": _written(means[-1]), "notes": list(notes)}


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
        "roc": [_item(RocPoint, "a point of roc", point) for point in listed(held, "roc")],
        "calibration": [
            _item(CalibrationGroup, "a group of calibration", group) for group in listed(held, "calibration")
        ],
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
    groups = [_item(Mean, "a mean", one) for one in listed(held, "groups")]
    overall = _item(Mean, "a mean", held["overall"])
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
    if held["unit"] not in (ROW, PERSON):
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


def _item(kind: type[Item], what: str, held: object) -> Item:
    """A point or a mean, each of whose fields is a number or an estimate."""
    hints = get_type_hints(kind)
    values = check_object(what, held, hints)
    parts: dict[str, Any] = {
        name: float(typed(values, name, float)) if hint is float else _estimate(values[name])
        for name, hint in hints.items()
    }
    return kind(**parts)


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
