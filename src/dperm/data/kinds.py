"""What a shard holds: categorical rows of a schema, or plain numbers; how rows are made for it and read from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable
from dperm.errors import InvalidInput
from dperm.person_ids import DIGEST, digests
from dperm.schema import Schema, code_layout, encode, encode_codes, feature_names, target_numbers
from dperm.schema.encoding import can_code, checked_column
from dperm.strict_json import digest, is_label, typed

Arrays = dict[str, NDArray[Any]]
LABELS, PERSONS = "labels", "persons"


class Kind(ABC):
    """How the rows of a set of shards are kept. ``stated`` is what a manifest says of it."""

    name: ClassVar[str]
    has_labels: bool = True
    classes: tuple[Any, ...] | None
    n_features: int
    feature_names: tuple[str, ...] | None
    person: str | None = None
    """The column with the ids of persons, whose digests are kept beside the rows."""

    @property
    def row_bytes(self) -> int:
        labels = place_type(self.classes).itemsize * self.has_labels
        return self._feature_bytes + labels + (0 if self.person is None else DIGEST.itemsize)

    @property
    def _feature_bytes(self) -> int:
        return 4 * self.n_features

    @property
    def files(self) -> set[str]:
        """The arrays that a shard has a file of."""
        beside = {LABELS: self.has_labels, PERSONS: self.person is not None}
        return {*self._of_rows, *(name for name, held in beside.items() if held)}

    @property
    def _of_rows(self) -> set[str]:
        return {"X"}

    @abstractmethod
    def stated(self) -> dict[str, Any]: ...

    @abstractmethod
    def lines(self, frame: Any) -> Arrays:
        """What is kept of some rows, one line for each row in every array."""

    def arrays(self, lines: Arrays) -> Arrays:
        """The arrays of a whole shard, as they are written."""
        return lines

    def rows(self, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> Any:
        """Rows that an engine opens, from arrays that were written; the arrays may be memory maps."""
        X = arrays["X"]
        if X.shape != (n_rows, self.n_features) or X.dtype != np.float32:
            raise InvalidInput("a shard has not the shape that its manifest tells; write the shards anew.")
        return X


class SchemaKind(Kind):
    """Rows that a schema makes of a table, as float32 numbers."""

    name: ClassVar[str] = "encoded"

    def __init__(self, schema: Schema) -> None:
        self.schema = schema.settled()
        self.classes, self.person = self.schema.classes or None, self.schema.person
        self.n_features = self.schema.n_columns
        self.feature_names = tuple(feature_names(self.schema))

    def stated(self) -> dict[str, Any]:
        return {"kind": self.name, "schema": self.schema.to_dict()}

    def lines(self, frame: Any) -> Arrays:
        labels = target_numbers(frame, self.schema).astype(place_type(self.classes))
        kept = {**self._lines(frame), LABELS: labels}
        if self.person is not None:
            kept[PERSONS] = digests(checked_column(frame, self.person))
        return kept

    def _lines(self, frame: Any) -> Arrays:
        return {"X": encode(frame, self.schema).astype(np.float32)}


class CategoricalKind(SchemaKind):
    """Rows that a schema makes of a table, as codes and a few floats."""

    name: ClassVar[str] = "categorical"

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.layout = code_layout(self.schema)

    @property
    def _feature_bytes(self) -> int:
        return self.layout.row_bytes

    @property
    def _of_rows(self) -> set[str]:
        widths = {"codes": len(self.layout.sizes), "floats": self.layout.n_floats}
        return {name for name, width in widths.items() if width}

    def stated(self) -> dict[str, Any]:
        layout = self.layout
        packed = {"codes": layout.code_type.name, "sizes": list(layout.sizes), "floats": layout.n_floats}
        return {**super().stated(), "layout": packed}

    def _lines(self, frame: Any) -> Arrays:
        table = encode_codes(frame, self.schema)
        codes, floats = table.rows(0, len(table))
        return {"codes": codes, "floats": floats}

    def arrays(self, lines: Arrays) -> Arrays:
        table = CodedTable.from_rows(self.layout, lines["codes"], lines["floats"])
        return {**table.arrays(), **{name: lines[name] for name in (LABELS, PERSONS) if name in lines}}

    def rows(self, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> CodedTable:
        return CodedTable.from_arrays(self.layout, arrays, n_rows)


class DenseKind(Kind):
    """Plain float32 numbers, one for each feature."""

    name: ClassVar[str] = "dense"

    def __init__(
        self,
        n_features: int,
        *,
        classes: Sequence[Any] | None,
        names: Sequence[str] | None,
        has_labels: bool,
        person: str | None = None,
    ) -> None:
        self.n_features, self.has_labels, self.person = n_features, has_labels, person
        self.classes = None if classes is None else tuple(_plain(label) for label in classes)
        self.feature_names = None if names is None else tuple(names)

    def stated(self) -> dict[str, Any]:
        return {
            "kind": self.name,
            "features": self.n_features,
            "classes": None if self.classes is None else list(self.classes),
            "names": None if self.feature_names is None else list(self.feature_names),
            "labels": self.has_labels,
            **({} if self.person is None else {"person": self.person}),
        }

    def lines(self, frame: Any) -> Arrays:
        X, y, *ids = frame
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features or rows.dtype.kind not in "biuf":
            raise InvalidInput(f"every piece of X must hold numbers in {self.n_features} columns.")
        with np.errstate(over="ignore"):
            kept: Arrays = {"X": rows.astype(np.float32)}
        bad: NDArray[np.bool_] = np.asarray(~np.isfinite(kept["X"]).all(axis=0))
        if bad.any():
            raise InvalidInput(
                f"X holds missing, infinite or too large values in {bad.sum()} of its {len(bad)} columns"
                f"{self._named(bad)}. Fill or drop them first, by a rule that does not depend on the other rows."
            )
        if self.has_labels:
            kept[LABELS] = self._labels(y, len(rows))
        if self.person is not None:
            kept[PERSONS] = digests(ids[0])
        return kept

    def _labels(self, y: Any, n_rows: int) -> NDArray[Any]:
        labels = np.asarray(y)
        if labels.shape != (n_rows,):
            raise InvalidInput("y must hold one label for each row of X.")
        if self.classes is None:
            if labels.dtype.kind not in "biuf" or not np.isfinite(labels.astype(np.float64)).all():
                raise InvalidInput("y must hold finite numbers; for labels of another kind declare classes=.")
            return labels.astype(np.float64)
        places = np.full(n_rows, -1, place_type(self.classes))
        for place, label in enumerate(self.classes):
            places[labels == label] = place
        if (places < 0).any():
            raise InvalidInput("y holds labels outside classes; declare every label that may occur.")
        return places

    def _named(self, bad: NDArray[np.bool_]) -> str:
        if self.feature_names is None:
            return ""
        return ": " + ", ".join(repr(self.feature_names[j]) for j in np.flatnonzero(bad)[:5])


def place_type(classes: Sequence[Any] | None) -> np.dtype[Any]:
    """Of the place of a label among the classes, or of a number where there are none."""
    if classes is None:
        return np.dtype(np.float64)
    return np.dtype(np.int8 if len(classes) < 128 else np.int16 if len(classes) < 2**15 else np.int32)


def kind_by(schema: Schema) -> SchemaKind:
    """The smallest form that a schema allows."""
    return CategoricalKind(schema) if can_code(schema) else SchemaKind(schema)


_DENSE = {
    "kind": str,
    "features": int,
    "classes": list[Any] | None,
    "names": list[str] | None,
    "labels": bool,
}


def kind_of(stated: object) -> Kind:
    """The kind that a manifest states."""
    kind: Kind
    if not isinstance(stated, dict):
        raise InvalidInput("rows_as must say in what form rows are kept.")
    if stated.get("kind") in (CategoricalKind.name, SchemaKind.name) and isinstance(
        stated.get("schema"), dict
    ):
        kind = kind_by(Schema.from_dict(stated["schema"], origin="the schema of the shards"))
    elif stated.get("kind") == DenseKind.name:
        held = typed("rows_as", stated, {**_DENSE, "person": str} if "person" in stated else _DENSE)
        if not 1 <= held["features"] <= 2**31:
            raise InvalidInput("rows_as, features must be at least 1.")
        kind = DenseKind(
            held["features"],
            classes=held["classes"],
            names=held["names"],
            has_labels=held["labels"],
            person=held.get("person"),
        )
    else:
        raise InvalidInput("the shards are of a kind that this version does not know.")
    if digest(kind.stated()) != digest(stated):  # 1 and true are equal, and not the same
        raise InvalidInput("the shards were written by a version that packs rows otherwise; write them anew.")
    return kind


def _plain(label: Any) -> Any:
    value = label.item() if isinstance(label, np.generic) else label
    if not is_label(value):
        raise InvalidInput("classes must be text, truth values or finite numbers.")
    return value
