"""What a release about rows to be predicted gives, and its JSON file: keys, types and digest are checked on reading."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import NoneType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from dperm.certificate.statement import BUDGET, plain
from dperm.counting.estimates import LEVEL, Estimate
from dperm.counting.metrics import registered_metrics
from dperm.errors import InvalidInput
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.groups import Mean, declared_groups
from dperm.models.atomic import atomic_path
from dperm.strict_json import check_format, check_object, digest, header, matches, typed
from dperm.unit import PERSON, ROW

LOCAL_NOTE = "Exact figures, for the owner of the data alone: they are not private and must not be published."
SEEDED_NOTE = "NOT PRIVATE: random_state makes the noise predictable."
ONCE = "Every person counts once, each of k rows as 1/k."
_NOT_FOLLOWING = "private or level do not follow from the rest."
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
_RELEASE = {
    "sensitivity": float,
    "noise_scale": float,
    "grid_exponent": int,
    "numbers": list[float],
    "parts": list[dict[str, Any]],
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
    held = _checked(document, EvaluationResult)
    values = _fields(held, EvaluationResult, _EVALUATION_RELEASE)
    task, classes, ends = values["task"], values["classes"], values["y_range"]
    if task not in ("binary", "classes", "regression"):
        raise InvalidInput("task must be binary, classes or regression.")
    n = len(classes)
    known = set(registered_metrics())
    if not set(values["metrics"]) <= known or n != {"binary": 2, "regression": 0}.get(task, max(3, n)):
        raise InvalidInput("metrics or classes do not fit the task.")
    if (ends is not None) is not (task == "regression"):
        raise InvalidInput("y_range is that of a regression, which must state it.")
    if [len(line) for line in values["confusion"]] != [n] * n or len(values["rates"]) != n:
        raise InvalidInput("confusion and rates must have a line for every class.")
    if ends is not None and not ends[0] < ends[1]:
        raise InvalidInput("y_range must rise.")
    if EvaluationResult(**values).private is not held["private"]:
        raise InvalidInput(_NOT_FOLLOWING)
    return values


def checked_means(document: object) -> Document:
    """The fields of mean predictions, from what JSON held, checked as far as those of an evaluation."""
    held = _checked(document, MeansResult)
    named = _value("values", held["values"], list[Any])
    _value("relation", held["relation"], str)
    groups = _value("groups", held["groups"], list[Mean])
    values = _fields({**held, "groups": {}}, MeansResult, _RELEASE)
    declared = declared_groups("by" if named else None, named or None, values["other"])
    low, high = values["range"]
    if values["release"] is None or values["budget"] is None or not low < high:
        raise InvalidInput("mean predictions state their range, their budget and their release.")
    if len(groups) != len(declared.labels):
        raise InvalidInput("groups must have a line for every declared value.")
    if values["release"]["secure"] is not held["private"]:
        raise InvalidInput(_NOT_FOLLOWING)
    return values | {"groups": dict(zip(declared.labels, groups, strict=True))}


def _checked(document: object, kind: type[Result]) -> Document:
    """An object of the format of a result, with exactly its keys, whose digest is its own."""
    held = check_object("the file", check_format(document, kind._form), kind._keys)
    if held["digest"] != digest({key: value for key, value in held.items() if key != "digest"}):
        raise InvalidInput("its content does not match its digest: it was changed after it was written.")
    if held["unit"] not in (ROW, PERSON):
        raise InvalidInput("unit must be row or person.")
    if held["level"] != LEVEL:
        raise InvalidInput(_NOT_FOLLOWING)
    return held


def _fields(held: Document, kind: type[Result], release: Mapping[str, Any]) -> Document:
    """The fields of a result, each of its type."""
    if held["budget"] is not None:
        typed("budget", held["budget"], BUDGET)
    if held["release"] is not None:
        for part in typed("release", held["release"], release)["parts"]:
            typed("a part of the release", part, _PART)
    (model,) = typed("model", held["model"], {"sha256": str}).values()
    stated = {**held, "model": model, "neighbours": held["relation"]}
    hints = {part.name: get_type_hints(kind)[part.name] for part in fields(kind) if part.name != "release"}
    values = {name: _value(name, stated[name], hint) for name, hint in hints.items()}
    return values | {"release": held["release"]}


def _value(name: str, held: Any, hint: Any) -> Any:
    """What a field of this type holds: numbers and text, estimates, and lists, objects and dataclasses of them."""
    origin, parts = get_origin(hint), get_args(hint)
    if NoneType in parts:
        return None if held is None else _value(name, held, parts[0])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        values = check_object(f"what {name} holds", held, hints)
        made: Any = hint(**{key: _value(key, values[key], kind) for key, kind in hints.items()})  # type: ignore[operator]
        if isinstance(made, Estimate):
            _check_interval(made)
        return made
    if origin is list and isinstance(held, list):
        return [_value(name, one, parts[0]) for one in held]
    if origin in (dict, Mapping) and isinstance(held, dict):
        return {key: _value(name, one, parts[1]) for key, one in held.items()}
    if not matches(held, hint):
        raise InvalidInput(f"{name} is not of the type that it should have.")
    if origin is tuple:
        return tuple(_value(name, one, parts[0]) for one in held)
    return float(held) if hint is float else held


def _check_interval(found: Estimate) -> None:
    ends = (found.low, found.estimate, found.high, found.noise)
    known = [end for end in ends if end is not None]
    if known and (len(known) < len(ends) or not known[0] <= known[1] <= known[2]):
        raise InvalidInput("the estimate of a figure must lie in its interval.")
